// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options and results of following pages.

use foreread_accounting::{By, Counts, Subject};

/// Chunks of 64 pages that are followed at once; more are counted as not followed.
const CHUNKS_MAX: u32 = 1 << 18;

/// Options of following pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Following {
    /// Properties that accounts are told apart by; kinds always are.
    pub by: By,
    /// Whether only pages are followed that the next child of this thread and its own children
    /// bring in.
    pub only_next_child: bool,
    /// Chunks of 64 pages at once.
    pub chunks_max: u32,
    /// Whether the cost is measured, which costs a little itself.
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

/// The events that the programs see on this kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// All.
    Full,
    /// No requests of devices, no metadata, and of io_uring not all: their tracepoints lack.
    PagesOnly,
}

/// Events since the start that found no room in a table.
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

/// Counts of pages up to now.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Accounts in no order. None of them is of the same subject as another.
    pub accounts: Vec<(Subject, Counts)>,
    /// Events that found no room.
    pub losses: Losses,
}
