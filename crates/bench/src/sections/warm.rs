// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost of `run` for a command whose files are in memory.

use std::ffi::OsString;
use std::time::Duration;

use foreread_measure::MeasureError;
use foreread_measure::foreread::Foreread;
use foreread_measure::programs::Program;
use foreread_measure::sample::in_turn;
use foreread_testbed::workload;

use super::costs::{Bed, Costs, WARM_READ_BYTES_MAX, milliseconds, pairs_json, spread};
use crate::context::{Context, Repeated};
use crate::report::{Row, Section, Target};

/// To a command, in milliseconds.
const ADDED_MS: Target = Target::AtMost(15.0);
/// To the reads of a hot `dd`, in per cent.
const READS_PERCENT: f64 = 1.0;

/// A first run records; the second finds that there is nothing to do, as all later ones do.
const RUNS_BEFORE: usize = 2;

pub fn measure(context: &mut Context) -> Result<Section, MeasureError> {
    let bed = Bed::make(context)?;
    let grep = Program::grep("tree", workload::SMALL_FILES as u64)?;
    let nothing = Repeated {
        words: vec![OsString::from("true")],
        directory: bed.disk.root().to_owned(),
        environment: Vec::new(),
    };
    let mut commands = vec![
        ("true", nothing),
        (
            "grep, 8,000 files",
            Repeated::from(&grep.command(&bed.disk, &[])),
        ),
    ];
    let others = bed
        .programs
        .iter()
        .filter(|(name, _)| ["git", "python"].contains(name));
    commands.extend(others.cloned());
    let mut rows = Vec::new();
    for (name, command) in &commands {
        context.say(&format!("warm: {name}"));
        rows.push(added_row(context, &bed, name, command)?);
    }
    context.say("warm: reads of a hot dd");
    let (dd, note) = reads_row(context, &bed)?;
    rows.push(dd);
    Ok(Section {
        name: "warm",
        about:
            "What `foreread run` adds to a command whose files are in memory, from the third run \
                on: milliseconds;\nand to the time of a hot `dd bs=4k` itself: per cent. With and \
                without in turn; medians."
                .to_owned(),
        header: vec![
            "command",
            "without",
            "with",
            "pairs",
            "half of them",
            "added",
        ],
        rows,
        notes: bed.notes.iter().cloned().chain(note).collect(),
    })
}

fn added_row(
    context: &Context,
    bed: &Bed,
    name: &str,
    command: &Repeated,
) -> Result<Row, MeasureError> {
    let foreread = Foreread::new(&context.foreread)?;
    let mut command = command.clone();
    command.share_state(&foreread);
    command.run(&bed.disk, &[])?;
    for _ in 0..RUNS_BEFORE {
        command.run(&bed.disk, &foreread.before(&[]))?;
    }
    let before = foreread.before(&[]);
    let undisturbed = |before: &[OsString]| {
        let once = || command.run(&bed.disk, before);
        bed.disk.undisturbed(WARM_READ_BYTES_MAX, once)
    };
    let pairs = in_turn(
        context.rounds(21, Duration::from_secs(6)),
        || undisturbed(&[]),
        || undisturbed(&before),
    )?;
    let added = pairs.pairs_ns.iter().map(|(without, with)| with - without);
    Ok(Row {
        cells: vec![
            name.to_owned(),
            milliseconds(pairs.without().median()),
            milliseconds(pairs.with().median()),
            pairs.pairs_ns.len().to_string(),
            spread(&foreread_measure::sample::Sample::new(added), 1e-6),
        ],
        value: pairs.added_ns() / 1e6,
        digits: 1,
        target: ADDED_MS,
        details: pairs_json(&pairs),
    })
}

fn reads_row(context: &Context, bed: &Bed) -> Result<(Row, Option<String>), MeasureError> {
    let costs = Costs {
        context,
        bed,
        options: &[],
        runs_before: RUNS_BEFORE,
        with_cold: false,
        mode: "plain",
    };
    let rounds = context.rounds(21, Duration::from_secs(15));
    let cost = costs.measure(&[], Some(&bed.dd()), rounds)?;
    let mut row = cost.slowdown_row("hot dd, its own time, %", READS_PERCENT);
    row.cells.pop();
    Ok((row, cost.note("dd", "plain")))
}
