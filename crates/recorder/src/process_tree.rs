// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which processes belong to the program.

use std::collections::HashMap;

/// Processes of the program, by number, with the time of their fork.
#[derive(Debug, Default)]
pub struct Members {
    since_ns: HashMap<i32, u64>,
    ended: Vec<(i32, u64)>,
}

impl Members {
    /// Adds a process that was forked at `time_ns`.
    pub fn add(&mut self, pid: i32, time_ns: u64) {
        self.since_ns.insert(pid, time_ns);
    }

    /// Whether a process is among them.
    #[must_use]
    pub fn contains(&self, pid: i32) -> bool {
        self.since_ns.contains_key(&pid)
    }

    /// Notes an end. Until [`settle`](Self::settle) the process still counts: what it opened may
    /// wait in another queue.
    pub fn ended(&mut self, pid: i32, time_ns: u64) {
        if self.contains(pid) {
            self.ended.push((pid, time_ns));
        }
    }

    /// Forgets those that ended, unless their number was given away again since.
    pub fn settle(&mut self) {
        for (pid, ended_ns) in self.ended.drain(..) {
            if self
                .since_ns
                .get(&pid)
                .is_some_and(|since| *since <= ended_ns)
            {
                self.since_ns.remove(&pid);
            }
        }
    }
}

/// Descent by the parents that the system tells, for when no events tell of forks.
pub struct Ancestry<P> {
    own_pid: i32,
    /// The parent of a process; `None` when it has ended.
    parent_of: P,
    known: HashMap<i32, Option<bool>>,
}

/// Deeper than any real chain of parents; a race with reused numbers may make a ring.
const DEPTH_MAX: usize = 256;

impl<P: Fn(i32) -> Option<i32>> Ancestry<P> {
    /// Of the descendants of `own_pid`; `parent_of` tells the parent of a process, or `None` when
    /// it has ended.
    pub fn new(own_pid: i32, parent_of: P) -> Self {
        Self {
            own_pid,
            parent_of,
            known: HashMap::new(),
        }
    }

    /// Whether `pid` descends from this process; `None` when it has ended already.
    pub fn descends(&mut self, pid: i32) -> Option<bool> {
        if let Some(known) = self.known.get(&pid) {
            return *known;
        }
        let found = self.look(pid);
        self.known.insert(pid, found);
        found
    }

    fn look(&self, pid: i32) -> Option<bool> {
        let mut at = pid;
        for _ in 0..DEPTH_MAX {
            if at <= 1 {
                return Some(false);
            }
            at = (self.parent_of)(at)?;
            if at == self.own_pid {
                return Some(true);
            }
        }
        None
    }

    /// Forgets all answers: numbers are given away again.
    pub fn forget(&mut self) {
        self.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_given_away_again_stays() {
        let mut members = Members::default();
        members.add(7, 10);
        members.add(8, 10);
        members.ended(7, 20);
        members.ended(8, 20);
        members.add(8, 30);
        assert!(members.contains(7), "still counts until settled");
        members.settle();
        assert!(!members.contains(7));
        assert!(members.contains(8));
    }

    #[test]
    fn only_descendants_descend() {
        let parents = HashMap::from([(20, 10), (30, 20), (40, 1), (50, 51), (51, 50)]);
        let parent_of = |pid| parents.get(&pid).copied();
        let mut ancestry = Ancestry::new(10, parent_of);
        assert_eq!(ancestry.descends(30), Some(true));
        assert_eq!(ancestry.descends(40), Some(false));
        assert_eq!(ancestry.descends(1), Some(false));
        assert_eq!(ancestry.descends(99), None, "it has ended");
        assert_eq!(ancestry.descends(50), None, "a ring of reused numbers");
    }

    #[test]
    fn an_answer_holds_until_it_is_forgotten() {
        let parent = std::cell::Cell::new(10);
        let mut ancestry = Ancestry::new(10, |_| Some(parent.get()));
        assert_eq!(ancestry.descends(20), Some(true));
        parent.set(1);
        assert_eq!(ancestry.descends(20), Some(true));
        ancestry.forget();
        assert_eq!(ancestry.descends(20), Some(false));
    }
}
