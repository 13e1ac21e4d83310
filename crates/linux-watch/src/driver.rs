// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drives a planner ahead of one program, in a thread of its own: passes it the accesses of the
//! program, and carries out its actions. It is the same for all planners.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foreread_linux_prefetcher::{Executor, Neighbours, Options, Report};
use foreread_prefetch::plan::ReadPlan;
use foreread_profile::PAGE_BYTES;
use foreread_watch::ahead::{Action, Ahead, Event, Fetch, Fetched, Listed, Machine};
use foreread_watch::log::note::What;
use foreread_watch::memory_budget::{Charge, Exceeded, MemoryBudget};
use foreread_watch::order::Entry;
use foreread_watch::paths::joined;
use foreread_watch::place::Place;
use foreread_watch::saved::Pace;
use foreread_watch::skipped::Skipped;
use foreread_watch::traversal::of_directories;

use super::listing::Lists;
use super::mailbox::{Mailbox, Told, Until};
use super::permitted::{Checked, Permitted};

/// Maximum number of entries in one list.
const ENTRIES_MAX: usize = 1 << 14;
/// A plan is held by the planner, by its check and by the executor, with the places of its files.
const PLAN_COPIES: u64 = 2;

/// The means and the limits of a driver.
pub(super) struct Driver<'a> {
    /// Accesses of the program, and orders to pause or to stop.
    pub mailbox: &'a Arc<Mailbox<Told>>,
    pub executor: &'a Executor,
    /// Lists directories.
    pub lists: &'a Lists,
    /// The rights of the program, by which all lists and plans are cut.
    pub permitted: &'a RefCell<Permitted>,
    /// The memory of the planner, its lists and its plans; charged to the user of the program.
    pub budget: &'a MemoryBudget,
    pub user: u32,
    /// Most bytes of directories that are read at a time.
    pub budget_bytes: u64,
    /// Whether directories are read with the blocks that lie beside them.
    pub neighbours: Neighbours,
    /// Time without a use after which the program is idle.
    pub idle: Duration,
    pub is_dry_run: bool,
    /// The pace of the program.
    pub pace: RefCell<Pace>,
    /// Whether several processes are the program.
    pub is_shared: &'a dyn Fn() -> bool,
}

