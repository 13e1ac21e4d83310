// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pace of a program that is read ahead of, compared with its pace without help.

use super::baseline::Baseline;
use super::{Bounds, Saved};
use crate::tally::Tally;

/// Parts of a doubling in which times from file to file are counted.
const PARTS_LOG2: u32 = 2;
const PARTS: usize = 1 << PARTS_LOG2;

/// Counts times from file to file of one program.
#[derive(Clone, Debug)]
pub struct Pace {
    baseline: Option<Baseline>,
    /// Of the program and its siblings together.
    of_siblings: Option<Baseline>,
    began_ns: u64,
    last_ns: u64,
    /// Times from file to file, by their logarithms.
    intervals: Box<[u32; 64 * PARTS]>,
    /// Pages of the fetches that came in, and that were in memory before.
    arrived_pages: u64,
    cached_pages: u64,
}

impl Pace {
    /// From the last miss on, which led to the walk or replay.
    #[must_use]
    pub fn since(began_ns: u64, baseline: Option<Baseline>, of_siblings: Option<Baseline>) -> Self {
        Self {
            baseline,
            of_siblings,
            began_ns,
            last_ns: began_ns,
            intervals: Box::new([0; 64 * PARTS]),
            arrived_pages: 0,
            cached_pages: 0,
        }
    }

    /// The program has reached a file of the walk or replay.
    pub fn reached(&mut self, at_ns: u64) {
        // Events of different processors may be out of order.
        let interval_ns = at_ns.saturating_sub(self.last_ns);
        let count = &mut self.intervals[part_of(interval_ns)];
        *count = count.saturating_add(1);
        self.last_ns = self.last_ns.max(at_ns);
    }

    /// A fetch is over.
    pub fn fetched(&mut self, arrived_pages: u64, cached_pages: u64) {
        self.arrived_pages += arrived_pages;
        self.cached_pages += cached_pages;
    }

    /// The time saved so far; `None` if the pace without help is not known, or nothing was used.
    /// `is_shared`: several processes have reached these files.
    ///
    /// Without help, each file that was fetched and used, or missed, would have cost such an
    /// interval. A fetched file that was in memory before would have cost what a file in memory
    /// costs.
    #[must_use]
    pub fn saved(&self, tally: &Tally, is_shared: bool) -> Option<Saved> {
        let baseline = match is_shared {
            false => self.baseline.as_ref(),
            true => self.of_siblings.as_ref(),
        }?;
        if tally.used_files == 0 {
            return None;
        }
        let pages = self.arrived_pages + self.cached_pages;
        let aided = part(tally.used_files, self.arrived_pages, pages);
        let (waits, others) = (aided + tally.missed_files, tally.used_files - aided);
        let took_ns = self.last_ns - self.began_ns;
        let interval = baseline.interval();
        let of_others = as_ns(u128::from(others) * u128::from(self.median_ns()));
        let saved = |interval_ns: i64| {
            let alone = i128::from(interval_ns) * i128::from(waits);
            let alone = i64::try_from(alone).unwrap_or(i64::MAX);
            let alone = alone.saturating_add(of_others);
            alone.saturating_sub(as_ns(u128::from(took_ns)))
        };
        Some(Saved {
            time: Bounds {
                best_ns: saved(interval.best_ns),
                low_ns: saved(interval.low_ns),
                high_ns: saved(interval.high_ns),
            },
            files: tally.used_files + tally.missed_files,
            aided_files: waits,
            took_ns,
            alone_ns: u64::try_from(interval.best_ns).unwrap_or_default(),
            intervals: baseline.intervals(),
            source: baseline.source,
        })
    }

    /// The median of the times from file to file: most files are in memory when the program comes
    /// to them.
    fn median_ns(&self) -> u64 {
        let all: u64 = self.intervals.iter().map(|count| u64::from(*count)).sum();
        let mut below = 0;
        let parts = self.intervals.iter();
        let median = parts.map(|count| u64::from(*count)).position(|count| {
            below += count;
            2 * below >= all
        });
        median.filter(|_| all > 0).map_or(0, start_of)
    }
}

fn as_ns(value: u128) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// `of` times `part / whole`; all of it where nothing is known.
fn part(of: u64, part: u64, whole: u64) -> u64 {
    if whole == 0 {
        return of;
    }
    let of_part = u128::from(of) * u128::from(part) / u128::from(whole);
    u64::try_from(of_part).unwrap_or(of)
}

