// SPDX-License-Identifier: MIT OR Apache-2.0
//! Throughput over readahead size, as SVG.

use std::fmt::{Display, Write as _};

use foreread_core::KiB;
use foreread_device::{PLATEAU_SHARE, SweepPoint};

use super::found::{Found, size};
use super::human::megabytes;
use crate::picture::axis::{Axis, Tick, rounded};
use crate::picture::frame::{self, Entry, Mark, Span};
use crate::picture::svg::{Svg, group, label, rect};

const WIDTH: u32 = 800;
const HEIGHT: u32 = 456;
const SPAN: Span = Span {
    left: 72.0,
    width: 696.0,
};
const TOP: f64 = 104.0;
const PLOT: (f64, f64) = (SPAN.width, 280.0);
/// Room above the best, as a share.
const HEADROOM: f64 = 1.12;

const STYLE: &str = "
.curve { stroke-width: 2 } .range { stroke-width: 1.5 } .within { opacity: 0.16 }
.plateau { stroke-width: 1.5 } .plateau-name { font-weight: 600 }
.before { stroke-dasharray: 4 3 } .direct { stroke-width: 1.5 }
";

/// Other sizes for the device, in KiB.
#[derive(Clone, Copy, Debug, Default)]
pub struct Marks {
    /// Upper bound from the capacity of the device.
    pub capacity_cap_kib: Option<u64>,
    /// Size that `advise` gives, with this probe taken into account.
    pub advised_kib: Option<u64>,
}

/// Where sizes and throughputs lie.
struct Scale {
    kib: Axis,
    megabytes_per_s: Axis,
}

pub fn picture(found: &Found, marks: Marks) -> String {
    let title = format!("Throughput of {} by readahead size", found.identity.name);
    let mut svg = frame::titled(WIDTH, HEIGHT, SPAN.left, &title, STYLE);
    frame::note(&mut svg, (SPAN.left, 54.0), SPAN.width, &subtitle(found));
    frame::legend(&mut svg, SPAN, 80.0, legend(found));
    let scale = Scale::of(found);
    group(&mut svg, SPAN.left, TOP);
    background(&mut svg, found, &scale);
    let now = found.before_kib;
    upright(&mut svg, &scale, now, "before line-quiet", "set now", 2.0);
    let others = [
        (marks.advised_kib, "advised", 3.0),
        (marks.capacity_cap_kib, "capacity cap", 4.0),
    ];
    for (kib, name, line) in others {
        if let Some(kib) = kib {
            upright(&mut svg, &scale, kib, "before line-quiet", name, line);
        }
    }
    let plateau_kib = found.plateau.read_ahead.count();
    let class = "plateau line-green";
    upright(&mut svg, &scale, plateau_kib, class, "plateau", 1.0);
    curve(&mut svg, found, &scale);
    svg.end();
    svg.finish()
}

fn legend(found: &Found) -> &'static [Entry<'static>] {
    const ENTRIES: [Entry; 3] = [
        (
            Mark::Line,
            "curve line-blue",
            "through the page cache, with its range",
        ),
        (Mark::Fill, "within fill-blue", "within 2 % of the best"),
        (Mark::Dot, "direct line-purple", "direct reads"),
    ];
    match found.direct.is_empty() {
        true => &ENTRIES[..2],
        false => &ENTRIES,
    }
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
        let sizes = found.points.iter().map(|point| point.read_ahead_kib as f64);
        let low = sizes.clone().fold(f64::MAX, f64::min);
        let high = sizes.fold(1.0, f64::max);
        let direct = found.direct.iter().map(|point| point.bytes_per_s);
        let best = direct.fold(found.best_bytes_per_s(), f64::max);
        Self {
            kib: Axis::log2(low, high, PLOT.0),
            megabytes_per_s: Axis::linear(0.0, best.max(1.0) * HEADROOM / 1e6, PLOT.1),
        }
    }

    fn x(&self, kib: u64) -> f64 {
        self.kib.at(kib as f64)
    }

    fn y(&self, bytes_per_s: f64) -> f64 {
        self.megabytes_per_s.up(bytes_per_s / 1e6)
    }
}

