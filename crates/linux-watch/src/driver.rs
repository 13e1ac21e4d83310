// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drives a planner ahead of one program, in a thread of its own: passes it the accesses of the
//! program, and carries out its actions. It is the same for all planners.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foreread_linux_prefetcher::{Executor, Neighbours, Options, Report};
use foreread_prefetch::plan::ReadPlan;
use foreread_profile::PAGE_BYTES;
use foreread_watch::ahead::{Access, Action, Ahead, Event, Fetch, Fetched, Listed, Machine};
use foreread_watch::order::Entry;
use foreread_watch::paths::joined;
use foreread_watch::place::Place;
use foreread_watch::traversal::of_directories;

use super::listing::Lists;
use super::mailbox::{Mailbox, Until};

/// Maximum number of entries in one list.
const ENTRIES_MAX: usize = 1 << 15;

/// The means and the limits of a driver.
pub(super) struct Driver<'a> {
    /// Accesses of the program, and orders to pause or to stop.
    pub mailbox: &'a Arc<Mailbox<Access>>,
    pub executor: &'a Executor,
    /// Lists directories.
    pub lists: &'a Lists,
    /// Most bytes of directories that are read at a time.
    pub budget_bytes: u64,
    /// Whether directories are read with the blocks that lie beside them.
    pub neighbours: Neighbours,
    /// Time without a use after which the program is idle.
    pub idle: Duration,
    pub is_dry_run: bool,
}

impl Driver<'_> {
    /// Drives the planner to its end.
    pub fn drive(&self, planner: &mut dyn Ahead, machine: &mut dyn Machine) {
        let mut last_use = Instant::now();
        loop {
            let is_stopped = self.mailbox.is_stopped();
            if self.take_accesses(planner, machine) {
                last_use = Instant::now();
            }
            if is_stopped {
                // Its last accesses count.
                planner.take(Event::Exited, machine);
            }
            if self.is_dry_run {
                // The next step would depend on fetches that are not made.
                planner.take(Event::Stopped, machine);
            }
            let is_paused = self.mailbox.is_paused() && planner.goes_on();
            let action = match is_paused {
                true => Action::Wait,
                false => planner.next(),
            };
            let is_used = match action {
                Action::End => return,
                Action::Wait => self.wait(planner, machine, last_use),
                Action::List { top, directories } => {
                    let listed = self.list(&top, &directories);
                    planner.take(Event::Listed(listed), machine)
                }
                Action::Fetch(fetch) => self.fetch(fetch, planner, machine),
            };
            if is_used {
                last_use = Instant::now();
            }
        }
    }

    /// Waits for an access or an order.
    fn wait(&self, planner: &mut dyn Ahead, machine: &mut dyn Machine, last_use: Instant) -> bool {
        let limit = self.idle.saturating_sub(last_use.elapsed());
        match self.mailbox.next(limit) {
            Some(access) => planner.take(Event::Access(access), machine),
            None if last_use.elapsed() >= self.idle => planner.take(Event::Idle, machine),
            None => false,
        }
    }

    /// Passes on the accesses since the last call. Returns whether one of them is a use.
    fn take_accesses(&self, planner: &mut dyn Ahead, machine: &mut dyn Machine) -> bool {
        let mut is_used = false;
        while let Some(access) = self.mailbox.try_next() {
            is_used |= planner.take(Event::Access(access), machine);
        }
        is_used
    }

    fn fetch(&self, fetch: Fetch, planner: &mut dyn Ahead, machine: &mut dyn Machine) -> bool {
        let began = Instant::now();
        let Fetch {
            plan,
            budget_bytes,
            takes_accesses,
        } = fetch;
        let options = options(budget_bytes, None);
        let mut is_used = false;
        let report = if takes_accesses {
            self.mailbox
                .fetch_and_take(self.executor, plan, &options, || {
                    let is_stopped = self.mailbox.is_stopped();
                    is_used |= self.take_accesses(planner, machine);
                    if is_stopped {
                        planner.take(Event::Exited, machine);
                    }
                    planner.goes_on()
                })
        } else {
            self.carry_out(plan, &options, Until::Paused)
        };
        // Stopped by Ctrl-C, or because no process of the program is left.
        let is_cut = self.mailbox.is_stopped() || self.mailbox.is_paused();
        if is_cut {
            is_used |= self.take_accesses(planner, machine);
        }
        let fetched = Fetched {
            pages: report.arrived_pages,
            metadata_pages: report.metadata_bytes / PAGE_BYTES,
            cached_pages: report.cached_pages,
            gone_files: report.gone_files
                + report.replaced_files
                + report.unreadable_files
                + report.leased_files
                + report.failed_reads,
            lacks_memory: report.stopped_for_memory > 0,
            is_cut,
            took_ns: nanoseconds(began),
        };
        is_used | planner.take(Event::Fetched(fetched), machine)
    }

    fn carry_out(&self, plan: ReadPlan, options: &Options, until: Until) -> Report {
        self.mailbox.fetch(self.executor, plan, options, until)
    }

    /// Lists directories and those below them, level by level. Each level is fetched first, in disk
    /// order.
    fn list(&self, top: &Place, directories: &[Vec<u8>]) -> Listed {
        let began = Instant::now();
        let mut lists: HashMap<Vec<u8>, Vec<Entry>> = HashMap::new();
        let mut level: Vec<(Vec<u8>, u64)> = directories.iter().map(|d| (d.clone(), 0)).collect();
        // Directories for which there was no room are asked for again.
        let mut tried = Vec::new();
        let mut entries = 0;
        while !level.is_empty() && entries < ENTRIES_MAX && !self.mailbox.is_stopped() {
            if level.iter().any(|(_, inode)| *inode != 0) {
                let plan = of_directories(top, &level);
                let options = options(self.budget_bytes, Some(self.neighbours.clone()));
                self.carry_out(plan, &options, Until::Stopped);
            }
            // Opened anew for each level, so that nothing stays open while the device works.
            let Ok(opened) = self.lists.open(top.path()) else {
                tried.extend(level.into_iter().map(|(directory, _)| directory));
                break;
            };
            let mut next = Vec::new();
            for (directory, _) in level {
                if self.mailbox.is_stopped() || entries >= ENTRIES_MAX {
                    break;
                }
                tried.push(directory.clone());
                let below = directory.strip_prefix(top.inside.as_slice());
                let is_stopped = || self.mailbox.is_stopped();
                let Ok(list) = opened.list(below.unwrap_or_default(), &is_stopped) else {
                    continue;
                };
                entries += list.len();
                let below = list.iter().filter(|entry| entry.is_directory);
                next.extend(below.map(|entry| (joined(&directory, &entry.name), entry.inode)));
                lists.insert(directory, list);
            }
            level = next;
        }
        Listed {
            tried,
            lists,
            took_ns: nanoseconds(began),
        }
    }
}

fn options(budget_bytes: u64, with_neighbours: Option<Neighbours>) -> Options {
    Options {
        budget_bytes: Some(budget_bytes),
        with_neighbours,
        ..Options::default()
    }
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
