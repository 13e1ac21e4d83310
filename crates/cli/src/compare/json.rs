// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every cell and the summaries for programs: `foreread.compare/1`. `docs/compare.md` describes the
//! fields.

use foreread_sim::matrix::{Cell, Numbers, Summary, Worst};
use serde::Serialize;

use super::{Compared, Part};

const PAGE_KIB: u64 = 4;

/// A matrix that ran. In its fields `linux` is the base that the others are divided by.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CompareReport<'a> {
    schema: &'static str,
    /// Bytes of a page, for all fields in pages.
    page_bytes: u64,
    /// Names of the policies.
    policies: Vec<&'static str>,
    /// In the order of the files.
    workloads: Vec<WorkloadReport<'a>>,
    /// All cells, or those of held-out workloads apart from the rest.
    parts: Vec<PartReport<'a>>,
    /// Each workload on each device.
    pub cells: Vec<CellReport<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WorkloadReport<'a> {
    /// Name of the file.
    name: &'a str,
    /// Name of the kind of workload.
    workload: &'a str,
    /// Its reads, in words.
    about: &'a str,
    /// Whether it reads at random.
    random: bool,
    /// Whether it is held out, where some are.
    held_out: Option<bool>,
}

/// Cells that have a summary of their own.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PartReport<'a> {
    /// Whether these are the held-out workloads; null where none are.
    held_out: Option<bool>,
    /// The names of its workloads.
    workloads: Vec<&'a str>,
    /// Cells in it.
    cells: usize,
    /// Cells in which the stalls of all policies but the oracle are equal.
    equal_cells: usize,
    /// Policies over these cells.
    policies: Vec<SummaryReport<'a>>,
}

/// A policy over the cells of a part.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SummaryReport<'a> {
    /// Name of the policy.
    policy: &'static str,
    /// Cells in which it has the least stall of all policies but the oracle, or is within 2 % of
    /// that.
    least_cells: usize,
    /// All stalls together.
    stall_ns: u64,
    /// All stalls together, divided by those of `linux`.
    to_linux: Option<f64>,
    /// The geometric mean of the ratios of the cells.
    to_linux_mean: Option<f64>,
    /// The median of the ratios of the cells.
    to_linux_median: Option<f64>,
    /// The cell with the largest ratio.
    worst: Option<WorstReport<'a>>,
    /// All stalls together on the way from `linux`, 0, to the oracle, 1.
    to_oracle: Option<f64>,
    /// The same, as the median of the cells.
    to_oracle_median: Option<f64>,
    /// Pages fetched for each different page accessed.
    amplification: Option<f64>,
    /// The same in workloads that read at random.
    random_amplification: Option<f64>,
    /// Thrashes for each hundred windows.
    thrash_percent: Option<f64>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WorstReport<'a> {
    #[serde(flatten)]
    place: PlaceReport<'a>,
    /// Its stalls, divided by those of `linux`.
    to_linux: f64,
}

/// The coordinates of a cell.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PlaceReport<'a> {
    /// Name of the kind of workload.
    pub workload: &'a str,
    /// Name of the device.
    pub device: &'a str,
    pub memory_kib: u64,
    /// Maximum window.
    pub read_ahead_kib: u64,
    /// The rule by which plugged requests are released.
    pub unplug: &'a str,
    /// Copies of the programs.
    pub count: u64,
}

/// A workload on one machine, under all policies.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CellReport<'a> {
    #[serde(flatten)]
    pub place: PlaceReport<'a>,
    /// The least stall of all policies but the oracle.
    least_stall_ns: u64,
    /// Whether its workload is held out. A document has that of each workload.
    #[serde(skip)]
    pub is_held_out: bool,
    /// Whether the stalls of all policies but the oracle are equal.
    equal: bool,
    /// Policies in this cell.
    pub policies: Vec<PolicyReport>,
}

/// A policy in a cell.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PolicyReport {
    /// Name of the policy.
    pub policy: &'static str,
    /// Whether it has the least stall of all policies but the oracle, or is within 2 % of that.
    pub least: bool,
    /// Its stalls, divided by those of `linux`.
    pub to_linux: Option<f64>,
    /// Its stalls on the way from those of `linux`, 0, to those of the oracle, 1.
    to_oracle: Option<f64>,
    /// Time that programs waited for pages.
    pub stall_ns: u64,
    /// Until the last program ended.
    pub elapsed_ns: u64,
    pub latency_ns_p99: u64,
    pub requests: u64,
    pub fetched_pages: u64,
    /// Different pages accessed.
    pub distinct_pages: u64,
    /// Pages that were evicted unread.
    pub wasted_pages: u64,
    /// Pages fetched for each different page accessed.
    amplification: Option<f64>,
    /// Windows that were read ahead.
    pub windows: u64,
    /// Misses of pages that had been fetched and were evicted unread.
    pub thrashes: u64,
    /// Thrashes for each hundred windows.
    thrash_percent: Option<f64>,
    /// Stall of the programs that share the disk with the measured one, where there are any.
    pub victim_stall_ns: Option<u64>,
    pub victim_latency_ns_p99: Option<u64>,
}

