// SPDX-License-Identifier: MIT OR Apache-2.0
//! Knowledge about a disk that is kept from one plan to the next, where plans ask for neighbours.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Groups whose directories are in memory, and whether the disk has a head.
#[derive(Clone, Debug, Default)]
pub struct Neighbours {
    known: Arc<Mutex<Known>>,
    among_many: bool,
}

#[derive(Debug, Default)]
struct Known {
    /// Groups whose directories have been brought in, each by its first inode.
    groups: HashSet<u64>,
    has_head: Option<bool>,
}

impl Neighbours {
    /// Starts without knowledge of the disk. With `among_many`, many threads read from the disk as
    /// well. A rotational disk serves the nearest request first, so a request far from theirs is
    /// served last. So sysfs tells whether the disk is rotational, not a trial read, and all reads
    /// are queued at once: the head serves all of them when it comes near.
    #[must_use]
    pub fn new(among_many: bool) -> Self {
        Self {
            among_many,
            ..Self::default()
        }
    }

    /// Whether many threads read from the disk as well.
    pub(super) fn is_among_many(&self) -> bool {
        self.among_many
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a group is new. Then it is no longer.
    pub(super) fn add(&self, first_inode: u64) -> bool {
        self.known().groups.insert(first_inode)
    }

    /// Whether the disk has a head to move, where that is known.
    pub(super) fn has_head(&self) -> Option<bool> {
        self.known().has_head
    }

    pub(super) fn set_has_head(&self, has_head: Option<bool>) {
        self.known().has_head = has_head;
    }
}
