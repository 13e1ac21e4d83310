// SPDX-License-Identifier: MIT OR Apache-2.0
//! A layout as SVG: position on the disk over the order of need, by phase; now and after a new
//! layout beside each other, with the same scales.

use std::collections::HashSet;
use std::fmt::Write as _;

use foreread_core::Bytes;
use foreread_layout::{FileOnDisk, Forecast, moved};
use foreread_model::Extent;
use foreread_prefetch::order::Piece;
use foreread_profile::{PAGE_BYTES, PhaseKind};

use super::{Laid, Layout};
use crate::boot::phase_name;
use crate::output::{counted, time};
use crate::picture::axis::{Axis, rounded};
use crate::picture::frame::{self, Entry, Mark, Span};
use crate::picture::positions::Positions;
use crate::picture::svg::{Svg, group, label, rect};
use crate::text::escaped_path;

const WIDTH: u32 = 1200;
const LEFT: f64 = 100.0;
const PLOT: (f64, f64) = (510.0, 360.0);
/// From one plot to the one beside it.
const STEP: f64 = PLOT.0 + 50.0;
/// Where titles and the legend are.
const SPAN: Span = Span {
    left: 24.0,
    width: 1152.0,
};
/// Title and legend.
const TOP: f64 = 76.0;
/// The lines above the plots of a file system, and the axis below.
const HEAD_HEIGHT: f64 = 60.0;
const FOOT_HEIGHT: f64 = 64.0;
/// Unit of positions, in bytes.
const MIB: u64 = 1 << 20;

const STYLE: &str = "
.piece { stroke-width: 2 }
";

/// The pieces of a panel, in order of need, with the phase of each.
type Needed = Vec<(Option<PhaseKind>, Piece)>;

pub fn picture(layout: &Layout) -> String {
    let one_height = HEAD_HEIGHT + PLOT.1 + FOOT_HEIGHT;
    let height = (TOP + one_height * layout.laid.len() as f64).ceil() as u32;
    let title = format!("Where the files of {} lie", layout.name);
    let mut svg = frame::titled(WIDTH, height, SPAN.left, &title, STYLE);
    legend(&mut svg, layout);
    for (at, laid) in layout.laid.iter().enumerate() {
        group(&mut svg, 0.0, TOP + one_height * at as f64);
        file_system(&mut svg, layout, laid);
        svg.end();
    }
    svg.finish()
}

fn legend(svg: &mut Svg, layout: &Layout) {
    let accounts = layout.laid.iter().flat_map(|laid| &laid.account.phases);
    let mut phases: Vec<Option<PhaseKind>> = accounts.map(|one| one.phase).collect();
    phases.sort_unstable();
    phases.dedup();
    let name = |phase: Option<PhaseKind>| phase.map_or("pages that are read", phase_name);
    let entries = phases.into_iter();
    let entries: Vec<Entry> = entries
        .map(|phase| (Mark::Line, class(phase), name(phase)))
        .collect();
    frame::legend(svg, SPAN, 56.0, &entries);
}

fn class(phase: Option<PhaseKind>) -> &'static str {
    match phase {
        Some(PhaseKind::Initramfs) => "piece line-violet",
        None | Some(PhaseKind::Sysinit) => "piece line-blue",
        Some(PhaseKind::Target) => "piece line-orange",
        Some(PhaseKind::Session) => "piece line-green",
    }
}

fn file_system(svg: &mut Svg, layout: &Layout, laid: &Laid) {
    let now = needed(layout, &laid.found.files);
    let after = needed(layout, &moved(&laid.found.files, &laid.plan.moves));
    let extents = now.iter().chain(&after).map(|(_, piece)| Extent {
        offset_bytes: piece.place_bytes,
        length_bytes: piece.pages * PAGE_BYTES,
    });
    let positions = Positions::of(&extents.collect::<Vec<_>>(), PLOT.1, MIB);
    let head = format!(
        "{}, {}",
        escaped_path(&laid.found.mount_point),
        laid.model()
    );
    frame::name(svg, (SPAN.left, 16.0), SPAN.width, &head);
    let panels = [
        ("now", &laid.plan.before, &now),
        ("after", &laid.plan.after, &after),
    ];
    for (at, (name, forecast, needed)) in panels.into_iter().enumerate() {
        group(svg, LEFT + STEP * at as f64, HEAD_HEIGHT);
        frame::note(svg, (0.0, -14.0), PLOT.0, &headline(name, forecast));
        panel(svg, &positions, needed, at == 0);
        svg.end();
    }
}

fn headline(name: &str, forecast: &Forecast) -> String {
    let seeks = counted(forecast.seeks, "seek", "seeks");
    format!("{name}: a replay takes {}, {seeks}", time(forecast.time_ns))
}

/// Pieces in the order of need, phase by phase.
fn needed(layout: &Layout, files: &[FileOnDisk]) -> Needed {
    let pieces = files.iter().flat_map(FileOnDisk::pieces);
    let mut needed: Needed = pieces
        .map(|piece| (layout.profile.phase_at(piece.need_ns), piece))
        .collect();
    needed.sort_by_key(|(phase, piece)| (*phase, piece.need_ns, piece.node, piece.start_page));
    needed
}

fn panel(svg: &mut Svg, positions: &Positions, needed: &Needed, is_first: bool) {
    for stretch in &positions.stretches {
        let size = (PLOT.0, stretch.height);
        rect(svg, "plot", (0.0, stretch.top()), size, None);
    }
    let pages: u64 = needed.iter().map(|(_, piece)| piece.pages).sum();
    let x = |at: u64| rounded(at as f64 / pages.max(1) as f64 * PLOT.0);
    let mut at = 0;
    let mut paths: Vec<(Option<PhaseKind>, String, HashSet<String>)> = Vec::new();
    for (phase, piece) in needed {
        let y = rounded(positions.y(piece.place_bytes));
        let width = rounded((x(at + piece.pages) - x(at)).max(0.8));
        let drawn = format!("M{} {y}h{width}", x(at));
        at += piece.pages;
        let known = paths.iter_mut().find(|(known, ..)| known == phase);
        match known {
            Some((_, path, marks)) => {
                // Many small pieces fall on one point.
                if marks.insert(drawn.clone()) {
                    path.push_str(&drawn);
                }
            }
            None => paths.push((*phase, drawn.clone(), HashSet::from([drawn]))),
        }
    }
    for (phase, path, _) in &paths {
        svg.empty("path", &[("class", &class(*phase)), ("d", path)]);
    }
    let mut grid = String::new();
    let ticks = positions.ticks();
    for (y, _) in &ticks {
        // Writing to a string can't fail.
        let _ = write!(grid, "M-6 {}h6", rounded(*y));
    }
    svg.empty("path", &[("class", &"grid"), ("d", &grid)]);
    if is_first {
        frame::numbers_left(svg, ticks);
        label(svg, (-10.0, -14.0), "end", "quiet", "MiB");
    }
    let whole = Bytes::new(pages * PAGE_BYTES).human();
    let axis = Axis::linear(0.0, (pages * PAGE_BYTES) as f64 / MIB as f64, PLOT.0);
    let what = format!("MiB in the order of need, {whole} in all; position on the disk upwards");
    frame::axis_below(svg, &axis.ticks(), PLOT, &what);
}
