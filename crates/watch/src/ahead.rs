// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface of planners that run ahead of one program: traversals and profile replays.
//!
//! A planner takes events: the accesses of its program, and the results of its actions. It returns
//! actions: list directories, carry a read plan out, wait, end. It does no I/O and has no clock. A
//! driver carries the actions out; it is the same for all planners. A planner asks [`Machine`] for
//! facts that it needs at once.

use std::collections::HashMap;
use std::sync::Arc;

use foreread_core::Device;
use foreread_core::mounts::Mounts;
use foreread_prefetch::plan::ReadPlan;

use crate::detect::Missed;
use crate::log::note::What;
use crate::look::Look;
use crate::memory_budget::ELEMENT_BYTES;
use crate::order::Entry;
use crate::place::Place;
use crate::skipped::Skipped;
use crate::tally::Tally;
use crate::walk::step_bytes;

/// An access of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// It misses data of a file.
    Missed(Missed),
    /// It reads data of a file from memory.
    Hit {
        /// The thread that reads.
        thread: u32,
        /// The file system.
        device: Device,
        /// The inode number of the file.
        inode: u64,
    },
    /// It waits for metadata of a file in a directory.
    Waits(Look),
    /// It has looked a file up.
    Looked {
        /// The file system.
        device: Device,
        /// The inode number of the file.
        inode: u64,
        /// Whether it may have waited.
        is_late: bool,
    },
}

impl Access {
    /// Bytes that it holds while it waits for its planner.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        let names = match self {
            Self::Missed(missed) => missed.directory.len() + missed.name.len(),
            Self::Waits(look) => {
                let start = look.start.as_ref().map_or(0, Vec::len);
                look.directory.len() + look.name.len() + start
            }
            Self::Hit { .. } | Self::Looked { .. } => 0,
        };
        let allocations = if names > 0 { 2 * ELEMENT_BYTES } else { 0 };
        size_of::<Self>() as u64 + allocations + names as u64
    }
}

/// An event for a planner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An access of the program.
    Access(Access),
    /// The result of [`Action::List`].
    Listed(Listed),
    /// The result of [`Action::Fetch`].
    Fetched(Fetched),
    /// The program has done nothing for some time.
    Idle,
    /// The program has ended.
    Exited,
    /// Nothing may be fetched, by order of the user.
    Stopped,
    /// Nothing may be fetched for this program.
    Skipped(Skipped),
}

/// Directories that were listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Directories that were opened, or could not be. Others are requested again.
    pub tried: Vec<Vec<u8>>,
    /// The entries of each directory that could be listed.
    pub lists: HashMap<Vec<u8>, Vec<Entry>>,
    /// The time that it took.
    pub took_ns: u64,
}

impl Listed {
    /// Bytes that a planner holds of it afterwards, at most.
    #[must_use]
    pub fn planned_bytes(&self) -> u64 {
        let entries = self.lists.values().flatten();
        let entries = entries.map(|entry| step_bytes(&entry.name));
        // The path of a directory is a step of its own until it is listed.
        let directories = self.lists.keys().map(|path| step_bytes(path));
        entries.chain(directories).sum()
    }

    /// Entries of all directories.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.lists.values().map(|list| list.len() as u64).sum()
    }
}

/// The result of a read plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Pages of files that came in.
    pub pages: u64,
    /// Pages of metadata that came in.
    pub metadata_pages: u64,
    /// Pages of the plan that were cached already.
    pub cached_pages: u64,
    /// Files of the plan that are gone, replaced or unreadable.
    pub gone_files: u64,
    /// Files of the plan that were not fetched, because the program may not read them itself.
    pub withheld_files: u64,
    /// Whether it was stopped because tasks wait for memory.
    pub lacks_memory: bool,
    /// Whether it was stopped before its end by another order.
    pub is_cut: bool,
    /// The time that it took.
    pub took_ns: u64,
}

/// The next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// List these directories, by their paths in the file system, and those below them as far as
    /// there is room.
    List {
        /// A directory at or above all of them.
        top: Place,
        /// The directories.
        directories: Vec<Vec<u8>>,
    },
    /// Carry a read plan out.
    Fetch(Fetch),
    /// Wait for an access of the program.
    Wait,
    /// The planner has ended.
    End,
}

/// A read plan to carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The files and their pages.
    pub plan: ReadPlan,
    /// Maximum number of bytes to fetch.
    pub budget_bytes: u64,
    /// Whether the planner takes accesses while the plan is carried out.
    pub takes_accesses: bool,
}

/// A planner ahead of one program.
pub trait Ahead {
    /// Takes an event. Returns whether it shows that the program still uses what is planned: a
    /// program that shows nothing for some time is idle.
    fn take(&mut self, event: Event, machine: &mut dyn Machine) -> bool;

    /// Decides what to do next. The result of a list or a fetch must be taken before the next
    /// decision.
    fn next(&mut self) -> Action;

    /// Whether it has not ended.
    fn goes_on(&self) -> bool;

    /// Files and pages that were fetched, and their use.
    fn tally(&self) -> Tally;

    /// Bytes of our own memory that it holds.
    fn held_bytes(&self) -> u64 {
        0
    }
}

/// Questions of a planner to the machine. By default there are no answers.
pub trait Machine {
    /// Takes a note for the log.
    fn note(&mut self, what: What);

    /// The present mounts; `None` if they can't be read.
    fn mounts(&mut self) -> Option<Arc<Mounts>> {
        None
    }

    /// The entries of the directory with this path `below` the top; `None` if it can't be listed.
    fn list(&mut self, _top: &Place, _below: &[u8]) -> Option<Vec<Entry>> {
        None
    }

    /// Whether no other planner ahead of the same program has this directory, or one above it.
    fn is_free(&mut self, _device: Device, _inside: &[u8]) -> bool {
        true
    }

    /// Claims a directory for this planner, in place of the one that it has. `false` if the
    /// directory isn't free.
    fn claim(&mut self, _device: Device, _inside: &[u8]) -> bool {
        true
    }

    /// The topmost directory, at or above this one, at which a process seems to have begun; `None`
    /// if there is no evidence.
    fn began_at(&mut self, _process: u32, _place: &Place) -> Option<Place> {
        None
    }
}
