// SPDX-License-Identifier: MIT OR Apache-2.0
//! Windows as boxes. What has one class becomes one path, so that a picture of thousands of windows
//! stays small; where there are few, each window has a text of its own for whoever points at it.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::ops::Range;

use foreread_sim::cache::Fate;
use foreread_sim::engine::{Part, WindowSeen};

use super::super::human::time;
use super::lanes::{Lane, PAGE_BYTES, RUG_GAP, RUG_HEIGHT};
use crate::picture::axis::{TimeAxis, rounded};
use crate::picture::frame::{Entry, Mark, dot};
use crate::picture::svg::Svg;

pub const STYLE: &str = "
.way { opacity: 0.38 } .edge { stroke-width: 1.4 } .late-edge { stroke-dasharray: 3 2 }
.rug { stroke-width: 1 } .end { stroke-dasharray: 4 3 }
.hollow { fill: #ffffff; fill: var(--paper); stroke-width: 1.4 }
";

pub const SYNC_DOT: &str = "fill-ink";
pub const ASYNC_DOT: &str = "line-ink hollow";

/// The classes of pages by their fate, with what they stand for; and the marks of decisions.
pub const LEGEND: [Entry; 7] = {
    let [sync, ahead] = super::marks();
    [
        (Mark::Fill, "fill-blue", "used on time"),
        (Mark::Fill, "fill-orange", "used late: a program waited"),
        (Mark::Fill, "fill-vermilion", "wasted: evicted unread"),
        (Mark::Fill, "fill-grey", "unread until the end"),
        (
            Mark::Fill,
            "way fill-blue",
            "pale: on its way from the disk",
        ),
        sync,
        ahead,
    ]
};

/// Lanes with more windows have no edges and dots: they would hide the pages.
const EDGES_MAX: usize = 160;
/// Lanes with more windows have no texts to point at.
const TITLES_MAX: usize = 1000;
/// Dots closer than this would hide each other.
const DOT_GAP: f64 = 4.0;
/// The least size of a box that is visible.
const WIDTH_MIN: f64 = 0.6;
const HEIGHT_MIN: f64 = 1.0;

fn class(fate: Fate) -> &'static str {
    match fate {
        Fate::OnTime => LEGEND[0].1,
        Fate::Late => LEGEND[1].1,
        Fate::Wasted => LEGEND[2].1,
        Fate::Unread => LEGEND[3].1,
    }
}

fn way_class(fate: Fate) -> &'static str {
    match fate {
        Fate::OnTime => "way fill-blue",
        Fate::Late => "way fill-orange",
        Fate::Wasted => "way fill-vermilion",
        Fate::Unread => "way fill-grey",
    }
}

/// A run in a lane, as it is drawn.
pub struct Drawing<'a> {
    lane: &'a Lane,
    times: &'a TimeAxis,
    end_ns: u64,
    /// Paths by class, and what is in them.
    paths: BTreeMap<&'static str, String>,
    known: HashSet<String>,
}

impl<'a> Drawing<'a> {
    pub fn new(lane: &'a Lane, times: &'a TimeAxis, end_ns: u64) -> Self {
        Self {
            lane,
            times,
            end_ns,
            paths: BTreeMap::new(),
            known: HashSet::new(),
        }
    }

    /// Draws the windows, and below the lane when they were decided.
    pub fn windows(&mut self, svg: &mut Svg, windows: &[&WindowSeen]) {
        let has_titles = windows.len() <= TITLES_MAX;
        let has_edges = windows.len() <= EDGES_MAX;
        for window in windows {
            if has_titles {
                svg.begin("g", &[]);
                svg.line("title", &[], &title(window));
            }
            self.boxes(window);
            if has_edges {
                self.edge(window);
            }
            if has_titles {
                self.flush(svg);
                svg.end();
            }
        }
        self.flush(svg);
        if has_edges {
            self.dots(svg, windows);
        }
        for window in windows {
            self.rug(window);
        }
        self.flush(svg);
    }

    /// A dot at the first page of each window, where there is room for one.
    fn dots(&self, svg: &mut Svg, windows: &[&WindowSeen]) {
        let mut drawn: Vec<(f64, f64)> = Vec::new();
        for window in windows {
            let class = match window.is_synchronous {
                true => SYNC_DOT,
                false => ASYNC_DOT,
            };
            let (x, y) = (self.times.at(window.time_ns), self.y(window.start));
            let touches = |(other_x, other_y): &(f64, f64)| {
                (x - other_x).abs() < DOT_GAP && (y - other_y).abs() < DOT_GAP
            };
            if !drawn.iter().any(touches) {
                dot(svg, class, (x, y), 2.3);
                drawn.push((x, y));
            }
        }
    }

    fn y(&self, page: u64) -> f64 {
        self.lane.positions.y(page.saturating_mul(PAGE_BYTES))
    }

    /// Top and height of pages.
    fn rows(&self, pages: &Range<u64>) -> (f64, f64) {
        // The end of a window may be the start of a stretch further up.
        let bottom = self.y(pages.start);
        let top = self.y(pages.end).min(bottom);
        let height = (bottom - top).max(HEIGHT_MIN);
        (bottom - height, height)
    }

