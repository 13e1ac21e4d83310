// SPDX-License-Identifier: MIT OR Apache-2.0
//! Titles, legends and the axes around a plot. In: a picture, a place, ticks. Out: labels that lie
//! within the picture and don't touch each other.

use std::fmt::{Display, Write as _};

use super::axis::{Tick, apart, rounded};
use super::style::{NAME_PX, TEXT_PX, TITLE_PX, fitted, text_width};
use super::svg::{Svg, label, rect};

/// Height of a row of a legend.
pub const ROW_HEIGHT: f64 = 20.0;
/// Room that the axis below a plot takes: its numbers, and what they are.
pub const AXIS_HEIGHT: f64 = 44.0;
/// Size of a mark in a legend.
const MARK: (f64, f64) = (18.0, 11.0);
/// Between a mark and its words, and between two entries.
const MARK_GAP: f64 = 7.0;
const ENTRY_GAP: f64 = 22.0;

/// Where things are in a picture, from left to right.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub left: f64,
    pub width: f64,
}

/// How an entry of a legend is marked.
#[derive(Clone, Copy, Debug)]
pub enum Mark {
    /// A filled box.
    Fill,
    /// A line.
    Line,
    /// A circle, filled or not, as its class says.
    Dot,
}

/// An entry of a legend: how it looks, its class, its words.
pub type Entry<'a> = (Mark, &'a str, &'a str);

/// A new picture with its paper and its title, which is cut where the picture ends.
pub fn titled(width: u32, height: u32, left: f64, title: &str, style: &str) -> Svg {
    let mut svg = Svg::new(width, height, title, style);
    let size = (f64::from(width), f64::from(height));
    rect(&mut svg, "paper", (0.0, 0.0), size, None);
    let title = fitted(title, TITLE_PX, size.0 - left - 8.0);
    label(&mut svg, (left, 32.0), "start", "title", &title);
    svg
}

/// A line of text below a title, cut where its room ends.
pub fn note(svg: &mut Svg, at: (f64, f64), width: f64, text: &str) {
    label(svg, at, "start", "quiet", &fitted(text, TEXT_PX, width));
}

/// The name of a panel, cut where its room ends.
pub fn name(svg: &mut Svg, at: (f64, f64), width: f64, text: &str) {
    label(svg, at, "start", "name", &fitted(text, NAME_PX, width));
}

/// The entries of a legend in rows of a width: the row of each, and where it begins.
fn rows(entries: &[Entry], width: f64) -> Vec<(usize, f64)> {
    let (mut row, mut x) = (0, 0.0);
    let place = |(_, _, words): &Entry| {
        let needs = MARK.0 + MARK_GAP + text_width(words, TEXT_PX);
        if x > 0.0 && x + needs > width {
            (row, x) = (row + 1, 0.0);
        }
        let at = (row, x);
        x += needs + ENTRY_GAP;
        at
    };
    entries.iter().map(place).collect()
}

/// Height of a legend of a width.
pub fn legend_height(entries: &[Entry], width: f64) -> f64 {
    let rows = rows(entries, width).last().map_or(0, |last| last.0 + 1);
    rows as f64 * ROW_HEIGHT
}

/// Draws a legend whose first row is centred at a height.
pub fn legend(svg: &mut Svg, span: Span, middle: f64, entries: &[Entry]) {
    svg.begin("g", &[("class", &"legend")]);
    for ((row, x), (mark, class, words)) in rows(entries, span.width).into_iter().zip(entries) {
        let (x, middle) = (span.left + x, middle + row as f64 * ROW_HEIGHT);
        let centre = x + MARK.0 / 2.0;
        match mark {
            Mark::Fill => rect(svg, class, (x, middle - MARK.1 / 2.0), MARK, None),
            Mark::Line => {
                let line = format!("M{} {}h{}", rounded(x), rounded(middle), MARK.0);
                svg.empty("path", &[("class", class), ("d", &line)]);
            }
            Mark::Dot => dot(svg, class, (centre, middle), 4.0),
        }
        let at = (x + MARK.0 + MARK_GAP, middle + 4.5);
        label(svg, at, "start", "quiet", words);
    }
    svg.end();
}

/// A circle.
pub fn dot(svg: &mut Svg, class: &str, at: (f64, f64), radius: f64) {
    let place: [(&str, &dyn Display); 4] = [
        ("class", &class),
        ("cx", &rounded(at.0)),
        ("cy", &rounded(at.1)),
        ("r", &radius),
    ];
    svg.empty("circle", &place);
}

