// SPDX-License-Identifier: MIT OR Apache-2.0
//! Summary of a policy's results over many cells.

use super::{BASE, Cell, Matrix, ORACLE, ratio, way};
use crate::contender::Contender;

/// A cell, and the stall of a policy there over that of [`BASE`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst {
    /// The cell, as a number of [`Matrix::cells`].
    pub cell: usize,
    /// The ratio.
    pub to_base: f64,
}

/// A policy over some cells.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The policy.
    pub policy: Contender,
    /// Number of cells.
    pub cells: usize,
    /// In how many it has the least stall of all but the oracle, or is within 2 % of it.
    pub least_cells: usize,
    /// All stalls together.
    pub stall_ns: u128,
    /// The same over that of [`BASE`].
    pub to_base: Option<f64>,
    /// The geometric mean of the ratios to [`BASE`] of all cells: long runs count as short ones.
    pub to_base_mean: Option<f64>,
    /// Half of the cells have a smaller ratio to [`BASE`].
    pub to_base_median: Option<f64>,
    /// The cell with the largest ratio to [`BASE`].
    pub worst: Option<Worst>,
    /// Position of the sum of all stalls between [`BASE`] (0) and the oracle (1).
    pub to_oracle: Option<f64>,
    /// Half of the cells, of those where there is a way, are less far.
    pub to_oracle_median: Option<f64>,
    /// Pages fetched for each different page used.
    pub amplification: Option<f64>,
    /// The same over the workloads that are random.
    pub random_amplification: Option<f64>,
    /// Thrashes for each hundred windows.
    pub thrash_percent: Option<f64>,
}

impl Matrix {
    /// Summary of the policy at `place` over those cells that `wanted` picks.
    #[must_use]
    pub fn summary(&self, place: usize, wanted: impl Fn(&Cell) -> bool) -> Summary {
        let cells: Vec<&Cell> = self.cells.iter().filter(|cell| wanted(cell)).collect();
        let total = |policy: usize| -> u128 {
            let stalls = cells.iter().map(|cell| cell.numbers[policy].stall_ns);
            stalls.map(u128::from).sum()
        };
        let base = self.place(BASE).map(&total);
        let oracle = self.place(ORACLE).map(&total);
        let stall_ns = total(place);
        let is_random = |cell: &&Cell| self.workloads[cell.workload].scenario.is_random;
        Summary {
            policy: self.policies[place],
            cells: cells.len(),
            least_cells: cells
                .iter()
                .filter(|cell| self.is_least(cell, place))
                .count(),
            stall_ns,
            to_base: base
                .filter(|base| *base > 0)
                .map(|base| stall_ns as f64 / base as f64),
            to_base_mean: mean(cells.iter().filter_map(|cell| self.to_base(cell, place))),
            to_base_median: median(cells.iter().map(|cell| self.to_base(cell, place))),
            worst: self.worst(place, 1, &wanted).first().copied(),
            to_oracle: base
                .zip(oracle)
                .and_then(|(base, oracle)| way(base, oracle, stall_ns)),
            to_oracle_median: median(cells.iter().map(|cell| self.to_oracle(cell, place))),
            amplification: amplification(place, cells.iter().copied()),
            random_amplification: amplification(place, cells.iter().copied().filter(is_random)),
            thrash_percent: thrash_percent(place, &cells),
        }
    }

    /// The cells where a policy loses most against [`BASE`], the worst first.
    #[must_use]
    pub fn worst(&self, place: usize, most: usize, wanted: impl Fn(&Cell) -> bool) -> Vec<Worst> {
        let numbered = self.cells.iter().enumerate();
        let mut all: Vec<Worst> = numbered
            .filter(|(_, cell)| wanted(cell))
            .filter_map(|(number, cell)| {
                Some(Worst {
                    cell: number,
                    to_base: self.to_base(cell, place)?,
                })
            })
            .collect();
        all.sort_by(|one, other| other.to_base.total_cmp(&one.to_base));
        all.truncate(most);
        all
    }
}

fn amplification<'a>(place: usize, cells: impl Iterator<Item = &'a Cell>) -> Option<f64> {
    let (mut fetched, mut distinct) = (0, 0);
    for cell in cells {
        fetched += cell.numbers[place].fetched_pages;
        distinct += cell.numbers[place].distinct_pages;
    }
    ratio(fetched, distinct)
}

fn thrash_percent(place: usize, cells: &[&Cell]) -> Option<f64> {
    let numbers = || cells.iter().map(|cell| &cell.numbers[place]);
    let thrashes = numbers().map(|numbers| numbers.thrashes).sum();
    let windows = numbers().map(|numbers| numbers.windows).sum();
    ratio(thrashes, windows).map(|each| each * 100.0)
}

