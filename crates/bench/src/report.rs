// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measurements beside their targets: tables and one JSON document.

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

/// The target of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// This or less.
    AtMost(f64),
    /// This or more.
    AtLeast(f64),
    /// It is only shown.
    None,
}

impl Target {
    /// Whether an exact number reaches the target.
    pub fn is_reached(self, value: f64) -> Option<bool> {
        match self {
            Self::AtMost(most) => Some(value <= most),
            Self::AtLeast(least) => Some(value >= least),
            Self::None => None,
        }
    }

    /// A number with `digits` digits, rounded away from the target: a number that missed the target
    /// never looks as if it had not.
    pub fn rounded(self, value: f64, digits: usize) -> String {
        let scale = 10_f64.powi(i32::try_from(digits).unwrap_or(0));
        // A value that is exact in these digits stays: 0.29 times 100 is a little more than 29.
        let shift = 1e-9;
        let rounded = match self {
            Self::AtMost(_) => (value * scale - shift).ceil(),
            Self::AtLeast(_) => (value * scale + shift).floor(),
            Self::None => (value * scale).round(),
        };
        // No minus before a zero.
        let rounded = if rounded == 0.0 { 0.0 } else { rounded };
        format!("{:.digits$}", rounded / scale)
    }

    fn text(self) -> String {
        match self {
            Self::AtMost(most) => format!("<= {most}"),
            Self::AtLeast(least) => format!(">= {least}"),
            Self::None => String::new(),
        }
    }
}

/// One line of a table.
#[derive(Clone, Debug)]
pub struct Row {
    /// The cells before the judged number.
    pub cells: Vec<String>,
    /// The number that is judged, in the unit of its column.
    pub value: f64,
    /// Number of decimals to show.
    pub digits: usize,
    pub target: Target,
    /// Everything about it, for programs.
    pub details: Value,
}

impl Row {
    fn verdict(&self) -> &'static str {
        match self.target.is_reached(self.value) {
            Some(true) => "reached",
            Some(false) => "fell short",
            None => "",
        }
    }
}

/// A table with its subject.
#[derive(Clone, Debug)]
pub struct Section {
    pub name: &'static str,
    /// The measured quantity, for people, as Markdown.
    pub about: String,
    /// The names of the columns: those of the cells, then that of the judged number.
    pub header: Vec<&'static str>,
    pub rows: Vec<Row>,
    /// Measurements that could not be made, a sentence each.
    pub notes: Vec<String>,
}

impl Section {
    /// The section as Markdown.
    pub fn text(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        let judged = ["target", "verdict"];
        table.set_header(self.header.iter().copied().chain(judged));
        for row in &self.rows {
            let value = row.target.rounded(row.value, row.digits);
            let judged = [value, row.target.text(), row.verdict().to_owned()];
            table.add_row(row.cells.iter().cloned().chain(judged));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let mut text = format!("## {}\n\n{}\n\n{table}\n", self.name, self.about);
        for note in &self.notes {
            text += &format!("\n{note}\n");
        }
        text
    }

    fn json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            json!({
                "what": row.cells,
                "value": row.value,
                "target": match row.target {
                    Target::AtMost(most) => json!({ "at_most": most }),
                    Target::AtLeast(least) => json!({ "at_least": least }),
                    Target::None => Value::Null,
                },
                "reached": row.target.is_reached(row.value),
                "details": row.details,
            })
        });
        json!({
            "name": self.name,
            "columns": self.header,
            "rows": rows.collect::<Value>(),
            "notes": self.notes,
        })
    }
}

/// All sections as one document, schema `foreread.bench/1`.
pub fn document(sections: &[Section]) -> Value {
    let system = rustix::system::uname();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    json!({
        "schema": "foreread.bench/1",
        "kernel": system.release().to_string_lossy(),
        "processors": processors,
        "sections": sections.iter().map(Section::json).collect::<Value>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: f64, target: Target) -> Row {
        Row {
            cells: vec!["grep".to_owned()],
            value,
            digits: 2,
            target,
            details: Value::Null,
        }
    }

    #[test]
    fn nothing_is_rounded_in_our_favour() {
        let most = Target::AtMost(1.25);
        assert_eq!(most.rounded(1.2501, 2), "1.26");
        assert_eq!(most.rounded(1.25, 2), "1.25");
        assert_eq!(most.rounded(0.29, 2), "0.29");
        assert_eq!(most.rounded(-0.001, 2), "0.00");
        let least = Target::AtLeast(8.0);
        assert_eq!(least.rounded(7.999, 1), "7.9");
        assert_eq!(Target::None.rounded(7.96, 1), "8.0");
        assert_eq!(most.is_reached(1.2501), Some(false));
        assert_eq!(least.is_reached(8.0), Some(true));
    }

    #[test]
    fn the_table_says_what_was_reached() {
        let section = Section {
            name: "cold",
            about: "Cold starts.".to_owned(),
            header: vec!["program", "second / limit"],
            rows: vec![
                row(1.2, Target::AtMost(1.25)),
                row(1.2501, Target::AtMost(1.25)),
                row(7.0, Target::None),
            ],
            notes: vec!["Note.".to_owned()],
        };
        let text = section.text();
        assert!(text.starts_with("## cold\n\nCold starts.\n\n|"), "{text}");
        assert!(text.contains("1.20 | <= 1.25 |    reached |"), "{text}");
        assert!(text.contains("1.26 | <= 1.25 | fell short |"), "{text}");
        assert!(text.ends_with("\nNote.\n"), "{text}");
        let document = document(&[section]);
        assert_eq!(document["schema"], "foreread.bench/1");
        let rows = &document["sections"][0]["rows"];
        assert_eq!(rows[0]["reached"], true);
        assert_eq!(rows[1]["reached"], false);
        assert!(rows[2]["reached"].is_null());
    }
}
