// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--svg`: requests over time and sector, a panel for each device. A request is a bar from its
//! queue to its issue in one colour, from there to its completion in another; where something held
//! it back, in a third.

use std::collections::BTreeMap;
use std::fmt::Display;

use foreread_blocktrace::{Device, Request, SECTOR_BYTES};
use foreread_core::grouped;
use foreread_model::Extent;

use super::{Analyzed, human};
use crate::axes::{rounded, ticks};
use crate::positions::Positions;
use crate::svg::{Svg, group, label, rect};

const WIDTH: u32 = 960;
const PLOT_WIDTH: f64 = 820.0;
const PLOT_HEIGHT: f64 = 320.0;
const LEFT: f64 = 120.0;
/// Height above the first panel, and height of a panel with its axis labels.
const TOP: f64 = 92.0;
const PANEL_HEIGHT: f64 = PLOT_HEIGHT + 78.0;
/// Devices that are drawn; the rest is left out, since more panels are hard to read.
const PANELS_MAX: usize = 8;
/// Smallest size of a bar that is visible.
const BAR_WIDTH_MIN: f64 = 1.5;
const BAR_HEIGHT_MIN: f64 = 3.0;
/// From this height on, bars that touch are told apart by an edge.
const EDGE_HEIGHT_MIN: f64 = 8.0;