/// The plot, the band within 2 % of the best, the grid and its numbers.
fn background(svg: &mut Svg, found: &Found, scale: &Scale) {
    rect(svg, "plot", (0.0, 0.0), PLOT, None);
    let best = found.best_bytes_per_s();
    let (top, bottom) = (scale.y(best), scale.y(best * PLATEAU_SHARE));
    let band = (PLOT.0, (bottom - top).max(1.0));
    rect(svg, "within fill-blue", (0.0, top), band, None);
    let rates = scale.megabytes_per_s.ticks();
    frame::grid_across(svg, &rates, PLOT);
    let rates = rates.into_iter();
    frame::numbers_left(svg, rates.map(|tick| (PLOT.1 - tick.at, tick.text)));
    frame::name_left(svg, 54.0, PLOT.1, "MB/s");
    let sizes = found.points.iter().map(|point| Tick {
        at: scale.x(point.read_ahead_kib),
        text: size(KiB::new(point.read_ahead_kib))
            .replace(" KiB", "K")
            .replace(" MiB", "M"),
    });
    frame::axis_below(svg, &sizes.collect::<Vec<_>>(), PLOT, "readahead size");
}

/// A line at a size, with its name in the line of that number above the bottom.
fn upright(svg: &mut Svg, scale: &Scale, kib: u64, class: &str, name: &str, line: f64) {
    if !scale.kib.holds(kib as f64) {
        return;
    }
    let x = scale.x(kib);
    let path = format!("M{} 0V{}", rounded(x), PLOT.1);
    svg.empty("path", &[("class", &class), ("d", &path)]);
    // On the side with more room.
    let (x, anchor) = match x < PLOT.0 * 0.8 {
        true => (x + 6.0, "start"),
        false => (x - 6.0, "end"),
    };
    let class = match name {
        "plateau" => "plateau-name fill-green",
        _ => "quiet",
    };
    let at = (x, PLOT.1 + 8.0 - line * 18.0);
    label(svg, at, anchor, class, name);
}

fn curve(svg: &mut Svg, found: &Found, scale: &Scale) {
    let mut path = String::new();
    let mut ranges = String::new();
    let at = |point: &SweepPoint| (rounded(scale.x(point.read_ahead_kib)), point.bytes_per_s);
    for point in &found.points {
        let (x, rate) = at(point);
        let pen = if path.is_empty() { 'M' } else { 'L' };
        // Writing to a string can't fail.
        let _ = write!(path, "{pen}{x} {}", rounded(scale.y(rate)));
        let low = rounded(scale.y(point.bytes_per_s_low));
        let high = rounded(scale.y(point.bytes_per_s_high));
        let _ = write!(ranges, "M{x} {low}V{high}");
    }
    let lines: [(&str, &dyn Display); 2] = [("curve", &path), ("range", &ranges)];
    for (class, d) in lines {
        let class = format!("{class} line-blue");
        svg.empty("path", &[("class", &class), ("d", d)]);
    }
    for point in &found.points {
        let (x, rate) = at(point);
        frame::dot(svg, "dot fill-blue", (x, scale.y(rate)), 3.5);
    }
    for point in &found.direct {
        let at = (
            scale.x(point.read_ahead.count()),
            scale.y(point.bytes_per_s),
        );
        frame::dot(svg, "direct line-purple", at, 3.5);
    }
}

#[cfg(test)]
mod tests {
    use foreread_device::{Identity, Plateau};
    use foreread_linux_sizing::probe::Kind;
    use std::time::Duration;

    use super::super::found::DirectPoint;
    use super::*;
    use crate::picture::check::{assert_labels_fit, assert_well_formed, texts};

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
        assert_labels_fit(&svg);
        for part in svg.split("class=\"dot fill-blue\" cx=\"").skip(1) {
            let x: f64 = part.split('"').next().unwrap().parse().unwrap();
            assert!((0.0..=PLOT.0).contains(&x), "{x}");
        }
        assert_eq!(svg.matches("class=\"dot fill-blue\"").count(), 13);
        let names = texts(&svg);
        for (_, _, words) in legend(&found(&rates)) {
            assert!(names.iter().any(|name| name == words), "{words}");
        }
        assert!(svg.contains("set now") && svg.contains("&lt;a&gt;"));
    }

    #[test]
    fn odd_numbers_are_drawn_too() {
        for rates in [&[(4, 0.0)][..], &[(4, 1e30), (1 << 20, 1.0)]] {
            let svg = picture(&found(rates), Marks::default());
            assert_well_formed(&svg);
            assert_labels_fit(&svg);
        }
    }
}
