// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers behind the charts.

use foreread_sim::matrix::{Cell, Numbers, ORACLE, Summary};

use super::super::human::{percent, times};
use super::super::{Compared, Part, place_of};
use super::{by_device, escaped};
use crate::sim::human::time;

/// A row for each policy.
pub fn summary(compared: &Compared, part: &Part) -> String {
    let matrix = &compared.matrix;
    let in_part = |cell: &&Cell| compared.is_in(part, cell);
    let cells = || matrix.cells.iter().filter(in_part);
    let apart = match part.name {
        "" => String::new(),
        name => format!(", {name}"),
    };
    let has_oracle = matrix.place(ORACLE).is_some();
    let mut table = format!(
        "<p class=\"soft\">{} workloads{apart}: {} cells, {} of them equal under all policies. \
         Least: cells with the least stall, or within 2 % of it.</p>\n\
         <div class=\"scroll\" tabindex=\"0\">\n<table class=\"summary\" aria-label=\"Summary{apart}\">\n\
         <thead><tr><th class=\"text\" scope=\"col\">policy</th>",
        compared.workloads(part).len(),
        cells().count(),
        cells().filter(|cell| matrix.is_equal(cell)).count(),
    );
    let mut names = vec!["least", "stall", "to linux", "mean", "median", "worst"];
    if has_oracle {
        names.extend(["to oracle", "median"]);
    }
    names.extend(["amplification", "random", "thrash"]);
    for name in names {
        table += &format!("<th scope=\"col\">{name}</th>");
    }
    table += "<th class=\"text\" scope=\"col\">worst at</th></tr></thead>\n<tbody>\n";
    for place in 0..matrix.policies.len() {
        let summary = matrix.summary(place, |cell| compared.is_in(part, cell));
        table += &summary_row(compared, &summary, has_oracle);
    }
    table + "</tbody>\n</table>\n</div>\n"
}

fn summary_row(compared: &Compared, summary: &Summary, has_oracle: bool) -> String {
    let least = match summary.policy.name() {
        ORACLE => "-".to_owned(),
        _ => summary.least_cells.to_string(),
    };
    let mut cells = vec![
        least,
        time(u64::try_from(summary.stall_ns).unwrap_or(u64::MAX)),
        times(summary.to_base),
        times(summary.to_base_mean),
        times(summary.to_base_median),
        times(summary.worst.map(|worst| worst.to_base)),
    ];
    if has_oracle {
        cells.extend([
            percent(summary.to_oracle),
            percent(summary.to_oracle_median),
        ]);
    }
    cells.extend([
        times(summary.amplification),
        times(summary.random_amplification),
        percent(summary.thrash_percent.map(|percent| percent / 100.0)),
    ]);
    let mut row = format!("<tr><th scope=\"row\">{}</th>", summary.policy);
    for cell in cells {
        row += &format!("<td>{cell}</td>");
    }
    let worst = summary.worst.filter(|worst| worst.to_base > 1.0);
    let at = worst.map_or(String::new(), |worst| {
        let cell = &compared.matrix.cells[worst.cell];
        let name = escaped(&compared.matrix.workloads[cell.workload].name);
        let place = format!("{}, {}", cell.run.device.name, place_of(compared, cell));
        format!("<a href=\"#w-{name}\">{name}</a>, {}", escaped(&place))
    });
    row + &format!("<td class=\"text\">{at}</td></tr>\n")
}

/// Every cell of a workload under each policy.
pub fn numbers(compared: &Compared, workload: usize) -> String {
    let devices = by_device(compared, workload);
    let all = || devices.iter().flat_map(|(_, cells)| cells);
    let has_victim = all().any(|cell| cell.numbers.iter().any(|n| n.victim.is_some()));
    let mut table = String::from(
        "<details><summary>Numbers</summary>\n<div class=\"scroll\" tabindex=\"0\"><table class=\"numbers\">\n\
         <thead><tr><th class=\"text\" scope=\"col\">device</th><th scope=\"col\">memory</th>\
         <th class=\"text\" scope=\"col\">policy</th>",
    );
    let mut names = vec![
        "stall",
        "to linux",
        "time",
        "p99",
        "requests",
        "amplification",
        "thrash",
    ];
    if has_victim {
        names.extend(["victim's stall", "victim's p99"]);
    }
    for name in names {
        table += &format!("<th scope=\"col\">{name}</th>");
    }
    table += "</tr></thead>\n<tbody>\n";
    for cell in all() {
        for place in 0..cell.numbers.len() {
            table += &numbers_row(compared, cell, place, has_victim);
        }
    }
    table + "</tbody></table></div></details>\n"
}

fn numbers_row(compared: &Compared, cell: &Cell, place: usize, has_victim: bool) -> String {
    let matrix = &compared.matrix;
    let numbers: &Numbers = &cell.numbers[place];
    let is_least = matrix.is_least(cell, place) && !matrix.is_equal(cell);
    let class = if is_least { " class=\"least\"" } else { "" };
    let mut row = format!(
        "<tr><td class=\"text\">{}</td><td>{}</td><th scope=\"row\">{}</th><td{class}>{}</td>",
        escaped(&cell.run.device.name),
        escaped(&place_of(compared, cell)),
        matrix.policies[place],
        time(numbers.stall_ns),
    );
    let mut cells = vec![
        times(matrix.to_base(cell, place)),
        time(numbers.elapsed_ns),
        time(numbers.latency_ns_p99),
        foreread_core::grouped(numbers.requests),
        times(numbers.amplification()),
        percent(numbers.thrash_percent().map(|percent| percent / 100.0)),
    ];
    if has_victim {
        let victim = numbers.victim.unwrap_or_default();
        cells.extend([time(victim.stall_ns), time(victim.latency_ns_p99)]);
    }
    for cell in cells {
        row += &format!("<td>{cell}</td>");
    }
    row + "</tr>\n"
}
