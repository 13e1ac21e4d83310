// SPDX-License-Identifier: MIT OR Apache-2.0
//! The replay: brings what a profile names into the page cache, ahead of the program.
//!
//! Each file system has a thread. It reads metadata first, then data by place within windows of
//! need. On ext4 whose block device can be opened, the layout is parsed from the device's page
//! cache, where the kernel will find the same blocks again ([`raw`]); elsewhere a pool of threads
//! looks at the inodes in order of their numbers ([`looks`]).

mod data;
mod looks;
mod neighbours;
mod pump;
mod raw;
mod sweep;
mod targets;

pub use neighbours::Neighbours;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use foreread_profile::{NodeId, PAGE_BYTES, PagesOf, Profile};
use foreread_replay::budget::{Need, budget_bytes, shares};

use crate::memory::{full_memory_pressure_percent, memory};
use crate::mounts::Mounts;
use targets::Target;

/// How to replay.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Most bytes to bring in, with what of them is cached already; by default half of what is
    /// available, and never more.
    pub budget_bytes: Option<u64>,
    /// Never parse the block device, even where it can be opened.
    pub no_raw: bool,
    /// Never use io_uring, even where the kernel allows it: read in threads.
    pub no_ring: bool,
    /// Read no data before [`Replay::release`], until somebody watches what becomes of it; for 50
    /// ms at most.
    pub hold_data: bool,
    /// With a directory, bring in those beside it on the disk, but for groups that are known: for
    /// whoever goes through a tree level by level.
    pub with_neighbours: Option<Neighbours>,
    /// End when a program has overtaken it, and everything that is left is cached.
    pub stops_when_overtaken: bool,
    /// Remember which pages arrived; see [`Replay::fetched`].
    pub keeps_fetched: bool,
}

