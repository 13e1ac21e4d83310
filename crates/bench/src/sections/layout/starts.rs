// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a move is worth to the second run of a program.

use foreread_measure::MeasureError;
use foreread_measure::cold::{self, ColdPlan, ColdStarts, median_start};
use foreread_measure::disk::{Layout, ModelledDisk, preset};
use foreread_measure::foreread::Foreread;
use foreread_measure::names::PROGRAM_NAMES;
use foreread_measure::programs::Program;
use serde_json::{Value, json};

use super::{age, applied, recorded};
use crate::context::Context;
use crate::report::{Row, Section, Target};
use crate::sections::cold::{details, seconds};

/// Of the second run after the move, as a multiple of the limit.
fn target(program: &str) -> Target {
    Target::AtMost(match program {
        "grep" => 1.05,
        "python" => 1.3,
        _ => 1.5,
    })
}

pub fn measure(context: &mut Context) -> Result<Section, MeasureError> {
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    for name in context.programs_of(&PROGRAM_NAMES) {
        for is_aged in [false, true] {
            let state = if is_aged { "aged" } else { "fresh" };
            context.say(&format!("layout-starts: {name} on a {state} disk"));
            match on_one(context, &name, is_aged) {
                Ok(row) => rows.push(row),
                Err(error) => notes.push(format!("{name} on a {state} disk: {error}.")),
            }
        }
    }
    Ok(Section {
        name: "layout-starts",
        about: "Second runs of `foreread run` on hdd before `foreread layout apply` and after it; \
                medians, in seconds. A fresh disk\nhas never held anything else. An aged one was \
                filled with files of 128 KiB, every second of which is gone. The limit\nis the \
                least time in which the disk can deliver what the program reads, or the program's \
                own time with everything\ncached. `of seeks` is how many of the seeks of a start \
                are left."
            .to_owned(),
        header: vec![
            "program",
            "disk",
            "limit",
            "before",
            "seeks",
            "moved MB",
            "limit after",
            "after",
            "seeks after",
            "of seeks",
            "after / limit",
        ],
        rows,
        notes,
    })
}

fn on_one(context: &Context, name: &str, is_aged: bool) -> Result<Row, MeasureError> {
    let mut disk = ModelledDisk::start(preset("hdd")?, Layout::Ext4)?;
    if is_aged {
        age(&mut disk)?;
    }
    let program = Program::install(name, &mut disk)?;
    let plan = ColdPlan {
        pairs: None,
        ..context.cold_plan()
    };
    let starts = || cold::measure(&disk, &program, &context.foreread, &plan, &mut |_| {});
    let before = starts()?;
    let foreread = Foreread::new(&context.foreread)?;
    let profile = recorded(&foreread, &program, &disk)?;
    let moved = disk
        .testbed()
        .instantly(|| applied(&foreread, &disk, &profile))?;
    disk.forget()?;
    let after = starts()?;
    Ok(row(&program, is_aged, &before, &moved, &after))
}

/// Seeks of the median second run.
fn seeks(starts: &ColdStarts) -> u64 {
    median_start(&starts.second).map_or(0, |start| start.disk.seeks)
}

fn row(
    program: &Program,
    is_aged: bool,
    before: &ColdStarts,
    moved: &Value,
    after: &ColdStarts,
) -> Row {
    let second = |starts: &ColdStarts| seconds(cold::wall(&starts.second).median_ns());
    let bytes = moved["moved_bytes"].as_u64().unwrap_or(0);
    let share = seeks(after) as f64 / seeks(before).max(1) as f64;
    Row {
        cells: vec![
            program.title().to_owned(),
            if is_aged { "aged" } else { "fresh" }.to_owned(),
            seconds(before.limit_ns()),
            second(before),
            seeks(before).to_string(),
            format!("{:.1}", bytes as f64 / 1e6),
            seconds(after.limit_ns()),
            second(after),
            seeks(after).to_string(),
            format!("{share:.2}"),
        ],
        value: after.second_over_limit(),
        digits: 2,
        target: target(program.name()),
        details: json!({
            "before": details(before),
            "moved": moved,
            "after": details(after),
        }),
    }
}
