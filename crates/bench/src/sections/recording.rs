// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost of a full recording.

use std::time::Duration;

use foreread_measure::MeasureError;
use foreread_measure::cold::{Start, wall};
use foreread_measure::sample::{Pairs, Sample};

use super::costs::{Bed, Costs, HEADER, milliseconds, pairs_json, program_time, spread};
use crate::context::Context;
use crate::report::{Row, Section, Target};

/// To a read of 4 KiB from memory, in microseconds.
const READ_US: f64 = 0.25;
/// To a real program, in per cent.
const PROGRAM_PERCENT: f64 = 2.0;
/// To a cold start, everything included, in per cent.
const COLD_PERCENT: f64 = 3.0;

pub fn measure(context: &mut Context) -> Result<Section, MeasureError> {
    let (mut rows, notes) = warm_rows(context)?;
    let devices = context.devices.clone();
    context.cold("grep", &devices)?;
    for device in &devices {
        if let Some((_, starts)) = context.measured("grep", device) {
            rows.push(cold_row(device, &starts.kernel, &starts.first));
        }
    }
    let mut header = HEADER.to_vec();
    header.push("slower by");
    Ok(Section {
        name: "recording",
        about: "What a full recording costs: a read of 4 KiB from memory, in microseconds; programs \
                whose files are in memory,\nin per cent of their own time (what `foreread run` takes \
                to start and end stands apart); and a cold first run, in\nper cent, with its start \
                and end. With and without in turn; medians, and between which slowdowns half of the \
                pairs lie."
            .to_owned(),
        header,
        rows,
        notes,
    })
}

fn warm_rows(context: &Context) -> Result<(Vec<Row>, Vec<String>), MeasureError> {
    let bed = Bed::make(context)?;
    let costs = Costs {
        context,
        bed: &bed,
        // Every run records in full.
        options: &["--fresh"],
        runs_before: 1,
        with_cold: false,
        mode: "recorded",
    };
    let mut rows = Vec::new();
    let mut notes = bed.notes.clone();
    for (name, passes) in [
        ("pread, each page once, us", 1),
        ("pread, each page 8 times, us", 8),
    ] {
        context.say(&format!("recording: {name}"));
        let rounds = context.rounds(15, Duration::from_secs(15));
        let cost = costs.measure(&bed.preads(passes), None, rounds)?;
        notes.extend(cost.note(name, costs.mode));
        rows.push(cost.read_row(name, Bed::reads_a_pass() * passes as f64, READ_US));
    }
    for (name, program) in &bed.programs {
        context.say(&format!("recording: {name}"));
        let rounds = context.rounds(9, program_time());
        let cost = costs.measure(&[], Some(program), rounds)?;
        notes.extend(cost.note(name, costs.mode));
        rows.push(cost.slowdown_row(&format!("{name}, %"), PROGRAM_PERCENT));
    }
    Ok((rows, notes))
}

fn cold_row(device: &str, kernel: &[Start], first: &[Start]) -> Row {
    let pairs = kernel.iter().zip(first);
    let pairs = Pairs {
        pairs_ns: pairs
            .map(|(kernel, first)| (kernel.wall_ns as f64, first.wall_ns as f64))
            .collect(),
    };
    let slowdowns: Sample = pairs.slowdowns();
    Row {
        cells: vec![
            format!("cold grep on {device}, %"),
            milliseconds(wall(kernel).median()),
            milliseconds(wall(first).median()),
            pairs.pairs_ns.len().to_string(),
            spread(&slowdowns, 100.0),
            "within".to_owned(),
        ],
        value: 100.0 * pairs.slowdown(),
        digits: 2,
        target: Target::AtMost(COLD_PERCENT),
        details: pairs_json(&pairs),
    }
}
