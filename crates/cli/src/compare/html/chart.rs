// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small chart: one workload on one device. A group of bars for each size of memory, a bar for
//! each policy but linux: its stall over that of linux, from 0 to 2 and cut there.

use foreread_sim::matrix::{BASE, Cell};

use super::super::{Compared, place_of};
use super::heat::short;
use super::{colour, escaped};
use crate::sim::human::time;

const WIDTH: f64 = 170.0;
const HEIGHT: f64 = 104.0;
const LEFT: f64 = 14.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 90.0;
/// The largest ratio that has its full height.
const RATIO_MAX: f64 = 2.0;
/// Bars are no wider than this, and take this part of their group.
const BAR_MAX: f64 = 15.0;
const BARS_PART: f64 = 0.84;
/// Room for a digit.
const DIGIT: f64 = 4.6;

/// The policies that have bars.
pub fn bars(compared: &Compared) -> Vec<usize> {
    let policies = compared.matrix.policies.iter().enumerate();
    let others = policies.filter(|(_, policy)| policy.name() != BASE);
    others.map(|(place, _)| place).collect()
}

pub fn figure(compared: &Compared, workload: &str, device: &str, cells: &[&Cell]) -> String {
    let title = format!("{workload} on {device}: stall over that of linux");
    let mut svg = format!(
        "<figure><figcaption>{0}</figcaption>\n\
         <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{1}; {2}\">\n",
        escaped(device),
        escaped(&title),
        escaped(&spoken(compared, cells)),
    );
    svg += &line(0.0, "grid");
    svg += &line(RATIO_MAX, "grid");
    let group = (WIDTH - LEFT) / cells.len().max(1) as f64;
    for (number, cell) in cells.iter().enumerate() {
        let from = LEFT + number as f64 * group;
        svg += &bars_of(compared, cell, from, group);
        svg += &format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
            from + group / 2.0,
            HEIGHT - 4.0,
            escaped(&place_of(compared, cell)),
        );
    }
    svg + &line(1.0, "base") + "</svg></figure>\n"
}

/// A line across the chart, with its ratio.
fn line(ratio: f64, class: &str) -> String {
    format!(
        "<path class=\"{class}\" d=\"M{LEFT} {y:.1}H{WIDTH}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{ratio}</text>\n",
        LEFT - 3.0,
        height(ratio) + 2.8,
        y = height(ratio),
    )
}

/// The numbers of a chart in a row, for screen readers.
fn spoken(compared: &Compared, cells: &[&Cell]) -> String {
    let of_cell = |cell: &&Cell| {
        let policies = bars(compared).into_iter();
        let numbers = policies.filter_map(|place| {
            let ratio = compared.matrix.to_base(cell, place)?;
            Some(format!(
                "{} {}",
                compared.matrix.policies[place],
                short(ratio)
            ))
        });
        let numbers: Vec<String> = numbers.collect();
        format!("{}: {}", place_of(compared, cell), numbers.join(", "))
    };
    let cells: Vec<String> = cells.iter().map(of_cell).collect();
    cells.join("; ")
}

fn height(ratio: f64) -> f64 {
    BOTTOM - ratio.min(RATIO_MAX) / RATIO_MAX * (BOTTOM - TOP)
}

fn bars_of(compared: &Compared, cell: &Cell, from: f64, group: f64) -> String {
    let matrix = &compared.matrix;
    let policies = bars(compared);
    let width = (group * BARS_PART / policies.len().max(1) as f64).min(BAR_MAX);
    let all = width * policies.len() as f64;
    let mut svg = String::new();
    for (number, place) in policies.iter().enumerate() {
        let Some(ratio) = matrix.to_base(cell, *place) else {
            continue;
        };
        let x = from + (group - all) / 2.0 + number as f64 * width;
        let y = height(ratio).min(BOTTOM - 0.6);
        svg += &format!(
            "<rect class=\"{}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\">\
             <title>{}, {}: {} of linux, {}</title></rect>\n",
            colour(*place),
            x + 0.4,
            width - 0.8,
            BOTTOM - y,
            matrix.policies[*place],
            escaped(&place_of(compared, cell)),
            short(ratio),
            time(cell.numbers[*place].stall_ns),
        );
        if ratio > RATIO_MAX {
            svg += &cut(x, width, ratio);
        }
    }
    svg
}

/// A bar that goes on beyond the chart: a gap near its end, and its number.
fn cut(x: f64, width: f64, ratio: f64) -> String {
    let mut svg = format!(
        "<path class=\"cut\" d=\"M{:.1} {:.1}l{width:.1} -4v2.4l-{width:.1} 4z\"/>\n",
        x,
        TOP + 8.0
    );
    let number = short(ratio);
    let middle = x + width / 2.0;
    svg += &if width >= number.len() as f64 * DIGIT {
        let y = TOP - 3.0;
        format!("<text x=\"{middle:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{number}</text>\n")
    } else {
        // Along the bar, as next to each other numbers would run together.
        let (x, y) = (middle + 2.8, BOTTOM - 4.0);
        format!(
            "<text class=\"along\" transform=\"translate({x:.1} {y:.1})rotate(-90)\">\
             {number}</text>\n"
        )
    };
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_is_half_way_up_and_nothing_leaves_the_chart() {
        assert_eq!(height(1.0), (TOP + BOTTOM) / 2.0);
        assert_eq!((height(0.0), height(1e9)), (BOTTOM, TOP));
    }
}
