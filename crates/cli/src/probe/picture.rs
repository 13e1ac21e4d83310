// SPDX-License-Identifier: MIT OR Apache-2.0
//! Throughput over readahead size, as SVG.

use std::fmt::{Display, Write as _};

use foreread_core::KiB;
use foreread_device::{PLATEAU_SHARE, SweepPoint};

use super::found::{Found, size};
use super::human::megabytes;
use crate::axes::{rounded, ticks};
use crate::svg::Svg;

const WIDTH: u32 = 800;
const HEIGHT: u32 = 430;
const LEFT: f64 = 72.0;
const TOP: f64 = 78.0;
const PLOT_WIDTH: f64 = 696.0;
const PLOT_HEIGHT: f64 = 280.0;
/// Room above the best, as a share.
const HEADROOM: f64 = 1.12;

const STYLE: &str = "
.line { stroke: #0969da; stroke-width: 2; fill: none } .dot { fill: #0969da }
.range { stroke: #0969da; stroke-width: 1.5; fill: none } .direct { fill: none; stroke: #8250df }
.within { fill: #0969da; opacity: 0.12 } .plateau { stroke: #1a7f37; stroke-width: 1.5 }
.plateau-name { fill: #1a7f37; font-weight: 600 }
.before { stroke: #59636e; stroke-dasharray: 4 3 }
@media (prefers-color-scheme: dark) {
.line, .range { stroke: #58a6ff } .dot, .within { fill: #58a6ff } .direct { stroke: #a371f7 }
.plateau { stroke: #3fb950 } .plateau-name { fill: #3fb950 } .before { stroke: #9198a1 }
}
";

/// Where sizes and throughputs lie.
struct Scale {
    /// log2 of the smallest size; the axis of sizes is logarithmic.
    low_log2: f64,
    steps: f64,
    top_bytes_per_s: f64,
}

/// Other sizes for the device, in KiB.
#[derive(Clone, Copy, Debug, Default)]
pub struct Marks {
    /// Upper bound from the capacity of the device.
    pub capacity_cap_kib: Option<u64>,
    /// Size that `advise` gives, with this probe taken into account.
    pub advised_kib: Option<u64>,
}

pub fn picture(found: &Found, marks: Marks) -> String {
    let title = format!("Throughput of {} by readahead size", found.identity.name);
    let mut svg = Svg::new(WIDTH, HEIGHT, &title, STYLE);
    let paper: [(&str, &dyn Display); 3] =
        [("class", &"paper"), ("width", &WIDTH), ("height", &HEIGHT)];
    svg.empty("rect", &paper);
    let place: [(&str, &dyn Display); 3] = [("class", &"title"), ("x", &LEFT), ("y", &32)];
    svg.line("text", &place, &title);
    let place: [(&str, &dyn Display); 3] = [("class", &"quiet"), ("x", &LEFT), ("y", &52)];
    svg.line("text", &place, &subtitle(found));
    let scale = Scale::of(found);
    let translate = format!("translate({LEFT} {TOP})");
    svg.begin("g", &[("transform", &translate)]);
    background(&mut svg, found, &scale);
    upright(&mut svg, &scale, found.before_kib, "before", "set now", 2.0);
    let others = [
        (marks.advised_kib, "advised", 3.0),
        (marks.capacity_cap_kib, "capacity cap", 4.0),
    ];
    for (kib, name, line) in others {
        if let Some(kib) = kib {
            upright(&mut svg, &scale, kib, "before", name, line);
        }
    }
    let plateau_kib = found.plateau.read_ahead.count();
    upright(&mut svg, &scale, plateau_kib, "plateau", "plateau", 1.0);
    curve(&mut svg, found, &scale);
    svg.end();
    svg.finish()
}

fn subtitle(found: &Found) -> String {
    let sure = if found.plateau.is_certain() {
        ""
    } else {
        ", not certain"
    };
    format!(
        "4 KiB reads through the page cache; the plateau is {}{sure}; the best is {} MB/s",
        size(found.plateau.read_ahead),
        megabytes(found.best_bytes_per_s())
    )
}

impl Scale {
    fn of(found: &Found) -> Self {
        let sizes = found
            .points
            .iter()
            .map(|point| point.read_ahead_kib.max(1) as f64);
        let low = sizes.clone().fold(f64::MAX, f64::min).log2();
        let high = sizes.fold(1.0, f64::max).log2();
        let direct = found.direct.iter().map(|point| point.bytes_per_s);
        let best = direct.fold(found.best_bytes_per_s(), f64::max);
        Self {
            low_log2: low,
            steps: (high - low).max(1.0),
            top_bytes_per_s: best.max(1.0) * HEADROOM,
        }
    }

    /// Half a step of room on both sides.
    fn x(&self, kib: u64) -> f64 {
        let steps = (kib.max(1) as f64).log2() - self.low_log2;
        (steps + 0.5) / (self.steps + 1.0) * PLOT_WIDTH
    }

    fn y(&self, bytes_per_s: f64) -> f64 {
        PLOT_HEIGHT * (1.0 - (bytes_per_s / self.top_bytes_per_s).clamp(0.0, 1.0))
    }
}

/// The plot, the band within 2 % of the best, the grid and its numbers.
fn background(svg: &mut Svg, found: &Found, scale: &Scale) {
    let plot: [(&str, &dyn Display); 3] = [
        ("class", &"plot"),
        ("width", &PLOT_WIDTH),
        ("height", &PLOT_HEIGHT),
    ];
    svg.empty("rect", &plot);
    let best = found.best_bytes_per_s();
    let (top, bottom) = (scale.y(best), scale.y(best * PLATEAU_SHARE));
    let band: [(&str, &dyn Display); 4] = [
        ("class", &"within"),
        ("y", &rounded(top)),
        ("width", &PLOT_WIDTH),
        ("height", &rounded((bottom - top).max(1.0))),
    ];
    svg.empty("rect", &band);
    let mut grid = String::new();
    for (megabytes, text) in ticks(scale.top_bytes_per_s / 1e6) {
        let y = rounded(scale.y(megabytes * 1e6));
        // Writing to a string can't fail.
        let _ = write!(grid, "M0 {y}H{PLOT_WIDTH}");
        label(svg, -8.0, y + 4.0, "end", "quiet", &text);
    }
    svg.empty("path", &[("class", &"grid"), ("d", &grid)]);
    for point in &found.points {
        let name = size(KiB::new(point.read_ahead_kib))
            .replace(" KiB", "K")
            .replace(" MiB", "M");
        let x = scale.x(point.read_ahead_kib);
        label(svg, x, PLOT_HEIGHT + 18.0, "middle", "quiet", &name);
    }
    let middle = PLOT_WIDTH / 2.0;
    let below = PLOT_HEIGHT + 42.0;
    label(svg, middle, below, "middle", "quiet", "readahead");
    let turn = format!("translate(-54 {}) rotate(-90)", PLOT_HEIGHT / 2.0);
    let place: [(&str, &dyn Display); 3] = [
        ("class", &"quiet"),
        ("text-anchor", &"middle"),
        ("transform", &turn),
    ];
    svg.line("text", &place, "MB/s");
}

/// A line at a size, with its name in the line of that number above the bottom.
fn upright(svg: &mut Svg, scale: &Scale, kib: u64, class: &str, name: &str, line: f64) {
    let x = scale.x(kib);
    if !(0.0..=PLOT_WIDTH).contains(&x) {
        return;
    }
    let path = format!("M{} 0V{PLOT_HEIGHT}", rounded(x));
    svg.empty("path", &[("class", &class), ("d", &path)]);
    // On the side with more room.
    let right = x < PLOT_WIDTH * 0.8;
    let (x, anchor) = if right {
        (x + 6.0, "start")
    } else {
        (x - 6.0, "end")
    };
    let class = if class == "plateau" {
        "plateau-name"
    } else {
        "quiet"
    };
    label(svg, x, PLOT_HEIGHT + 8.0 - line * 18.0, anchor, class, name);
}

fn curve(svg: &mut Svg, found: &Found, scale: &Scale) {
    let mut path = String::new();
    let mut ranges = String::new();
    let at = |point: &SweepPoint| (rounded(scale.x(point.read_ahead_kib)), point.bytes_per_s);
    for point in &found.points {
        let (x, rate) = at(point);
        let pen = if path.is_empty() { 'M' } else { 'L' };
        let _ = write!(path, "{pen}{x} {}", rounded(scale.y(rate)));
        let low = rounded(scale.y(point.bytes_per_s_low));
        let high = rounded(scale.y(point.bytes_per_s_high));
        let _ = write!(ranges, "M{x} {low}V{high}");
    }
    svg.empty("path", &[("class", &"line"), ("d", &path)]);
    svg.empty("path", &[("class", &"range"), ("d", &ranges)]);
    for point in &found.points {
        let (x, rate) = at(point);
        dot(svg, "dot", x, scale.y(rate));
    }
    for point in &found.direct {
        dot(
            svg,
            "direct",
            scale.x(point.read_ahead.count()),
            scale.y(point.bytes_per_s),
        );
    }
    if let Some(last) = found.direct.last() {
        let (x, y) = (scale.x(last.read_ahead.count()), scale.y(last.bytes_per_s));
        label(svg, x + 20.0, y + 20.0, "end", "quiet", "direct");
    }
}

fn dot(svg: &mut Svg, class: &str, x: f64, y: f64) {
    let place: [(&str, &dyn Display); 4] = [
        ("class", &class),
        ("cx", &rounded(x)),
        ("cy", &rounded(y)),
        ("r", &3.5),
    ];
    svg.empty("circle", &place);
}

fn label(svg: &mut Svg, x: f64, y: f64, anchor: &str, class: &str, text: &str) {
    let place: [(&str, &dyn Display); 4] = [
        ("class", &class),
        ("x", &rounded(x)),
        ("y", &rounded(y)),
        ("text-anchor", &anchor),
    ];
    svg.line("text", &place, text);
}

#[cfg(test)]
mod tests {
    use foreread_device::{Identity, Plateau};
    use foreread_linux_sizing::probe::Kind;
    use std::time::Duration;

    use super::super::found::DirectPoint;
    use super::*;
    use crate::svg::assert_well_formed;

    fn found(rates: &[(u64, f64)]) -> Found {
        let points = rates.iter().map(|(kib, rate)| SweepPoint {
            read_ahead_kib: *kib,
            bytes_per_s: *rate,
            bytes_per_s_low: rate * 0.9,
            bytes_per_s_high: rate * 1.1,
            passes: 3,
        });
        Found {
            identity: Identity {
                name: "sd<a>".to_owned(),
                ..Identity::default()
            },
            kind: Kind::Device,
            path: "/dev/sda".to_owned(),
            pieces: None,
            before_kib: 128,
            request_max_kib: 512,
            points: points.collect(),
            skipped: Vec::new(),
            is_complete: true,
            plateau: Plateau {
                read_ahead: KiB::new(rates[0].0),
                best: KiB::new(rates[0].0),
                as_good: Vec::new(),
                open: Vec::new(),
            },
            fit: None,
            latency: None,
            direct: vec![DirectPoint {
                read_ahead: KiB::new(rates[0].0),
                bytes_per_s: rates[0].1,
            }],
            readers: Vec::new(),
            elapsed: Duration::ZERO,
            read_errors: 0,
            is_interrupted: false,
            notes: Vec::new(),
        }
    }

    #[test]
    fn all_points_lie_in_the_plot() {
        let rates: Vec<(u64, f64)> = (2..15)
            .map(|power| (1 << power, 1e6 * power as f64))
            .collect();
        let marks = Marks {
            capacity_cap_kib: Some(64),
            advised_kib: Some(0),
        };
        let svg = picture(&found(&rates), marks);
        // No reads of nothing are drawn.
        assert!(svg.contains("capacity cap") && !svg.contains("advised"));
        assert!(assert_well_formed(&svg) > 40);
        for part in svg.split("cx=\"").skip(1) {
            let x: f64 = part.split('"').next().unwrap().parse().unwrap();
            assert!((0.0..=PLOT_WIDTH).contains(&x), "{x}");
        }
        assert_eq!(svg.matches("class=\"dot\"").count(), 13);
        assert!(svg.contains("set now") && svg.contains("&lt;a&gt;"));
    }

    #[test]
    fn odd_numbers_are_drawn_too() {
        for rates in [&[(4, 0.0)][..], &[(4, 1e30), (1 << 20, 1.0)]] {
            let svg = picture(&found(rates), Marks::default());
            assert_well_formed(&svg);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
