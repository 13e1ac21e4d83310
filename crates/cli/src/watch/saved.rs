// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time that `watch` saved programs, as words and as JSON.

use foreread_watch::saved::streams::StreamsSaved;
use foreread_watch::saved::{Bounds, SavedSum};
use foreread_watch::tally::Tally;
use serde::Serialize;

use crate::output;

/// An estimate of saved time, with its bounds.
#[derive(Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SavedReport {
    /// Estimated time saved; negative if time was lost.
    saved_ns: i64,
    /// Lower bound of that.
    saved_low_ns: i64,
    /// Upper bound of that.
    saved_high_ns: i64,
}

impl SavedReport {
    pub fn of(time: &Bounds) -> Self {
        Self {
            saved_ns: time.best_ns,
            saved_low_ns: time.low_ns,
            saved_high_ns: time.high_ns,
        }
    }
}

/// An estimate for a reader of large files, and how it was found.
#[derive(Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StreamsSavedReport {
    #[serde(flatten)]
    time: SavedReport,
    /// Time that its threads waited for pages on their way.
    waited_ns: u64,
    /// Time that they would have waited with the kernel's readahead alone, by estimate.
    alone_wait_ns: u64,
    /// Mean number of threads that read at the same time, in hundredths.
    threads_percent: u64,
}

impl StreamsSavedReport {
    pub fn of(saved: &StreamsSaved) -> Self {
        Self {
            time: SavedReport::of(&saved.time),
            waited_ns: saved.waited_ns,
            alone_wait_ns: saved.alone_wait_ns,
            threads_percent: saved.threads_percent,
        }
    }
}

/// The estimates of several walks, replays and readers of large files.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SavedSumReport {
    #[serde(flatten)]
    time: SavedReport,
    /// Walks, replays and readers of large files of which there is an estimate.
    estimated: u64,
    /// Those of which something was used, and too little is known for an estimate.
    not_estimated: u64,
}

impl SavedSumReport {
    pub fn of(sum: &SavedSum) -> Self {
        Self {
            time: SavedReport::of(&sum.time),
            estimated: sum.estimated,
            not_estimated: sum.unknown,
        }
    }
}

/// Files and pages fetched for one program, their use, and the time saved.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProgramReport {
    /// Name of the program.
    pub program: String,
    /// Its process; null if there were several.
    pub process: Option<u32>,
    /// Files that were fetched for it.
    pub fetched_files: u64,
    /// Fetched files that it read.
    pub used_files: u64,
    /// Files that were not fetched when it came to them.
    pub missed_files: u64,
    /// Pages of large files that were fetched for it.
    pub large_file_pages: u64,
    /// Estimated time that this saved.
    pub saved: SavedSumReport,
}

impl ProgramReport {
    pub fn of(
        program: &str,
        process: Option<u32>,
        tally: &Tally,
        large_file_pages: u64,
        saved: &SavedSum,
    ) -> Self {
        Self {
            program: program.to_owned(),
            process,
            large_file_pages,
            fetched_files: tally.fetched_files,
            used_files: tally.used_files,
            missed_files: tally.missed_files,
            saved: SavedSumReport::of(saved),
        }
    }
}

/// The sum in words; empty if nothing is known, or nothing was used.
pub fn words(sum: &SavedSum) -> String {
    match (sum.estimated, sum.unknown) {
        (0, 0) => String::new(),
        (0, _) => "time saved not known".to_owned(),
        (_, 0) => time_words(&sum.time),
        (_, unknown) => format!("{}, not known of {unknown} more", time_words(&sum.time)),
    }
}

/// An estimate in words.
pub fn time_words(of: &Bounds) -> String {
    if of.is_unclear() {
        let bounds = (signed(of.low_ns), signed(of.high_ns));
        return format!("no time saved for certain ({} to {})", bounds.0, bounds.1);
    }
    let bounds = (of.low_ns.unsigned_abs(), of.high_ns.unsigned_abs());
    let (low, high) = (time(bounds.0.min(bounds.1)), time(bounds.0.max(bounds.1)));
    let best = time(of.best_ns.unsigned_abs());
    match of.best_ns > 0 {
        true => format!("about {best} saved ({low} to {high})"),
        // An estimate that is too small can have the wrong sign (docs/watch.md).
        false => format!("no time saved, by estimate ({low} to {high} lost)"),
    }
}

/// An estimate in a cell of a table.
pub fn short(of: &Bounds) -> String {
    match of.is_unclear() {
        true => "none".to_owned(),
        false => signed(of.best_ns),
    }
}

/// A duration, which may be of microseconds.
pub fn time(ns: u64) -> String {
    match ns {
        0 => "0".to_owned(),
        1..1_000_000 => format!("{} us", ns.div_ceil(1000)),
        1_000_000..10_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => output::time(ns),
    }
}

fn signed(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    format!("{sign}{}", time(ns.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn bounds(low_ms: i64, best_ms: i64, high_ms: i64) -> Bounds {
        Bounds {
            best_ns: best_ms * MS,
            low_ns: low_ms * MS,
            high_ns: high_ms * MS,
        }
    }

    #[test]
    fn gains_losses_and_what_is_unclear_are_told_apart() {
        let words = time_words(&bounds(17_000, 31_000, 44_000));
        assert_eq!(words, "about 31.0 s saved (17.0 s to 44.0 s)");
        let words = time_words(&bounds(-200, -100, -50));
        assert_eq!(words, "no time saved, by estimate (50 ms to 200 ms lost)");
        let unclear = bounds(-100, 50, 200);
        let words = time_words(&unclear);
        assert_eq!(words, "no time saved for certain (-100 ms to 200 ms)");
        assert_eq!(short(&unclear), "none");
        assert_eq!(short(&bounds(-200, -100, -50)), "-100 ms");
    }

    #[test]
    fn what_is_not_known_is_said() {
        let mut sum = SavedSum::default();
        assert_eq!(words(&sum), "");
        sum.unknown = 2;
        assert_eq!(words(&sum), "time saved not known");
        sum.estimated = 1;
        sum.time = bounds(1, 2, 3);
        let said = words(&sum);
        assert_eq!(
            said,
            "about 2.0 ms saved (1.0 ms to 3.0 ms), not known of 2 more"
        );
    }
}
