// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tracks which processes share which walk, for the log.

use std::collections::{HashMap, HashSet};

use foreread_watch::log::note::{Note, What};

use super::WalkId;

/// Each share is logged once, and after the beginning of the walk.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    begun: HashSet<WalkId>,
    members: HashMap<u32, HashSet<WalkId>>,
    /// With the user of the process.
    untold: Vec<(WalkId, u32, u32)>,
}

impl Sharing {
    /// A process of this user shares a walk.
    pub fn shares(&mut self, walk: WalkId, member: u32, user: u32) {
        if member != walk.process && self.members.entry(member).or_default().insert(walk) {
            self.untold.push((walk, member, user));
        }
    }

    /// The beginning of a walk was logged.
    pub fn begun(&mut self, walk: WalkId) {
        self.begun.insert(walk);
    }

    /// A walk is over.
    pub fn over(&mut self, walk: WalkId) {
        self.begun.remove(&walk);
        self.untold.retain(|(of, ..)| *of != walk);
        self.members.retain(|_, walks| {
            walks.remove(&walk);
            !walks.is_empty()
        });
    }

    /// A process has ended, and another one may have its number from now on.
    pub fn ended(&mut self, process: u32) {
        self.members.remove(&process);
    }

    /// The shares that are not logged yet and whose walk is.
    pub fn notes(&mut self) -> Vec<Note> {
        let begun = &self.begun;
        let told = self
            .untold
            .extract_if(.., |(walk, ..)| begun.contains(walk));
        let note = |(walk, member, user): (WalkId, u32, u32)| Note {
            process: member,
            began_by_reads: walk.began_by_reads,
            owner: Some(user),
            what: What::Shares {
                leader: walk.process,
            },
        };
        told.map(note).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(process: u32) -> WalkId {
        WalkId {
            process,
            began_by_reads: true,
        }
    }

    fn told(sharing: &mut Sharing) -> Vec<u32> {
        let notes = sharing.notes().into_iter();
        notes.map(|note| note.process).collect()
    }

    #[test]
    fn each_is_told_once_and_after_the_beginning() {
        let mut sharing = Sharing::default();
        for _ in 0..3 {
            sharing.shares(walk(1), 2, 7);
            sharing.shares(walk(1), 1, 7);
        }
        assert!(told(&mut sharing).is_empty());
        sharing.begun(walk(1));
        let note = Note {
            process: 2,
            began_by_reads: true,
            owner: Some(7),
            what: What::Shares { leader: 1 },
        };
        assert_eq!(sharing.notes(), [note]);
        sharing.shares(walk(1), 2, 7);
        sharing.shares(walk(1), 3, 7);
        assert_eq!(told(&mut sharing), [3]);
        // Another process with the same number.
        sharing.ended(2);
        sharing.shares(walk(1), 2, 7);
        assert_eq!(told(&mut sharing), [2]);
    }

    #[test]
    fn of_a_walk_that_is_over_nothing_is_kept() {
        let mut sharing = Sharing::default();
        sharing.begun(walk(1));
        sharing.shares(walk(1), 2, 7);
        sharing.over(walk(1));
        assert!(told(&mut sharing).is_empty());
        assert!(sharing.members.is_empty() && sharing.begun.is_empty());
        // The next walk of the same process is another one.
        sharing.begun(walk(1));
        sharing.shares(walk(1), 2, 7);
        assert_eq!(told(&mut sharing), [2]);
    }
}