impl Driver<'_> {
    /// Drives the planner to its end.
    pub fn drive(&self, planner: &mut dyn Ahead, machine: &mut dyn Machine) {
        let mut last_use = Instant::now();
        let mut held = self.budget.charge_of(self.user);
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
            if matches!(action, Action::List { .. } | Action::Fetch(_))
                && let Err(why) = self.begin(planner, &mut held)
            {
                leave_alone(planner, machine, why);
                continue;
            }
            let is_used = match action {
                Action::End => return self.note_saved(planner, machine),
                Action::Wait => self.wait(planner, machine, last_use),
                Action::List { top, directories } => match self.list(&top, &directories) {
                    Ok((listed, withheld, charge)) => {
                        note_withheld(machine, 0, withheld);
                        self.take_list(listed, charge, planner, machine, &mut held)
                    }
                    Err(exceeded) => leave_alone(planner, machine, exceeded.into()),
                },
                Action::Fetch(fetch) => self.fetch(fetch, planner, machine),
            };
            if is_used {
                last_use = Instant::now();
            }
        }
    }

    /// Before a list or a fetch: finds the rights of the program, and charges what the planner
    /// holds.
    fn begin(&self, planner: &dyn Ahead, held: &mut Charge) -> Result<(), Skipped> {
        match self.permitted.borrow_mut().begin() {
            Some(why) => Err(why),
            None => Ok(held.set(planner.held_bytes())?),
        }
    }

    /// Hands a list to the planner, if there is room for what that makes of it.
    fn take_list(
        &self,
        listed: Listed,
        _charge: Charge,
        planner: &mut dyn Ahead,
        machine: &mut dyn Machine,
        held: &mut Charge,
    ) -> bool {
        if let Err(exceeded) = held.add(listed.planned_bytes()) {
            return leave_alone(planner, machine, exceeded.into());
        }
        let is_used = planner.take(Event::Listed(listed), machine);
        match held.set(planner.held_bytes()) {
            Ok(()) => is_used,
            Err(exceeded) => leave_alone(planner, machine, exceeded.into()),
        }
    }

    /// Waits for an access or an order.
    fn wait(&self, planner: &mut dyn Ahead, machine: &mut dyn Machine, last_use: Instant) -> bool {
        let limit = self.idle.saturating_sub(last_use.elapsed());
        match self.mailbox.next(limit) {
            Some(told) => self.take_access(told, planner, machine),
            None if last_use.elapsed() >= self.idle => planner.take(Event::Idle, machine),
            None => false,
        }
    }

    /// Passes on the accesses since the last call. Returns whether one of them is a use.
    fn take_accesses(&self, planner: &mut dyn Ahead, machine: &mut dyn Machine) -> bool {
        let mut is_used = false;
        while let Some(told) = self.mailbox.try_next() {
            is_used |= self.take_access(told, planner, machine);
        }
        is_used
    }

    fn take_access(&self, told: Told, planner: &mut dyn Ahead, machine: &mut dyn Machine) -> bool {
        let files = |planner: &dyn Ahead| {
            let tally = planner.tally();
            tally.used_files + tally.missed_files
        };
        let before = files(planner);
        let is_used = planner.take(Event::Access(told.access), machine);
        // Other accesses reach no file of the plan, or one for another time.
        if files(planner) > before && told.at_ns > 0 {
            self.pace.borrow_mut().reached(told.at_ns);
        }
        is_used
    }

    /// Says how much time the program has been saved so far, if that is known.
    fn note_saved(&self, planner: &dyn Ahead, machine: &mut dyn Machine) {
        let tally = planner.tally();
        let saved = self.pace.borrow().saved(&tally, (self.is_shared)());
        if let Some(saved) = saved {
            machine.note(What::Saved(saved));
        }
    }

    fn fetch(&self, fetch: Fetch, planner: &mut dyn Ahead, machine: &mut dyn Machine) -> bool {
        let began = Instant::now();
        let Fetch {
            plan,
            budget_bytes,
            takes_accesses,
        } = fetch;
        let options = options(budget_bytes, None);
        let mut charge = self.budget.charge_of(self.user);
        if let Err(exceeded) = charge.add(PLAN_COPIES * plan.held_bytes()) {
            return leave_alone(planner, machine, exceeded.into());
        }
        let (checked, metadata_bytes) = self.check(plan, &options, Until::Paused);
        let (plan, withheld_files) = (checked.plan, checked.withheld);
        note_withheld(machine, withheld_files, 0);
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
            metadata_pages: (metadata_bytes + report.metadata_bytes) / PAGE_BYTES,
            cached_pages: report.cached_pages,
            gone_files: report.gone_files
                + report.replaced_files
                + report.unreadable_files
                + report.leased_files
                + report.failed_reads,
            withheld_files,
            lacks_memory: report.stopped_for_memory > 0,
            is_cut,
            took_ns: nanoseconds(began),
        };
        let pages = (fetched.pages, fetched.cached_pages);
        self.pace.borrow_mut().fetched(pages.0, pages.1);
        is_used |= planner.take(Event::Fetched(fetched), machine);
        self.note_saved(planner, machine);
        is_used
    }

    fn carry_out(&self, plan: ReadPlan, options: &Options, until: Until) -> Report {
        self.mailbox.fetch(self.executor, plan, options, until)
    }

    /// The part of a plan that the program may read, and the bytes of metadata that were read to
    /// find that out.
    fn check(&self, plan: ReadPlan, options: &Options, until: Until) -> (Checked, u64) {
        let mut metadata_bytes = 0;
        let checked = self.permitted.borrow_mut().check(plan, |plan| {
            metadata_bytes += self.carry_out(plan, options, until).metadata_bytes;
        });
        (checked, metadata_bytes)
    }

    /// Lists directories and those below them, level by level. Each level is fetched first, in disk
    /// order. Also returns the number of directories that the program may not list.
    fn list(
        &self,
        top: &Place,
        directories: &[Vec<u8>],
    ) -> Result<(Listed, u64, Charge), Exceeded> {
        let began = Instant::now();
        let mut charge = self.budget.charge_of(self.user);
        let mut withheld = 0;
        let mut lists: HashMap<Vec<u8>, Vec<Entry>> = HashMap::new();
        let mut level: Vec<(Vec<u8>, u64)> = directories.iter().map(|d| (d.clone(), 0)).collect();
        // Directories for which there was no room are asked for again.
        let mut tried = Vec::new();
        let mut entries = 0;
        while !level.is_empty() && entries < ENTRIES_MAX && !self.mailbox.is_stopped() {
            if level.iter().any(|(_, inode)| *inode != 0) {
                let plan = of_directories(top, &level);
                let options = options(self.budget_bytes, Some(self.neighbours.clone()));
                let (checked, _) = self.check(plan, &options, Until::Stopped);
                self.carry_out(checked.plan, &options, Until::Stopped);
            }
            let may_list = |directory: &[u8]| {
                let path = top.path_of(directory);
                self.permitted.borrow_mut().may_list(&path)
            };
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
                if !may_list(&directory) {
                    withheld += 1;
                    continue;
                }
                let below = directory.strip_prefix(top.inside.as_slice());
                let is_stopped = || self.mailbox.is_stopped();
                let mut fits = Ok(());
                let list = opened.list(below.unwrap_or_default(), &is_stopped, &mut |entry| {
                    fits = charge.add(entry.held_bytes());
                    fits.is_ok()
                });
                fits?;
                let Ok(list) = list else {
                    continue;
                };
                entries += list.len();
                let below = list.iter().filter(|entry| entry.is_directory);
                next.extend(below.map(|entry| (joined(&directory, &entry.name), entry.inode)));
                lists.insert(directory, list);
            }
            level = next;
        }
        let listed = Listed {
            tried,
            lists,
            took_ns: nanoseconds(began),
        };
        Ok((listed, withheld, charge))
    }
}

/// Ends a planner for whose program nothing may be fetched. That is no use.
fn leave_alone(planner: &mut dyn Ahead, machine: &mut dyn Machine, why: Skipped) -> bool {
    let directory = Vec::new();
    machine.note(What::Skipped { directory, why });
    planner.take(Event::Skipped(why), machine);
    false
}

fn note_withheld(machine: &mut dyn Machine, files: u64, directories: u64) {
    if files + directories > 0 {
        machine.note(What::Withheld { files, directories });
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
