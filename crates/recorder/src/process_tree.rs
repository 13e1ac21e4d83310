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

/// The program and all that it forks, from events of processes in order of time. The program is the
/// first child of a thread of ours.
#[derive(Debug)]
pub struct Family {
    own_pid: i32,
    own_tid: i32,
    root: Option<i32>,
    start_ns: Option<u64>,
    members: Members,
}

impl Family {
    /// Follows the children of a thread.
    #[must_use]
    pub fn new(own_pid: i32, own_tid: i32) -> Self {
        Self {
            own_pid,
            own_tid,
            root: None,
            start_ns: None,
            members: Members::default(),
        }
    }

    /// A thread of process `parent` forked `child`.
    pub fn forked(&mut self, time_ns: u64, parent: i32, parent_tid: i32, child: i32) {
        let is_ours = (parent, parent_tid) == (self.own_pid, self.own_tid);
        let is_root = self.root.is_none() && is_ours;
        if is_root {
            self.root = Some(child);
        }
        if is_root || self.members.contains(parent) {
            self.members.add(child, time_ns);
        }
    }

    /// A process called exec.
    pub fn executed(&mut self, time_ns: u64, pid: i32) {
        if self.root == Some(pid) && self.start_ns.is_none() {
            self.start_ns = Some(time_ns);
        }
    }

    /// A process ended.
    pub fn ended(&mut self, time_ns: u64, pid: i32) {
        self.members.ended(pid, time_ns);
    }

    /// Whether a process is of the program.
    #[must_use]
    pub fn contains(&self, pid: i32) -> bool {
        self.members.contains(pid)
    }

    /// When the program was executed; `None` before.
    #[must_use]
    pub fn start_ns(&self) -> Option<u64> {
        self.start_ns
    }

    /// Forgets processes that ended.
    pub fn settle(&mut self) {
        self.members.settle();
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
    /// Finds descendants of `own_pid`. `parent_of` returns the parent of a process, or `None` when
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
    fn the_first_child_of_our_thread_is_the_program() {
        let mut family = Family::new(10, 11);
        family.forked(1, 10, 10, 20);
        family.forked(2, 10, 11, 30);
        family.forked(3, 10, 11, 40);
        family.forked(4, 30, 31, 50);
        family.executed(5, 40);
        assert_eq!(family.start_ns(), None);
        family.executed(6, 30);
        family.executed(7, 30);
        assert_eq!(family.start_ns(), Some(6));
        let of_program = [20, 30, 40, 50].map(|pid| family.contains(pid));
        assert_eq!(of_program, [false, true, false, true]);
        family.ended(8, 50);
        family.settle();
        assert!(!family.contains(50));
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
