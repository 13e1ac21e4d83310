// SPDX-License-Identifier: MIT OR Apache-2.0
//! Carries a walk out, in a thread of its own: lists, fetches, and takes in what its program reads.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::{Duration, Instant};

use foreread_watch::detect::Suspicion;
use foreread_watch::note::{Note, What};
use foreread_watch::order::{Entry, Orders};
use foreread_watch::walk::{Decision, FileToFetch, Met, Walk, Why};

use super::arguments::topmost_named;
use super::fetching::{fetch, of_directories, of_files};
use super::listing::Top;
use super::opened::topmost_listed;
use super::place::Place;
use crate::mounts::Mounts;

/// Entries that are listed in one go.
const ENTRIES_MAX: usize = 1 << 15;
/// A program that reads nothing for so long is left alone.
const IDLE: Duration = Duration::from_secs(5);
/// How often it is decided anew when nothing happens.
const DECIDE_EVERY: Duration = Duration::from_millis(20);

/// What its program has read.
#[derive(Clone, Debug)]
pub(super) enum Read {
    Missed { directory: Vec<u8>, inode: u64 },
    Hit { inode: u64 },
}

/// What a walk is started with.
pub(super) struct Start {
    pub suspicion: Suspicion,
    pub budget_bytes: u64,
    pub is_dry_run: bool,
    /// Whether `/proc` has the process under this number.
    pub numbers_are_ours: bool,
    pub reads: Receiver<Read>,
    pub stop: Arc<AtomicBool>,
    pub notes: Sender<Note>,
}

/// Confirms a suspicion, and carries the walk out to its end.
pub(super) fn run(start: &Start) {
    let ended = match begin(start) {
        Ok(Some((place, walk, orders))) => {
            let mut walker = Walker {
                start,
                place,
                walk,
                orders,
                last_read: Instant::now(),
            };
            let why = walker.run();
            What::Ended {
                why,
                tally: walker.walk.tally(),
            }
        }
        // What can't be listed is gone, or none of our business.
        Ok(None) | Err(_) => What::Refused {
            directory: start.suspicion.directory.clone(),
        },
    };
    start.note(ended);
}

impl Start {
    fn note(&self, what: What) {
        let note = Note {
            process: self.suspicion.process,
            what,
        };
        // Whoever took notes has gone: so will this thread.
        let _ = self.notes.send(note);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

fn begin(start: &Start) -> io::Result<Option<(Place, Walk, Orders)>> {
    let suspicion = &start.suspicion;
    let mounts = Mounts::of_self()?;
    let Some(place) = Place::find(&mounts, suspicion.device, &suspicion.directory) else {
        return Ok(None);
    };
    let (_, entries) = Top::open(place.path())?.list(b"")?;
    let orders = Orders::of(&entries, &suspicion.children);
    let Some(order) = orders.first() else {
        return Ok(None);
    };
    let place = match start.numbers_are_ours {
        true => began_at(suspicion.process, place),
        false => place,
    };
    start.note(What::Begun {
        top: place.path_of(&place.inside),
        order,
    });
    let walk = Walk::new(&place.inside, order, start.budget_bytes);
    Ok(Some((place, walk, orders)))
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
    walk: Walk,
    /// Those that explain all that was seen.
    orders: Orders,
    last_read: Instant,
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
                // What would be done next depends on what isn't done.
                self.walk.end_for(Why::Stopped);
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
        match self.start.reads.recv_timeout(DECIDE_EVERY) {
            Ok(read) => self.take(read),
            Err(RecvTimeoutError::Timeout) if self.last_read.elapsed() > IDLE => {
                self.walk.end_for(Why::Idle);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => self.walk.end_for(Why::Exited),
        }
    }

    /// What has been read meanwhile.
    fn take_reads(&mut self) {
        loop {
            match self.start.reads.try_recv() {
                Ok(read) => self.take(read),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => return self.walk.end_for(Why::Exited),
            }
        }
    }

    fn take(&mut self, read: Read) {
        self.last_read = Instant::now();
        match read {
            Read::Hit { inode } => {
                self.walk.hit(inode);
            }
            Read::Missed { directory, inode } => {
                if self.walk.missed(&directory, inode) == Met::Outside {
                    // Where it can't rise, the program is strayed, which the walk counts.
                    let _ = self.rise(&directory);
                }
            }
        }
    }

    /// Follows the program out of the tree, where it goes on to what comes next above.
    fn rise(&mut self, directory: &[u8]) -> io::Result<()> {
        let Some((above, names)) = self.walk.rise(directory) else {
            return Ok(());
        };
        let mounts = Mounts::of_self()?;
        let device = self.start.suspicion.device;
        let Some(place) = Place::find(&mounts, device, &above) else {
            return Ok(());
        };
        // Too many programs read below the root of the machine one after the other.
        if place.path() == Path::new("/") {
            return Ok(());
        }
        let (_, entries) = Top::open(place.path())?.list(b"")?;
        let orders = Orders::of(&entries, &names);
        if orders.first().is_some()
            && let orders = self.orders.and(orders)
            && let Some(order) = orders.first()
        {
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

    fn fetch(&mut self, files: &[FileToFetch], budget_bytes: u64) {
        let began = Instant::now();
        self.walk.fetching(files);
        let profile = of_files(&self.place, files);
        let report = fetch(profile, budget_bytes, || !self.start.is_stopped());
        self.walk.fetched(files.len() as u64, report.arrived_pages);
        if report.stopped_for_memory > 0 {
            self.walk.end_for(Why::Memory);
        }
        self.start.note(What::Fetched {
            files: files.len() as u64,
            pages: report.arrived_pages,
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
                let profile = of_directories(&self.place, &level);
                fetch(profile, self.start.budget_bytes, || {
                    !self.start.is_stopped()
                });
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
