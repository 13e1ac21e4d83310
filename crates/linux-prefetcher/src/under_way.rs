// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plan that is being carried out: what its threads share, and what its owner holds.

use std::any::Any;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use foreread_prefetch::plan::ReadPlan;
use foreread_prefetch::proof::Allowance;
use foreread_profile::{NodeId, PagesOf};

use super::guard::{Gate, Look};
use super::report::{Report, Tally};
use super::targets::Target;
use super::{Neighbours, Options, is_shrunk};

/// Maximum time for which data is held back. A recorder takes somewhat less to load on an idle
/// machine (20 to 30 ms).
const HOLD_MAX: Duration = Duration::from_millis(50);

/// Time to wait for a stopped plan: as long as a device that isn't slow needs for the reads under
/// way.
const GRACE: Duration = Duration::from_millis(20);

/// Called when no read of a plan is under way any more.
pub(super) type OnEnd = Box<dyn FnOnce() + Send>;

/// State shared by all threads of a plan.
pub(super) struct Shared {
    is_stopped: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
    pub tally: Tally,
    /// Calls that have returned, which no counter shows.
    steps: AtomicU64,
    pub no_raw: bool,
    pub no_ring: bool,
    pub with_neighbours: Option<Neighbours>,
    pub stops_when_overtaken: bool,
    pub first_stage_items: Option<usize>,
    /// Pages that arrived, where that is asked for.
    pub fetched: Option<Mutex<Vec<PagesOf>>>,
    pub gate: Option<Arc<Gate>>,
}

#[derive(Default)]
struct State {
    /// Threads that still read.
    working: usize,
    /// File systems with a device of their own whose metadata isn't in memory yet.
    metadata_left: usize,
    /// Whether data may be read.
    is_released: bool,
    stopped_at: Option<Instant>,
    on_end: Option<OnEnd>,
}

impl State {
    /// Time limit of the wait for the end; `None` if there is nothing left to wait for.
    fn patience(&self) -> Option<Duration> {
        if self.working == 0 {
            return None;
        }
        let Some(stopped_at) = self.stopped_at else {
            return Some(Duration::MAX);
        };
        let left = GRACE.saturating_sub(stopped_at.elapsed());
        (!left.is_zero()).then_some(left)
    }
}