macro_rules! report {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a replay did. Pages are of 4 KiB.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Report {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// A report that is being written by several threads.
        #[derive(Default)]
        struct Tally {
            $($name: AtomicU64,)*
        }

        impl Tally {
            fn report(&self) -> Report {
                Report { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

report! {
    /// Pages that the profile names.
    planned_pages,
    /// Of these, found cached.
    cached_pages,
    /// Pages asked for.
    asked_pages,
    /// Pages that arrived.
    arrived_pages,
    /// Pages left out because they exceed the budget.
    over_budget_pages,
    /// Pages for which nothing was read: of files that are gone, replaced or unreadable, behind the
    /// end of a file, in holes, on file systems in memory. Planned pages are these, the cached, the
    /// asked for and those over the budget; a replay that was stopped hasn't come to all.
    skipped_pages,
    /// Pages that it didn't come to, because the program was ahead of it.
    overtaken_pages,
    /// Bytes of metadata read from block devices.
    metadata_bytes,
    /// Inodes looked at one by one, where the device couldn't be read.
    looked_at,
    /// Reads made.
    reads,
    /// Files read.
    files,
    /// Paths that name nothing any more.
    gone_files,
    /// Paths that name another file now.
    replaced_files,
    /// Files that are shorter than the pages named.
    shrunk_files,
    /// Files changed since, read all the same.
    changed_files,
    /// Files that may not be opened for reading.
    unreadable_files,
    /// Reads of data or metadata that failed.
    failed_reads,
    /// Reads of data that ended before the last page asked for.
    short_reads,
    /// File systems on which no more reads could be made at all, for want of threads or memory.
    failed_file_systems,
    /// Error number of what failed first; 0 when nothing did.
    first_error_number,
    /// File systems read through their block device.
    raw_file_systems,
    /// File systems read inode by inode.
    looked_file_systems,
    /// Whether memory ran short: 1 when it did.
    stopped_for_memory,
}

impl Tally {
    fn add(&self, counter: impl FnOnce(&Self) -> &AtomicU64, n: u64) {
        counter(self).fetch_add(n, Ordering::Relaxed);
    }
}

/// How long data is held back at most: somewhat longer than a recorder takes to load on an idle
/// machine (20 to 30 ms).
const HOLD_MAX: Duration = Duration::from_millis(50);

/// How long a replay that was stopped is waited for: what a device that isn't slow needs for what
/// is under way.
const GRACE: Duration = Duration::from_millis(20);

/// What all threads of a replay share.
struct Shared {
    stop: AtomicBool,
    /// File systems with a device of their own whose metadata isn't in memory yet.
    metadata_left: AtomicUsize,
    /// Whether data may be read.
    released: (Mutex<bool>, Condvar),
    tally: Tally,
    /// Threads that still read, and the news that one has ended or is to stop.
    working: (Mutex<usize>, Condvar),
    no_raw: bool,
    no_ring: bool,
    with_neighbours: Option<Neighbours>,
    stops_when_overtaken: bool,
    /// Pages that arrived, where that is asked for.
    fetched: Option<Mutex<Vec<PagesOf>>>,
}

impl Shared {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Counts paths that can't be opened.
    fn count_failure(&self, error: &io::Error, count: u64) {
        let counter = match error.raw_os_error() {
            Some(libc::ENOENT) => &self.tally.gone_files,
            // Another kind of thing is there now, or on the way there.
            Some(libc::ELOOP | libc::ENOTDIR | libc::ENXIO) => &self.tally.replaced_files,
            _ => &self.tally.unreadable_files,
        };
        counter.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts a read that failed.
    fn count_failed_read(&self, error: &io::Error) {
        self.tally.add(|t| &t.failed_reads, 1);
        self.note_error(error);
    }

    /// Counts a file system that can't be read on.
    fn count_failed_file_system(&self, error: &io::Error) {
        self.tally.add(|t| &t.failed_file_systems, 1);
        self.note_error(error);
    }

    fn note_error(&self, error: &io::Error) {
        let number = error.raw_os_error().unwrap_or(libc::EIO).unsigned_abs();
        let first = &self.tally.first_error_number;
        let _ = first.compare_exchange(0, number.into(), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Counts a file of which nothing is left to read, so that nobody opens it and sees.
    fn count_if_shrunk(&self, profile: &Profile, id: NodeId, size_bytes: u64) {
        if is_shrunk(profile, id, size_bytes) {
            self.tally.add(|t| &t.shrunk_files, 1);
        }
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.release();
        self.working.1.notify_all();
    }

    fn release(&self) {
        let (released, changed) = &self.released;
        *released.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }

    fn wait_for_release(&self) {
        let (released, changed) = &self.released;
        let released = released.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever holds it back may be starved of processor time; the program can't wait for that.
        drop(changed.wait_timeout_while(released, HOLD_MAX, |released| !*released));
    }
}

/// A replay under way.
pub struct Replay {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    started: Instant,
}

impl Replay {
    /// Starts a replay; returns at once.
    #[must_use]
    pub fn start(profile: Arc<Profile>, options: &Options) -> Self {
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            metadata_left: AtomicUsize::new(0),
            released: (Mutex::new(!options.hold_data), Condvar::new()),
            tally: Tally::default(),
            working: (Mutex::new(0), Condvar::new()),
            no_raw: options.no_raw,
            no_ring: options.no_ring,
            with_neighbours: options.with_neighbours.clone(),
            stops_when_overtaken: options.stops_when_overtaken,
            fetched: options.keeps_fetched.then(Mutex::default),
        });
        let started = Instant::now();
        let for_thread = Arc::clone(&shared);
        let asked_bytes = options.budget_bytes;
        let run = move || run(&profile, asked_bytes, &for_thread);
        let threads = thread::Builder::new()
            .name("replay".into())
            .spawn(run)
            .into_iter()
            .collect();
        Self {
            shared,
            threads,
            started,
        }
    }

    /// Lets it read data; see [`Options::hold_data`].
    pub fn release(&self) {
        self.shared.release();
    }

    /// Asks it to stop. What is under way on the device may still arrive; its threads wait for that
    /// and end, while nobody waits for them.
    pub fn stop(&self) {
        self.shared.stop();
    }

    /// Stops it, and waits until all that has arrived by now is counted, as long as
    /// [`Replay::join`] would: not for what a slow device is still to deliver.
    pub fn settle(&self) {
        const LOOK_EVERY: Duration = Duration::from_millis(1);
        self.stop();
        let until = Instant::now() + 2 * GRACE;
        while !self.is_finished() && Instant::now() < until {
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Whether it is done, or was told to stop and is to be waited for no longer.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// What it has done so far.
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

    /// Waits for its end; after [`Replay::stop`], not for what is under way on the device.
    #[must_use]
    pub fn join(mut self) -> (Report, Duration) {
        for thread in std::mem::take(&mut self.threads) {
            // A thread that panicked has said so; what it did is in the tally.
            let _ = thread.join();
        }
        (self.shared.tally.report(), self.started.elapsed())
    }
}

/// A replay that nobody holds any more isn't wanted any more.
impl Drop for Replay {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Counts a thread as working while it lives, even if it panics.
struct Working(Arc<Shared>);

impl Working {
    fn new(shared: &Arc<Shared>) -> Self {
        *shared.working() += 1;
        Self(Arc::clone(shared))
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        *self.0.working() -= 1;
        self.0.working.1.notify_all();
    }
}

impl Shared {
    /// A file system's metadata is in memory.
    fn metadata_done(&self, target: &Target) {
        if !target.is_stacked() && !target.metadata_done.swap(true, Ordering::Relaxed) {
            self.metadata_left.fetch_sub(1, Ordering::Release);
        }
    }

    /// Waits until that of all file systems with a device of their own is: looking through an
    /// overlay before would only tear the head away from reading it in order.
    fn wait_for_metadata(&self) {
        const LOOK_EVERY: Duration = Duration::from_millis(2);
        while self.metadata_left.load(Ordering::Acquire) > 0 && !self.stopped() {
            thread::sleep(LOOK_EVERY);
        }
    }

    fn working(&self) -> MutexGuard<'_, usize> {
        let (working, _) = &self.working;
        working.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no thread reads any more; after a stop, no longer than what a device that isn't
    /// slow needs for what is under way.
    fn wait_for_threads(&self) {
        const MEMORY_WATCHED_EVERY: Duration = Duration::from_millis(50);
        let mut working = self.working();
        while *working > 0 {
            let stopped = self.stopped();
            let patience = if stopped { GRACE } else { MEMORY_WATCHED_EVERY };
            let (guard, waited) = self
                .working
                .1
                .wait_timeout(working, patience)
                .unwrap_or_else(PoisonError::into_inner);
            working = guard;
            if waited.timed_out() {
                if stopped {
                    return;
                }
                watch_memory(self);
            }
        }
    }
}

fn run(profile: &Arc<Profile>, asked_bytes: Option<u64>, shared: &Arc<Shared>) {
    let tally = &shared.tally;
    tally.add(|t| &t.planned_pages, profile.total_pages());
    let Ok(mounts) = Mounts::of_self() else {
        return;
    };
    let targets = targets::of_profile(profile, &mounts);
    let ours: u64 = targets
        .iter()
        .map(|target| pages_of(profile, &target.nodes))
        .sum();
    let others = profile.total_pages().saturating_sub(ours);
    tally.add(|t| &t.skipped_pages, others);
    let budgets = budgets(profile, &targets, budget_bytes(memory(), asked_bytes));
    // Those that lie on others come last: they wait for the metadata of all before them.
    let mut targets: Vec<_> = targets.into_iter().zip(budgets).collect();
    targets.sort_by_key(|(target, _)| target.is_stacked());
    for (target, budget_bytes) in targets {
        let (profile, for_thread) = (Arc::clone(profile), Arc::clone(shared));
        let working = Working::new(shared);
        if !target.is_stacked() {
            shared.metadata_left.fetch_add(1, Ordering::Relaxed);
        }
        let replay = move || {
            if target.is_stacked() {
                for_thread.wait_for_metadata();
            }
            replay_target(&profile, &target, budget_bytes, &for_thread);
            for_thread.metadata_done(&target);
            drop(working);
        };
        let spawned = thread::Builder::new()
            .name("replay-fs".into())
            .spawn(replay);
        if let Err(error) = spawned {
            shared.count_failed_file_system(&error);
        }
    }
    shared.wait_for_threads();
}

/// Whether a file of this size ends before the last page named.
fn is_shrunk(profile: &Profile, id: NodeId, size_bytes: u64) -> bool {
    let end_page = profile
        .ranges(id)
        .last()
        .map_or(0, |range| range.end_page());
    size_bytes.div_ceil(PAGE_BYTES) < end_page
}

/// Pages that a profile names of these nodes.
fn pages_of(profile: &Profile, nodes: &[NodeId]) -> u64 {
    let ranges = nodes.iter().flat_map(|id| profile.ranges(*id));
    ranges.fold(0, |sum, range| sum.saturating_add(range.pages))
}

/// What each file system may bring in: the budget goes by need, wherever it is.
fn budgets(profile: &Profile, targets: &[Target], budget_bytes: u64) -> Vec<u64> {
    let needs = targets.iter().enumerate().flat_map(|(group, target)| {
        let ranges = target.nodes.iter().flat_map(|id| profile.ranges(*id));
        ranges.map(move |range| Need {
            need_ns: range.need_ns,
            group,
            pages: range.pages,
        })
    });
    shares(needs, targets.len(), budget_bytes)
}

/// Stops when tasks wait for memory: then every page brought in pushes out one that is needed.
fn watch_memory(shared: &Shared) {
    const FULL_PRESSURE_PERCENT_MAX: f64 = 10.0;
    if full_memory_pressure_percent().is_some_and(|full| full > FULL_PRESSURE_PERCENT_MAX) {
        shared.tally.stopped_for_memory.store(1, Ordering::Relaxed);
        shared.stop();
    }
}

fn replay_target(profile: &Profile, target: &Target, budget_bytes: u64, shared: &Shared) {
    let mut budget_bytes = budget_bytes;
    let mut rest = target.nodes.as_slice();
    let unplaced;
    if target.fs_type.starts_with(b"ext")
        && !shared.no_raw
        && let Ok(mut found) = raw::metadata(profile, target, shared)
    {
        shared.tally.add(|t| &t.raw_file_systems, 1);
        budget_bytes -= data::read(
            profile,
            target,
            std::mem::take(&mut found.pieces),
            found.service,
            budget_bytes,
            shared,
        );
        unplaced = found.unplaced;
        rest = &unplaced;
    } else {
        shared.tally.add(|t| &t.looked_file_systems, 1);
    }
    if !rest.is_empty() && !shared.stopped() {
        looks::replay(profile, target, rest, budget_bytes, shared);
    }
}
