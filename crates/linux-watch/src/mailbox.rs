// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mailbox of the thread of a walk or a profile's replay. It takes reads of the program, and orders
//! to pause or to stop. The thread sleeps until one of them arrives, or until a fetch ends.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foreread_linux_prefetcher::{Executor, Options, Report};
use foreread_prefetch::plan::ReadPlan;
use foreread_watch::ahead::Access;
use foreread_watch::memory_budget::Charge;

/// Maximum number of reads that wait; further ones are lost.
const READS_MAX: usize = 1 << 16;
/// Reads for which room is kept.
const READS_KEPT: usize = 1 << 10;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Mailbox<R> {
    state: Mutex<State<R>>,
    changed: Condvar,
    /// The bytes of a read, if they are charged.
    bytes_of: Option<fn(&R) -> u64>,
}

#[derive(Debug)]
struct State<R> {
    reads: VecDeque<R>,
    /// The bytes of these reads.
    charge: Option<Charge>,
    is_stopped: bool,
    is_paused: bool,
    /// The number of the last fetch that began, and of the last that is over.
    begun: u64,
    over: u64,
}

/// Events that end the wait for a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// The end of the fetch, or an order to stop.
    Stopped,
    /// Also an order to pause.
    Paused,
}

impl<R> Default for Mailbox<R> {
    fn default() -> Self {
        let state = State {
            reads: VecDeque::new(),
            charge: None,
            is_stopped: false,
            is_paused: false,
            begun: 0,
            over: 0,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            bytes_of: None,
        }
    }
}

/// An access of a program, and when it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub access: Access,
    /// `CLOCK_MONOTONIC`; 0 if the access reaches no file.
    pub at_ns: u64,
}

impl Told {
    fn held_bytes(&self) -> u64 {
        self.access.held_bytes() + (size_of::<Self>() - size_of::<Access>()) as u64
    }
}

impl Mailbox<Told> {
    /// A mailbox whose reads are charged.
    pub fn charging(charge: Charge) -> Self {
        let mailbox = Self {
            bytes_of: Some(Told::held_bytes),
            ..Self::default()
        };
        mailbox.lock().charge = Some(charge);
        mailbox
    }
}

impl<R> Mailbox<R> {
    fn lock(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State<R>)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Adds a read. Returns whether it is lost, because too many wait already, or too many bytes.
    pub fn put(&self, read: R) -> bool {
        let mut state = self.lock();
        let mut is_lost = state.reads.len() >= READS_MAX;
        if let (Some(bytes_of), Some(charge)) = (self.bytes_of, &mut state.charge) {
            is_lost = is_lost || charge.add(bytes_of(&read)).is_err();
        }
        if !is_lost {
            state.reads.push_back(read);
        }
        drop(state);
        self.changed.notify_all();
        is_lost
    }

    /// Orders the thread to end.
    pub fn stop(&self) {
        self.change(|state| state.is_stopped = true);
    }

    /// Orders the thread to fetch nothing for now, or to go on.
    pub fn pause(&self, is_paused: bool) {
        self.change(|state| state.is_paused = is_paused);
    }

