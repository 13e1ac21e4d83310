// SPDX-License-Identifier: MIT OR Apache-2.0
//! Policies held against each other over workloads, devices and sizes of memory.

mod summary;

pub use summary::{Summary, Worst};

use thiserror::Error;

use crate::contender::Contender;
pub use crate::contender::ORACLE;
use crate::engine::{Outcome, Setup};
use crate::random::Random;
use crate::scenario::{Combination, Overrides, Scenario, SetupError};

/// The policy that others are compared with.
pub const BASE: &str = "linux";

/// Stalls that are this near to each other, in nanoseconds or as a part of the larger one, are
/// equal: one in a thousand.
const EQUAL_NS: u64 = 1_000;
const EQUAL_PART: u64 = 1_000;
/// A policy has the least stall within one part in this many: 2 %.
const LEAST_PART: u64 = 50;
/// One workload in this many is held out.
const HELD_OUT_PART: usize = 4;

/// A workload: a scenario with a name.
#[derive(Clone, Debug)]
pub struct Workload {
    /// As in tables: the name of its file.
    pub name: String,
    /// Its scenario.
    pub scenario: Scenario,
}

/// Why a workload can't run with these values.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{workload}: {source}")]
pub struct WorkloadError {
    /// Its name.
    pub workload: String,
    /// The error in the values.
    pub source: SetupError,
}

/// The compared numbers of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Time that all programs together waited for pages.
    pub stall_ns: u64,
    /// Until the last program ended.
    pub elapsed_ns: u64,
    /// 99th percentile of the durations of all calls.
    pub latency_ns_p99: u64,
    /// Requests that the disk finished.
    pub requests: u64,
    /// Pages asked of the device.
    pub fetched_pages: u64,
    /// Different pages that programs used.
    pub distinct_pages: u64,
    /// Pages evicted unread.
    pub wasted_pages: u64,
    /// Windows that read something.
    pub windows: u64,
    /// Misses of pages that had been fetched and were evicted unread.
    pub thrashes: u64,
    /// The same for the programs that others make wait, where there are any.
    pub victim: Option<Victim>,
}

/// Programs that others make wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Victim {
    /// Time that they waited for pages.
    pub stall_ns: u64,
    /// 99th percentile of the durations of their calls.
    pub latency_ns_p99: u64,
}

impl Numbers {
    /// Those of a run.
    #[must_use]
    pub fn of(outcome: &Outcome, setup: &Setup) -> Self {
        let total = &outcome.total;
        let is_victim = |program: usize| setup.programs[program].is_victim;
        let has_victim = setup.programs.iter().any(|program| program.is_victim);
        let victim = has_victim.then(|| {
            let stats = outcome.part(|program, _| is_victim(program));
            Victim {
                stall_ns: stats.stall_ns,
                latency_ns_p99: stats.latencies.permille_ns(990),
            }
        });
        Self {
            stall_ns: total.stall_ns,
            elapsed_ns: outcome.elapsed_ns,
            latency_ns_p99: total.latencies.permille_ns(990),
            requests: total.requests,
            fetched_pages: total.pages.fetched,
            distinct_pages: total.pages.distinct,
            wasted_pages: total.pages.wasted,
            windows: total.windows,
            thrashes: total.pages.thrashes,
            victim,
        }
    }

    /// Pages fetched for each different page used; `None` when none was used.
    #[must_use]
    pub fn amplification(&self) -> Option<f64> {
        ratio(self.fetched_pages, self.distinct_pages)
    }

    /// Thrashes for each hundred windows; `None` without windows.
    #[must_use]
    pub fn thrash_percent(&self) -> Option<f64> {
        ratio(self.thrashes, self.windows).map(|each| each * 100.0)
    }
}

/// One workload on one device with one size of memory, under each policy.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Its workload, as a number of [`Matrix::workloads`].
    pub workload: usize,
    /// Where it is but for the policy, which is that of the first run.
    pub run: Combination,
    /// The results under each of [`Matrix::policies`].
    pub numbers: Vec<Numbers>,
}

/// All cells.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// The policies.
    pub policies: Vec<Contender>,
    /// Every combination, in the order of the workloads.
    pub cells: Vec<Cell>,
}

/// Every run of a matrix: its workload and its coordinates; the policy is the last of them to
/// change.
#[must_use]
pub fn runs(workloads: &[Workload]) -> Vec<(usize, Combination)> {
    let numbered = workloads.iter().enumerate();
    let runs = numbered.flat_map(|(number, workload)| {
        let combinations = workload.scenario.combinations().into_iter();
        combinations.map(move |run| (number, run))
    });
    runs.collect()
}

impl Workload {
    /// The workload under these policies, and with the other values where there are any.
    ///
    /// # Errors
    /// As [`Scenario::set`], with the name.
    pub fn set(&mut self, overrides: &Overrides) -> Result<(), WorkloadError> {
        let set = self.scenario.set(overrides);
        set.map_err(|source| WorkloadError {
            workload: self.name.clone(),
            source,
        })
    }
}

