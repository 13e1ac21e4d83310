// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times from one missed file of a program to the next in the same directory, while nothing is
//! fetched for it. The first file of a directory costs more, by waits for metadata. How many files
//! share them isn't known, so these times are left out, which makes the estimate smaller.
//!
//! They are kept for each process, and for the children of each process, which may share a walk.
//! Those of programs that then walked are kept for their disk and user as well, for programs that
//! begin while another walk keeps the disk busy.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use foreread_core::Device;

use super::Bounds;
use crate::table::Table;

/// Intervals that are kept of a process on a disk.
const RECENT_MAX: usize = 16;
/// Intervals that are kept of a disk and user.
const OF_DISK_MAX: usize = 64;
/// Disks and users of which intervals are kept.
const DISKS_MAX: usize = 64;
/// Disks that are kept of a process.
const DISKS_OF_PROCESS_MAX: usize = 4;
/// After a longer pause a program does something else.
const PAUSE_NS: u64 = 5_000_000_000;
/// Processes that are remembered, and the bytes for them.
const PROCESSES_MAX: usize = 1024;
const BYTES_MAX: u64 = 1 << 20;
/// Fewer intervals of a program say too little.
const INTERVALS_MIN: usize = 3;
/// The same of other programs of the disk, whose pace may differ.
const OF_DISK_MIN: usize = 6;
/// An interval counts as at most this many medians: a pause of the program is no cost of a file,
/// but waits for metadata are.
const MEDIANS_MAX: u64 = 8;
/// Samples that are drawn for the bounds, and how many of them lie beyond each bound: 2.5 %.
const RESAMPLES: usize = 1000;
const BEYOND: usize = RESAMPLES / 40;

/// The programs whose intervals are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The program itself.
    Program,
    /// The processes of its parent, which read in parallel with it.
    Siblings,
    /// Programs of the same user that walked on the same disk before.
    Disk,
}

impl Source {
    /// As a log has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Siblings => "siblings",
            Self::Disk => "disk",
        }
    }
}

/// What a file costs a program without help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Baseline {
    intervals: usize,
    interval: Bounds,
    /// The programs.
    pub source: Source,
}

impl Baseline {
    /// `None` if these are too few.
    #[must_use]
    pub fn of(intervals_ns: impl IntoIterator<Item = u64>, source: Source) -> Option<Self> {
        let mut intervals_ns: Vec<u64> = intervals_ns.into_iter().collect();
        intervals_ns.sort_unstable();
        let least = match source {
            Source::Disk => OF_DISK_MIN,
            Source::Program | Source::Siblings => INTERVALS_MIN,
        };
        if intervals_ns.len() < least {
            return None;
        }
        let median = intervals_ns[intervals_ns.len() / 2];
        for interval_ns in &mut intervals_ns {
            *interval_ns = (*interval_ns).min(median.saturating_mul(MEDIANS_MAX));
        }
        Some(Self {
            intervals: intervals_ns.len(),
            interval: match intervals_ns.len() < OF_DISK_MIN {
                true => middle(&intervals_ns),
                false => mean(&intervals_ns),
            },
            source,
        })
    }

    /// Number of intervals.
    #[must_use]
    pub fn intervals(&self) -> usize {
        self.intervals
    }

    /// With six intervals and more their mean, since the sum of the costs of many files is asked
    /// for. Of fewer, one that is not like the others would count too much: their median, with the
    /// least and the largest as bounds.
    #[must_use]
    pub fn interval(&self) -> Bounds {
        self.interval
    }
}

/// The median, the least and the largest of these, which are in order.
fn middle(intervals_ns: &[u64]) -> Bounds {
    let at = |index: usize| {
        let interval_ns = intervals_ns.get(index).copied().unwrap_or_default();
        i64::try_from(interval_ns).unwrap_or(i64::MAX)
    };
    let last = intervals_ns.len().saturating_sub(1);
    Bounds {
        best_ns: at(last / 2).midpoint(at(intervals_ns.len() / 2)),
        low_ns: at(0),
        high_ns: at(last),
    }
}

/// The mean of these, and the bounds between which 95 % of the means of samples lie that are drawn
/// from them with replacement (the percentile bootstrap).
fn mean(intervals_ns: &[u64]) -> Bounds {
    let count = intervals_ns.len().max(1);
    let mean = |sum: u128| i64::try_from(sum / count as u128).unwrap_or(i64::MAX);
    let mut state = 0;
    let mut sample = || {
        let drawn = (0..count).map(|_| intervals_ns[next(&mut state) as usize % count]);
        drawn.map(u128::from).sum::<u128>()
    };
    let mut sums: Vec<u128> = (0..RESAMPLES).map(|_| sample()).collect();
    sums.sort_unstable();
    let at = |index: usize| mean(sums.get(index).copied().unwrap_or_default());
    let best_ns = mean(intervals_ns.iter().copied().map(u128::from).sum());
    Bounds {
        best_ns,
        low_ns: at(BEYOND).min(best_ns),
        high_ns: at(RESAMPLES - 1 - BEYOND).max(best_ns),
    }
}

