// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of kernels and rows, as Markdown and as JSON, and its errors.

use std::collections::BTreeMap;

use foreread_guest::{GuestError, Lab};
use serde_json::{Value, json};

use crate::cases::Case;
use crate::context::{Row, Verdict};

const BEGIN: &str = "<!-- guests table -->";
const END: &str = "<!-- end of guests table -->";

/// Results of each case under each kernel, by (case, kernel).
pub type Cells = BTreeMap<(String, String), Result<Vec<Row>, String>>;

/// Targets that are known to be missed, by (kernel, case, row), each with its reason.
#[derive(Debug, Default)]
pub struct Known(BTreeMap<(String, String, String), String>);

impl Known {
    /// Reads `KERNEL | CASE | ROW | reason` lines.
    pub fn parse(text: &str) -> Result<Self, GuestError> {
        let mut known = BTreeMap::new();
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let fields: Vec<&str> = line.splitn(4, '|').map(str::trim).collect();
            let [kernel, case, row, reason] = fields[..] else {
                return Err(GuestError::Unexpected(format!(
                    "`{line}` is no line of known.list: KERNEL | CASE | ROW | reason is one"
                )));
            };
            let key = (kernel.to_owned(), case.to_owned(), row.to_owned());
            known.insert(key, reason.to_owned());
        }
        Ok(Self(known))
    }

    fn reason(&self, kernel: &str, case: &str, row: &str) -> Option<&str> {
        let key = (kernel.to_owned(), case.to_owned(), row.to_owned());
        self.0.get(&key).map(String::as_str)
    }
}

/// One line of the table.
struct Line {
    case: String,
    name: String,
    target: String,
    /// One for each kernel; `None` where the case failed.
    cells: Vec<Option<Row>>,
}

/// A known miss with a reason that begins so is missed in some runs only, and may be reached.
const VARIES: &str = "in some runs: ";

/// A finished matrix.
pub struct Report {
    /// Name and release of each kernel.
    kernels: Vec<(String, String)>,
    cases: Vec<&'static Case>,
    lines: Vec<Line>,
    /// (kernel, case, error).
    failures: Vec<(String, String, String)>,
    /// (kernel, case, row, detail, reason when known).
    misses: Vec<(String, String, String, String, Option<String>)>,
    /// Known misses that were reached, (kernel, case, row).
    reached: Vec<(String, String, String)>,
}

