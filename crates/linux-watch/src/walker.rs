// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a walk in a thread of its own: lists, fetches, and takes the reads of its program.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use foreread_core::Device;
use foreread_linux_prefetcher::{Executor, Neighbours, Options, Report};
use foreread_prefetch::plan::ReadPlan;
use foreread_profile::PAGE_BYTES;
use foreread_sys::mounts::MountTable;
use foreread_watch::detect::{Missed, Passed, Suspicion};
use foreread_watch::log::note::{Note, PlannerCall, What};
use foreread_watch::log::noted_walk::{NoteWalk, NotedWalk};
use foreread_watch::look::{Look, Verdict, above, verdict};
use foreread_watch::order::{Entry, Order, Orders};
use foreread_watch::paths::is_within;
use foreread_watch::walk::{Decision, FileToFetch, Met, Walk, Why};

use super::arguments::topmost_named;
use super::fetching::{of_directories, of_files, options};
use super::listing::Top;
use super::mailbox::{Mailbox, Until};
use super::opened::topmost_listed;
use super::place::Place;
use super::tops::Tops;

/// Entries that are listed in one go.
const ENTRIES_MAX: usize = 1 << 15;
/// Threads whose sequences are compared with the order of directories.
const EVIDENCE_MAX: usize = 12;
/// How many levels above the first directories a program's list may start.
const START_LEVELS: usize = 6;
/// A walk ends when its program reads nothing for so long.
const IDLE: Duration = Duration::from_secs(5);

/// An access of the walk's program.
#[derive(Clone, Debug)]
pub(super) enum Read {
    Missed(Missed),
    Hit {
        thread: u32,
        device: Device,
        inode: u64,
    },
    /// It waits for metadata there.
    Waits(Look),
    /// It has looked at this, and may have waited.
    Looked {
        device: Device,
        inode: u64,
        is_late: bool,
    },
}

/// The arguments of a walk's thread.
pub(super) struct Start {
    pub suspicion: Suspicion,
    pub budget_bytes: u64,
    pub is_dry_run: bool,
    /// Whether `/proc` has the process under this number.
    pub numbers_are_ours: bool,
    pub tops: Tops,
    /// It is paused while no process is in the tree.
    pub mailbox: Arc<Mailbox<Read>>,
    pub executor: Executor,
    pub notes: Sender<Note>,
    /// Tells it from other walks of its process.
    pub number: u64,
    /// Whether notes are wanted of its calls.
    pub is_logged: bool,
}

/// Confirms a suspicion, and carries the walk out to its end.
pub(super) fn run(start: &Start) {
    let ended = match begin(start) {
        Ok(mut walker) => {
            let why = walker.run();
            What::Ended {
                why,
                tally: walker.walk.tally(),
            }
        }
        Err(Refusal::Known) => What::Known,
        Err(Refusal::TooEarly) => What::TooEarly {
            directory: start.suspicion.directory.clone(),
        },
        // A directory that can't be listed is gone, or not accessible.
        Err(Refusal::Wrong) => What::Refused {
            directory: start.suspicion.directory.clone(),
        },
    };
    start
        .tops
        .give(start.suspicion.process, start.suspicion.reads);
    start.note(ended);
}

impl Start {
    fn note(&self, what: What) {
        let note = Note {
            process: self.suspicion.process,
            began_by_reads: self.suspicion.reads,
            what,
        };
        // Without a receiver of notes this thread ends soon.
        let _ = self.notes.send(note);
    }

    /// Whether no other walk ahead of the process has this directory.
    fn takes(&self, device: Device, inside: &[u8]) -> bool {
        let of = &self.suspicion;
        self.tops.take(of.process, of.reads, device, inside)
    }

    fn is_stopped(&self) -> bool {
        self.mailbox.is_stopped()
    }

    fn is_paused(&self) -> bool {
        self.mailbox.is_paused()
    }
}

/// Why a suspicion isn't followed.
enum Refusal {
    /// Its accesses are in no order, or the directory is excluded.
    Wrong,
    /// There are too few accesses yet.
    TooEarly,
    /// It is where the process is walked ahead of already.
    Known,
}

impl From<io::Error> for Refusal {
    fn from(_: io::Error) -> Self {
        Self::Wrong
    }
}

