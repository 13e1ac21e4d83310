// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which processes belong to the program.

use std::collections::HashMap;

use foreread_sys::process_stat::parent_of;

/// Processes of the program, by number, with the time of their fork.
#[derive(Debug, Default)]
pub(crate) struct Members {
    since_ns: HashMap<i32, u64>,
    ended: Vec<(i32, u64)>,
}

impl Members {
    pub(crate) fn add(&mut self, pid: i32, time_ns: u64) {
        self.since_ns.insert(pid, time_ns);
    }

    pub(crate) fn contains(&self, pid: i32) -> bool {
        self.since_ns.contains_key(&pid)
    }

    /// Notes an end. Until [`settle`](Self::settle) the process still counts: what it opened may
    /// wait in another queue.
    pub(crate) fn ended(&mut self, pid: i32, time_ns: u64) {
        if self.contains(pid) {
            self.ended.push((pid, time_ns));
        }
    }

    /// Forgets those that ended, unless their number was given away again since.
    pub(crate) fn settle(&mut self) {
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

/// Parents by `/proc`, for when no events tell them.
#[derive(Debug)]
pub(crate) struct Ancestry {
    own_pid: i32,
    known: HashMap<i32, Option<bool>>,
}

/// Deeper than any real chain of parents; a race with reused numbers may make a ring.
const DEPTH_MAX: usize = 256;

impl Ancestry {
    pub(crate) fn new(own_pid: i32) -> Self {
        Self {
            own_pid,
            known: HashMap::new(),
        }
    }

    /// Whether `pid` descends from this process; `None` when it has ended already.
    pub(crate) fn descends(&mut self, pid: i32) -> Option<bool> {
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
            at = parent_of(at)?;
            if at == self.own_pid {
                return Some(true);
            }
        }
        None
    }

    /// Numbers are given away again, so nothing is kept for long.
    pub(crate) fn forget(&mut self) {
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
        let own = std::process::id() as i32;
        let mut ancestry = Ancestry::new(own);
        let mut child = std::process::Command::new("sleep")
            .arg("9")
            .spawn()
            .expect("sleep");
        assert_eq!(ancestry.descends(child.id() as i32), Some(true));
        assert_eq!(ancestry.descends(1), Some(false));
        child.kill().expect("kill");
        child.wait().expect("wait");
        ancestry.forget();
        assert_eq!(ancestry.descends(child.id() as i32), None);
    }
}
