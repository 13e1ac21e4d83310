// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cold starts against the limit: the table of the README.

use foreread_measure::MeasureError;
use foreread_measure::cold::{ColdStarts, Start, wall};
use foreread_measure::names::PROGRAM_NAMES;
use foreread_measure::programs::Program;
use foreread_measure::sample::Sample;
use serde_json::{Value, json};

use crate::context::Context;
use crate::report::{Row, Section, Target};

/// Target of the second run, as a multiple of the limit.
fn target(program: &str, device: &str) -> Target {
    match (program, device) {
        ("grep", "hdd") => Target::AtMost(1.25),
        ("grep", "usb") => Target::AtMost(1.15),
        ("grep", "cloud") => Target::AtMost(1.35),
        ("grep", "nvme") => Target::AtMost(2.5),
        ("python" | "git", "hdd" | "usb" | "cloud" | "nvme") => Target::AtMost(2.0),
        _ => Target::None,
    }
}

pub fn measure(context: &mut Context) -> Result<Section, MeasureError> {
    let devices = context.devices.clone();
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    for program in context.programs_of(&PROGRAM_NAMES) {
        match context.cold(&program, &devices) {
            Ok(()) => {}
            Err(error) if error.lacking().is_some() => {
                notes.push(format!("{program} is left out: {error}."));
                continue;
            }
            Err(error) => return Err(error),
        }
        for device in &devices {
            if let Some((installed, starts)) = context.measured(&program, device) {
                rows.push(row(installed, device, starts));
            }
        }
    }
    Ok(Section {
        name: "cold",
        about: "Cold starts on ext4, the page cache dropped before each, in seconds; medians. The \
                limit is the least time\nin which the disk can deliver what the program reads, or \
                the program's own time with everything cached."
            .to_owned(),
        header: vec![
            "program",
            "disk",
            "limit",
            "kernel alone",
            "first run",
            "second run",
            "its processor time",
            "times faster",
            "second / limit",
        ],
        rows,
        notes,
    })
}

fn row(program: &Program, device: &str, starts: &ColdStarts) -> Row {
    let times = starts.times_faster().unwrap_or(0.0);
    Row {
        cells: vec![
            program.title().to_owned(),
            device.to_owned(),
            seconds(starts.limit_ns()),
            seconds(wall(&starts.kernel).median_ns()),
            seconds(wall(&starts.first).median_ns()),
            seconds(wall(&starts.second).median_ns()),
            seconds(
                Sample::of_ns(starts.second.iter().map(|start| start.processor_ns)).median_ns(),
            ),
            Target::AtLeast(0.0).rounded(times, 1),
        ],
        value: starts.second_over_limit(),
        digits: 2,
        target: target(program.name(), device),
        details: details(starts),
    }
}

/// Everything measured of cold starts.
pub fn details(starts: &ColdStarts) -> Value {
    let all = |starts: &[Start]| starts.iter().map(start_json).collect::<Value>();
    json!({
        "needed_bytes": starts.needed_bytes,
        "limit_ns": starts.limit_ns(),
        "disk_ns": starts.disk_ns,
        "cached_ns": starts.cached.median_ns(),
        "kernel_alone": all(&starts.kernel),
        "first_runs": all(&starts.first),
        "second_runs": all(&starts.second),
    })
}

fn start_json(start: &Start) -> Value {
    json!({
        "wall_ns": start.wall_ns,
        "processor_ns": start.processor_ns,
        "requests": start.disk.requests,
        "bytes": start.disk.bytes,
        "seeks": start.disk.seeks,
        "busy_ns": start.disk.busy_ns,
        "run": start.report.as_ref().map(|report| &report.document),
    })
}

/// Seconds; below one, with milliseconds.
pub fn seconds(ns: u64) -> String {
    let digits = if ns < 1_000_000_000 { 3 } else { 2 };
    format!("{:.digits$}", ns as f64 / 1e9)
}