/// Lines from the top of a plot to its bottom.
pub fn grid_upright(svg: &mut Svg, ticks: &[Tick], height: f64) {
    let mut lines = String::new();
    for tick in ticks {
        // Writing to a string can't fail.
        let _ = write!(lines, "M{} 0V{}", rounded(tick.at), rounded(height));
    }
    svg.empty("path", &[("class", &"grid"), ("d", &lines)]);
}

/// Lines across a plot, at heights above its bottom.
pub fn grid_across(svg: &mut Svg, ticks: &[Tick], plot: (f64, f64)) {
    let mut lines = String::new();
    for tick in ticks {
        let _ = write!(
            lines,
            "M0 {}H{}",
            rounded(plot.1 - tick.at),
            rounded(plot.0)
        );
    }
    svg.empty("path", &[("class", &"grid"), ("d", &lines)]);
}

/// Numbers below a plot; those that would touch are left out.
pub fn numbers_below(svg: &mut Svg, ticks: &[Tick], height: f64) {
    svg.begin("g", &[("class", &"ticks")]);
    for tick in apart(ticks, |text| text_width(text, TEXT_PX)) {
        label(svg, (tick.at, height + 18.0), "middle", "quiet", &tick.text);
    }
    svg.end();
}

/// Numbers below a plot, and what they are.
pub fn axis_below(svg: &mut Svg, ticks: &[Tick], plot: (f64, f64), what: &str) {
    numbers_below(svg, ticks, plot.1);
    let at = (plot.0 / 2.0, plot.1 + 38.0);
    label(svg, at, "middle", "quiet", what);
}

/// Numbers on the left of a plot, at places from its top, given from the bottom up. Those that
/// would touch are left out.
pub fn numbers_left(svg: &mut Svg, ticks: impl IntoIterator<Item = (f64, String)>) {
    let mut above = f64::MAX;
    svg.begin("g", &[("class", &"ticks")]);
    for (y, text) in ticks {
        if above - y >= TEXT_PX {
            label(svg, (-8.0, y + 4.5), "end", "quiet", &text);
            above = y;
        }
    }
    svg.end();
}

/// What the numbers on the left are, along a plot, `gutter` px from it.
pub fn name_left(svg: &mut Svg, gutter: f64, height: f64, what: &str) {
    let turn = format!(
        "translate({} {}) rotate(-90)",
        rounded(-gutter),
        rounded(height / 2.0)
    );
    let place: [(&str, &dyn Display); 3] = [
        ("class", &"quiet"),
        ("text-anchor", &"middle"),
        ("transform", &turn),
    ];
    svg.line("text", &place, what);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::axis::Axis;
    use crate::picture::check::{assert_labels_fit, assert_well_formed, texts};

    #[test]
    fn a_legend_wraps_and_names_each_entry() {
        let words: Vec<String> = (0..12).map(|at| format!("series number {at}")).collect();
        let entries: Vec<Entry> = words
            .iter()
            .map(|words| (Mark::Fill, "x", &**words))
            .collect();
        let mut svg = titled(400, 200, 20.0, "A picture", "");
        let span = Span {
            left: 20.0,
            width: 360.0,
        };
        legend(&mut svg, span, 60.0, &entries);
        let svg = svg.finish();
        assert_well_formed(&svg);
        assert_labels_fit(&svg);
        let texts = texts(&svg);
        assert!(words.iter().all(|words| texts.contains(words)), "{texts:?}");
        assert!(legend_height(&entries, 360.0) > ROW_HEIGHT);
        assert_eq!(legend_height(&[], 360.0), 0.0);
    }

    #[test]
    fn a_plot_with_axes_keeps_its_labels() {
        let mut svg = titled(300, 200, 60.0, &"A very long title ".repeat(9), "");
        let axis = Axis::linear(0.0, 1e7, 220.0);
        crate::picture::svg::group(&mut svg, 60.0, 50.0);
        axis_below(&mut svg, &axis.ticks(), (220.0, 90.0), "pages");
        grid_upright(&mut svg, &axis.ticks(), 90.0);
        let up = Axis::linear(0.0, 40.0, 90.0);
        grid_across(&mut svg, &up.ticks(), (220.0, 90.0));
        numbers_left(
            &mut svg,
            up.ticks()
                .into_iter()
                .map(|tick| (90.0 - tick.at, tick.text)),
        );
        name_left(&mut svg, 44.0, 90.0, "MB/s");
        svg.end();
        let svg = svg.finish();
        assert_well_formed(&svg);
        assert_labels_fit(&svg);
    }
}
