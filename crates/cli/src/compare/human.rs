// SPDX-License-Identifier: MIT OR Apache-2.0
//! A row for each policy, then the cells where those to be shown lose most.

use foreread_sim::matrix::{ORACLE, Summary};

use super::{Compared, Part, place_of};
use crate::sim::human::{kib, time};
use crate::table::{finished, table};
use crate::text::printable;

/// Cells that are listed of a policy.
const WORST_CELLS: usize = 8;

pub fn of(compared: &Compared) -> String {
    let mut text = String::new();
    for part in compared.parts() {
        text += &headline(compared, &part);
        text += &summaries(compared, &part);
        for place in &compared.show {
            text += &worst_cells(compared, &part, *place);
        }
    }
    text
}

/// The heading: counts of workloads and cells in this part.
fn headline(compared: &Compared, part: &Part) -> String {
    let matrix = &compared.matrix;
    let cells = matrix.cells.iter();
    let cells: Vec<_> = cells.filter(|cell| compared.is_in(part, cell)).collect();
    let equal = cells.iter().filter(|cell| matrix.is_equal(cell)).count();
    let workloads = compared.workloads(part);
    let several = if workloads.len() == 1 { "" } else { "s" };
    let names = match part.held_out {
        Some(true) => format!(" ({})", printable(&workloads.join(", "))),
        _ => String::new(),
    };
    let apart = match part.name {
        "" => String::new(),
        name => format!(", {name}"),
    };
    format!(
        "{} workload{several}{apart}{names}: {} cells, {equal} of them equal under all policies\n\n",
        workloads.len(),
        cells.len(),
    )
}

fn summaries(compared: &Compared, part: &Part) -> String {
    let matrix = &compared.matrix;
    let has_oracle = matrix.place(ORACLE).is_some();
    let mut header = vec![
        "policy", "least in", "waited", "to linux", "mean", "median", "worst", "",
    ];
    if has_oracle {
        header.extend(["to oracle", "median"]);
    }
    header.extend(["ampl.", "random", "thrash"]);
    let mut rows = table(&header);
    for place in 0..matrix.policies.len() {
        let summary = matrix.summary(place, |cell| compared.is_in(part, cell));
        let mut row = vec![
            summary.policy.to_string(),
            least(&summary),
            time(u64::try_from(summary.stall_ns).unwrap_or(u64::MAX)),
            times(summary.to_base),
            times(summary.to_base_mean),
            times(summary.to_base_median),
            times(summary.worst.map(|worst| worst.to_base)),
            worst_place(compared, &summary),
        ];
        if has_oracle {
            row.extend([
                percent(summary.to_oracle),
                percent(summary.to_oracle_median),
            ]);
        }
        row.extend([
            times(summary.amplification),
            times(summary.random_amplification),
            percent(summary.thrash_percent.map(|percent| percent / 100.0)),
        ]);
        rows.add_row(row);
    }
    finished(rows, &[0, 7]) + "\n"
}

fn least(summary: &Summary) -> String {
    match summary.policy.name() {
        ORACLE => "-".to_owned(),
        _ => summary.least_cells.to_string(),
    }
}

fn worst_place(compared: &Compared, summary: &Summary) -> String {
    let Some(worst) = summary.worst.filter(|worst| worst.to_base > 1.0) else {
        return String::new();
    };
    let cell = &compared.matrix.cells[worst.cell];
    format!(
        "{}, {}, {}",
        printable(&compared.matrix.workloads[cell.workload].name),
        printable(&cell.run.device.name),
        place_of(compared, cell)
    )
}

/// The cells where a policy loses most.
fn worst_cells(compared: &Compared, part: &Part, place: usize) -> String {
    let matrix = &compared.matrix;
    let in_part = |cell: &_| compared.is_in(part, cell);
    let worst = matrix.worst(place, WORST_CELLS, in_part);
    let policy = matrix.policies[place];
    let losses = worst.iter().filter(|worst| worst.to_base > 1.0).count();
    if losses == 0 {
        return format!("{policy} waits nowhere longer than linux\n\n");
    }
    let names: Vec<&str> = matrix.policies.iter().map(|policy| policy.name()).collect();
    let mut header = vec!["workload", "device", "memory", "to linux", "ampl."];
    header.extend(&names);
    let mut rows = table(&header);
    for worst in &worst[..losses] {
        let cell = &matrix.cells[worst.cell];
        let mut row = vec![
            printable(&matrix.workloads[cell.workload].name),
            printable(&cell.run.device.name),
            place_of(compared, cell),
            times(Some(worst.to_base)),
            times(cell.numbers[place].amplification()),
        ];
        row.extend(cell.numbers.iter().map(|numbers| time(numbers.stall_ns)));
        rows.add_row(row);
    }
    format!(
        "where {policy} loses most against linux (time waited)\n\n{}\n",
        finished(rows, &[0, 1])
    )
}

/// A ratio with three digits or two decimals.
pub fn times(ratio: Option<f64>) -> String {
    match ratio {
        None => "-".to_owned(),
        Some(ratio) if ratio >= 1000.0 => format!("{ratio:.0}"),
        Some(ratio) if ratio >= 100.0 => format!("{ratio:.1}"),
        Some(ratio) => format!("{ratio:.2}"),
    }
}

/// A part as percent.
pub fn percent(part: Option<f64>) -> String {
    part.map_or("-".to_owned(), |part| format!("{:.1} %", part * 100.0))
}

/// The sizes of memory of a matrix, for a caption.
pub fn memories(compared: &Compared) -> String {
    let cells = compared.matrix.cells.iter();
    let mut sizes: Vec<u64> = cells.map(|cell| cell.run.memory_pages).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let sizes: Vec<String> = sizes.into_iter().map(kib).collect();
    sizes.join(", ")
}