const STYLE: &str = "
.edged { stroke: #ffffff; stroke-width: 0.6 }
.waits { fill: #9a6700 } .served { fill: #0969da } .held { fill: #cf222e }
@media (prefers-color-scheme: dark) {
.edged { stroke: #0d1117 }
.waits { fill: #d29922 } .served { fill: #58a6ff } .held { fill: #ff7b72 }
}
";

/// The classes of bars, with what they stand for.
const LEGEND: [(&str, &str); 3] = [
    ("waits", "queued, not issued"),
    ("held", "held back by a plug or the scheduler"),
    ("served", "at the device"),
];

/// Time as it is drawn.
struct Scale {
    first_ns: u64,
    span_ns: f64,
    /// Unit of the labels on the time axis, in ns.
    unit_ns: f64,
    unit: &'static str,
}

impl Scale {
    fn new(first_ns: u64, last_ns: u64) -> Self {
        let span_ns = last_ns.saturating_sub(first_ns).max(1) as f64;
        let (unit_ns, unit) = match span_ns {
            span if span < 2e6 => (1e3, "us"),
            span if span < 2e9 => (1e6, "ms"),
            _ => (1e9, "seconds"),
        };
        Self {
            first_ns,
            // Room on the right, so that an end is seen as an end.
            span_ns: span_ns * 1.02,
            unit_ns,
            unit,
        }
    }

    fn x(&self, at_ns: u64) -> f64 {
        let since_ns = at_ns.saturating_sub(self.first_ns) as f64;
        (since_ns / self.span_ns).clamp(0.0, 1.0) * PLOT_WIDTH
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        let ticks = ticks(self.span_ns / self.unit_ns).into_iter();
        let x = |value: f64| value * self.unit_ns / self.span_ns * PLOT_WIDTH;
        ticks.map(|(value, text)| (x(value), text)).collect()
    }
}

pub fn of(analyzed: &Analyzed) -> String {
    let report = &analyzed.report;
    let mut by_device: BTreeMap<Device, Vec<&Request>> = BTreeMap::new();
    for request in &report.kept {
        by_device.entry(request.device).or_default().push(request);
    }
    let panels = by_device.len().clamp(1, PANELS_MAX);
    let height = (TOP + panels as f64 * PANEL_HEIGHT) as u32;
    let title = format!("Requests of {}", analyzed.source);
    let mut svg = Svg::new(WIDTH, height, &title, STYLE);
    let size: [(&str, &dyn Display); 3] =
        [("class", &"paper"), ("width", &WIDTH), ("height", &height)];
    svg.empty("rect", &size);
    label(&mut svg, (LEFT, 32.0), "start", "title", &title);
    legend(&mut svg);
    // A request may have been issued before the first event.
    let first_ns = report.kept.iter().map(Request::begin_ns).min();
    let (first, last_ns) = report.span_ns.unwrap_or((0, 0));
    let scale = Scale::new(first.min(first_ns.unwrap_or(first)), last_ns);
    for (index, (device, requests)) in by_device.iter().take(PANELS_MAX).enumerate() {
        group(&mut svg, LEFT, TOP + index as f64 * PANEL_HEIGHT);
        panel(&mut svg, *device, requests, &scale, analyzed);
        svg.end();
    }
    svg.finish()
}

fn legend(svg: &mut Svg) {
    let mut x = LEFT;
    for (class, words) in LEGEND {
        rect(svg, class, (x, 46.0), (12.0, 12.0), None);
        label(svg, (x + 18.0, 57.0), "start", "quiet", words);
        x += 44.0 + words.len() as f64 * 7.0;
    }
}

fn panel(svg: &mut Svg, device: Device, requests: &[&Request], scale: &Scale, all: &Analyzed) {
    let extents: Vec<Extent> = requests.iter().map(|request| extent(request)).collect();
    let positions = Positions::of(&extents, PLOT_HEIGHT, SECTOR_BYTES);
    let drawn = grouped(requests.len() as u64);
    let name = match all.report.not_kept {
        0 => format!("device {device}: {drawn} requests"),
        more => format!(
            "device {device}: {drawn} requests; {} later ones are not drawn",
            grouped(more)
        ),
    };
    label(svg, (0.0, -9.0), "start", "name", &name);
    for stretch in &positions.stretches {
        let size = (PLOT_WIDTH, stretch.height);
        rect(svg, "plot", (0.0, stretch.top()), size, None);
    }
    for (x, number) in scale.ticks() {
        let line = format!("M{} 0V{PLOT_HEIGHT}", rounded(x));
        svg.empty("path", &[("class", &"grid"), ("d", &line)]);
        label(svg, (x, PLOT_HEIGHT + 18.0), "middle", "quiet", &number);
    }
    for (y, number) in positions.ticks() {
        label(svg, (-7.0, y + 4.0), "end", "quiet", &number);
    }
    let unit = format!("{} since the beginning", scale.unit);
    let place = (PLOT_WIDTH / 2.0, PLOT_HEIGHT + 38.0);
    label(svg, place, "middle", "quiet", &unit);
    let turn = format!("translate(-104 {}) rotate(-90)", PLOT_HEIGHT / 2.0);
    let place: [(&str, &dyn Display); 3] = [
        ("class", &"quiet"),
        ("text-anchor", &"middle"),
        ("transform", &turn),
    ];
    svg.line("text", &place, "sector; what isn't used is left out");
    let (_, last_ns) = all.report.span_ns.unwrap_or((0, 0));
    for request in requests {
        bars(svg, request, scale, &positions, all.held_over_ns, last_ns);
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
    scale: &Scale,
    positions: &Positions,
    over_ns: u64,
    last_ns: u64,
) {
    let extent = extent(request);
    let top = positions.y(extent.offset_bytes + extent.length_bytes);
    let height = (positions.y(extent.offset_bytes) - top).max(BAR_HEIGHT_MIN);
    let done_ns = request.completed_ns.unwrap_or(last_ns);
    let issued_ns = request.issued_ns.unwrap_or(done_ns);
    let mut parts = vec![("waits", request.begin_ns(), issued_ns)];
    if let Some(hold) = request.held_by_plug(over_ns) {
        parts.push(("held", hold.since_ns, hold.until_ns));
    }
    if let Some(wait) = request.held_by_scheduler(over_ns) {
        parts.push(("held", wait.since_ns, wait.until_ns));
    }
    parts.push(("served", issued_ns, done_ns));
    let class = match height >= EDGE_HEIGHT_MIN {
        true => "bars edged",
        false => "bars",
    };
    svg.begin("g", &[("class", &class)]);
    svg.line("title", &[], &human::line(request, over_ns));
    for (class, from_ns, to_ns) in parts {
        let (from, to) = (scale.x(from_ns), scale.x(to_ns));
        // A step that took no time worth drawing would hide its neighbour.
        if to - from >= 0.1 || class == "served" {
            let size = ((to - from).max(BAR_WIDTH_MIN), height);
            rect(svg, class, (from, top), size, None);
        }
    }
    svg.end();
}
