// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread of a directory traversal: confirms a suspicion, and drives the traversal to its end.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use foreread_core::Device;
use foreread_core::mounts::Mounts;
use foreread_linux_prefetcher::{Executor, Neighbours};
use foreread_watch::ahead::{Ahead, Machine};
use foreread_watch::detect::Suspicion;
use foreread_watch::log::note::{Note, PlannerCall, What};
use foreread_watch::log::noted_walk::NoteWalk;
use foreread_watch::memory_budget::MemoryBudget;
use foreread_watch::order::Entry;
use foreread_watch::place::Place;
use foreread_watch::saved::Pace;
use foreread_watch::skipped::Skipped;
use foreread_watch::traversal::{Refusal, Traversal, confirm};
use foreread_watch::walk::Why;

use super::arguments::topmost_named;
use super::beat::Beat;
use super::driver::Driver;
use super::listing::Lists;
use super::mailbox::{Mailbox, Told};
use super::opened::topmost_listed;
use super::permitted::Permitted;
use super::reader::Reader;
use super::tops::Tops;

/// A traversal ends when its program reads nothing for this long.
const IDLE: Duration = Duration::from_secs(5);

/// A list is sorted in a copy to compare it with an order.
const LIST_COPIES: u64 = 2;

/// The arguments of a traversal's thread.
pub(super) struct Start {
    pub suspicion: Suspicion,
    /// The process, whose rights bound what is read ahead of it.
    pub reader: Reader,
    pub budget_bytes: u64,
    /// The memory of all planners, and the user to whom this one is charged.
    pub memory: MemoryBudget,
    pub user: u32,
    pub is_dry_run: bool,
    /// Whether `/proc` has the process under this number.
    pub numbers_are_ours: bool,
    pub tops: Tops,
    /// Paused while no process is in the tree.
    pub mailbox: Arc<Mailbox<Told>>,
    /// The pace of the program, from its last miss on.
    pub pace: Pace,
    /// Whether other processes share the traversal.
    pub is_shared: Arc<AtomicBool>,
    pub executor: Executor,
    /// Shows whether it goes on.
    pub beat: Beat,
    pub notes: Sender<Note>,
    /// The number by which the log tells it from other traversals of its process.
    pub number: u64,
    /// Whether to note its calls.
    pub is_logged: bool,
}

/// Confirms a suspicion, and drives the traversal to its end.
pub(super) fn run(start: &Start) {
    let permitted = RefCell::new(Permitted::new(start.reader.clone()));
    let directory = start.suspicion.directory.clone();
    let why = permitted.borrow_mut().begin();
    let driven = match why {
        None => drive(start, &permitted),
        Some(_) => Err(Refusal::Wrong),
    };
    let ended = driven.unwrap_or_else(|refusal| match (refusal, why) {
        (Refusal::Known, _) => What::Known,
        (Refusal::TooEarly, _) => What::TooEarly { directory },
        (Refusal::Wrong, Some(why)) => What::Skipped { directory, why },
        (Refusal::Wrong, None) if permitted.borrow().has_refused() => What::Skipped {
            directory,
            why: Skipped::NoPermission,
        },
        (Refusal::Wrong, None) => What::Refused { directory },
    });
    start
        .tops
        .give(start.suspicion.process, start.suspicion.reads);
    start.note(ended, permitted.borrow().owner());
}

fn drive(start: &Start, permitted: &RefCell<Permitted>) -> Result<What, Refusal> {
    let lists = Lists::new(start.beat.clone());
    let mut machine = MachineOf {
        start,
        lists: &lists,
        permitted,
    };
    let confirmed = confirm(&start.suspicion, start.budget_bytes, &mut machine)?;
    let note = start.is_logged.then(|| -> NoteWalk<'_> {
        Box::new(|call| start.note(What::Called(PlannerCall::Walk(Box::new(call))), None))
    });
    let mut traversal = Traversal::begin(confirmed, start.number, note);
    let driver = Driver {
        mailbox: &start.mailbox,
        executor: &start.executor,
        lists: &lists,
        permitted,
        budget: &start.memory,
        user: start.user,
        budget_bytes: start.budget_bytes,
        neighbours: Neighbours::new(start.suspicion.threads > 1),
        idle: IDLE,
        is_dry_run: start.is_dry_run,
        pace: RefCell::new(start.pace.clone()),
        is_shared: &|| start.is_shared.load(Ordering::Relaxed),
    };
    driver.drive(&mut traversal, &mut machine);
    Ok(What::Ended {
        why: traversal.why().unwrap_or(Why::Stopped),
        tally: traversal.tally(),
    })
}

impl Start {
    fn note(&self, what: What, owner: Option<u32>) {
        let note = Note {
            process: self.suspicion.process,
            began_by_reads: self.suspicion.reads,
            owner,
            what,
        };
        // Without a receiver of notes this thread ends soon.
        let _ = self.notes.send(note);
    }
}

/// The machine, for the planner of one traversal.
struct MachineOf<'a> {
    start: &'a Start,
    lists: &'a Lists,
    permitted: &'a RefCell<Permitted>,
}

impl Machine for MachineOf<'_> {
    fn mounts(&mut self) -> Option<Arc<Mounts>> {
        self.lists.mounts()
    }

    fn list(&mut self, top: &Place, below: &[u8]) -> Option<Vec<Entry>> {
        let mut path = top.path_of(&top.inside);
        path.extend_from_slice(below);
        let mut permitted = self.permitted.borrow_mut();
        if permitted.begin().is_some() || !permitted.may_list(&path) {
            return None;
        }
        drop(permitted);
        // Compared with the accesses of the program, and dropped.
        let mut charge = self.start.memory.charge_of(self.start.user);
        let mut fits = |entry: &Entry| charge.add(LIST_COPIES * entry.held_bytes()).is_ok();
        let is_stopped = || self.start.mailbox.is_stopped();
        let opened = self.lists.open(top.path()).ok()?;
        opened.list(below, &is_stopped, &mut fits).ok()
    }

    fn claim(&mut self, device: Device, inside: &[u8]) -> bool {
        let of = &self.start.suspicion;
        self.start.tops.take(of.process, of.reads, device, inside)
    }

    fn is_free(&mut self, device: Device, inside: &[u8]) -> bool {
        let of = &self.start.suspicion;
        self.start
            .tops
            .is_free(of.process, of.reads, device, inside)
    }

    fn began_at(&mut self, process: u32, place: &Place) -> Option<Place> {
        if !self.start.numbers_are_ours {
            return None;
        }
        let levels = place.levels();
        // Only by its arguments if nobody may look at the directories.
        let listed = self
            .lists
            .is_near(place.path())
            .then(|| {
                self.lists
                    .near(|| topmost_listed(process, place.path(), levels))
            })
            .flatten();
        let named = topmost_named(process, place.path(), levels);
        let above = [listed, named].into_iter().flatten();
        let topmost = above.min_by_key(|path| path.as_os_str().len());
        topmost.and_then(|path| place.above(&path))
    }

    fn note(&mut self, what: What) {
        self.start.note(what, self.permitted.borrow().owner());
    }
}
