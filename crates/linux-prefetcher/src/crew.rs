// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that wait for the device together: a task is worked on by many of them at once.
//!
//! A task that needs more of them starts them. They end when there was no task for [`IDLE`]. So a
//! plan that follows another one starts none.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::IDLE;

/// They wait for a device and call little: no deep stacks.
const STACK_BYTES: usize = 256 * 1024;

/// The work of each thread of a task. Returns whether all of the task is done, so that no further
/// thread needs to begin with it.
type Work = dyn Fn() -> bool + Send + Sync;

/// The threads. They end with [`Crew::end`]. Copies are the same crew.
#[derive(Clone, Default)]
pub(super) struct Crew {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    /// There is a task, or there will be none any more.
    wanted: Condvar,
    /// A thread has left a task.
    left: Condvar,
}

#[derive(Default)]
struct State {
    tasks: Vec<Task>,
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    last_number: u64,
    is_closed: bool,
}

struct Task {
    number: u64,
    work: Arc<Work>,
    /// Threads that may still begin.
    places: usize,
    at_work: usize,
}

impl Crew {
    /// Runs this work on `threads` threads, and waits until all that began have ended. Each thread
    /// begins once. If no thread can be started, the caller does the work.
    pub fn run(&self, threads: usize, work: Arc<Work>) {
        let mut state = self.inner.lock();
        state.last_number += 1;
        let number = state.last_number;
        state.tasks.push(Task {
            number,
            work: Arc::clone(&work),
            places: threads,
            at_work: 0,
        });
        let places: usize = state.tasks.iter().map(|task| task.places).sum();
        let mut started = state.idle.min(places);
        drop(state);
        while started < places {
            let inner = Arc::clone(&self.inner);
            let thread = thread::Builder::new().name("fetch-look".into());
            let spawned = thread
                .stack_size(STACK_BYTES)
                .spawn(move || inner.work_on_tasks());
            // Fewer threads than asked for only take longer.
            let Ok(thread) = spawned else {
                break;
            };
            let mut state = self.inner.lock();
            state.threads.retain(|thread| !thread.is_finished());
            state.threads.push(thread);
            started += 1;
        }
        self.inner.wanted.notify_all();
        if started == 0 {
            self.inner.close_places(number);
            work();
        }
        let mut state = self.inner.lock();
        let is_over = |task: &Task| task.places == 0 && task.at_work == 0;
        while !state.of(number).is_none_or(|task| is_over(task)) {
            state = self
                .inner
                .left
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.tasks.retain(|task| task.number != number);
    }

    /// Ends the threads; waits for them where none is at work.
    pub fn end(&self) {
        let mut state = self.inner.lock();
        state.is_closed = true;
        let is_idle = state.tasks.is_empty();
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        self.inner.wanted.notify_all();
        for thread in threads.into_iter().filter(|_| is_idle) {
            // If it has panicked, it has said so.
            let _ = thread.join();
        }
    }
}

impl State {
    fn of(&mut self, number: u64) -> Option<&mut Task> {
        self.tasks.iter_mut().find(|task| task.number == number)
    }
}

/// A thread at work on a task; leaves it even when the work panics.
struct AtWork<'a> {
    inner: &'a Inner,
    number: u64,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        if let Some(task) = self.inner.lock().of(self.number) {
            task.at_work -= 1;
            if thread::panicking() {
                task.places = 0;
            }
        }
        self.inner.left.notify_all();
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No further thread begins with a task.
    fn close_places(&self, number: u64) {
        if let Some(task) = self.lock().of(number) {
            task.places = 0;
        }
    }

    /// The main loop of a thread.
    fn work_on_tasks(&self) {
        let mut last = 0;
        let mut state = self.lock();
        loop {
            let is_open = |task: &&mut Task| task.places > 0 && task.number != last;
            if let Some(task) = state.tasks.iter_mut().find(is_open) {
                task.places -= 1;
                task.at_work += 1;
                let (number, work) = (task.number, Arc::clone(&task.work));
                drop(state);
                let at_work = AtWork {
                    inner: self,
                    number,
                };
                if work() {
                    self.close_places(number);
                }
                drop(at_work);
                last = number;
                state = self.lock();
                continue;
            }
            if state.is_closed {
                return;
            }
            state.idle += 1;
            let (guard, waited) = self
                .wanted
                .wait_timeout(state, IDLE)
                .unwrap_or_else(PoisonError::into_inner);
            state = guard;
            state.idle -= 1;
            let is_open = |task: &Task| task.places > 0 && task.number != last;
            if waited.timed_out() && !state.tasks.iter().any(is_open) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread::ThreadId;

    use super::*;

    #[test]
    fn a_task_is_worked_on_by_so_many_threads_at_once_and_the_next_one_by_some_of_them() {
        let crew = Crew::default();
        let seen: Arc<Mutex<HashSet<ThreadId>>> = Arc::default();
        for _ in 0..3 {
            let (barrier, seen) = (Barrier::new(8), Arc::clone(&seen));
            // All of them must be there, or it would never end.
            let meet = move || {
                seen.lock().unwrap().insert(thread::current().id());
                barrier.wait();
                false
            };
            crew.run(8, Arc::new(meet));
        }
        // A thread may be on its way back when the next task comes.
        assert!(seen.lock().unwrap().len() < 3 * 8);
    }

    #[test]
    fn what_is_done_is_begun_by_nobody_else() {
        let crew = Crew::default();
        let begun = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&begun);
        crew.run(
            1,
            Arc::new(move || {
                count.fetch_add(1, Ordering::Relaxed);
                true
            }),
        );
        assert_eq!(begun.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn tasks_of_several_callers_all_end() {
        let crew = Crew::default();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let next = AtomicUsize::new(0);
                        let work = move || next.fetch_add(1, Ordering::Relaxed) >= 100;
                        crew.run(5, Arc::new(work));
                    }
                });
            }
        });
    }

    #[test]
    fn a_thread_that_panics_is_not_waited_for() {
        let crew = Crew::default();
        crew.run(2, Arc::new(|| panic!("a test of what panics")));
        crew.run(2, Arc::new(|| true));
    }
}
