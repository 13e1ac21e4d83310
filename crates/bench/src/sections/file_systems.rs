// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cold starts on file systems whose metadata can't be read through the block device.

use foreread_measure::MeasureError;
use foreread_measure::cold::{self, wall};
use foreread_measure::disk::{Layout, ModelledDisk, preset};
use foreread_measure::programs::Program;
use foreread_measure::sample::Rounds;

use super::cold::{details, seconds};
use crate::context::Context;
use crate::report::{Row, Section, Target};

/// Target of the second run's speedup over the kernel alone.
const TARGET: Target = Target::AtLeast(8.0);

pub fn measure(context: &mut Context) -> Result<Section, MeasureError> {
    let mut section = Section {
        name: "file-systems",
        about: "The same grep on hdd and other file systems, in seconds; medians.".to_owned(),
        header: vec![
            "file system",
            "limit",
            "kernel alone",
            "first run",
            "second run",
            "second / limit",
            "times faster",
        ],
        rows: Vec::new(),
        notes: Vec::new(),
    };
    for layout in [Layout::Xfs, Layout::Btrfs, Layout::Overlay] {
        let name = match layout {
            Layout::Overlay => "overlay on ext4",
            other => other.name(),
        };
        context.say(&format!("file-systems: {name}"));
        match row(context, layout, name) {
            Ok(row) => section.rows.push(row),
            Err(error) if error.lacking().is_some() => {
                section.notes.push(format!("{name} is left out: {error}."));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(section)
}

fn row(context: &Context, layout: Layout, name: &str) -> Result<Row, MeasureError> {
    let mut disk = ModelledDisk::start(preset("hdd")?, layout)?;
    let program = Program::install("grep", &mut disk)?;
    let mut plan = context.cold_plan();
    plan.pairs = plan.pairs.map(|rounds| Rounds { max: 1, ..rounds });
    let starts = cold::measure(&disk, &program, &context.foreread, &plan, &mut |_| {})?;
    Ok(Row {
        cells: vec![
            name.to_owned(),
            seconds(starts.limit_ns()),
            seconds(wall(&starts.kernel).median_ns()),
            seconds(wall(&starts.first).median_ns()),
            seconds(wall(&starts.second).median_ns()),
            Target::AtMost(0.0).rounded(starts.second_over_limit(), 2),
        ],
        value: starts.times_faster().unwrap_or(0.0),
        digits: 1,
        target: TARGET,
        details: details(&starts),
    })
}
