// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a person should know of how a trace could be read.

use foreread_core::grouped;
use foreread_trace::{Counted, Findings};
use serde_json::{Value, json};

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
pub fn document(findings: &Findings) -> Value {
    let counted = |counted: Counted| {
        json!({
            "count": counted.count,
            "first": counted.first.map(|place| place.to_string()),
        })
    };
    let bad = findings.bad_records_first.iter();
    let bad = bad.map(|bad| json!({ "place": bad.place.to_string(), "why": bad.why }));
    json!({
        "bad_records": findings.bad_records,
        "bad_records_first": bad.collect::<Vec<_>>(),
        "cut_off": findings.cut_off.map(|place| place.to_string()),
        "time_back": counted(findings.time_back),
        "past_end": counted(findings.past_end),
        "undefined": counted(findings.undefined),
        "over_limits": findings.over_limits,
        "whole": findings.is_whole(),
    })
}

/// What is not in the trace, for programs.
pub fn left_out(findings: &Findings) -> Value {
    let left_out = findings.left_out.iter();
    left_out
        .map(|(what, count)| (what.name().to_owned(), json!(count)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
