// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is to be followed, and what comes of it.

use foreread_accounting::{By, Counts, Subject};

/// Chunks of 64 pages that are followed at once; more are counted as not followed.
const CHUNKS_MAX: u32 = 1 << 18;

/// What to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Following {
    /// What accounts are told apart by; kinds always are.
    pub by: By,
    /// Only what the next child of this thread and its own children bring in.
    pub only_next_child: bool,
    /// Chunks of 64 pages at once.
    pub chunks_max: u32,
    /// Whether what it costs is measured, which costs a little itself.
    pub measure: bool,
}

impl Default for Following {
    fn default() -> Self {
        Self {
            by: By::default(),
            only_next_child: false,
            chunks_max: CHUNKS_MAX,
            measure: false,
        }
    }
}

/// What the programs see here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// All.
    Full,
    /// No requests of devices, no metadata, and of io_uring not all: their tracepoints lack.
    PagesOnly,
}

/// What found no room, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Pages that were brought in and are not in any account.
    pub unfollowed_pages: u64,
    /// Times that account "other" was used for one of its own.
    pub shared_accounts: u64,
    /// Accounts that have numbers and no names.
    pub unnamed_accounts: u64,
    /// Processes that don't count as children of the command.
    pub processes: u64,
    /// Events of the whole machine at which the kernel has not run a program.
    pub missed_events: u64,
}

/// What became of pages until now.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Accounts in no order. None of them is of the same subject as another.
    pub accounts: Vec<(Subject, Counts)>,
    /// What found no room.
    pub losses: Losses,
}
