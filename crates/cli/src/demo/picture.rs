// SPDX-License-Identifier: MIT OR Apache-2.0
//! The disk's requests over position and time: the kernel alone beside the replay.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

use foreread_core::grouped;
use foreread_measure::cold::Start;
use foreread_model::Extent;
use foreread_testbed::TraceEntry;

use crate::axes::{rounded, ticks};
use crate::positions::Positions;
use crate::svg::Svg;

/// Unit of positions on the disk, in bytes.
const MIB: u64 = 1 << 20;

/// The picture's size, and that of what is drawn into each panel.
const WIDTH: u32 = 960;
const HEIGHT: u32 = 490;
const PLOT: Plot = Plot {
    width: 400.0,
    height: 340.0,
};
const PLOT_TOP: f64 = 86.0;
const PLOT_LEFT: [f64; 2] = [72.0, 532.0];

/// Where the second start is drawn once more, stretched, if it is short beside the first.
const INSET: Plot = Plot {
    width: 300.0,
    height: PLOT.height,
};

const INSET_LEFT: f64 = PLOT.width - INSET.width;
const INSET_MARGIN: f64 = 18.0;

/// The stretched drawing is added if one start takes less than this share of the other's time.
const INSET_BELOW: f64 = 0.2;

/// Requests within the same square of this size, in units of the picture, are drawn once. That
/// keeps a picture of ten thousand requests small without a visible difference.
const SPOT: f64 = 1.0;

