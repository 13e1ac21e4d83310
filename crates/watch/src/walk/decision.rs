// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answers of a walk to its caller, which carries them out.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::skipped::Skipped;

/// A file to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileToFetch {
    /// Its directory.
    pub directory: Arc<[u8]>,
    /// Its name there.
    pub name: Vec<u8>,
    /// Its inode number.
    pub inode: u64,
}

/// The next action for the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// List these directories, and those below them as far as there is room.
    List(Vec<Vec<u8>>),
    /// Fetch these files, in this order of need, at most this many bytes.
    Fetch(Vec<FileToFetch>, u64),
    /// The program isn't near enough to the end of the fetched files.
    Wait,
    /// Nothing is worth doing any more.
    End(Why),
}

/// Why a walk has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The program reads other files.
    Left,
    /// The program did not read the files that were fetched.
    Unused,
    /// It has read nothing for a while.
    Idle,
    /// The program has ended.
    Exited,
    /// Memory runs short.
    Memory,
    /// The watch was told to stop.
    Stopped,
    /// The program may not read there itself, or it isn't known what it may read.
    NotPermitted,
    /// The I/O of the program's cgroup is limited.
    Throttled,
    /// The memory of the watch for its user is used up.
    UserBudget,
    /// The memory of the watch is used up.
    TotalBudget,
}

impl From<Skipped> for Why {
    fn from(why: Skipped) -> Self {
        match why {
            Skipped::Throttled => Self::Throttled,
            Skipped::UserBudget => Self::UserBudget,
            Skipped::TotalBudget => Self::TotalBudget,
            // Of streams only; a walk leaves out the file, and goes on.
            Skipped::Leased
            | Skipped::NoPermission
            | Skipped::UnknownReader
            | Skipped::MixedThreads
            | Skipped::Confined => Self::NotPermitted,
        }
    }
}

impl Why {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Left,
        Self::Unused,
        Self::Idle,
        Self::Exited,
        Self::Memory,
        Self::Stopped,
        Self::NotPermitted,
        Self::Throttled,
        Self::UserBudget,
        Self::TotalBudget,
    ];

    /// As a log has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Unused => "unused",
            Self::Idle => "idle",
            Self::Exited => "exited",
            Self::Memory => "memory",
            Self::Stopped => "stopped",
            Self::NotPermitted => "not_permitted",
            Self::Throttled => "throttled",
            Self::UserBudget => "user_budget",
            Self::TotalBudget => "total_budget",
        }
    }
}

/// A directory, and the names there that lead to an old place and to a new one.
pub type Above = (Vec<u8>, [Vec<u8>; 2]);

/// Where a file that was read lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Met {
    /// Among those that the walk knows.
    Known,
    /// Below its top, and not known, or known no longer.
    Below,
    /// Elsewhere.
    Outside,
}
