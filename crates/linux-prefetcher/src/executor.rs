// SPDX-License-Identifier: MIT OR Apache-2.0
//! The executor: carries plans out, one after another or several at once.
//!
//! One thread, the dispatcher, takes the plans. It divides each by file system, shares the budget
//! among these, and hands every part to a worker of that device. It also watches memory: where
//! tasks wait for it, all that is under way is stopped.
//!
//! A worker of a file system that may never answer asks a [helper process](super::foreign). Others
//! read by themselves. If such a part makes no progress for long, its device counts as dead: nobody
//! waits for the part any more.
//!
//! A worker keeps the rings through which it reads from one plan to the next. Two plans for one
//! device have a worker each, so that a large one doesn't hold up a small one.
//!
//! The mount table is read again only when the kernel says that it has changed. The first plan
//! starts the threads; they end when there was none for [`IDLE`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use foreread_prefetch::budget::{Need, budget_bytes, shares};
use foreread_prefetch::plan::ReadPlan;
use foreread_sys::memory::{full_memory_pressure_percent, memory};
use foreread_sys::mounts::MountTable;

use super::crew::Crew;
use super::means::Means;
use super::part::{Part, Watched};
use super::targets::{self, Target};
use super::under_way::{Fetch, OnEnd, Shared, Working};
use super::{IDLE, Options, foreign, pages_of};

/// Interval of memory checks while something is under way.
const MEMORY_WATCHED_EVERY: Duration = Duration::from_millis(50);
/// Stops when tasks wait for memory for a larger part of their time: then every page brought in
/// pushes out one that is needed.
const FULL_PRESSURE_PERCENT_MAX: f64 = 10.0;

/// See the [module](self). Copies are the same executor.
#[derive(Clone, Default)]
pub struct Executor(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// `None` where there is none now.
    dispatcher: Arc<Mutex<Option<Dispatching>>>,
    crew: Crew,
    /// When the dispatcher looked last.
    looked: Arc<Mutex<Option<Instant>>>,
}

/// The way to the dispatcher.
struct Dispatching {
    orders: Sender<Order>,
    thread: JoinHandle<()>,
}

/// A plan on its way to the dispatcher.
struct Order {
    plan: Arc<ReadPlan>,
    budget_bytes: Option<u64>,
    shared: Arc<Shared>,
    /// Until its parts are with workers.
    _working: Working,
}

impl Executor {
    /// Carries a plan out; returns at once.
    #[must_use]
    pub fn start(&self, plan: Arc<ReadPlan>, options: &Options) -> Fetch {
        self.begin(plan, options, None)
    }

    /// The same, and calls `on_end`, from a thread of the executor, when nothing of it is under way
    /// any more. `on_end` must not wait for anything.
    #[must_use]
    pub fn start_then(
        &self,
        plan: Arc<ReadPlan>,
        options: &Options,
        on_end: impl FnOnce() + Send + 'static,
    ) -> Fetch {
        self.begin(plan, options, Some(Box::new(on_end)))
    }

    fn begin(&self, plan: Arc<ReadPlan>, options: &Options, on_end: Option<OnEnd>) -> Fetch {
        let shared = Arc::new(Shared::new(options, on_end));
        let fetch = Fetch {
            shared: Arc::clone(&shared),
            started: Instant::now(),
            _executor: Arc::clone(&self.0) as _,
        };
        self.hand_over(Order {
            plan,
            budget_bytes: options.budget_bytes,
            _working: Working::new(&shared),
            shared,
        });
        fetch
    }

    /// Whether its dispatcher has not looked for this long, though there is one. It never asks a
    /// file system, so that is a defect.
    #[must_use]
    pub fn hangs_for(&self, limit: Duration) -> bool {
        let has_dispatcher = match self.0.dispatcher.try_lock() {
            Ok(dispatcher) => dispatcher.is_some(),
            // Somebody is giving it an order.
            Err(_) => true,
        };
        has_dispatcher && lock(&self.0.looked).is_some_and(|looked| looked.elapsed() >= limit)
    }