impl Report {
    /// Sorts the cells into lines.
    pub fn new(
        lab: &Lab,
        kernels: &[String],
        cases: &[&'static Case],
        cells: &Cells,
        known: &Known,
    ) -> Self {
        let release = |name: &String| {
            let kernel = lab.kernel(name);
            kernel.map_or_else(|_| String::new(), |kernel| kernel.release.clone())
        };
        let kernels: Vec<(String, String)> = kernels
            .iter()
            .map(|name| (name.clone(), release(name)))
            .collect();
        let mut report = Self {
            kernels,
            cases: cases.to_vec(),
            lines: Vec::new(),
            failures: Vec::new(),
            misses: Vec::new(),
            reached: Vec::new(),
        };
        for case in cases {
            report.add_case(case.name, cells, known);
        }
        report
    }

    fn add_case(&mut self, case: &str, cells: &Cells, known: &Known) {
        let first = self.lines.len();
        for (index, (kernel, _)) in self.kernels.iter().enumerate() {
            let rows = match cells.get(&(case.to_owned(), kernel.clone())) {
                Some(Ok(rows)) => rows.as_slice(),
                Some(Err(error)) => {
                    let failure = (kernel.clone(), case.to_owned(), error.clone());
                    self.failures.push(failure);
                    &[]
                }
                None => &[],
            };
            for row in rows {
                let found = self.lines[first..]
                    .iter()
                    .position(|line| line.name == row.name);
                let at = found.map_or(self.lines.len(), |found| first + found);
                if at == self.lines.len() {
                    self.lines.push(Line {
                        case: case.to_owned(),
                        name: row.name.clone(),
                        target: row.target.clone(),
                        cells: vec![None; self.kernels.len()],
                    });
                }
                self.lines[at].cells[index] = Some(row.clone());
                let reason = known.reason(kernel, case, &row.name);
                let key = (kernel.clone(), case.to_owned(), row.name.clone());
                match (&row.verdict, reason) {
                    (Verdict::Missed, reason) => self.misses.push((
                        key.0,
                        key.1,
                        key.2,
                        row.detail.clone(),
                        reason.map(str::to_owned),
                    )),
                    (Verdict::Reached, Some(reason)) if !reason.starts_with(VARIES) => {
                        self.reached.push(key);
                    }
                    _ => {}
                }
            }
        }
        if self.lines.len() == first {
            self.lines.push(Line {
                case: case.to_owned(),
                name: "everything".to_owned(),
                target: String::new(),
                cells: vec![None; self.kernels.len()],
            });
        }
    }

    /// Reasons for which the matrix fails, a line each.
    pub fn wrong(&self) -> Vec<String> {
        let failures = self.failures.iter().map(|(kernel, case, error)| {
            format!(
                "{kernel} {case} failed: {}",
                error.lines().next().unwrap_or("")
            )
        });
        let unknown = self.misses.iter().filter(|miss| miss.4.is_none());
        let misses = unknown.map(|(kernel, case, row, ..)| {
            format!("{kernel} {case}: {row}: missed, and not in tests/guest/known.list")
        });
        let reached = self.reached.iter().map(|(kernel, case, row)| {
            format!("{kernel} {case}: {row}: reached; take it out of tests/guest/known.list")
        });
        failures.chain(misses).chain(reached).collect()
    }

    /// The table, and the missed targets.
    pub fn markdown(&self) -> String {
        let mut text = String::from("| | target |");
        for (_, release) in &self.kernels {
            text.push_str(&format!(" {release} |"));
        }
        text.push_str("\n|---|---|");
        text.push_str(&"---|".repeat(self.kernels.len()));
        text.push('\n');
        let mut case = "";
        for line in &self.lines {
            if line.case != case {
                case = &line.case;
                let about = self.cases.iter().find(|known| known.name == case);
                let about = about.map_or("", |known| known.about);
                text.push_str(&format!("| **{case}**: {about} | |"));
                text.push_str(&" |".repeat(self.kernels.len()));
                text.push('\n');
            }
            text.push_str(&format!(
                "| {} | {} |",
                cell(&line.name),
                cell(&line.target)
            ));
            for (row, (kernel, _)) in line.cells.iter().zip(&self.kernels) {
                let failed = |failure: &(String, String, String)| {
                    failure.0 == *kernel && failure.1 == line.case
                };
                text.push_str(&match row {
                    None if self.failures.iter().any(failed) => " **failed** |".to_owned(),
                    // The case ended without saying this, and says elsewhere why.
                    None => " - |".to_owned(),
                    Some(row) if row.verdict == Verdict::Missed => {
                        format!(" **missed**: {} |", cell(&row.value))
                    }
                    Some(row) => format!(" {} |", cell(&row.value)),
                });
            }
            text.push('\n');
        }
        if !self.failures.is_empty() || !self.misses.is_empty() {
            text.push_str("\nFailed and missed:\n\n");
        }
        for (kernel, case, error) in &self.failures {
            text.push_str(&format!(
                "* {kernel}, {case}: failed: {}\n",
                one_line(error)
            ));
        }
        for (kernel, case, row, detail, reason) in &self.misses {
            let why = [reason.as_deref().unwrap_or(""), detail];
            let why: Vec<String> = why
                .into_iter()
                .filter(|part| !part.is_empty())
                .map(one_line)
                .collect();
            // Where there is no more to say than the table does, it is not said twice.
            if !why.is_empty() {
                text.push_str(&format!("* {kernel}, {case}, {row}: {}\n", why.join("; ")));
            }
        }
        text
    }

    /// Everything, for programs.
    pub fn json(&self) -> Value {
        let kernels: Vec<Value> = self
            .kernels
            .iter()
            .map(|(name, release)| json!({"name": name, "release": release}))
            .collect();
        let mut rows = Vec::new();
        for line in &self.lines {
            for ((kernel, _), row) in self.kernels.iter().zip(&line.cells) {
                let Some(row) = row else { continue };
                rows.push(json!({
                    "kernel": kernel,
                    "case": line.case,
                    "row": row.name,
                    "target": row.target,
                    "value": row.value,
                    "verdict": match row.verdict {
                        Verdict::Told => "told",
                        Verdict::Reached => "reached",
                        Verdict::Missed => "missed",
                    },
                    "detail": row.detail,
                }));
            }
        }
        let failures: Vec<Value> = self
            .failures
            .iter()
            .map(|(kernel, case, error)| json!({"kernel": kernel, "case": case, "error": error}))
            .collect();
        json!({
            "schema": "foreread.guests/1",
            "kernels": kernels,
            "rows": rows,
            "failures": failures,
        })
    }

    /// The page with this table between its markers.
    pub fn page_with_table(&self, page: &str) -> Result<String, GuestError> {
        let parts = page.split_once(BEGIN).and_then(|(before, rest)| {
            let (_, after) = rest.split_once(END)?;
            Some((before, after))
        });
        let Some((before, after)) = parts else {
            return Err(GuestError::Unexpected(format!(
                "docs/kernels.md has no {BEGIN} and {END} for the table to go between"
            )));
        };
        Ok(format!("{before}{BEGIN}\n{}{END}{after}", self.markdown()))
    }
}

/// Text of a table's cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// The first sentences of something long, in one line.
fn one_line(text: &str) -> String {
    const CHARACTERS_MAX: usize = 400;
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= CHARACTERS_MAX {
        return line;
    }
    let start: String = line.chars().take(CHARACTERS_MAX).collect();
    format!("{start} ...")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::CASES;

    fn report(known: &str) -> Report {
        let mut cells = Cells::new();
        let case = CASES[0].name.to_owned();
        let missed = Row::asserted("speed", "fast", "slow", false).detail("because\nof this");
        let reached = Row::asserted("speed", "fast", "fast", true);
        cells.insert(
            (case.clone(), "6.1".into()),
            Ok(vec![missed, Row::told("b", 1)]),
        );
        cells.insert((case.clone(), "6.12".into()), Ok(vec![reached]));
        cells.insert(
            (case, "7.3".into()),
            Err("the guest died\nsomewhere".into()),
        );
        let mut report = Report {
            kernels: ["6.1", "6.12", "7.3"]
                .map(|name| (name.into(), name.into()))
                .to_vec(),
            cases: CASES[..1].to_vec(),
            lines: Vec::new(),
            failures: Vec::new(),
            misses: Vec::new(),
            reached: Vec::new(),
        };
        report.add_case(CASES[0].name, &cells, &Known::parse(known).unwrap());
        report
    }

    #[test]
    fn failures_and_misses_are_shown() {
        let text = report("").markdown();
        assert!(
            text.contains("| speed | fast | **missed**: slow | fast | **failed** |"),
            "{text}"
        );
        assert!(text.contains("| b |  | 1 | - | **failed** |"), "{text}");
        assert!(
            text.contains("* 6.1, doctor, speed: because of this\n"),
            "{text}"
        );
        assert!(
            text.contains("* 7.3, doctor: failed: the guest died somewhere\n"),
            "{text}"
        );
    }

    #[test]
    fn a_known_miss_does_not_fail_the_matrix_and_a_known_miss_that_is_reached_does() {
        assert_eq!(report("").wrong().len(), 2, "a failure and a miss");
        let known = report("6.1 | doctor | speed | it is old\n");
        assert_eq!(known.wrong().len(), 1);
        assert!(
            known
                .markdown()
                .contains("speed: it is old; because of this")
        );
        let reached = report("6.1 | doctor | speed | a\n6.12 | doctor | speed | b\n");
        assert!(reached.wrong()[1].contains("6.12 doctor: speed: reached"));
        let varies = report("6.1 | doctor | speed | a\n6.12 | doctor | speed | in some runs: b\n");
        assert_eq!(varies.wrong().len(), 1, "the failure");
        assert!(Known::parse("6.1 | doctor\n").is_err());
    }

    #[test]
    fn the_page_keeps_what_is_around_the_table() {
        let page = format!("# Kernels\n\n{BEGIN}\nold\n{END}\nmore\n");
        let text = report("").page_with_table(&page).unwrap();
        assert!(text.starts_with("# Kernels\n\n<!-- guests table -->\n| | target |"));
        assert!(text.ends_with("<!-- end of guests table -->\nmore\n"));
        assert!(!text.contains("old\n"));
        assert!(report("").page_with_table("no markers").is_err());
    }
}
