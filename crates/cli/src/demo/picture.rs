// SPDX-License-Identifier: MIT OR Apache-2.0
//! The disk's requests over position and time: the kernel alone beside the replay.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use foreread_core::grouped;
use foreread_measure::cold::Start;
use foreread_model::Extent;
use foreread_testbed::TraceEntry;

use crate::picture::axis::{TimeAxis, rounded};
use crate::picture::frame::{self, Entry, Mark, Span};
use crate::picture::positions::Positions;
use crate::picture::svg::{Svg, group, label, rect};

/// Unit of positions on the disk, in bytes.
const MIB: u64 = 1 << 20;

/// The picture's size, and that of what is drawn into each panel.
const WIDTH: u32 = 960;
const HEIGHT: u32 = 520;
const PLOT: (f64, f64) = (400.0, 340.0);
const PLOT_TOP: f64 = 118.0;
const PLOT_LEFT: [f64; 2] = [80.0, 540.0];
const SPAN: Span = Span {
    left: PLOT_LEFT[0],
    width: 860.0,
};

/// Width of the second start where it is drawn once more, stretched, if it is short beside the
/// first.
const INSET_WIDTH: f64 = 300.0;
const INSET_LEFT: f64 = PLOT.0 - INSET_WIDTH;
const INSET_MARGIN: f64 = 18.0;

/// The stretched drawing is added if one start takes less than this share of the other's time.
const INSET_BELOW: f64 = 0.2;

/// Requests within the same square of this size, in units of the picture, are drawn once. That
/// keeps a picture of ten thousand requests small without a visible difference.
const SPOT: f64 = 1.0;

const STYLE: &str = "
.requests { stroke-width: 1.4 } .end { stroke-dasharray: 4 3 }
";

/// The class of the requests of each start.
const REQUESTS: [&str; 2] = ["requests line-vermilion", "requests line-blue"];

/// One side: a start with its requests.
pub struct Panel<'a> {
    /// How the program was started.
    pub name: &'a str,
    pub start: &'a Start,
}

/// Draws two starts of one program with the same scales.
pub fn picture(title: &str, panels: &[Panel; 2]) -> String {
    let reads = panels.iter().flat_map(|panel| &panel.start.trace);
    let extents: Vec<Extent> = reads.map(extent).collect();
    let positions = Positions::of(&extents, PLOT.1, MIB);
    let longest_ns = panels.iter().map(|panel| panel.start.wall_ns).max();
    let longest_ns = longest_ns.unwrap_or(0).max(1);
    let times = TimeAxis::new(0, longest_ns, PLOT.0);
    let mut svg = frame::titled(WIDTH, HEIGHT, SPAN.left, title, STYLE);
    let legend: [Entry; 3] = [
        (Mark::Line, REQUESTS[0], panels[0].name),
        (Mark::Line, REQUESTS[1], panels[1].name),
        (Mark::Line, "end line-quiet", "the program has ended"),
    ];
    frame::legend(&mut svg, SPAN, 56.0, &legend);
    for (index, panel) in panels.iter().enumerate() {
        group(&mut svg, PLOT_LEFT[index], PLOT_TOP);
        name(&mut svg, panel);
        let side = Side {
            start: panel.start,
            class: REQUESTS[index],
            positions: &positions,
        };
        side.draw(&mut svg, &times, PLOT.0);
        let share = panel.start.wall_ns as f64 / longest_ns as f64;
        let stretched = index == 1 && share < INSET_BELOW && !panel.start.trace.is_empty();
        let mut ticks = times.ticks();
        if stretched {
            ticks.retain(|tick| tick.at <= INSET_LEFT - INSET_MARGIN);
        }
        let unit = format!("{} since the start", times.unit);
        frame::axis_below(&mut svg, &ticks, PLOT, &unit);
        frame::numbers_left(&mut svg, positions.ticks());
        if index == 0 {
            let what = "position on the disk, MiB; what isn't read is left out";
            frame::name_left(&mut svg, 60.0, PLOT.1, what);
        }
        if stretched {
            side.inset(&mut svg);
        }
        svg.end();
    }
    svg.finish()
}

fn extent(read: &TraceEntry) -> Extent {
    Extent {
        offset_bytes: read.offset_bytes,
        length_bytes: read.length_bytes,
    }
}

fn name(svg: &mut Svg, panel: &Panel) {
    frame::name(svg, (0.0, -26.0), PLOT.0, panel.name);
    let seeks = match panel.start.disk.seeks {
        0 => String::new(),
        seeks => format!("{} seeks, ", grouped(seeks)),
    };
    let what = format!(
        "{} requests, {seeks}done after {:.2} s",
        grouped(panel.start.disk.requests),
        panel.start.wall_ns as f64 / 1e9
    );
    frame::note(svg, (0.0, -9.0), PLOT.0, &what);
}

/// A start as it is drawn.
struct Side<'a> {
    start: &'a Start,
    class: &'a str,
    positions: &'a Positions,
}

impl Side<'_> {
    /// The requests over their background, and where the program ended.
    fn draw(&self, svg: &mut Svg, times: &TimeAxis, width: f64) {
        for stretch in &self.positions.stretches {
            let size = (width, stretch.height);
            rect(svg, "plot", (0.0, stretch.top()), size, None);
        }
        frame::grid_upright(svg, &times.ticks(), PLOT.1);
        let spots = spots(self.start, times, self.positions);
        svg.empty("path", &[("class", &self.class), ("d", &spots)]);
        let end = rounded(times.at(self.start.wall_ns));
        let line = format!("M{end} 0V{}", PLOT.1);
        svg.empty("path", &[("class", &"end line-quiet"), ("d", &line)]);
    }

    /// The same start once more, over its own time.
    fn inset(&self, svg: &mut Svg) {
        let times = TimeAxis::new(0, self.start.wall_ns, INSET_WIDTH);
        group(svg, INSET_LEFT, 0.0);
        let size = (INSET_MARGIN + INSET_WIDTH + 1.0, PLOT.1 + 2.0);
        rect(svg, "paper", (-INSET_MARGIN, -1.0), size, None);
        self.draw(svg, &times, INSET_WIDTH);
        frame::numbers_below(svg, &times.ticks(), PLOT.1);
        let words = format!("the same, stretched, in {}", times.unit);
        label(svg, (8.0, 17.0), "start", "quiet", &words);
        svg.end();
    }
}

