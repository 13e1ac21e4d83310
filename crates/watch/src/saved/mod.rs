// SPDX-License-Identifier: MIT OR Apache-2.0
//! Estimates the time that fetching ahead saved a program.
//!
//! In: the times at which a program misses files while nothing is fetched for it, the times at
//! which it reaches files afterwards, and the counts of its walk or replay. Out: an estimate with
//! bounds, or none. No I/O and no clock: times are given.
//!
//! The estimate compares two measurements of the same program on the same disk. Before the first
//! fetch, each interval from one missed file to the next is what a file costs without help: the
//! wait for its data and metadata, and the processor time. Afterwards the time from file to file is
//! known as well. Processor time is in both and cancels out. Waits for fetches on their way, and
//! time lost by fetches that compete with the program, are in the second and reduce the estimate.
//! Streams in large files have [another estimate](streams).

mod baseline;
mod pace;
pub mod streams;

pub use baseline::{Baseline, Baselines, Source, Who};
pub use pace::Pace;

use streams::StreamsSaved;

/// The time saved by one walk or replay so far, and how that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The best estimate; negative if time was lost.
    pub time: Bounds,
    /// The files that the program reached.
    pub files: u64,
    /// Those of them that it would have had to wait for.
    pub aided_files: u64,
    /// Time in which it reached them.
    pub took_ns: u64,
    /// Time from one missed file to the next without help: the mean, or the median of fewer than
    /// six.
    pub alone_ns: u64,
    /// Number of intervals from which that was found.
    pub intervals: usize,
    /// The programs whose intervals they are.
    pub source: Source,
}

/// An estimate with its error, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The best estimate.
    pub best_ns: i64,
    /// The time saved if the time without help is at its lower bound.
    pub low_ns: i64,
    /// The time saved if that is at its upper bound.
    pub high_ns: i64,
}

impl Bounds {
    /// The sum. The errors of both may go the same way, so they are added up.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            best_ns: self.best_ns.saturating_add(other.best_ns),
            low_ns: self.low_ns.saturating_add(other.low_ns),
            high_ns: self.high_ns.saturating_add(other.high_ns),
        }
    }

    /// Whether the estimate can't be told from nothing.
    #[must_use]
    pub fn is_unclear(&self) -> bool {
        self.low_ns <= 0 && self.high_ns >= 0
    }
}

/// The estimates of several walks, replays and readers of large files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SavedSum {
    /// The sum of the estimates.
    pub time: Bounds,
    /// Those with an estimate.
    pub estimated: u64,
    /// Those of which something was used and too little is known for an estimate.
    pub unknown: u64,
}

impl SavedSum {
    /// One walk or replay, of which `used_files` files were used.
    #[must_use]
    pub fn of(saved: Option<&Saved>, used_files: u64) -> Self {
        Self::one(saved.map(|saved| saved.time), used_files > 0)
    }

    /// One reader of large files, which found `found_pages` pages in memory.
    #[must_use]
    pub fn of_streams(saved: Option<&StreamsSaved>, found_pages: u64) -> Self {
        Self::one(saved.map(|saved| saved.time), found_pages > 0)
    }

    fn one(time: Option<Bounds>, is_used: bool) -> Self {
        Self {
            time: time.unwrap_or_default(),
            estimated: u64::from(time.is_some()),
            unknown: u64::from(time.is_none() && is_used),
        }
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            time: self.time.and(other.time),
            estimated: self.estimated + other.estimated,
            unknown: self.unknown + other.unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_add_estimates_errors_and_what_is_unknown() {
        let saved = Saved {
            time: Bounds {
                best_ns: 5,
                low_ns: -1,
                high_ns: 9,
            },
            files: 3,
            aided_files: 2,
            took_ns: 1,
            alone_ns: 2,
            intervals: 3,
            source: Source::Program,
        };
        let one = SavedSum::of(Some(&saved), 2);
        let sum = one.and(one).and(SavedSum::of(None, 2));
        assert_eq!((sum.estimated, sum.unknown), (2, 1));
        assert_eq!(
            (sum.time.best_ns, sum.time.low_ns, sum.time.high_ns),
            (10, -2, 18)
        );
        assert!(sum.time.is_unclear());
        // A walk of which nothing was used saved nothing, and needs no estimate.
        assert_eq!(SavedSum::of(None, 0), SavedSum::default());
    }
}