/// The next number of a fixed pseudo-random sequence (`splitmix64`): equal intervals have equal
/// bounds.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut value = *state;
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The misses of a process on one disk.
#[derive(Debug)]
struct Chain {
    disk: Device,
    /// The last one, if nothing was fetched from the disk since.
    last_ns: Option<u64>,
    /// A hash of its directory.
    last_directory: u64,
    recent_ns: VecDeque<u64>,
}

#[derive(Debug, Default)]
struct Chains(Vec<Chain>);

/// Intervals of all programs.
#[derive(Debug)]
pub struct Baselines {
    processes: Table<Chains>,
    /// Of all children of a process together.
    families: Table<Chains>,
    disks: HashMap<(Device, u32), VecDeque<u64>>,
    misses: u64,
}

impl Default for Baselines {
    fn default() -> Self {
        Self {
            processes: Table::new(BYTES_MAX, PROCESSES_MAX),
            families: Table::new(BYTES_MAX, PROCESSES_MAX),
            disks: HashMap::new(),
            misses: 0,
        }
    }
}

/// A process, its parent and its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    /// The process.
    pub process: u32,
    /// The process that started it.
    pub parent: u32,
    /// Its user.
    pub user: u32,
}

impl Baselines {
    /// A process has missed a file in this directory. `is_calm`: nothing is fetched from the disk.
    pub fn missed(&mut self, who: Who, disk: Device, directory: &[u8], at_ns: u64, is_calm: bool) {
        self.misses += 1;
        let now = self.misses;
        let at_ns = is_calm.then_some(at_ns);
        let mut hasher = DefaultHasher::new();
        directory.hash(&mut hasher);
        let directory = hasher.finish();
        let change = |chains: &mut Chains| ((), chains.missed(disk, directory, at_ns));
        self.processes.change(who.process, who.user, now, change);
        self.families.change(who.parent, who.user, now, change);
    }

    /// A process has ended.
    pub fn ended(&mut self, process: u32) {
        self.processes.remove(process);
        self.families.remove(process);
    }

    /// What a file on this disk costs the program of a process without help.
    #[must_use]
    pub fn of(&self, who: Who, disk: Device) -> Option<Baseline> {
        let own = self.processes.get(who.process);
        let own = own.and_then(|chains| chains.baseline(disk, Source::Program));
        own.or_else(|| {
            let of_disk = self.disks.get(&(disk, who.user))?;
            Baseline::of(of_disk.iter().copied(), Source::Disk)
        })
    }

    /// The same of all processes of its parent together.
    #[must_use]
    pub fn of_siblings(&self, who: Who, disk: Device) -> Option<Baseline> {
        let chains = self.families.get(who.parent)?;
        chains.baseline(disk, Source::Siblings)
    }

    /// A program is known to walk: its intervals say what a file on this disk costs.
    pub fn walks(&mut self, process: u32, user: u32, disk: Device) {
        let Some(chain) = self.processes.get(process).and_then(|all| all.find(disk)) else {
            return;
        };
        let key = (disk, user);
        if !self.disks.contains_key(&key) && self.disks.len() >= DISKS_MAX {
            self.disks.clear();
        }
        let of_disk = self.disks.entry(key).or_default();
        for interval_ns in &chain.recent_ns {
            if of_disk.len() == OF_DISK_MAX {
                of_disk.pop_front();
            }
            of_disk.push_back(*interval_ns);
        }
    }
}

impl Chains {
    fn find(&self, disk: Device) -> Option<&Chain> {
        self.0.iter().find(|chain| chain.disk == disk)
    }

    fn baseline(&self, disk: Device, source: Source) -> Option<Baseline> {
        let chain = self.find(disk)?;
        Baseline::of(chain.recent_ns.iter().copied(), source)
    }

