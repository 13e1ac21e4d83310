// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small charts of a page: bars by run, a curve by size, a line over time. All have one size, so
//! that they are readable on a telephone and stand side by side on a wide screen.

use std::fmt::Write as _;

use foreread_device::Measured;

use crate::picture::axis::{Axis, Tick, rounded};
use crate::picture::frame::{self, dot};
use crate::picture::page::html;
use crate::picture::svg::{Svg, group, label, rect};

const WIDTH: u32 = 360;
const HEIGHT: u32 = 206;
const LEFT: f64 = 58.0;
const TOP: f64 = 22.0;
const PLOT: (f64, f64) = (284.0, 138.0);
/// Room above the highest value, as a share.
const HEADROOM: f64 = 1.08;
/// Widest bar, and the part of its place that a bar takes.
const BAR_MAX: f64 = 28.0;
const BAR_PART: f64 = 0.8;

/// A bar, from the bottom up.
pub struct Bar {
    /// Class and height of each part.
    pub parts: Vec<(&'static str, f64)>,
    /// It counts for less.
    pub is_pale: bool,
    /// For whoever points at it.
    pub title: String,
}

/// A chart of bars, numbered from 1.
pub struct Bars<'a> {
    pub about: &'a str,
    pub unit: &'a str,
    /// What is numbered.
    pub what: &'a str,
    pub bars: &'a [Bar],
    /// A height to hold bars against.
    pub median: Option<f64>,
}

impl Bars<'_> {
    /// The chart as a figure.
    pub fn figure(&self) -> String {
        let heights = self
            .bars
            .iter()
            .map(|bar| bar.parts.iter().map(|part| part.1).sum());
        let top = heights.fold(self.median.unwrap_or(0.0), f64::max);
        let up = Axis::linear(0.0, top * HEADROOM, PLOT.1);
        let mut svg = begin(self.about, self.unit, &up);
        let place = PLOT.0 / self.bars.len().max(1) as f64;
        let width = (place * BAR_PART).min(BAR_MAX);
        for (number, bar) in self.bars.iter().enumerate() {
            let x = place * (number as f64 + 0.5) - width / 2.0;
            draw(&mut svg, bar, x, width, &up);
        }
        if let Some(median) = self.median {
            let y = rounded(up.up(median));
            let line = format!("M0 {y}H{}", PLOT.0);
            svg.empty("path", &[("class", &"median line-quiet"), ("d", &line)]);
        }
        let numbers = (0..self.bars.len()).map(|number| Tick {
            at: place * (number as f64 + 0.5),
            text: (number + 1).to_string(),
        });
        frame::axis_below(&mut svg, &numbers.collect::<Vec<_>>(), PLOT, self.what);
        end(svg, self.about)
    }
}

fn draw(svg: &mut Svg, bar: &Bar, x: f64, width: f64, up: &Axis) {
    let class = if bar.is_pale { "pale" } else { "bar" };
    svg.begin("g", &[("class", &class)]);
    svg.line("title", &[], &bar.title);
    let mut below = 0.0;
    for (class, height) in &bar.parts {
        let (bottom, top) = (up.up(below), up.up(below + height));
        if bottom > top {
            rect(svg, class, (x, top), (width, bottom - top), None);
        }
        below += height;
    }
    svg.end();
}

/// Paper, grid and numbers on the left.
fn begin(about: &str, unit: &str, up: &Axis) -> Svg {
    let mut svg = Svg::part(WIDTH, HEIGHT, about);
    label(&mut svg, (4.0, 14.0), "start", "quiet", unit);
    group(&mut svg, LEFT, TOP);
    rect(&mut svg, "plot", (0.0, 0.0), PLOT, None);
    let ticks = up.ticks();
    frame::grid_across(&mut svg, &ticks, PLOT);
    let ticks = ticks.into_iter();
    frame::numbers_left(&mut svg, ticks.map(|tick| (PLOT.1 - tick.at, tick.text)));
    svg
}

fn end(svg: Svg, about: &str) -> String {
    let caption = html(about);
    format!(
        "<figure>\n{}<figcaption>{caption}</figcaption>\n</figure>\n",
        svg.finish()
    )
}

