// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost of a later run, which replays and keeps the profile fresh.

use std::time::Duration;

use foreread_measure::MeasureError;

use super::costs::{Bed, Costs, HEADER, program_time};
use crate::context::Context;
use crate::report::Section;

/// To a hot `dd` and to real programs, in per cent of their own time.
const PERCENT: f64 = 1.0;

pub fn measure(context: &mut Context) -> Result<Section, MeasureError> {
    let bed = Bed::make(context)?;
    let costs = Costs {
        context,
        bed: &bed,
        options: &[],
        // One records, the next replays for the first time.
        runs_before: 2,
        with_cold: true,
        mode: "replayed",
    };
    let mut rows = Vec::new();
    let mut notes = bed.notes.clone();
    let dd = bed.dd();
    let programs = bed.programs.iter().map(|(name, program)| (*name, program));
    for (name, program) in std::iter::once(("hot dd bs=4k", &dd)).chain(programs) {
        context.say(&format!("refresh: {name}"));
        let rounds = context.rounds(15, program_time().max(Duration::from_secs(15)));
        let cost = costs.measure(&[], Some(program), rounds)?;
        notes.extend(cost.note(name, costs.mode));
        rows.push(cost.slowdown_row(&format!("{name}, %"), PERCENT));
    }
    let mut header = HEADER.to_vec();
    header.push("slower by");
    Ok(Section {
        name: "refresh",
        about: "What a later run costs, which replays and keeps the profile fresh. Each run first \
                reads files that are not in memory,\nso that there is something to replay; then the \
                program, whose files are in memory, is timed. Per cent of its own time;\nwith and \
                without in turn; medians, and between which slowdowns half of the pairs lie. The \
                start is sooner over with replay."
            .to_owned(),
        header,
        rows,
        notes,
    })
}
