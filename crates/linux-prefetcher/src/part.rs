// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of a plan that is on one file system, and the watch over its progress.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use foreread_linux_helper::{is_enabled, local_failed};
use foreread_prefetch::helper::HelperLimits;
use foreread_prefetch::order::Service;
use foreread_prefetch::plan::ReadPlan;
use foreread_prefetch::stages::{Stage, stages};

use super::device_pages::DeviceExtents;
use super::means::Means;
use super::targets::Target;
use super::under_way::{Shared, Working};
use super::{data, looks, raw};

/// See the [module](self).
pub(super) struct Part {
    pub plan: Arc<ReadPlan>,
    pub target: Arc<Target>,
    pub budget_bytes: u64,
    pub shared: Arc<Shared>,
    working: Held,
}

/// Counts as working until somebody drops it: the worker at the end, or the watch before.
type Held = Arc<Mutex<Option<Working>>>;

fn end(held: &Held) {
    let working = held.lock().unwrap_or_else(PoisonError::into_inner).take();
    drop(working);
}

/// The progress of a part, as the dispatcher sees it.
pub(super) struct Watched {
    target: Arc<Target>,
    shared: Arc<Shared>,
    working: Held,
    /// The sum of all counters, and since when it has been that.
    sum: u64,
    since: Instant,
}

impl Part {
    pub fn new(
        plan: &Arc<ReadPlan>,
        target: Target,
        budget_bytes: u64,
        shared: &Arc<Shared>,
    ) -> Self {
        Self {
            plan: Arc::clone(plan),
            target: Arc::new(target),
            budget_bytes,
            shared: Arc::clone(shared),
            working: Arc::new(Mutex::new(Some(Working::new(shared)))),
        }
    }

    /// Its progress; `None` where a helper's asker has its own limit.
    pub fn watched(&self) -> Option<Watched> {
        (!self.has_helper()).then(|| Watched {
            target: Arc::clone(&self.target),
            shared: Arc::clone(&self.shared),
            working: Arc::clone(&self.working),
            sum: 0,
            since: Instant::now(),
        })
    }

    /// Whether a helper process is to carry it out.
    pub fn has_helper(&self) -> bool {
        !self.target.is_local && is_enabled()
    }

    /// Carries it out by threads of this process.
    pub fn carry_out_here(&self, means: &mut Means) {
        let Self {
            plan,
            target,
            budget_bytes,
            shared,
            working: _,
        } = self;
        let stages = match shared.first_stage_items {
            Some(items) => stages(plan, &target.nodes, items),
            None => vec![Stage::whole(&target.nodes)],
        };
        let mut budget_bytes = *budget_bytes;
        let mut unplaced = Vec::new();
        // The slowest: a later stage may find all of its metadata in memory.
        let mut service = Service::default();
        let mut is_raw = false;
        for (number, stage) in stages.into_iter().enumerate() {
            if number > 0 && shared.stopped() {
                break;
            }
            let on_device = DeviceExtents::of(plan, target, &stage, &mut budget_bytes);
            let found = match target.fs_type.starts_with(b"ext") && !shared.no_raw {
                true => {
                    let kept = &mut means.metadata;
                    raw::metadata(plan, target, &stage, &on_device, shared, kept).ok()
                }
                false => {
                    on_device.ask_for_all(target);
                    None
                }
            };
            let Some(found) = found else {
                budget_bytes -= looks::replay(
                    plan,
                    target,
                    &stage,
                    &mut service,
                    budget_bytes,
                    shared,
                    means,
                );
                continue;
            };
            is_raw = true;
            service = service.max(found.service);
            budget_bytes -= data::read(
                plan,
                target,
                found.pieces,
                service,
                budget_bytes,
                shared,
                &mut means.data,
            );
            unplaced.extend(found.unplaced);
        }
        match is_raw {
            true => shared.tally.add(|t| &t.raw_file_systems, 1),
            false => shared.tally.add(|t| &t.looked_file_systems, 1),
        }
        // A file may be in several stages.
        unplaced.sort_unstable();
        unplaced.dedup();
        if !unplaced.is_empty() && !shared.stopped() {
            let rest = Stage::whole(&unplaced);
            looks::replay(
                plan,
                target,
                &rest,
                &mut service,
                budget_bytes,
                shared,
                means,
            );
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        end(&self.working);
    }
}

impl Watched {
    /// Whether the part is to be watched on. One that makes no progress any more counts as over.
    pub fn goes_on(&mut self) -> bool {
        let is_over = || {
            let working = self.working.lock();
            working.unwrap_or_else(PoisonError::into_inner).is_none()
        };
        if is_over() {
            return false;
        }
        let sum = self.shared.progress();
        if sum != self.sum {
            self.sum = sum;
            self.since = Instant::now();
        }
        if self.since.elapsed() < HelperLimits::LOCAL {
            return true;
        }
        local_failed(&self.target.superblock());
        self.shared.tally.add(|t| &t.left_alone_file_systems, 1);
        self.shared.metadata_done(&self.target);
        end(&self.working);
        false
    }
}