/// A curve of throughput by readahead size, with sizes marked: a class, a size in KiB, its name.
pub fn curve(about: &str, measured: &Measured, marks: &[(&'static str, u64, &str)]) -> String {
    let sizes = measured
        .sweep
        .iter()
        .map(|point| point.read_ahead_kib as f64);
    let (low, high) = (
        sizes.clone().reduce(f64::min).unwrap_or(1.0),
        sizes.fold(1.0, f64::max),
    );
    let best = measured
        .sweep
        .iter()
        .map(|point| point.bytes_per_s_high)
        .fold(1.0, f64::max);
    let across = Axis::log2(low, high, PLOT.0);
    let up = Axis::linear(0.0, best * HEADROOM / 1e6, PLOT.1);
    let mut svg = begin(about, "MB/s", &up);
    for (class, kib, name) in marks {
        let x = across.at(*kib as f64);
        if across.holds(*kib as f64) {
            let line = format!("M{} 0V{}", rounded(x), PLOT.1);
            svg.begin("g", &[]);
            svg.line("title", &[], name);
            svg.empty("path", &[("class", class), ("d", &line)]);
            svg.end();
        }
    }
    let (mut path, mut ranges) = (String::new(), String::new());
    for point in &measured.sweep {
        let x = rounded(across.at(point.read_ahead_kib as f64));
        let y = |bytes_per_s: f64| rounded(up.up(bytes_per_s / 1e6));
        let pen = if path.is_empty() { 'M' } else { 'L' };
        // Writing to a string can't fail.
        let _ = write!(path, "{pen}{x} {}", y(point.bytes_per_s));
        let (low, high) = (y(point.bytes_per_s_low), y(point.bytes_per_s_high));
        let _ = write!(ranges, "M{x} {low}V{high}");
    }
    svg.empty("path", &[("class", &"curve line-blue"), ("d", &path)]);
    svg.empty("path", &[("class", &"line-blue"), ("d", &ranges)]);
    for point in &measured.sweep {
        let at = (
            across.at(point.read_ahead_kib as f64),
            up.up(point.bytes_per_s / 1e6),
        );
        dot(&mut svg, "fill-blue", at, 3.0);
    }
    let mut ticks = across.ticks();
    ticks.retain(|tick| !tick.text.is_empty());
    frame::axis_below(&mut svg, &ticks, PLOT, "readahead, KiB");
    end(svg, about)
}

/// What is needed over time: points of time in seconds and of a sum, which only grows.
pub fn growth(about: &str, unit: &str, points: &[(f64, f64)]) -> String {
    let last = points.last().copied().unwrap_or((0.0, 0.0));
    let across = Axis::linear(0.0, last.0, PLOT.0);
    let up = Axis::linear(0.0, last.1 * HEADROOM, PLOT.1);
    let mut svg = begin(about, unit, &up);
    let mut path = format!("M0 {}", PLOT.1);
    let mut before = (0.0, PLOT.1);
    for (seconds, sum) in points {
        let at = (rounded(across.at(*seconds)), rounded(up.up(*sum)));
        if at != before {
            let _ = write!(path, "H{}V{}", at.0, at.1);
            before = at;
        }
    }
    svg.empty("path", &[("class", &"curve line-blue"), ("d", &path)]);
    frame::axis_below(&mut svg, &across.ticks(), PLOT, "seconds since the start");
    end(svg, about)
}

#[cfg(test)]
mod tests {
    use foreread_device::SweepPoint;

    use super::*;
    use crate::picture::check::{assert_labels_fit, assert_well_formed};

    fn assert_good(figure: &str) {
        assert_well_formed(figure);
        assert_labels_fit(figure);
    }

    fn bars(count: usize, height: f64) -> Vec<Bar> {
        let bar = |number: usize| Bar {
            parts: vec![("fill-blue", height * number as f64), ("fill-grey", height)],
            is_pale: number.is_multiple_of(2),
            title: "<b>".to_owned(),
        };
        (0..count).map(bar).collect()
    }

    #[test]
    fn bars_of_any_number_and_height_stay_in_their_chart() {
        for (count, height) in [(0, 1.0), (1, 0.0), (5, 0.001), (64, 1e9)] {
            let bars = bars(count, height);
            let chart = Bars {
                about: "time by run",
                unit: "s",
                what: "run",
                bars: &bars,
                median: Some(height),
            };
            assert_good(&chart.figure());
        }
    }

    #[test]
    fn curves_and_growth_stay_in_their_chart() {
        let point = |kib, rate| SweepPoint {
            read_ahead_kib: kib,
            bytes_per_s: rate,
            bytes_per_s_low: rate * 0.9,
            bytes_per_s_high: rate * 1.1,
            passes: 3,
        };
        let measured = |sweep| Measured {
            identity: foreread_device::Identity::default(),
            unix_s: 0,
            sweep,
            plateau_kib: 128,
            certain: true,
            request_cost_ns: 1.0,
            bandwidth_bytes_per_s: 1.0,
            latency_ns: None,
            speed_up: None,
        };
        for sweep in [
            vec![],
            vec![point(4, 0.0)],
            (2..15)
                .map(|at| point(1 << at, 1e8 * f64::from(at)))
                .collect(),
        ] {
            assert_good(&curve(
                "a",
                &measured(sweep),
                &[("line-green", 128, "plateau")],
            ));
        }
        assert_good(&growth("a", "MiB", &[]));
        assert_good(&growth("a", "MiB", &[(0.1, 3.0), (0.4, 9.0)]));
    }
}
