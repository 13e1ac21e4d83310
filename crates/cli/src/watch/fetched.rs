// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON report of prefetched files, for walks and for profiles.

use foreread_watch::tally::Tally;
use serde::Serialize;

/// The files that were fetched.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FetchedReport {
    /// Files that were fetched and of which a use would be seen.
    fetched_files: u64,
    /// Pages that came in.
    fetched_pages: u64,
    /// Fetched files that the program read.
    used_files: u64,
    /// Fetched files that the program did not read.
    wasted_files: u64,
    /// Files that were not fetched when the program came to them.
    missed_files: u64,
}

/// The result of one walk or of several.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WalkTallyReport {
    #[serde(flatten)]
    fetched: FetchedReport,
    listed_directories: u64,
}

/// The result of one profile replay or of several.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProfileTallyReport {
    #[serde(flatten)]
    fetched: FetchedReport,
    /// Fetched files of which no use can be seen.
    uncounted_files: u64,
}

impl FetchedReport {
    fn of(tally: &Tally) -> Self {
        Self {
            fetched_files: tally.fetched_files,
            fetched_pages: tally.fetched_pages,
            used_files: tally.used_files,
            wasted_files: tally.wasted_files(),
            missed_files: tally.missed_files,
        }
    }
}

impl WalkTallyReport {
    pub fn of(tally: &Tally) -> Self {
        Self {
            fetched: FetchedReport::of(tally),
            listed_directories: tally.directories,
        }
    }
}

impl ProfileTallyReport {
    pub fn of(tally: &Tally) -> Self {
        Self {
            fetched: FetchedReport::of(tally),
            uncounted_files: tally.uncounted_files,
        }
    }
}