    /// Takes a miss; without a time, one that breaks the chain. Returns the bytes held.
    fn missed(&mut self, disk: Device, directory: u64, at_ns: Option<u64>) -> u64 {
        let at = self.0.iter().position(|chain| chain.disk == disk);
        let at = at.unwrap_or_else(|| {
            if self.0.len() == DISKS_OF_PROCESS_MAX {
                self.0.remove(0);
            }
            self.0.push(Chain {
                disk,
                last_ns: None,
                last_directory: 0,
                recent_ns: VecDeque::new(),
            });
            self.0.len() - 1
        });
        let chain = &mut self.0[at];
        let last_ns = std::mem::replace(&mut chain.last_ns, at_ns);
        let was_there = chain.last_directory == directory;
        chain.last_directory = directory;
        if let (Some(last_ns), Some(at_ns)) = (last_ns, at_ns) {
            let interval_ns = at_ns.saturating_sub(last_ns);
            if interval_ns > PAUSE_NS {
                chain.recent_ns.clear();
            } else if was_there {
                if chain.recent_ns.len() == RECENT_MAX {
                    chain.recent_ns.pop_front();
                }
                chain.recent_ns.push_back(interval_ns);
            }
        }
        let chains = self.0.iter().map(|chain| chain.recent_ns.capacity() * 8);
        (chains.sum::<usize>() + self.0.capacity() * size_of::<Chain>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DISK: Device = Device { major: 7, minor: 1 };

    fn who(process: u32) -> Who {
        Who {
            process,
            parent: 1,
            user: 1000,
        }
    }

    fn bounds(intervals: impl IntoIterator<Item = u64>) -> (i64, i64, i64) {
        let baseline = Baseline::of(intervals, Source::Program).unwrap();
        let Bounds {
            best_ns,
            low_ns,
            high_ns,
        } = baseline.interval();
        (low_ns, best_ns, high_ns)
    }

    #[test]
    fn bounds_hold_the_best_estimate_and_narrow_with_more_intervals() {
        assert_eq!(bounds([9, 1, 6]), (1, 6, 9));
        assert_eq!(bounds([1, 2, 4, 9]), (1, 3, 9));
        assert_eq!(Baseline::of([1, 2], Source::Program), None);
        assert_eq!(Baseline::of(1..=5, Source::Disk), None);
        // Uniform from 0 to 1000, n of them: the error of the mean is 289 / sqrt(n), and 95 % lie
        // within 1.96 of that.
        for count in [16, 64] {
            let (low, best, high) = bounds((0..count).map(|at| at * 1000 / (count - 1)));
            assert!((495..=500).contains(&best), "{best}");
            let width = 2.0 * 1.96 * 300.0 / (count as f64).sqrt();
            let ratio = (high - low) as f64 / width;
            assert!((0.85..1.15).contains(&ratio), "{count}: {low} to {high}");
        }
        assert_eq!(bounds([7; 16]), (7, 7, 7));
    }

    #[test]
    fn a_pause_counts_for_some_medians_only() {
        let (low, best, high) = bounds([10, 10, 10, 10, 10, 10, 1_000_000]);
        assert_eq!((low, best), (10, (6 * 10 + 80) / 7));
        assert!(high <= 80, "{high}");
    }

    #[test]
    fn intervals_are_those_of_misses_between_which_nothing_was_fetched() {
        let mut all = Baselines::default();
        for (at_ns, is_calm) in [(10, true), (14, true), (30, false), (40, true), (45, true)] {
            all.missed(who(7), DISK, b"/d", at_ns, is_calm);
        }
        assert_eq!(all.of(who(7), DISK), None);
        // The first file of a directory costs more.
        all.missed(who(7), DISK, b"/e", 99, true);
        assert_eq!(all.of(who(7), DISK), None);
        all.missed(who(7), DISK, b"/e", 105, true);
        let own = all.of(who(7), DISK).unwrap();
        assert_eq!((own.intervals(), own.source), (3, Source::Program));
        assert_eq!(own.interval().best_ns, 5);
        // After a pause all begins anew.
        all.missed(who(7), DISK, b"/e", 106 + PAUSE_NS, true);
        assert_eq!(all.of(who(7), DISK), None);
    }

    #[test]
    fn who_has_none_of_its_own_has_those_of_its_disk_and_user() {
        let mut all = Baselines::default();
        for at in 0..8 {
            all.missed(who(7), DISK, b"/d", at * 3, true);
        }
        assert_eq!(all.of(who(8), DISK), None);
        all.walks(7, 1000, DISK);
        let of_disk = all.of(who(8), DISK).unwrap();
        assert_eq!((of_disk.source, of_disk.intervals()), (Source::Disk, 7));
        let other = Who {
            user: 1001,
            ..who(8)
        };
        assert_eq!(all.of(other, DISK), None);
        // Siblings read in parallel: each of two at half the pace.
        let mut all = Baselines::default();
        for at in 0..8u32 {
            all.missed(who(7 + at % 2), DISK, b"/d", u64::from(at) * 3, true);
        }
        assert_eq!(all.of(who(7), DISK).unwrap().interval().best_ns, 6);
        assert_eq!(all.of_siblings(who(7), DISK).unwrap().interval().best_ns, 3);
        all.ended(7);
        assert_eq!(all.of(who(7), DISK), None);
    }

    proptest! {
        #[test]
        fn it_holds_a_bounded_number_of_everything(
            misses in prop::collection::vec((0u32..3000, 0u32..200, 0u64..100), 0..4000)
        ) {
            let mut all = Baselines::default();
            for (process, minor, at_ns) in misses {
                let disk = Device { major: 1, minor };
                all.missed(who(process), disk, b"/d", at_ns, true);
                all.walks(process, process, disk);
                prop_assert!(all.disks.len() <= DISKS_MAX);
            }
            prop_assert!(all.disks.values().all(|of| of.len() <= OF_DISK_MAX));
            for process in 0..3000 {
                if let Some(chains) = all.processes.get(process) {
                    prop_assert!(chains.0.len() <= DISKS_OF_PROCESS_MAX);
                    prop_assert!(chains.0.iter().all(|of| of.recent_ns.len() <= RECENT_MAX));
                }
            }
        }
    }
}
