// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the processes whose accesses count, from the fork and exec events of the trace.
//!
//! The kernel traces this thread and all that it forks. The program is the first of these that
//! calls exec; until then it was still Foreread that ran in it. Threads of ours, such as those of a
//! replay, never do, and other children come later.

use std::collections::{HashMap, HashSet};

use super::format::Life;
use crate::process_tree::Members;

/// The processes of the program, and those that are not of it.
#[derive(Debug)]
pub struct Lineage {
    /// This thread, by the kernel's own number.
    own_tid: i32,
    /// Before the program is known: each descendant, and which child of ours it descends from.
    candidates: HashMap<i32, i32>,
    root: Option<i32>,
    start_ns: u64,
    members: Members,
    strangers: HashSet<i32>,
}

impl Lineage {
    /// Follows the children of a thread, given by the kernel's own number.
    pub fn new(own_tid: i32) -> Self {
        Self {
            own_tid,
            candidates: HashMap::new(),
            root: None,
            start_ns: 0,
            members: Members::default(),
            strangers: HashSet::new(),
        }
    }

    /// Takes in an event; those of one process must come in order of time.
    pub fn note(&mut self, time_ns: u64, life: Life) {
        match life {
            Life::Fork { parent, child } => self.fork(time_ns, parent, child),
            Life::Exec { pid, old_pid } => {
                let is_candidate = |pid| self.candidates.get(&pid) == Some(&pid);
                if self.root.is_none() && (is_candidate(pid) || is_candidate(old_pid)) {
                    self.adopt(time_ns, pid);
                }
            }
            Life::Exit { pid } => {
                self.members.ended(pid, time_ns);
                self.strangers.remove(&pid);
                self.candidates.remove(&pid);
            }
        }
    }

    fn fork(&mut self, time_ns: u64, parent: i32, child: i32) {
        // A number that was given away again.
        self.strangers.remove(&child);
        if self.root.is_none() {
            let top = if parent == self.own_tid {
                child
            } else {
                self.candidates.get(&parent).copied().unwrap_or(child)
            };
            self.candidates.insert(child, top);
        } else if parent == self.own_tid || self.strangers.contains(&parent) {
            self.strangers.insert(child);
        } else {
            // Also when the parent's own fork was lost: the kernel traces none but our descendants.
            self.members.add(child, time_ns);
        }
    }

    fn adopt(&mut self, time_ns: u64, root: i32) {
        self.root = Some(root);
        self.start_ns = time_ns;
        for (pid, top) in self.candidates.drain() {
            if top == root {
                self.members.add(pid, time_ns);
            } else {
                self.strangers.insert(pid);
            }
        }
    }

    /// When the program was executed; `None` before.
    pub fn start_ns(&self) -> Option<u64> {
        self.root.map(|_| self.start_ns)
    }

    /// Whether an access is the program's. Only asked once it has been executed.
    pub fn counts(&self, time_ns: u64, pid: i32) -> bool {
        time_ns >= self.start_ns && pid != self.own_tid && !self.strangers.contains(&pid)
    }

    /// Whether a process is known to be of the program, or may yet be.
    pub fn contains(&self, pid: i32) -> bool {
        self.members.contains(pid) || self.candidates.contains_key(&pid)
    }

    /// Forgets processes that ended, once all that they did has been taken in.
    pub fn settle(&mut self) {
        self.members.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: i32 = 100;

    fn fork(parent: i32, child: i32) -> Life {
        Life::Fork { parent, child }
    }

    fn exec(pid: i32) -> Life {
        Life::Exec { pid, old_pid: pid }
    }

    #[test]
    fn the_first_child_to_exec_is_the_program() {
        let mut lineage = Lineage::new(OWN);
        // A thread of ours with one of its own, then the program.
        lineage.note(1, fork(OWN, 101));
        lineage.note(2, fork(101, 102));
        lineage.note(3, fork(OWN, 110));
        assert_eq!(lineage.start_ns(), None);
        lineage.note(5, exec(110));
        lineage.note(6, fork(110, 111));
        lineage.note(7, fork(OWN, 120));
        lineage.note(8, exec(120));
        lineage.note(9, fork(120, 121));
        assert_eq!(lineage.start_ns(), Some(5));
        assert!(lineage.counts(9, 110) && lineage.counts(9, 111));
        for stranger in [OWN, 101, 102, 120, 121] {
            assert!(!lineage.counts(9, stranger), "{stranger}");
            assert!(!lineage.contains(stranger), "{stranger}");
        }
        assert!(!lineage.counts(4, 110), "before exec it is still us");
    }

    #[test]
    fn a_lost_fork_loses_no_accesses() {
        let mut lineage = Lineage::new(OWN);
        lineage.note(1, fork(OWN, 110));
        lineage.note(2, exec(110));
        lineage.note(9, fork(555, 556));
        assert!(lineage.counts(9, 555));
        assert!(lineage.contains(556));
    }

    #[test]
    fn a_number_may_change_sides() {
        let mut lineage = Lineage::new(OWN);
        lineage.note(1, fork(OWN, 110));
        lineage.note(2, exec(110));
        lineage.note(3, fork(OWN, 120));
        lineage.note(4, Life::Exit { pid: 120 });
        lineage.note(5, fork(110, 120));
        assert!(lineage.counts(6, 120) && lineage.contains(120));
    }
}
