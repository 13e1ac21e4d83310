// SPDX-License-Identifier: MIT OR Apache-2.0
//! Remarks about a trace for its user: lines that could not be read, and accesses left out.

use std::collections::BTreeMap;

use foreread_core::grouped;
use foreread_trace::{Counted, Findings};
use serde::Serialize;

use crate::output::note;

/// One line for each thing, each once.
pub fn lines(findings: &Findings) -> Vec<String> {
    let mut lines = Vec::new();
    for bad in &findings.bad_records_first {
        lines.push(format!("{} {}", bad.place, bad.why));
    }
    let shown = findings.bad_records_first.len() as u64;
    if findings.bad_records > shown {
        let more = grouped(findings.bad_records - shown);
        lines.push(format!("{more} more records could not be understood"));
    }
    if let Some(place) = findings.cut_off {
        lines.push(format!("it is cut off at {place}; what is before is used"));
    }
    let mut counted = |counted: Counted, what: &str| {
        if let Some(first) = counted.first {
            let count = grouped(counted.count);
            lines.push(format!("{count} {what}, the first at {first}"));
        }
    };
    counted(
        findings.time_back,
        "accesses are earlier than the one before them",
    );
    counted(findings.past_end, "accesses go past the end of their file");
    counted(
        findings.undefined,
        "accesses are of files or threads that are not in it; they are left out",
    );
    if findings.over_limits > 0 {
        let count = grouped(findings.over_limits);
        lines.push(format!(
            "{count} accesses are of more files or threads than a trace may hold; they are left out"
        ));
    }
    lines
}

/// Each on stderr, after the name of the trace.
pub fn tell(name: &str, findings: &Findings) {
    for line in lines(findings) {
        note(&format!("{name}: {line}"));
    }
}

/// The same for programs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FindingsReport {
    /// Records that could not be understood.
    bad_records: u64,
    /// The first of them.
    bad_records_first: Vec<BadRecordReport>,
    /// Where the trace ends in the middle of a record.
    cut_off: Option<String>,
    /// Accesses that are earlier than the one before them.
    time_back: CountedReport,
    /// Accesses that go past the end of their file.
    past_end: CountedReport,
    /// Accesses of files or threads that are not in the trace.
    undefined: CountedReport,
    /// Accesses of more files or threads than a trace may hold.
    over_limits: u64,
    /// Whether the whole trace could be read.
    whole: bool,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct BadRecordReport {
    /// Line or byte of the trace.
    place: String,
    /// The reason, in words.
    why: &'static str,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CountedReport {
    /// How many.
    count: u64,
    /// The place of the first one.
    first: Option<String>,
}

impl FindingsReport {
    pub fn of(findings: &Findings) -> Self {
        let bad = findings.bad_records_first.iter();
        let bad = bad.map(|bad| BadRecordReport {
            place: bad.place.to_string(),
            why: bad.why,
        });
        Self {
            bad_records: findings.bad_records,
            bad_records_first: bad.collect(),
            cut_off: findings.cut_off.map(|place| place.to_string()),
            time_back: CountedReport::of(findings.time_back),
            past_end: CountedReport::of(findings.past_end),
            undefined: CountedReport::of(findings.undefined),
            over_limits: findings.over_limits,
            whole: findings.is_whole(),
        }
    }
}

impl CountedReport {
    fn of(counted: Counted) -> Self {
        Self {
            count: counted.count,
            first: counted.first.map(|place| place.to_string()),
        }
    }
}

/// Counts of accesses that are not in the trace, by name, for JSON.
pub fn left_out(findings: &Findings) -> BTreeMap<&'static str, u64> {
    let left_out = findings.left_out.iter();
    left_out.map(|(what, count)| (what.name(), count)).collect()
}