const STYLE: &str = "
.requests { stroke: #cf222e; fill: none; stroke-width: 1.4 }
.replay .requests { stroke: #0969da }
.end { stroke: #59636e; stroke-dasharray: 4 3; fill: none }
@media (prefers-color-scheme: dark) {
.requests { stroke: #ff7b72 } .replay .requests { stroke: #58a6ff } .end { stroke: #9198a1 }
}
";

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
    let positions = Positions::of(&extents, PLOT.height, MIB);
    let longest_ns = panels.iter().map(|panel| panel.start.wall_ns).max();
    let scale = Scale::new(longest_ns.unwrap_or(0), PLOT);
    let mut svg = Svg::new(WIDTH, HEIGHT, title, STYLE);
    let size: [(&str, &dyn Display); 3] =
        [("class", &"paper"), ("width", &WIDTH), ("height", &HEIGHT)];
    svg.empty("rect", &size);
    let place: [(&str, &dyn Display); 3] = [("class", &"title"), ("x", &PLOT_LEFT[0]), ("y", &32)];
    svg.line("text", &place, title);
    for (index, panel) in panels.iter().enumerate() {
        let class = if index == 0 { "kernel" } else { "replay" };
        begin_at(&mut svg, class, PLOT_LEFT[index], PLOT_TOP);
        name(&mut svg, panel);
        draw(&mut svg, panel.start, &scale, &positions);
        let share = panel.start.wall_ns as f64 / scale.time_ns;
        let stretched = index == 1 && share < INSET_BELOW && !panel.start.trace.is_empty();
        let free = if stretched {
            INSET_LEFT - INSET_MARGIN
        } else {
            PLOT.width
        };
        axes(&mut svg, &scale, &positions, free);
        if index == 0 {
            position_name(&mut svg);
        }
        if stretched {
            inset(&mut svg, panel.start, &positions);
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

fn begin_at(svg: &mut Svg, class: &str, x: f64, y: f64) {
    let translate = format!("translate({x} {y})");
    svg.begin("g", &[("class", &class), ("transform", &translate)]);
}

fn name(svg: &mut Svg, panel: &Panel) {
    let place: [(&str, &dyn Display); 3] = [("class", &"name"), ("x", &0), ("y", &-26)];
    svg.line("text", &place, panel.name);
    let seeks = match panel.start.disk.seeks {
        0 => String::new(),
        seeks => format!("{} seeks, ", grouped(seeks)),
    };
    let what = format!(
        "{} requests, {seeks}done after {:.2} s",
        grouped(panel.start.disk.requests),
        panel.start.wall_ns as f64 / 1e9
    );
    let place: [(&str, &dyn Display); 3] = [("class", &"quiet"), ("x", &0), ("y", &-9)];
    svg.line("text", &place, &what);
}

/// The requests over their background, and where the program ended.
fn draw(svg: &mut Svg, start: &Start, scale: &Scale, positions: &Positions) {
    for stretch in &positions.stretches {
        let height = rounded(stretch.height);
        let top = rounded(stretch.top());
        let place: [(&str, &dyn Display); 4] = [
            ("class", &"plot"),
            ("y", &top),
            ("width", &scale.plot.width),
            ("height", &height),
        ];
        svg.empty("rect", &place);
    }
    let lines: String = scale
        .ticks()
        .iter()
        .map(|(x, _)| format!("M{} 0V{}", rounded(*x), scale.plot.height))
        .collect();
    svg.empty("path", &[("class", &"grid"), ("d", &lines)]);
    let spots = spots(start, scale, positions);
    svg.empty("path", &[("class", &"requests"), ("d", &spots)]);
    let end = rounded(scale.x(start.wall_ns));
    let line = format!("M{end} 0V{}", scale.plot.height);
    svg.empty("path", &[("class", &"end"), ("d", &line)]);
}

/// The numbers at both axes; those of time as far as `free`.
fn axes(svg: &mut Svg, scale: &Scale, positions: &Positions, free: f64) {
    time_numbers(svg, scale, free);
    for (y, text) in positions.ticks() {
        label(svg, -7.0, y + 4.0, "end", &text);
    }
    let below = PLOT.height + 40.0;
    label(
        svg,
        PLOT.width / 2.0,
        below,
        "middle",
        "seconds since the start",
    );
}

fn time_numbers(svg: &mut Svg, scale: &Scale, free: f64) {
    for (x, text) in scale.ticks() {
        if x <= free {
            label(svg, x, PLOT.height + 18.0, "middle", &text);
        }
    }
}

fn position_name(svg: &mut Svg) {
    let turn = format!("translate(-52 {}) rotate(-90)", PLOT.height / 2.0);
    let place: [(&str, &dyn Display); 3] = [
        ("class", &"quiet"),
        ("text-anchor", &"middle"),
        ("transform", &turn),
    ];
    svg.line(
        "text",
        &place,
        "position on the disk, MiB; what isn't read is left out",
    );
}

/// The same start once more, over its own time.
fn inset(svg: &mut Svg, start: &Start, positions: &Positions) {
    let scale = Scale::new(start.wall_ns, INSET);
    begin_at(svg, "inset", INSET_LEFT, 0.0);
    let place: [(&str, &dyn Display); 5] = [
        ("class", &"paper"),
        ("x", &-INSET_MARGIN),
        ("y", &-1),
        ("width", &(INSET_MARGIN + INSET.width + 1.0)),
        ("height", &(INSET.height + 2.0)),
    ];
    svg.empty("rect", &place);
    draw(svg, start, &scale, positions);
    time_numbers(svg, &scale, INSET.width);
    label(svg, 8.0, 17.0, "start", "the same, stretched");
    svg.end();
}

fn label(svg: &mut Svg, x: f64, y: f64, anchor: &str, text: &str) {
    let (x, y) = (rounded(x), rounded(y));
    let place: [(&str, &dyn Display); 4] = [
        ("class", &"quiet"),
        ("x", &x),
        ("y", &y),
        ("text-anchor", &anchor),
    ];
    svg.line("text", &place, text);
}

/// Size of a plot, in pixels.
#[derive(Clone, Copy)]
struct Plot {
    width: f64,
    height: f64,
}

/// The scale of time.
struct Scale {
    time_ns: f64,
    plot: Plot,
}

impl Scale {
    fn new(longest_ns: u64, plot: Plot) -> Self {
        Self {
            // Room on the right, so that the end is seen as an end.
            time_ns: longest_ns.max(1) as f64 * 1.03,
            plot,
        }
    }

    fn x(&self, since_ns: u64) -> f64 {
        (since_ns as f64 / self.time_ns).clamp(0.0, 1.0) * self.plot.width
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        let seconds = ticks(self.time_ns / 1e9).into_iter();
        seconds
            .map(|(value, text)| (value * 1e9 / self.time_ns * self.plot.width, text))
            .collect()
    }
}

/// The requests as one path of short upright strokes, each at the time its request was done.
/// Strokes that touch are one.
fn spots(start: &Start, scale: &Scale, positions: &Positions) -> String {
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
        let column = columns.entry(spot(scale.x(since_ns))).or_default();
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
    use crate::svg::assert_well_formed;

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
        let paths = svg.split("class=\"requests\" d=\"").skip(1);
        let number = |text: &str| text.parse::<f64>().unwrap();
        paths
            .map(|path| {
                let path = path.split('"').next().unwrap();
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
        let paths = strokes(&svg);
        // The short one is there once more, stretched.
        assert_eq!(paths.len(), 3);
        assert!(paths[0].len() > 3_000, "{}", paths[0].len());
        assert_eq!([paths[1].len(), paths[2].len()], [1, 1], "{paths:?}");
        for (x, top, length) in paths.into_iter().flatten() {
            assert!((0.0..=PLOT.width).contains(&x), "{x}");
            assert!(
                top >= 0.0 && top + length <= PLOT.height + SPOT,
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
        assert_eq!(strokes(&svg), [vec![], vec![]]);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