/// The place in which a time is counted.
fn part_of(interval_ns: u64) -> usize {
    let interval_ns = interval_ns.max(PARTS as u64);
    let log2 = interval_ns.ilog2();
    let below = (interval_ns >> (log2 - PARTS_LOG2)) as usize & (PARTS - 1);
    (log2 as usize) * PARTS + below
}

/// The least time that is counted there.
fn start_of(place: usize) -> u64 {
    let (log2, below) = (place / PARTS, place % PARTS);
    let parts = (PARTS + below) as u64;
    parts << (log2 as u32).saturating_sub(PARTS_LOG2)
}

#[cfg(test)]
mod tests {
    use super::super::baseline::Source;
    use super::*;
    use proptest::prelude::*;

    fn tally(used_files: u64, missed_files: u64) -> Tally {
        Tally {
            fetched_files: used_files,
            used_files,
            missed_files,
            ..Tally::default()
        }
    }

    fn baseline(interval_ns: u64) -> Option<Baseline> {
        let intervals = [interval_ns - 100, interval_ns, interval_ns + 100];
        Baseline::of(intervals, Source::Program)
    }

    /// One that reaches a file every `every_ns`.
    fn paced(files: u64, every_ns: u64) -> Pace {
        let mut pace = Pace::since(1000, baseline(400), None);
        for file in 1..=files {
            pace.reached(1000 + file * every_ns);
        }
        pace
    }

    #[test]
    fn saved_is_what_it_would_have_cost_less_what_it_took() {
        let mut pace = paced(100, 50);
        pace.fetched(800, 0);
        let saved = pace.saved(&tally(90, 10), false).unwrap();
        assert_eq!(saved.took_ns, 5000);
        assert_eq!((saved.files, saved.aided_files), (100, 100));
        assert_eq!(saved.time.best_ns, 100 * 400 - 5000);
        assert_eq!(saved.time.low_ns, 100 * 300 - 5000);
        assert_eq!(saved.time.high_ns, 100 * 500 - 5000);
        assert_eq!((saved.alone_ns, saved.intervals), (400, 3));
    }

    #[test]
    fn a_program_that_was_slowed_down_has_lost() {
        let mut pace = paced(100, 700);
        pace.fetched(800, 0);
        let saved = pace.saved(&tally(100, 0), false).unwrap();
        assert_eq!(saved.time.best_ns, -30_000);
        assert!(saved.time.high_ns < 0 && !saved.time.is_unclear());
    }

    #[test]
    fn files_that_were_in_memory_save_nothing() {
        let mut pace = paced(100, 64);
        pace.fetched(0, 800);
        let saved = pace.saved(&tally(100, 0), false).unwrap();
        assert_eq!((saved.aided_files, saved.time.best_ns), (0, 0));
        assert!(saved.time.is_unclear());
        pace.fetched(800, 0);
        let saved = pace.saved(&tally(100, 0), false).unwrap();
        assert_eq!(saved.time.best_ns, 50 * 400 + 50 * 64 - 6400);
    }

    #[test]
    fn where_too_little_is_known_nothing_is_said() {
        let pace = Pace::since(0, None, baseline(400));
        assert_eq!(pace.saved(&tally(5, 0), false), None);
        assert!(pace.saved(&tally(5, 0), true).is_some());
        assert_eq!(paced(5, 1).saved(&tally(0, 5), false), None);
    }

    proptest! {
        #[test]
        fn a_time_is_counted_where_it_belongs(interval_ns in 4u64..) {
            let place = part_of(interval_ns);
            prop_assert!(start_of(place) <= interval_ns);
            prop_assert!(place + 1 == 64 * PARTS || start_of(place + 1) > interval_ns);
        }

        #[test]
        fn any_times_and_counts_have_an_estimate_within_its_bounds(
            times in prop::collection::vec(any::<u64>(), 0..20),
            pages in (0u64..1 << 40, 0u64..1 << 40),
            files in (1u64..1 << 40, 0u64..1 << 40),
            interval_ns in 100u64..1 << 40,
        ) {
            let mut pace = Pace::since(0, baseline(interval_ns), None);
            times.into_iter().for_each(|at_ns| pace.reached(at_ns));
            pace.fetched(pages.0, pages.1);
            let time = pace.saved(&tally(files.0, files.1), false).unwrap().time;
            prop_assert!(time.low_ns <= time.best_ns && time.best_ns <= time.high_ns);
        }
    }
}