fn begin(start: &Start) -> Result<Walker<'_>, Refusal> {
    let suspicion = &start.suspicion;
    let mut mount_table = MountTable::default();
    let mounts = mount_table.current()?;
    let follow = |directory: &[u8]| {
        Place::follow(&mounts, suspicion.device, directory).ok_or(Refusal::Wrong)
    };
    let (mut place, device) = follow(&suspicion.directory)?;
    let orders = if suspicion.reads {
        orders_of_reads(&place, suspicion)?
    } else {
        let (orders, explained) = orders_of_looks(&place, suspicion)?;
        let top = above(&explained).ok_or(Refusal::Wrong)?;
        place = follow(&top)?.0;
        orders
    };
    let order = orders.first().ok_or(Refusal::Wrong)?;
    if !start
        .tops
        .is_free(suspicion.process, suspicion.reads, device, &place.inside)
    {
        return Err(Refusal::Known);
    }
    // A program that follows a list begins where the list starts.
    if let Some((start, of)) = suspicion
        .start
        .as_ref()
        .and_then(|start| follow(start).ok())
        && of == device
        && is_within(&start.inside, &place.inside)
        && start.levels() + START_LEVELS >= place.levels()
    {
        place = start;
    }
    if start.numbers_are_ours {
        place = began_at(suspicion.process, place);
    }
    // Too many programs look files up all over the root of the machine.
    if !suspicion.reads && place.path() == Path::new("/") {
        return Err(Refusal::Wrong);
    }
    if !start.takes(device, &place.inside) {
        return Err(Refusal::Known);
    }
    start.note(What::Begun {
        top: place.path_of(&place.inside),
        order,
    });
    let walk = match suspicion.reads {
        true => Walk::new(&place.inside, order, start.budget_bytes),
        false => Walk::of_looks(&place.inside, order, start.budget_bytes),
    };
    let note = start.is_logged.then(|| -> NoteWalk<'_> {
        Box::new(|call| start.note(What::Called(PlannerCall::Walk(Box::new(call)))))
    });
    Ok(Walker {
        start,
        place,
        device,
        walk: NotedWalk::begin(walk, start.number, note),
        orders,
        last_read: Instant::now(),
        last_thread: 0,
        neighbours: Neighbours::new(suspicion.threads > 1),
        mount_table,
    })
}

fn orders_of_reads(place: &Place, suspicion: &Suspicion) -> io::Result<Orders> {
    let (_, entries) = Top::open(place.path())?.list(b"")?;
    let passed = suspicion.passed.first();
    Ok(passed.map_or_else(Orders::default, |passed| {
        Orders::of(&entries, &passed.children)
    }))
}

/// Those that explain how the threads of a process came through their directories; and what the
/// first of them explains.
fn orders_of_looks(place: &Place, suspicion: &Suspicion) -> Result<(Orders, Vec<Passed>), Refusal> {
    let mut passed: Vec<&Passed> = suspicion.passed.iter().collect();
    passed.sort_by_key(|passed| Reverse(passed.children.len()));
    passed.truncate(EVIDENCE_MAX);
    let top = Top::open(place.path())?;
    let mut lists: HashMap<&[u8], Vec<Entry>> = HashMap::new();
    for passed in &passed {
        if let hash_map::Entry::Vacant(vacant) = lists.entry(&passed.directory) {
            let below = passed
                .directory
                .strip_prefix(suspicion.directory.as_slice());
            let list = top.list(below.unwrap_or_default());
            vacant.insert(list.map(|(_, entries)| entries).unwrap_or_default());
        }
    }
    let of = |passed: &Passed| {
        let entries = lists.get(passed.directory.as_slice());
        entries.map_or_else(Orders::default, |list| {
            Orders::of_looks(list, &passed.children)
        })
    };
    let found: Vec<(&Passed, Orders)> = passed.into_iter().map(|one| (one, of(one))).collect();
    let judged = Order::ALL.into_iter().map(|order| {
        let explained = found.iter().filter(|(_, orders)| orders.contains(order));
        let explained: Vec<Passed> = explained.map(|(passed, _)| (*passed).clone()).collect();
        let verdict = verdict(&explained, found.len() - explained.len());
        (order, verdict, explained)
    });
    let mut judged: Vec<(Order, Verdict, Vec<Passed>)> = judged.collect();
    let best = judged.iter().map(|(_, verdict, _)| *verdict).max();
    match best.unwrap_or(Verdict::Chance) {
        Verdict::Chance => return Err(Refusal::Wrong),
        Verdict::TooEarly => return Err(Refusal::TooEarly),
        Verdict::Convincing => judged.retain(|(_, of, _)| *of == Verdict::Convincing),
    }
    let orders: Orders = judged.iter().map(|(order, ..)| *order).collect();
    let first = judged.into_iter().next().map(|(.., explained)| explained);
    Ok((orders, first.unwrap_or_default()))
}