/// The requests as one path of short upright strokes, each at the time its request was done.
/// Strokes that touch are one.
fn spots(start: &Start, times: &TimeAxis, positions: &Positions) -> String {
    let mut columns: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
    for read in &start.trace {
        // Requests after the end of the program are not its own.
        let since_ns = read.done_ns.saturating_sub(start.began_ns);
        if since_ns > start.wall_ns {
            continue;
        }
        let top = positions.y(read.offset_bytes.saturating_add(read.length_bytes));
        let bottom = positions.y(read.offset_bytes);
        let spot = |value: f64| (value / SPOT).floor() as u32;
        let column = columns.entry(spot(times.at(since_ns))).or_default();
        column.push((spot(top), spot(bottom) + 1));
    }
    let mut path = String::new();
    for (x, mut strokes) in columns {
        strokes.sort_unstable();
        for (top, bottom) in joined(&strokes) {
            // Writing to a string can't fail.
            let _ = write!(path, "M{x} {top}v{}", bottom - top);
        }
    }
    path
}

/// Sorted strokes, those that touch or overlap as one.
fn joined(sorted: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut strokes: Vec<(u32, u32)> = Vec::new();
    for &(top, bottom) in sorted {
        match strokes.last_mut() {
            Some(last) if top <= last.1 => last.1 = last.1.max(bottom),
            _ => strokes.push((top, bottom)),
        }
    }
    strokes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::check::{assert_labels_fit, assert_well_formed};

    fn read(done_ns: u64, offset_bytes: u64, length_bytes: u64) -> TraceEntry {
        TraceEntry {
            arrived_ns: done_ns,
            started_ns: done_ns,
            done_ns,
            offset_bytes,
            length_bytes,
        }
    }

    fn start(wall_ns: u64, trace: Vec<TraceEntry>) -> Start {
        Start {
            wall_ns,
            processor_ns: 0,
            began_ns: 1_000,
            disk: foreread_model::Counters {
                requests: trace.len() as u64,
                ..Default::default()
            },
            trace,
            report: None,
        }
    }

    fn drawn(panels: [&Start; 2]) -> String {
        let [left, right] = panels.map(|start| Panel {
            name: "a < b",
            start,
        });
        picture("grep & others", &[left, right])
    }

    /// Every stroke of every path of requests: column, top, length.
    fn strokes(svg: &str) -> Vec<Vec<(f64, f64, f64)>> {
        // The first group is the legend.
        let (_, panels) = svg.split_once("</g>").unwrap();
        let paths = panels.split("class=\"requests line-").skip(1);
        let number = |text: &str| text.parse::<f64>().unwrap();
        paths
            .map(|path| {
                let path = path.split('"').nth(2).unwrap();
                let strokes = path.split('M').skip(1);
                strokes
                    .map(|stroke| {
                        let (x, rest) = stroke.split_once(' ').unwrap();
                        let (top, length) = rest.split_once('v').unwrap();
                        (number(x), number(top), number(length))
                    })
                    .collect()
            })
            .collect()
    }

    #[test]
    fn all_requests_lie_within_their_panel() {
        let far = 5 << 30;
        let many = (0..5_000).map(|i| read(1_000 + i * 7_919, (i * 104_729_003) % far, 131_072));
        let long = start(40_000_000, many.collect());
        // The last one was done after the program: it is left out.
        let short = start(
            1_000,
            vec![read(1_500, 0, far), read(9_999_999, 4096, 4096)],
        );
        let svg = drawn([&long, &short]);
        assert!(assert_well_formed(&svg) > 30);
        assert_labels_fit(&svg);
        let paths = strokes(&svg);
        // The short one is there once more, stretched.
        assert_eq!(paths.len(), 3);
        assert!(paths[0].len() > 3_000, "{}", paths[0].len());
        assert_eq!([paths[1].len(), paths[2].len()], [1, 1], "{paths:?}");
        for (x, top, length) in paths.into_iter().flatten() {
            assert!((0.0..=PLOT.0).contains(&x), "{x}");
            assert!(
                top >= 0.0 && top + length <= PLOT.1 + SPOT,
                "{top} {length}"
            );
            assert!(length >= 1.0);
        }
        assert!(svg.contains("position on the disk, MiB"));
    }

    #[test]
    fn requests_on_one_spot_are_drawn_once() {
        let trace = (0..10_000).map(|i| read(1_000 + i, 4096 * (i % 10), 4096));
        let dense = start(1_000_000_000, trace.collect());
        let other = start(1_000_000_000, vec![read(2_000, 1 << 30, 4096)]);
        assert_eq!(strokes(&drawn([&dense, &other]))[0].len(), 1);
    }

    #[test]
    fn nothing_to_draw_is_drawn_too() {
        let nothing = start(0, Vec::new());
        let svg = drawn([&nothing, &nothing]);
        assert_well_formed(&svg);
        assert_labels_fit(&svg);
        assert_eq!(strokes(&svg), [vec![], vec![]]);
    }
}
