// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lanes of a picture: what one program reads of one file. Each lane has one scale of pages for
//! all runs, without the stretches that no run reads.

use std::collections::BTreeMap;

use foreread_model::Extent;
use foreread_sim::engine::WindowSeen;

use super::super::Ran;
use crate::picture::positions::Positions;

/// Lanes that are drawn, those with most pages.
const LANES_MAX: usize = 6;
/// Height of all lanes of a panel together, and of the lowest one.
const HEIGHT: f64 = 240.0;
const HEIGHT_MIN: f64 = 64.0;
/// Room for the name of a lane.
pub const LABEL_HEIGHT: f64 = 24.0;
/// Height of a row of marks below a lane; there are two.
pub const RUG_HEIGHT: f64 = 13.0;
/// Room above the first of them.
pub const RUG_GAP: f64 = 9.0;
/// Where what is read covers at least this share of the pages from the first to the last, no
/// stretch is left out: a lane of lookups all over a file would be cut to pieces.
const COVERED_SHARE: f64 = 0.25;
/// Bytes of a page: positions are in bytes.
pub const PAGE_BYTES: u64 = 4096;

/// A lane.
pub struct Lane {
    program: Option<usize>,
    file: usize,
    /// What is read by whom.
    pub name: String,
    /// Room above the lane.
    pub label_height: f64,
    pub height: f64,
    pub positions: Positions,
}

impl Lane {
    /// Whether a window is of this lane.
    pub fn has(&self, window: &WindowSeen) -> bool {
        (window.program, window.file) == (self.program, self.file)
    }

    /// With its name, its rows of marks, and a gap.
    pub fn whole_height(&self) -> f64 {
        self.label_height + self.height + RUG_GAP + 2.0 * RUG_HEIGHT
    }
}

/// The lanes of the first runs, in the order of programs and files, and how many are left out.
pub fn lanes(ran: &Ran, runs: usize) -> (Vec<Lane>, usize) {
    let mut found: BTreeMap<(Option<usize>, usize), (Vec<Extent>, u64)> = BTreeMap::new();
    for outcome in ran.outcomes.iter().take(runs) {
        for window in &outcome.windows {
            let (extents, pages) = found.entry((window.program, window.file)).or_default();
            *pages += window.pages;
            extents.push(Extent {
                offset_bytes: window.start.saturating_mul(PAGE_BYTES),
                length_bytes: window.pages.saturating_mul(PAGE_BYTES),
            });
        }
    }
    let mut most: Vec<_> = found.into_iter().collect();
    most.sort_by_key(|(_, (_, pages))| std::cmp::Reverse(*pages));
    let left_out = most.len().saturating_sub(LANES_MAX);
    most.truncate(LANES_MAX);
    most.sort_by_key(|(key, _)| *key);
    let height = (HEIGHT / most.len().max(1) as f64).max(HEIGHT_MIN);
    let label_height = if most.len() > 1 { LABEL_HEIGHT } else { 0.0 };
    let lanes = most
        .into_iter()
        .map(|((program, file), (extents, _))| Lane {
            program,
            file,
            name: name(ran, program, file),
            label_height,
            height,
            positions: positions(&extents, height),
        });
    (lanes.collect(), left_out)
}

fn positions(extents: &[Extent], height: f64) -> Positions {
    let cut = Positions::of(extents, height, PAGE_BYTES);
    let first = extents.iter().map(|extent| extent.offset_bytes).min();
    let last = extents.iter().map(Extent::end_bytes).max();
    let (Some(first), Some(last)) = (first, last) else {
        return cut;
    };
    let whole = Extent {
        offset_bytes: first,
        length_bytes: last - first,
    };
    let is_covered = cut.drawn_bytes() as f64 >= whole.length_bytes as f64 * COVERED_SHARE;
    match is_covered {
        true => Positions::of(&[whole], height, PAGE_BYTES),
        false => cut,
    }
}

fn name(ran: &Ran, program: Option<usize>, file: usize) -> String {
    let setups = ran.runs.iter().map(|run| ran.scenario.setup(run));
    let with_most = setups.max_by_key(|setup| setup.programs.len());
    let Some(setup) = with_most else {
        return String::new();
    };
    let file = setup.files.get(file).map_or("a file", |file| &file.name);
    match program.and_then(|program| setup.programs.get(program)) {
        Some(program) => format!("{} reads {file}", program.name),
        None => file.to_owned(),
    }
}