    fn hand_over(&self, mut order: Order) {
        let mut dispatcher = lock(&self.0.dispatcher);
        if let Some(dispatching) = &*dispatcher {
            match dispatching.orders.send(order) {
                Ok(()) => return,
                // Its thread has panicked, and said so.
                Err(SendError(back)) => order = back,
            }
        }
        let (orders, receiver) = channel();
        let mut dispatching = Dispatcher {
            own: Arc::clone(&self.0.dispatcher),
            crew: self.0.crew.clone(),
            looked: Arc::clone(&self.0.looked),
            mounts: MountTable::default(),
            workers: HashMap::new(),
            under_way: Vec::new(),
            parts: Vec::new(),
        };
        let thread = thread::Builder::new().name("fetch".into());
        *lock(&self.0.looked) = Some(Instant::now());
        match thread.spawn(move || dispatching.run(&receiver)) {
            Ok(thread) => {
                // It exists as long as there is a sender.
                let _ = orders.send(order);
                *dispatcher = Some(Dispatching { orders, thread });
            }
            Err(error) => order.shared.count_failed_file_system(&error),
        }
    }
}

/// No sender of plans is left. Idle threads have ended then, since they hold mount namespaces.
/// Threads that wait for a device end when it has answered.
impl Drop for Inner {
    fn drop(&mut self) {
        let dispatching = lock(&self.dispatcher).take();
        if let Some(Dispatching { orders, thread }) = dispatching {
            drop(orders);
            // If it has panicked, it has said so.
            let _ = thread.join();
        }
        self.crew.end();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread that reads from one device.
struct Worker {
    parts: Sender<Part>,
    /// Whether it has something to do, or has ended for want of that.
    is_taken: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

struct Dispatcher {
    own: Arc<Mutex<Option<Dispatching>>>,
    crew: Crew,
    looked: Arc<Mutex<Option<Instant>>>,
    mounts: MountTable,
    workers: HashMap<(u32, u32), Vec<Worker>>,
    under_way: Vec<Arc<Shared>>,
    /// Parts of plans that are carried out by threads of this process.
    parts: Vec<Watched>,
}

impl Dispatcher {
    fn run(&mut self, orders: &Receiver<Order>) {
        loop {
            *lock(&self.looked) = Some(Instant::now());
            let limit = match self.under_way.is_empty() {
                true => IDLE,
                false => MEMORY_WATCHED_EVERY,
            };
            match orders.recv_timeout(limit) {
                Ok(order) => self.divide(order),
                Err(RecvTimeoutError::Timeout) if self.under_way.is_empty() => {
                    // Senders hold this lock: once it is taken, no further order can arrive.
                    let mut own = lock(&self.own);
                    let Ok(order) = orders.try_recv() else {
                        *own = None;
                        drop(own);
                        return self.end_workers();
                    };
                    drop(own);
                    self.divide(order);
                }
                Err(RecvTimeoutError::Timeout) => self.watch_memory(),
                // All that was under way was stopped.
                Err(RecvTimeoutError::Disconnected) => return self.end_workers(),
            }
            self.parts.retain_mut(Watched::goes_on);
            self.under_way.retain(|shared| !shared.is_over());
        }
    }

    /// Waits for the workers that have nothing to do.
    fn end_workers(&mut self) {
        for Worker {
            parts,
            is_taken,
            thread,
        } in self.workers.drain().flat_map(|(_, workers)| workers)
        {
            drop(parts);
            if !is_taken.load(Ordering::Acquire) || thread.is_finished() {
                let _ = thread.join();
            }
        }
    }

    fn watch_memory(&self) {
        if full_memory_pressure_percent().is_some_and(|full| full > FULL_PRESSURE_PERCENT_MAX) {
            for shared in &self.under_way {
                let stopped = &shared.tally.stopped_for_memory;
                stopped.store(1, Ordering::Relaxed);
                shared.stop();
            }
        }
    }

    /// Hands the parts of a plan to workers.
    fn divide(&mut self, order: Order) {
        let Order { plan, shared, .. } = &order;
        let tally = &shared.tally;
        tally.add(|t| &t.planned_pages, plan.total_pages());
        let Ok(mounts) = self.mounts.current() else {
            return;
        };
        let targets = targets::of_plan(plan, &mounts);
        let ours = targets.iter().map(|target| pages_of(plan, &target.nodes));
        let others = plan.total_pages().saturating_sub(ours.sum());
        tally.add(|t| &t.skipped_pages, others);
        let budgets = budgets(plan, &targets, budget_bytes(memory(), order.budget_bytes));
        // Those that lie on others come last: they wait for the metadata of all before them.
        let mut targets: Vec<_> = targets.into_iter().zip(budgets).collect();
        targets.sort_by_key(|(target, _)| target.is_stacked());
        let own = targets.iter().filter(|(target, _)| !target.is_stacked());
        shared.expect_metadata(own.count());
        for (target, budget_bytes) in targets {
            let part = Part::new(plan, target, budget_bytes, shared);
            self.parts.extend(part.watched());
            self.hand_over(part);
        }
        self.under_way.push(Arc::clone(shared));
    }

    /// To a worker of its device that is free, or to a new one.
    fn hand_over(&mut self, mut part: Part) {
        let device = (part.target.major, part.target.minor);
        let workers = self.workers.entry(device).or_default();
        let mut at = 0;
        while let Some(worker) = workers.get(at) {
            if worker.is_taken.swap(true, Ordering::Relaxed) {
                at += 1;
                continue;
            }
            match worker.parts.send(part) {
                Ok(()) => return,
                Err(SendError(back)) => part = back,
            }
            workers.remove(at);
        }
        // Those that have ended are taken for ever.
        workers.retain(|worker| !worker.thread.is_finished());
        let (parts, receiver) = channel();
        let is_taken = Arc::new(AtomicBool::new(true));
        let (own_taken, crew) = (Arc::clone(&is_taken), self.crew.clone());
        let thread = thread::Builder::new().name("fetch-device".into());
        let spawned = thread.spawn(move || work(&receiver, &own_taken, crew));
        match spawned {
            Ok(thread) => {
                let _ = parts.send(part);
                workers.push(Worker {
                    parts,
                    is_taken,
                    thread,
                });
            }
            Err(error) => {
                part.shared.metadata_done(&part.target);
                part.shared.count_failed_file_system(&error);
            }
        }
    }
}

/// Budget of each file system: it is shared by need, across file systems.
fn budgets(plan: &ReadPlan, targets: &[Target], budget_bytes: u64) -> Vec<u64> {
    let needs = targets.iter().enumerate().flat_map(|(group, target)| {
        let ranges = target.nodes.iter().flat_map(|id| plan.ranges(*id));
        ranges.map(move |range| Need {
            need_ns: range.need_ns,
            group,
            pages: range.pages,
        })
    });
    shares(needs, targets.len(), budget_bytes)
}

/// The main loop of a worker.
fn work(parts: &Receiver<Part>, is_taken: &Arc<AtomicBool>, crew: Crew) {
    let mut means = Means {
        asker: None,
        crew,
        data: None,
        metadata: None,
    };
    loop {
        match parts.recv_timeout(IDLE) {
            Ok(part) => {
                carry_out(&part, &mut means);
                // The next plan may come as soon as this one is over.
                is_taken.store(false, Ordering::Release);
                drop(part);
            }
            Err(RecvTimeoutError::Timeout) => {
                if !is_taken.swap(true, Ordering::Relaxed) {
                    return;
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn carry_out(part: &Part, means: &mut Means) {
    if part.target.is_stacked() {
        part.shared.wait_for_metadata();
    }
    match part.has_helper() {
        true => foreign::carry_out(part, means),
        false => part.carry_out_here(means),
    }
    part.shared.metadata_done(&part.target);
}