impl Shared {
    pub fn new(options: &Options, on_end: Option<OnEnd>) -> Self {
        Self {
            is_stopped: AtomicBool::new(false),
            state: Mutex::new(State {
                is_released: !options.hold_data,
                on_end,
                ..State::default()
            }),
            changed: Condvar::new(),
            tally: Tally::default(),
            steps: AtomicU64::new(0),
            no_raw: options.no_raw,
            no_ring: options.no_ring,
            with_neighbours: options.with_neighbours.clone(),
            stops_when_overtaken: options.stops_when_overtaken,
            first_stage_items: options.first_stage_items,
            fetched: options.keeps_fetched.then(Mutex::default),
            gate: options.gate.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while this holds, at most for `limit`.
    fn wait_while(&self, limit: Duration, mut holds: impl FnMut(&mut State) -> bool) {
        let state = self.lock();
        let waited = self.changed.wait_timeout_while(state, limit, &mut holds);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    pub fn stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// A call has returned.
    pub fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// A number that changes with all progress.
    pub fn progress(&self) -> u64 {
        let counters = self.tally.all().into_iter();
        let steps = self.steps.load(Ordering::Relaxed);
        counters.fold(steps, |sum, counter| {
            sum.wrapping_add(counter.load(Ordering::Relaxed))
        })
    }

    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        let mut state = self.lock();
        state.is_released = true;
        state.stopped_at.get_or_insert_with(Instant::now);
        drop(state);
        self.changed.notify_all();
    }

    pub fn release(&self) {
        self.lock().is_released = true;
        self.changed.notify_all();
    }

    /// Whether data may be read.
    pub fn is_released(&self) -> bool {
        self.lock().is_released
    }

    /// What may be under way. Waits while that is nothing, unless this is stopped.
    pub fn allowance(&self) -> Allowance {
        let gate = self.gate.as_ref();
        gate.map_or(Allowance::ALL, |gate| gate.allowance(|| self.stopped()))
    }

    /// Waits until something more may be looked up.
    pub fn begin_look(&self) -> Option<Look<'_>> {
        let gate = self.gate.as_ref();
        gate.map(|gate| gate.look(|| self.stopped()))
    }

    /// Notes a node that is looked up by its path.
    pub fn note_looked_up(&self, plan: &ReadPlan, node: NodeId) {
        if let Some(gate) = &self.gate {
            gate.note_looked_up(plan, node);
        }
    }

    /// Notes pages that are asked for.
    pub fn note_asked(&self, node: NodeId, start_page: u64, pages: u64) {
        if let Some(gate) = &self.gate {
            gate.note_asked(node, start_page, pages);
        }
    }

    /// Waits until data may be read.
    pub fn wait_for_release(&self) {
        // The thread that holds it back may be starved of processor time; the program can't wait
        // for that.
        self.wait_while(HOLD_MAX, |state| !state.is_released);
    }

    /// Adds file systems whose metadata is to be read.
    pub fn expect_metadata(&self, file_systems: usize) {
        self.lock().metadata_left += file_systems;
    }

    /// A file system's metadata is in memory.
    pub fn metadata_done(&self, target: &Target) {
        if !target.is_stacked() && !target.metadata_done.swap(true, Ordering::Relaxed) {
            self.lock().metadata_left -= 1;
            self.changed.notify_all();
        }
    }

    /// Waits until the metadata of all file systems with a device of their own is read. Lookups
    /// through an overlay before that would only disturb the order of these reads.
    pub fn wait_for_metadata(&self) {
        self.wait_while(Duration::MAX, |state| {
            state.metadata_left > 0 && state.stopped_at.is_none()
        });
    }

    /// Waits until nothing is read any more, at most for `limit`. Returns whether that is so.
    pub fn wait_for_end(&self, limit: Duration) -> bool {
        self.wait_while(limit, |state| state.working > 0);
        self.is_over()
    }

    /// Whether nothing is read any more.
    pub fn is_over(&self) -> bool {
        self.lock().working == 0
    }

    /// Counts paths that can't be opened.
    pub fn count_failure(&self, error: &io::Error, count: u64) {
        let counter = match error.raw_os_error() {
            Some(libc::ENOENT) => &self.tally.gone_files,
            // Another kind of thing is there now, or on the way there.
            Some(libc::ELOOP | libc::ENOTDIR | libc::ENXIO) => &self.tally.replaced_files,
            Some(libc::EAGAIN) => &self.tally.leased_files,
            _ => &self.tally.unreadable_files,
        };
        counter.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts a read that failed.
    pub fn count_failed_read(&self, error: &io::Error) {
        self.tally.add(|t| &t.failed_reads, 1);
        self.note_error(error);
    }

    /// Counts a file system that can't be read on.
    pub fn count_failed_file_system(&self, error: &io::Error) {
        self.tally.add(|t| &t.failed_file_systems, 1);
        self.note_error(error);
    }

    fn note_error(&self, error: &io::Error) {
        let number = error.raw_os_error().unwrap_or(libc::EIO).unsigned_abs();
        let first = &self.tally.first_error_number;
        let _ = first.compare_exchange(0, number.into(), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Counts a file of which nothing is left to read, so that it is not opened and checked.
    pub fn count_if_shrunk(&self, plan: &ReadPlan, id: NodeId, size_bytes: u64) {
        if is_shrunk(plan, id, size_bytes) {
            self.tally.add(|t| &t.shrunk_files, 1);
        }
    }
}

/// Counts a thread as working while it lives, even if it panics.
pub(super) struct Working(Arc<Shared>);

impl Working {
    pub fn new(shared: &Arc<Shared>) -> Self {
        shared.lock().working += 1;
        Self(Arc::clone(shared))
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.working -= 1;
        let is_over = state.working == 0;
        let on_end = state.on_end.take_if(|_| is_over);
        drop(state);
        self.0.changed.notify_all();
        if let Some(on_end) = on_end {
            on_end();
        }
    }
}

/// A plan under way. Stopped when dropped.
pub struct Fetch {
    pub(super) shared: Arc<Shared>,
    pub(super) started: Instant,
    /// The executor of the plan, kept alive as long as the plan.
    pub(super) _executor: Arc<dyn Any + Send + Sync>,
}

impl Fetch {
    /// Lets it read data; see [`Options::hold_data`].
    pub fn release(&self) {
        self.shared.release();
    }

    /// Asks it to stop. Requests in flight on the device may still arrive. Its threads wait for
    /// them, but no thread waits for these threads.
    pub fn stop(&self) {
        self.shared.stop();
    }

    /// Stops the fetch, and waits until all pages that have arrived by now are counted, as long as
    /// [`Fetch::join`] would. Does not wait for pages that a slow device still has to deliver.
    pub fn settle(&self) {
        self.stop();
        self.shared.wait_while(2 * GRACE, |state| state.working > 0);
    }

    /// Whether it is done, or was told to stop and is to be waited for no longer.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.shared.lock().patience().is_none()
    }

    /// The report so far.
    #[must_use]
    pub fn report(&self) -> Report {
        self.shared.tally.report()
    }

    /// The pages that have arrived so far, in no order; none unless [`Options::keeps_fetched`].
    #[must_use]
    pub fn fetched(&self) -> Vec<PagesOf> {
        let fetched = self.shared.fetched.as_ref();
        fetched.map_or(Vec::new(), |fetched| {
            fetched
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone()
        })
    }

    /// Waits for its end; after [`Fetch::stop`], not for what is under way on the device.
    #[must_use]
    pub fn join(self) -> (Report, Duration) {
        let mut state = self.shared.lock();
        while let Some(patience) = state.patience() {
            let (guard, _) = self
                .shared
                .changed
                .wait_timeout(state, patience)
                .unwrap_or_else(PoisonError::into_inner);
            state = guard;
        }
        drop(state);
        (self.report(), self.started.elapsed())
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        self.stop();
    }
}