impl Matrix {
    /// Puts together the results of the [`runs`] of the workloads, each under all of `policies`.
    #[must_use]
    pub fn new(workloads: Vec<Workload>, policies: Vec<Contender>, numbers: Vec<Numbers>) -> Self {
        let mut numbers = numbers.into_iter();
        let runs = runs(&workloads);
        let cells = runs.chunks(policies.len().max(1)).map(|runs| Cell {
            workload: runs[0].0,
            run: runs[0].1.clone(),
            numbers: numbers.by_ref().take(runs.len()).collect(),
        });
        Self {
            cells: cells.collect(),
            workloads,
            policies,
        }
    }

    /// The place of a policy in each cell.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<usize> {
        self.policies
            .iter()
            .position(|policy| policy.name() == name)
    }

    /// The policies that are compared with each other: all but the oracle.
    fn rivals<'a>(&'a self, cell: &'a Cell) -> impl Iterator<Item = &'a Numbers> {
        let pairs = self.policies.iter().zip(&cell.numbers);
        let rivals = pairs.filter(|(policy, _)| policy.name() != ORACLE);
        rivals.map(|(_, numbers)| numbers)
    }

    /// The least stall of all policies but the oracle.
    #[must_use]
    pub fn least_ns(&self, cell: &Cell) -> u64 {
        let stalls = self.rivals(cell).map(|numbers| numbers.stall_ns);
        stalls.min().unwrap_or(0)
    }

    /// Whether all policies but the oracle have the same stall, as near as matters.
    #[must_use]
    pub fn is_equal(&self, cell: &Cell) -> bool {
        let stalls = self.rivals(cell).map(|numbers| numbers.stall_ns);
        is_same(self.least_ns(cell), stalls.max().unwrap_or(0))
    }

    /// Whether a policy has the least stall of a cell, or nearly so.
    #[must_use]
    pub fn is_least(&self, cell: &Cell, policy: usize) -> bool {
        let (least_ns, stall_ns) = (self.least_ns(cell), cell.numbers[policy].stall_ns);
        is_same(least_ns, stall_ns) || stall_ns <= least_ns.saturating_add(least_ns / LEAST_PART)
    }

    /// The stall of a policy over that of [`BASE`]; `None` without that.
    #[must_use]
    pub fn to_base(&self, cell: &Cell, policy: usize) -> Option<f64> {
        let base_ns = cell.numbers[self.place(BASE)?].stall_ns;
        Some(stall_ratio(cell.numbers[policy].stall_ns, base_ns))
    }

    /// Position of a policy between [`BASE`] (0) and [`ORACLE`] (1); `None` if the two are equal.
    #[must_use]
    pub fn to_oracle(&self, cell: &Cell, policy: usize) -> Option<f64> {
        let stall_ns = |policy: usize| cell.numbers[policy].stall_ns;
        let (base_ns, oracle_ns) = (stall_ns(self.place(BASE)?), stall_ns(self.place(ORACLE)?));
        way(base_ns.into(), oracle_ns.into(), stall_ns(policy).into())
    }

    /// Which workloads a seed draws to be held out: a quarter of them, and at least one of several.
    /// Each draws for itself, so that a new one changes little.
    #[must_use]
    pub fn held_out(&self, seed: u64) -> Vec<bool> {
        let draw = |workload: &Workload| {
            let bytes = workload.name.bytes();
            let hash = bytes.fold(seed, |hash, byte| {
                Random::new(hash ^ u64::from(byte)).draw()
            });
            (hash, workload.name.clone())
        };
        let drawn: Vec<_> = self.workloads.iter().map(draw).collect();
        let mut sorted = drawn.clone();
        sorted.sort_unstable();
        let last = match sorted.len() {
            0 | 1 => return vec![false; sorted.len()],
            workloads => workloads.div_ceil(HELD_OUT_PART),
        };
        drawn.iter().map(|drawn| *drawn < sorted[last]).collect()
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn is_same(less_ns: u64, more_ns: u64) -> bool {
    more_ns.saturating_sub(less_ns) <= EQUAL_NS.max(more_ns / EQUAL_PART)
}

/// One stall over another. Below a microsecond all are alike, so that two that are next to nothing
/// don't give a large number.
fn stall_ratio(stall_ns: u64, base_ns: u64) -> f64 {
    stall_ns.max(EQUAL_NS) as f64 / base_ns.max(EQUAL_NS) as f64
}

/// Position of `at` between `from` (0) and `to` (1); `None` if the two are equal.
fn way(from: u128, to: u128, at: u128) -> Option<f64> {
    let (from_ns, to_ns) = (from as f64, to as f64);
    let distance = from_ns - to_ns;
    let matters = distance.abs() > (EQUAL_NS as f64).max(from_ns / EQUAL_PART as f64);
    matters.then(|| (from_ns - at as f64) / distance)
}