impl<'a> CompareReport<'a> {
    pub fn of(compared: &'a Compared) -> Self {
        let matrix = &compared.matrix;
        let workloads = matrix.workloads.iter().enumerate();
        let workloads = workloads.map(|(number, workload)| WorkloadReport {
            name: &workload.name,
            workload: &workload.scenario.workload,
            about: &workload.scenario.about,
            random: workload.scenario.is_random,
            held_out: compared.held_out.as_ref().map(|held| held[number]),
        });
        let parts = compared.parts();
        let parts = parts.iter().map(|part| PartReport::of(compared, part));
        let cells = matrix.cells.iter();
        Self {
            schema: "foreread.compare/1",
            page_bytes: PAGE_KIB * 1024,
            policies: matrix.policies.iter().map(|policy| policy.name()).collect(),
            workloads: workloads.collect(),
            parts: parts.collect(),
            cells: cells.map(|cell| CellReport::of(compared, cell)).collect(),
        }
    }
}

impl<'a> PartReport<'a> {
    fn of(compared: &'a Compared, part: &Part) -> Self {
        let matrix = &compared.matrix;
        let in_part = |cell: &&Cell| compared.is_in(part, cell);
        let cells = || matrix.cells.iter().filter(in_part);
        let places = 0..matrix.policies.len();
        let policies = places.map(|place| {
            let summary = matrix.summary(place, |cell| compared.is_in(part, cell));
            SummaryReport::of(compared, &summary)
        });
        Self {
            held_out: part.held_out,
            workloads: compared.workloads(part),
            cells: cells().count(),
            equal_cells: cells().filter(|cell| matrix.is_equal(cell)).count(),
            policies: policies.collect(),
        }
    }
}

impl<'a> SummaryReport<'a> {
    fn of(compared: &'a Compared, summary: &Summary) -> Self {
        let worst = |worst: Worst| WorstReport {
            place: PlaceReport::of(compared, &compared.matrix.cells[worst.cell]),
            to_linux: worst.to_base,
        };
        Self {
            policy: summary.policy.name(),
            least_cells: summary.least_cells,
            stall_ns: u64::try_from(summary.stall_ns).unwrap_or(u64::MAX),
            to_linux: summary.to_base,
            to_linux_mean: summary.to_base_mean,
            to_linux_median: summary.to_base_median,
            worst: summary.worst.map(worst),
            to_oracle: summary.to_oracle,
            to_oracle_median: summary.to_oracle_median,
            amplification: summary.amplification,
            random_amplification: summary.random_amplification,
            thrash_percent: summary.thrash_percent,
        }
    }
}

impl<'a> PlaceReport<'a> {
    fn of(compared: &'a Compared, cell: &'a Cell) -> Self {
        let workload = &compared.matrix.workloads[cell.workload];
        let run = &cell.run;
        Self {
            workload: &workload.name,
            device: &run.device.name,
            memory_kib: run.memory_pages * PAGE_KIB,
            read_ahead_kib: u64::from(run.read_ahead_pages) * PAGE_KIB,
            unplug: &workload.scenario.queues[run.queue].0,
            count: run.count,
        }
    }
}

impl<'a> CellReport<'a> {
    fn of(compared: &'a Compared, cell: &'a Cell) -> Self {
        let matrix = &compared.matrix;
        let numbers = cell.numbers.iter().enumerate();
        let policies = numbers.map(|(place, of)| PolicyReport::of(compared, cell, place, of));
        Self {
            place: PlaceReport::of(compared, cell),
            least_stall_ns: matrix.least_ns(cell),
            is_held_out: compared
                .held_out
                .as_ref()
                .is_some_and(|held| held[cell.workload]),
            equal: matrix.is_equal(cell),
            policies: policies.collect(),
        }
    }
}

impl PolicyReport {
    fn of(compared: &Compared, cell: &Cell, place: usize, numbers: &Numbers) -> Self {
        let matrix = &compared.matrix;
        Self {
            policy: matrix.policies[place].name(),
            least: matrix.is_least(cell, place),
            to_linux: matrix.to_base(cell, place),
            to_oracle: matrix.to_oracle(cell, place),
            stall_ns: numbers.stall_ns,
            elapsed_ns: numbers.elapsed_ns,
            latency_ns_p99: numbers.latency_ns_p99,
            requests: numbers.requests,
            fetched_pages: numbers.fetched_pages,
            distinct_pages: numbers.distinct_pages,
            wasted_pages: numbers.wasted_pages,
            amplification: numbers.amplification(),
            windows: numbers.windows,
            thrashes: numbers.thrashes,
            thrash_percent: numbers.thrash_percent(),
            victim_stall_ns: numbers.victim.map(|victim| victim.stall_ns),
            victim_latency_ns_p99: numbers.victim.map(|victim| victim.latency_ns_p99),
        }
    }
}