/// The geometric mean.
fn mean(ratios: impl Iterator<Item = f64>) -> Option<f64> {
    let logarithms: Vec<f64> = ratios.map(f64::ln).collect();
    let sum: f64 = logarithms.iter().sum();
    (!logarithms.is_empty()).then(|| (sum / logarithms.len() as f64).exp())
}

/// The middle one, or the mean of the two in the middle, of those that there are.
fn median(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let mut values: Vec<f64> = values.flatten().collect();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    match values.len() % 2 {
        1 => Some(upper),
        _ => Some((values[values.len() / 2 - 1] + upper) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Numbers, Workload, runs};
    use foreread_core::policy::Policy;

    use super::*;
    use crate::scenario::{Overrides, Scenario};

    /// A matrix of two workloads on one device with these stalls: for each, of each policy.
    fn matrix(stalls: [[u64; 3]; 2]) -> Matrix {
        let policies = vec![
            Contender::from(Policy::Linux),
            Policy::None.into(),
            Policy::WholeFile.into(),
        ];
        let text = "[[file]]\nname = \"a\"\nsize = \"1M\"\n[[program]]\nfile = \"a\"\n";
        let workload = |(name, random)| {
            let text = format!("random = {random}\n{text}");
            let mut workload = Workload {
                name: String::from(name),
                scenario: Scenario::parse(name, &text).expect("a scenario"),
            };
            let overrides = Overrides {
                policies: policies.clone(),
                ..Overrides::default()
            };
            workload.set(&overrides).expect("values");
            workload
        };
        let workloads: Vec<Workload> = [("one", false), ("two", true)].map(workload).into();
        assert_eq!(runs(&workloads).len(), 6);
        let numbers = |stall_ns| Numbers {
            stall_ns,
            fetched_pages: 300,
            distinct_pages: 100,
            windows: 50,
            thrashes: 1,
            ..Numbers::default()
        };
        let numbers = stalls.iter().flatten().copied().map(numbers).collect();
        Matrix::new(workloads, policies, numbers)
    }

    #[test]
    fn the_least_is_counted_within_two_percent() {
        let matrix = matrix([[1_000_000, 1_020_000, 1_020_001], [500, 900, 1_400]]);
        let least = |place| matrix.summary(place, |_| true).least_cells;
        assert_eq!([least(0), least(1), least(2)], [2, 2, 1]);
        assert!(!matrix.is_equal(&matrix.cells[0]));
        assert!(matrix.is_equal(&matrix.cells[1]), "less than a microsecond");
        assert_eq!(matrix.to_base(&matrix.cells[1], 2), Some(1.4));
    }

    #[test]
    fn ratios_are_of_totals_and_of_cells() {
        let matrix = matrix([[4_000_000, 2_000_000, 1_000_000], [1_000_000, 6_000_000, 0]]);
        let none = matrix.summary(1, |_| true);
        assert_eq!((none.to_base, none.to_base_median), (Some(1.6), Some(3.25)));
        let mean = none.to_base_mean.expect("two ratios");
        assert!((mean - 3f64.sqrt()).abs() < 1e-9, "{mean}");
        let worst = Worst {
            cell: 1,
            to_base: 6.0,
        };
        assert_eq!(none.worst, Some(worst));
        assert_eq!(none.to_oracle, None, "there is no oracle");
        assert_eq!(none.amplification, Some(3.0));
        assert_eq!(none.thrash_percent, Some(2.0));
        let first = matrix.summary(1, |cell| cell.workload == 0);
        assert_eq!((first.cells, first.random_amplification), (1, None));
        // Nothing against a millisecond is as a microsecond against it.
        assert_eq!(matrix.to_base(&matrix.cells[1], 2), Some(0.001));
    }

    #[test]
    fn the_way_to_the_oracle_has_no_number_where_there_is_none_to_go() {
        assert_eq!(way(100_000, 20_000, 40_000), Some(0.75));
        assert_eq!(way(100_000, 20_000, 180_000), Some(-1.0));
        assert_eq!(way(1_000_000, 999_500, 0), None);
        assert_eq!(way(0, 0, 0), None);
    }

    #[test]
    fn a_seed_holds_out_the_same_workloads_each_time_and_another_one_others() {
        let mut matrix = matrix([[0; 3]; 2]);
        let one = matrix.workloads[0].clone();
        matrix.workloads = (0..41)
            .map(|number| Workload {
                name: format!("w{number}"),
                ..one.clone()
            })
            .collect();
        let count = |held: &[bool]| held.iter().filter(|held| **held).count();
        assert_eq!(count(&matrix.held_out(1)), 11);
        assert_eq!(matrix.held_out(1), matrix.held_out(1));
        assert_ne!(matrix.held_out(1), matrix.held_out(2));
        matrix.workloads.truncate(1);
        assert_eq!(matrix.held_out(1), [false]);
    }
}
