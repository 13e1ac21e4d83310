// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--svg`: requests over time and sector, a panel for each device. A request is a bar from its
//! queue to its issue in one colour, from there to its completion in another; where something held
//! it back, in a third.

use std::collections::BTreeMap;

use foreread_blocktrace::{Device, Request, SECTOR_BYTES};
use foreread_core::grouped;
use foreread_model::Extent;

use super::{Analyzed, human};
use crate::picture::axis::TimeAxis;
use crate::picture::frame::{self, Entry, Mark, Span};
use crate::picture::positions::Positions;
use crate::picture::svg::{Svg, group, rect};

const WIDTH: u32 = 960;
const SPAN: Span = Span {
    left: 120.0,
    width: 816.0,
};
const PLOT: (f64, f64) = (SPAN.width, 320.0);
/// Height above the first panel, and height of a panel with its axis labels.
const TOP: f64 = 92.0;
const PANEL_HEIGHT: f64 = PLOT.1 + 78.0;
/// Devices that are drawn; the rest is left out, since more panels are hard to read.
const PANELS_MAX: usize = 8;
/// Smallest size of a bar that is visible.
const BAR_WIDTH_MIN: f64 = 1.5;
const BAR_HEIGHT_MIN: f64 = 3.0;
/// From this height on, bars that touch are told apart by an edge.
const EDGE_HEIGHT_MIN: f64 = 8.0;

const STYLE: &str = "
.edged rect { stroke: #ffffff; stroke: var(--paper); stroke-width: 0.6 }
";

/// The classes of bars, with what they stand for.
const LEGEND: [Entry; 3] = [
    (Mark::Fill, "waits fill-orange", "queued, not issued"),
    (
        Mark::Fill,
        "held fill-vermilion",
        "held back by a plug or the scheduler",
    ),
    (Mark::Fill, "served fill-blue", "at the device"),
];
const WAITS: &str = LEGEND[0].1;
const HELD: &str = LEGEND[1].1;
const SERVED: &str = LEGEND[2].1;

pub fn of(analyzed: &Analyzed) -> String {
    let report = &analyzed.report;
    let mut by_device: BTreeMap<Device, Vec<&Request>> = BTreeMap::new();
    for request in &report.kept {
        by_device.entry(request.device).or_default().push(request);
    }
    let panels = by_device.len().clamp(1, PANELS_MAX);
    let height = (TOP + panels as f64 * PANEL_HEIGHT) as u32;
    let title = format!("Requests of {}", analyzed.source);
    let mut svg = frame::titled(WIDTH, height, SPAN.left, &title, STYLE);
    frame::legend(&mut svg, SPAN, 54.0, &LEGEND);
    // A request may have been issued before the first event.
    let first_ns = report.kept.iter().map(Request::begin_ns).min();
    let (first, last_ns) = report.span_ns.unwrap_or((0, 0));
    let times = TimeAxis::new(first.min(first_ns.unwrap_or(first)), last_ns, PLOT.0);
    for (index, (device, requests)) in by_device.iter().take(PANELS_MAX).enumerate() {
        group(&mut svg, SPAN.left, TOP + index as f64 * PANEL_HEIGHT);
        panel(&mut svg, *device, requests, &times, analyzed);
        svg.end();
    }
    svg.finish()
}

fn panel(svg: &mut Svg, device: Device, requests: &[&Request], times: &TimeAxis, all: &Analyzed) {
    let extents: Vec<Extent> = requests.iter().map(|request| extent(request)).collect();
    let positions = Positions::of(&extents, PLOT.1, SECTOR_BYTES);
    let drawn = grouped(requests.len() as u64);
    let name = match all.report.not_kept {
        0 => format!("device {device}: {drawn} requests"),
        more => format!(
            "device {device}: {drawn} requests; {} later ones are not drawn",
            grouped(more)
        ),
    };
    frame::name(svg, (0.0, -9.0), PLOT.0, &name);
    for stretch in &positions.stretches {
        let size = (PLOT.0, stretch.height);
        rect(svg, "plot", (0.0, stretch.top()), size, None);
    }
    let ticks = times.ticks();
    frame::grid_upright(svg, &ticks, PLOT.1);
    let unit = format!("{} since the beginning", times.unit);
    frame::axis_below(svg, &ticks, PLOT, &unit);
    frame::numbers_left(svg, positions.ticks());
    frame::name_left(svg, 104.0, PLOT.1, "sector; what isn't used is left out");
    let (_, last_ns) = all.report.span_ns.unwrap_or((0, 0));
    for request in requests {
        bars(svg, request, times, &positions, all.held_over_ns, last_ns);
    }
}

fn extent(request: &Request) -> Extent {
    let end = request.end_sector().saturating_mul(SECTOR_BYTES);
    let offset_bytes = request.sector.saturating_mul(SECTOR_BYTES);
    Extent {
        offset_bytes,
        length_bytes: end - offset_bytes,
    }
}

/// Draws the legs of a request. An unfinished request is drawn to the end of the trace.
fn bars(
    svg: &mut Svg,
    request: &Request,
    times: &TimeAxis,
    positions: &Positions,
    over_ns: u64,
    last_ns: u64,
) {
    let extent = extent(request);
    let top = positions.y(extent.offset_bytes + extent.length_bytes);
    let height = (positions.y(extent.offset_bytes) - top).max(BAR_HEIGHT_MIN);
    let done_ns = request.completed_ns.unwrap_or(last_ns);
    let issued_ns = request.issued_ns.unwrap_or(done_ns);
    let mut parts = vec![(WAITS, request.begin_ns(), issued_ns)];
    if let Some(hold) = request.held_by_plug(over_ns) {
        parts.push((HELD, hold.since_ns, hold.until_ns));
    }
    if let Some(wait) = request.held_by_scheduler(over_ns) {
        parts.push((HELD, wait.since_ns, wait.until_ns));
    }
    parts.push((SERVED, issued_ns, done_ns));
    let class = match height >= EDGE_HEIGHT_MIN {
        true => "bars edged",
        false => "bars",
    };
    svg.begin("g", &[("class", &class)]);
    svg.line("title", &[], &human::line(request, over_ns));
    for (class, from_ns, to_ns) in parts {
        let (from, to) = (times.at(from_ns), times.at(to_ns));
        // A step that took no time worth drawing would hide its neighbour.
        if to - from >= 0.1 || class == SERVED {
            let size = ((to - from).max(BAR_WIDTH_MIN), height);
            rect(svg, class, (from, top), size, None);
        }
    }
    svg.end();
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use foreread_blocktrace::Options;

    use super::*;
    use crate::picture::check::{assert_labels_fit, assert_well_formed, texts};

    #[test]
    fn a_trace_is_drawn_with_its_legend_and_axes() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../tests/blktrace/plug-stalled.blkparse");
        let options = Options {
            kept: 100,
            ..Options::default()
        };
        let mut analyzed = super::super::from_text(&path, options).expect("a trace");
        analyzed.source = "<b>".repeat(90);
        let svg = of(&analyzed);
        assert!(assert_well_formed(&svg) > 30);
        assert_labels_fit(&svg);
        let texts = texts(&svg);
        for (_, _, words) in LEGEND {
            assert!(texts.iter().any(|text| text == words), "{words}");
        }
    }
}