    pub fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }

    pub fn is_paused(&self) -> bool {
        self.lock().is_paused
    }

    /// Takes the next read, if one waits.
    pub fn try_next(&self) -> Option<R> {
        self.pop(&mut self.lock())
    }

    fn pop(&self, state: &mut State<R>) -> Option<R> {
        let read = state.reads.pop_front()?;
        if let (Some(bytes_of), Some(charge)) = (self.bytes_of, &mut state.charge) {
            charge.give(bytes_of(&read));
        }
        // Room for many is not kept.
        if state.reads.is_empty() && state.reads.capacity() > READS_KEPT {
            state.reads = VecDeque::new();
        }
        Some(read)
    }

    /// Waits for a read or another order, for at most `limit`. `None` after an order or a timeout.
    pub fn next(&self, limit: Duration) -> Option<R> {
        let state = self.lock();
        let was_paused = state.is_paused;
        let is_calm = |state: &mut State<R>| {
            state.reads.is_empty() && !state.is_stopped && state.is_paused == was_paused
        };
        let waited = self.changed.wait_timeout_while(state, limit, is_calm);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        self.pop(&mut state)
    }

    fn wait_while(&self, mut holds: impl FnMut(&State<R>) -> bool) {
        let state = self.lock();
        let waited = self.changed.wait_while(state, |state| holds(state));
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl<R: Send + 'static> Mailbox<R> {
    /// Carries a plan out, and waits for its end or for an order. Returns its report.
    pub fn fetch(
        self: &Arc<Self>,
        executor: &Executor,
        plan: ReadPlan,
        options: &Options,
        until: Until,
    ) -> Report {
        self.fetch_while(executor, plan, options, |mailbox, number| {
            mailbox.wait_while(|state| {
                let is_paused = until == Until::Paused && state.is_paused;
                state.over < number && !state.is_stopped && !is_paused
            });
            false
        })
    }

    /// Carries a plan out, and takes the reads that arrive meanwhile. `take` is called after reads
    /// or an order to stop, and returns whether to go on.
    pub fn fetch_and_take(
        self: &Arc<Self>,
        executor: &Executor,
        plan: ReadPlan,
        options: &Options,
        mut take: impl FnMut() -> bool,
    ) -> Report {
        self.fetch_while(executor, plan, options, |mailbox, number| {
            mailbox.wait_while(|state| {
                state.over < number && state.reads.is_empty() && !state.is_stopped
            });
            let goes_on = take();
            goes_on && mailbox.lock().over < number
        })
    }

    /// Carries a plan out. `wait` is called with the fetch's number until it returns false.
    fn fetch_while(
        self: &Arc<Self>,
        executor: &Executor,
        plan: ReadPlan,
        options: &Options,
        mut wait: impl FnMut(&Self, u64) -> bool,
    ) -> Report {
        let mut state = self.lock();
        state.begun += 1;
        let number = state.begun;
        drop(state);
        let told = Arc::clone(self);
        // A fetch that was stopped may end after the next one has begun.
        let on_end = move || told.change(|state| state.over = state.over.max(number));
        let fetch = executor.start_then(Arc::new(plan), options, on_end);
        while wait(self, number) {}
        if self.lock().over < number {
            fetch.stop();
        }
        fetch.join().0
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Instant;

    use foreread_core::Device;
    use foreread_watch::memory_budget::MemoryBudget;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn reads_come_in_order_and_orders_wake() {
        let mailbox = Arc::new(Mailbox::default());
        assert!(!mailbox.put(1) && !mailbox.put(2));
        assert_eq!((mailbox.next(LONG), mailbox.try_next()), (Some(1), Some(2)));
        assert_eq!(mailbox.next(Duration::ZERO), None);
        let (of_thread, began) = (Arc::clone(&mailbox), Instant::now());
        let thread = thread::spawn(move || of_thread.next(LONG));
        mailbox.pause(true);
        mailbox.stop();
        assert_eq!(thread.join().unwrap(), None);
        assert!(mailbox.is_paused() && mailbox.is_stopped() && began.elapsed() < LONG);
    }

    #[test]
    fn more_than_there_is_room_for_is_lost() {
        let mailbox = Mailbox::default();
        assert!((0..READS_MAX).all(|read| !mailbox.put(read)));
        assert!(mailbox.put(0));
    }

    #[test]
    fn reads_are_charged_while_they_wait() {
        let budget = MemoryBudget::new(2000, 2000);
        let mailbox = Mailbox::charging(budget.charge_of(7));
        let access = Access::Hit {
            thread: 1,
            device: Device::default(),
            inode: 1,
        };
        let read = Told { access, at_ns: 1 };
        let taken = (0..2000).take_while(|_| !mailbox.put(read.clone())).count() as u64;
        assert_eq!(budget.held_bytes_of(7), taken * read.held_bytes());
        assert!(taken > 1 && (taken + 1) * read.held_bytes() > 2000);
        assert!(mailbox.try_next().is_some() && !mailbox.put(read));
        while mailbox.try_next().is_some() {}
        assert_eq!(budget.held_bytes(), 0);
        drop(mailbox);
    }

    #[test]
    fn the_end_of_a_fetch_wakes() {
        let (mailbox, executor) = (Arc::new(Mailbox::<u8>::default()), Executor::default());
        for until in [Until::Stopped, Until::Paused] {
            let plan = ReadPlan::default();
            let report = mailbox.fetch(&executor, plan, &Options::default(), until);
            assert_eq!(report, Report::default());
        }
        let mut taken = Vec::new();
        mailbox.put(7);
        mailbox.fetch_and_take(&executor, ReadPlan::default(), &Options::default(), || {
            taken.extend(mailbox.try_next());
            true
        });
        taken.extend(mailbox.try_next());
        assert_eq!(taken, [7]);
    }
}
