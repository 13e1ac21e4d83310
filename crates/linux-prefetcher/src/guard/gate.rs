// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a replay may have under way, and what it has touched.
//!
//! The threads of a replay ask before they read or look something up, and note it. The guard sets
//! what they may, and is told what they touched: that isn't the program's doing.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foreread_prefetch::proof::Allowance;
use foreread_profile::{NodeId, PathTree};

/// After this time a thread that waits looks whether its plan was stopped.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// See the [module](self).
#[derive(Debug)]
pub struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    allowance: Allowance,
    /// Looks under way.
    looks: u32,
    /// Ends of the pages that were asked for, by file and first page.
    asked: BTreeMap<(NodeId, u64), u64>,
    /// Nodes that were looked up, and the directories on the way there.
    looked_up: HashSet<NodeId>,
    /// Whether somebody wants to know.
    takes_notes: bool,
}

impl Gate {
    pub(super) fn new(allowance: Allowance) -> Self {
        Self {
            state: Mutex::new(State {
                allowance,
                looks: 0,
                asked: BTreeMap::new(),
                looked_up: HashSet::new(),
                takes_notes: true,
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, allowance: Allowance) {
        let mut state = self.lock();
        if state.allowance != allowance {
            state.allowance = allowance;
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Limits nothing any more.
    pub(super) fn open(&self) {
        let mut state = self.lock();
        state.takes_notes = false;
        state.asked.clear();
        state.looked_up.clear();
        drop(state);
        self.set(Allowance::ALL);
    }

    /// What may be under way. Waits while that is nothing, until `stopped`.
    pub(crate) fn allowance(&self, stopped: impl Fn() -> bool) -> Allowance {
        let state = self.wait_while(stopped, |state| state.allowance.reads == 0);
        state.allowance
    }

    /// Waits until one more look may begin; it ends when the result is dropped.
    pub(crate) fn look(&self, stopped: impl Fn() -> bool) -> Look<'_> {
        let is_full = |state: &State| state.looks >= state.allowance.reads;
        self.wait_while(stopped, is_full).looks += 1;
        Look(self)
    }

    fn wait_while(
        &self,
        stopped: impl Fn() -> bool,
        holds: impl Fn(&State) -> bool,
    ) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        while holds(&state) && !stopped() {
            let waited = self.changed.wait_timeout(state, LOOK_EVERY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }

    /// Notes pages that are asked for.
    pub(crate) fn note_asked(&self, node: NodeId, start_page: u64, pages: u64) {
        let mut state = self.lock();
        if state.takes_notes {
            let end_page = start_page.saturating_add(pages);
            state.asked.insert((node, start_page), end_page);
        }
    }

    /// Notes a node that is looked up by its path.
    pub(crate) fn note_looked_up(&self, tree: &dyn PathTree, node: NodeId) {
        let mut state = self.lock();
        let mut at = state.takes_notes.then_some(node);
        while let Some(id) = at
            && state.looked_up.insert(id)
        {
            at = tree.parent(id);
        }
    }

    pub(super) fn was_asked(&self, node: NodeId, page: u64) -> bool {
        let state = self.lock();
        let before = state.asked.range((node, 0)..=(node, page)).next_back();
        before.is_some_and(|(_, end_page)| page < *end_page)
    }

    pub(super) fn was_looked_up(&self, node: NodeId) -> bool {
        self.lock().looked_up.contains(&node)
    }
}

/// A look under way.
pub(crate) struct Look<'a>(&'a Gate);

impl Drop for Look<'_> {
    fn drop(&mut self) {
        self.0.lock().looks -= 1;
        self.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use foreread_profile::{Profile, ProfileBuilder, Program, Source};

    use super::*;

    fn profile() -> Profile {
        let mut builder = ProfileBuilder::new(Program::default(), Source::default());
        builder.node(b"/a/b/c").unwrap();
        builder.node(b"/a/d").unwrap();
        builder.finish()
    }

    #[test]
    fn what_was_touched_is_known_exactly() {
        let gate = Gate::new(Allowance::NOTHING);
        let profile = profile();
        let [file, other] = [&b"/a/b/c"[..], b"/a/d"].map(|path| profile.find(path).unwrap());
        gate.note_asked(file, 10, 5);
        gate.note_asked(file, 20, 1);
        let asked: Vec<u64> = (0..30).filter(|page| gate.was_asked(file, *page)).collect();
        assert_eq!(asked, [10, 11, 12, 13, 14, 20]);
        assert!(!gate.was_asked(other, 10));
        gate.note_looked_up(&profile, file);
        assert!(gate.was_looked_up(profile.find(b"/a").unwrap()));
        assert!(gate.was_looked_up(file) && !gate.was_looked_up(other));
        gate.open();
        gate.note_asked(other, 1, 1);
        assert!(!gate.was_asked(other, 1), "nobody looks any more");
    }

    #[test]
    fn a_stopped_plan_and_an_open_gate_wait_for_nothing() {
        let gate = Arc::new(Gate::new(Allowance::NOTHING));
        assert_eq!(gate.allowance(|| true), Allowance::NOTHING);
        drop(gate.look(|| true));
        let is_over = Arc::new(AtomicBool::new(false));
        let (other, over) = (Arc::clone(&gate), Arc::clone(&is_over));
        let waits = thread::spawn(move || {
            drop(other.look(|| false));
            let allowance = other.allowance(|| false);
            over.store(true, Ordering::Release);
            allowance
        });
        thread::sleep(Duration::from_millis(30));
        assert!(!is_over.load(Ordering::Acquire));
        gate.open();
        assert_eq!(waits.join().unwrap(), Allowance::ALL);
    }

    #[test]
    fn as_many_looks_are_under_way_as_may_be() {
        let two = Allowance { reads: 2, bytes: 1 };
        let gate = Gate::new(two);
        let (first, second) = (gate.look(|| false), gate.look(|| false));
        assert_eq!(gate.lock().looks, 2);
        drop(first);
        let third = gate.look(|| false);
        assert_eq!(gate.lock().looks, 2);
        drop((second, third));
        assert_eq!(gate.lock().looks, 0);
    }
}
