// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time that a walk saved its program, as a line of the log has it.

use foreread_core::grouped;
use foreread_watch::saved::Bounds;
use serde::Serialize;
use serde_json::Value;

use crate::watch::saved::{SavedReport, time, time_words};

/// The last estimate of a walk.
#[derive(Clone, Copy)]
pub struct ToldSaved {
    time: Bounds,
    files: u64,
    took_ns: u64,
    alone_ns: u64,
    intervals: u64,
    source: &'static str,
}

/// The same for programs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ToldSavedReport {
    #[serde(flatten)]
    time: SavedReport,
    /// Files that the program has reached since the first fetch.
    files: u64,
    /// Time in which it reached them.
    took_ns: u64,
    /// Time from one missed file to the next, while nothing was fetched: the mean, or the median of
    /// fewer than six such times.
    alone_ns: u64,
    /// Number of the times from which that was found.
    intervals: u64,
}

impl ToldSaved {
    /// `None` of a line that lacks a field.
    pub fn of(line: &Value) -> Option<Self> {
        let count = |name: &str| line[name].as_u64();
        Some(Self {
            time: bounds_of(line)?,
            files: count("files")?,
            took_ns: count("took_ns")?,
            alone_ns: count("alone_ns")?,
            intervals: count("intervals")?,
            source: match line["source"].as_str()? {
                "program" => "its own",
                "siblings" => "those of its parent's processes",
                _ => "those of other programs on this disk",
            },
        })
    }

    /// A line of text, or none.
    pub fn human(saved: Option<Self>) -> String {
        let Some(saved) = saved else {
            return String::new();
        };
        format!(
            "  {}: it reached {} files in {}; without help each took {} (from {} times, \
             {}).\n",
            upper_first(&time_words(&saved.time)),
            grouped(saved.files),
            time(saved.took_ns),
            time(saved.alone_ns),
            saved.intervals,
            saved.source,
        )
    }

    /// For programs.
    pub fn report(self) -> ToldSavedReport {
        ToldSavedReport {
            time: SavedReport::of(&self.time),
            files: self.files,
            took_ns: self.took_ns,
            alone_ns: self.alone_ns,
            intervals: self.intervals,
        }
    }
}

/// The estimate in a line; `None` of one that lacks a field.
pub fn bounds_of(line: &Value) -> Option<Bounds> {
    Some(Bounds {
        best_ns: line["saved_ns"].as_i64()?,
        low_ns: line["saved_low_ns"].as_i64()?,
        high_ns: line["saved_high_ns"].as_i64()?,
    })
}

fn upper_first(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_is_told_as_a_sentence_and_a_broken_one_is_not() {
        let mut line = json!({
            "saved_ns": 31_000_000_000i64, "saved_low_ns": 17_000_000_000i64,
            "saved_high_ns": 44_000_000_000i64, "files": 7976, "took_ns": 2_300_000_000u64,
            "alone_ns": 4_200_000, "intervals": 3, "source": "program",
        });
        let said = ToldSaved::human(ToldSaved::of(&line));
        assert_eq!(
            said,
            "  About 31.0 s saved (17.0 s to 44.0 s): it reached 7,976 files in 2.30 s; without \
             help each took 4.2 ms (from 3 times, its own).\n"
        );
        line["saved_ns"] = json!("x");
        assert_eq!(ToldSaved::human(ToldSaved::of(&line)), "");
    }
}