/// The directory above at which a process seems to have begun, or this one.
fn began_at(process: u32, place: Place) -> Place {
    let levels = place.levels();
    let listed = topmost_listed(process, place.path(), levels);
    let named = topmost_named(process, place.path(), levels);
    let above = [listed, named].into_iter().flatten();
    let topmost = above.min_by_key(|path| path.as_os_str().len());
    let above = topmost.and_then(|path| place.above(&path));
    above.unwrap_or(place)
}

struct Walker<'a> {
    start: &'a Start,
    place: Place,
    device: Device,
    walk: NotedWalk<'a>,
    /// Those that explain all that was seen.
    orders: Orders,
    last_read: Instant,
    last_thread: u32,
    neighbours: Neighbours,
    mount_table: MountTable,
}

impl Walker<'_> {
    fn run(&mut self) -> Why {
        loop {
            if self.start.is_stopped() {
                // Its last reads count.
                self.take_reads();
                self.walk.end_for(Why::Exited);
            }
            if self.start.is_dry_run {
                // The next step would depend on fetches that are not made.
                self.walk.end_for(Why::Stopped);
            }
            if self.start.is_paused() && !self.start.is_stopped() {
                self.wait();
                continue;
            }
            match self.walk.decide() {
                Decision::End(why) => return why,
                Decision::List(directories) => self.list(&directories),
                Decision::Fetch(files, budget_bytes) => self.fetch(&files, budget_bytes),
                Decision::Wait => self.wait(),
            }
            self.take_reads();
        }
    }

    fn wait(&mut self) {
        // While it is paused, an order comes.
        let limit = match self.start.is_paused() {
            true => IDLE,
            false => IDLE.saturating_sub(self.last_read.elapsed()),
        };
        match self.start.mailbox.next(limit) {
            Some(read) => self.take(read),
            None if self.last_read.elapsed() >= IDLE => self.walk.end_for(Why::Idle),
            None => {}
        }
    }

    /// Takes the accesses since the last call.
    fn take_reads(&mut self) {
        while let Some(read) = self.start.mailbox.try_next() {
            self.take(read);
        }
    }

    fn take(&mut self, read: Read) {
        self.last_read = Instant::now();
        match read {
            Read::Hit {
                thread,
                device,
                inode,
            } if device == self.device => {
                self.walk.hit(inode);
                // Where it can't be listed, it stays as it is.
                let _ = self.reorder(thread);
            }
            Read::Looked {
                device,
                inode,
                is_late,
            } if device == self.device => {
                self.walk.looked(inode, is_late);
            }
            Read::Missed(missed) if missed.device == self.device => {
                let did_read = self.walk.reads();
                if self.walk.missed(&missed.directory, missed.inode) == Met::Outside {
                    // Where it can't rise, the program is strayed, which the walk counts.
                    let _ = self.rise(&missed.directory);
                }
                let _ = self.reorder(missed.thread);
                if self.walk.reads() && !did_read {
                    self.start.note(What::Reads);
                }
            }
            Read::Waits(look) => self.take_wait(&look),
            Read::Hit { .. } | Read::Looked { .. } | Read::Missed(_) => {}
        }
    }

    fn take_wait(&mut self, look: &Look) {
        // Where it reads, it is seen to read.
        if self.walk.reads() {
            return;
        }
        let directory = match look.device == self.device {
            true => Some(look.directory.clone()),
            false => self.followed(look),
        };
        if let Some(directory) = directory
            && self.walk.waits_in(&directory) == Met::Outside
        {
            let _ = self.rise(&directory);
        }
    }

    /// The directory in our file system to which a path leads that starts in another.
    fn followed(&mut self, look: &Look) -> Option<Vec<u8>> {
        let mounts = self.mount_table.current().ok()?;
        let (place, device) = Place::follow(&mounts, look.device, &look.directory)?;
        (device == self.device).then_some(place.inside)
    }

    /// Looks whether the program goes in another order than was thought, when it has jumped.
    fn reorder(&mut self, thread: u32) -> io::Result<()> {
        let is_same = std::mem::replace(&mut self.last_thread, thread) == thread;
        let Some((above, names)) = self.walk.jumped() else {
            return Ok(());
        };
        // From one thread to another it is no jump.
        if !is_same {
            return Ok(());
        }
        let below = above.strip_prefix(self.place.inside.as_slice());
        let top = Top::open(self.place.path())?;
        let (_, entries) = top.list(below.unwrap_or_default())?;
        let both = self.orders.both(Orders::of_looks(&entries, &names));
        let Some(order) = both.first() else {
            return Ok(());
        };
        self.orders = both;
        if !both.contains(self.walk.order()) {
            let top = self.walk.top().to_vec();
            self.start.note(What::Ordered { order });
            self.walk.raise(&top, order);
        }
        Ok(())
    }

    /// Follows the program out of the tree, where it goes on to what comes next above.
    fn rise(&mut self, directory: &[u8]) -> io::Result<()> {
        let Some((above, names)) = self.walk.rise(directory) else {
            return Ok(());
        };
        let mounts = self.mount_table.current()?;
        let Some(place) = Place::find(&mounts, self.device, &above) else {
            return Ok(());
        };
        // Too many programs read below the root of the machine one after the other.
        if place.path() == Path::new("/") {
            return Ok(());
        }
        let (_, entries) = Top::open(place.path())?.list(b"")?;
        let orders = Orders::of(&entries, &names);
        // Looks come from several threads, which are at several places.
        let known = if self.walk.reads() {
            orders
        } else {
            self.orders
        };
        if orders.first().is_some()
            && let orders = self.orders.and(known)
            && let Some(order) = orders.first()
        {
            if !self.start.takes(self.device, &above) {
                self.walk.end_for(Why::Left);
                return Ok(());
            }
            self.orders = orders;
            self.start.note(What::Raised {
                top: place.path_of(&place.inside),
                order,
            });
            self.walk.raise(&above, order);
            self.place = place;
        }
        Ok(())
    }

    fn carry_out(&self, plan: ReadPlan, how: Options, until: Until) -> Report {
        let mailbox = &self.start.mailbox;
        mailbox.fetch(&self.start.executor, plan, &how, until)
    }

    fn fetch(&mut self, files: &[FileToFetch], budget_bytes: u64) {
        let began = Instant::now();
        self.walk.fetching(files);
        let plan = of_files(&self.place, files, self.walk.reads());
        let report = self.carry_out(plan, options(budget_bytes, None), Until::Paused);
        // By Ctrl-C, or since nobody goes through the tree any more.
        let is_cut = self.start.is_stopped() || self.start.is_paused();
        let pages = match self.walk.reads() {
            true => report.arrived_pages,
            false => report.metadata_bytes / PAGE_BYTES,
        };
        let before = self.walk.tally().fetched_files;
        if is_cut {
            self.take_reads();
        }
        self.walk.fetch_ended(files, pages, is_cut);
        if report.stopped_for_memory > 0 {
            self.walk.end_for(Why::Memory);
        }
        self.start.note(What::Fetched {
            files: self.walk.tally().fetched_files - before,
            pages,
            window_files: self.walk.window_files(),
            took_ns: nanoseconds(began),
        });
    }

    /// Lists directories and those below them, level by level: each level is first brought in, in
    /// disk order.
    fn list(&mut self, directories: &[Vec<u8>]) {
        let began = Instant::now();
        let mut lists: HashMap<Vec<u8>, Vec<Entry>> = HashMap::new();
        let mut level: Vec<(Vec<u8>, u64)> = directories.iter().map(|d| (d.clone(), 0)).collect();
        // Those for which there was no room are asked for again.
        let mut tried = Vec::new();
        let mut entries = 0;
        while !level.is_empty() && entries < ENTRIES_MAX && !self.start.is_stopped() {
            if level.iter().any(|(_, inode)| *inode != 0) {
                let plan = of_directories(&self.place, &level);
                let beside = Some(self.neighbours.clone());
                let how = options(self.start.budget_bytes, beside);
                self.carry_out(plan, how, Until::Stopped);
            }
            // Opened anew for each level, so that nothing stays open while the device works.
            let Ok(top) = Top::open(self.place.path()) else {
                tried.extend(level.into_iter().map(|(directory, _)| directory));
                break;
            };
            let mut next = Vec::new();
            for (directory, _) in level {
                if self.start.is_stopped() || entries >= ENTRIES_MAX {
                    break;
                }
                tried.push(directory.clone());
                let below = directory.strip_prefix(self.place.inside.as_slice());
                let Ok((_, list)) = top.list(below.unwrap_or_default()) else {
                    continue;
                };
                entries += list.len();
                let below = list.iter().filter(|entry| entry.is_directory);
                next.extend(below.map(|entry| {
                    let path = foreread_watch::paths::joined(&directory, &entry.name);
                    (path, entry.inode)
                }));
                lists.insert(directory, list);
            }
            level = next;
        }
        self.start.note(What::Listed {
            directories: lists.len() as u64,
            entries: entries as u64,
            took_ns: nanoseconds(began),
        });
        self.walk.listed(&tried, &lists);
    }
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