    fn boxes(&mut self, window: &WindowSeen) {
        let asked = self.times.at(window.time_ns);
        // Pages that look alike are one box.
        let mut joined: Option<(Fate, f64, f64, Range<u64>)> = None;
        for part in &window.parts {
            let end = self.times.at(part.time_ns.unwrap_or(self.end_ns));
            for (pages, came_ns) in arrivals(window, part) {
                let came = self.times.at(came_ns.unwrap_or(self.end_ns)).min(end);
                let alike = |(fate, at, until, known): &&mut (Fate, f64, f64, Range<u64>)| {
                    *fate == part.fate
                        && known.end == pages.start
                        && (*at - came).abs() < 0.5
                        && (*until - end).abs() < 0.5
                };
                match joined.as_mut().filter(alike) {
                    Some(known) => known.3.end = pages.end,
                    None => {
                        if let Some(known) = joined.replace((part.fate, came, end, pages)) {
                            self.push(asked, known);
                        }
                    }
                }
            }
        }
        if let Some(known) = joined {
            self.push(asked, known);
        }
    }

    fn push(&mut self, asked: f64, (fate, came, end, pages): (Fate, f64, f64, Range<u64>)) {
        let (top, height) = self.rows(&pages);
        if came - asked >= WIDTH_MIN {
            self.path(way_class(fate), asked, top, came - asked, height);
        }
        if end - came >= WIDTH_MIN || came - asked < WIDTH_MIN {
            let width = (end - came).max(WIDTH_MIN);
            self.path(class(fate), came, top, width, height);
        }
    }

    fn path(&mut self, class: &'static str, x: f64, y: f64, width: f64, height: f64) {
        let [x, y, width, height] = [x, y, width, height].map(rounded);
        let drawn = format!("M{x} {y}h{width}v{height}h-{width}z");
        self.add(class, drawn);
    }

    /// What is there already is not drawn again.
    fn add(&mut self, class: &'static str, drawn: String) {
        if self.known.insert(format!("{class} {drawn}")) {
            self.paths.entry(class).or_default().push_str(&drawn);
        }
    }

    /// The decision.
    fn edge(&mut self, window: &WindowSeen) {
        let x = rounded(self.times.at(window.time_ns));
        let (top, height) = self.rows(&(window.start..window.start + window.pages));
        let class = match window.is_synchronous {
            true => "edge line-ink",
            false => "edge late-edge line-ink",
        };
        self.add(class, format!("M{x} {}v{}", rounded(top), rounded(height)));
    }

    fn rug(&mut self, window: &WindowSeen) {
        let x = rounded(self.times.at(window.time_ns));
        let row = if window.is_synchronous { 0.0 } else { 1.0 };
        let top = rounded(self.lane.height + RUG_HEIGHT * row + RUG_GAP);
        self.add("rug line-ink", format!("M{x} {top}v{}", RUG_HEIGHT - 4.0));
    }

    fn flush(&mut self, svg: &mut Svg) {
        for (class, path) in std::mem::take(&mut self.paths) {
            svg.empty("path", &[("class", &class), ("d", &path)]);
        }
    }
}

/// The pages of a part by their arrival.
fn arrivals(window: &WindowSeen, part: &Part) -> Vec<(Range<u64>, Option<u64>)> {
    let mut cut: Vec<(Range<u64>, Option<u64>)> = Vec::new();
    let mut came: Vec<_> = window.arrivals.iter().collect();
    came.sort_by_key(|arrival| arrival.pages.start);
    let mut at = part.pages.start;
    for arrival in came {
        let start = arrival.pages.start.max(at);
        let end = arrival.pages.end.min(part.pages.end);
        if start >= end {
            continue;
        }
        if at < start {
            cut.push((at..start, None));
        }
        cut.push((start..end, Some(arrival.time_ns)));
        at = end;
    }
    if at < part.pages.end {
        cut.push((at..part.pages.end, None));
    }
    cut
}

/// A window in words.
fn title(window: &WindowSeen) -> String {
    let kind = match window.is_synchronous {
        true => "synchronous",
        false => "asynchronous",
    };
    let mut said = format!(
        "pages {} to {}, {kind}, at {}",
        window.start,
        window.start + window.pages - 1,
        time(window.time_ns)
    );
    if let Some((index, reason)) = window.decision {
        // Writing to a string can't fail.
        let _ = write!(
            said,
            "; the program was at page {index}; {}",
            reason.meaning()
        );
    }
    for (fate, name) in [
        (Fate::OnTime, "on time"),
        (Fate::Late, "late"),
        (Fate::Wasted, "wasted"),
        (Fate::Unread, "unread"),
    ] {
        let parts = window.parts.iter().filter(|part| part.fate == fate);
        let pages: u64 = parts.map(|part| part.pages.end - part.pages.start).sum();
        if pages > 0 {
            let _ = write!(said, "; {pages} {name}");
        }
    }
    said
}
