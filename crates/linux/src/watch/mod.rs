// SPDX-License-Identifier: MIT OR Apache-2.0
//! Walking ahead of programs that read directory trees, on a live machine.
//!
//! [`Watching`] sees which files programs miss, and starts a thread for each program that
//! [walks](foreread_watch::walk). That lists directories and hands them, and the starts of their
//! files, to the [replay engine](crate::replay), window after window.

mod abi;
mod arguments;
mod error;
mod fetching;
mod lacking;
mod left_alone;
mod listing;
mod opened;
mod place;
mod seeing;
mod streams;
mod walker;

pub use error::WatchError;
pub use lacking::Lacking;
pub use seeing::Whom;
pub use streams::StreamsSummary;

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use foreread_replay::budget::budget_bytes;
use foreread_watch::Device;
use foreread_watch::detect::{Detector, Suspicion};
use foreread_watch::excluded::Excluded;
use foreread_watch::note::{Note, What};
use foreread_watch::walk::{Tally, Why};

use crate::doctor::Capability;
use crate::memory::{give_back, memory, share_one_heap};
use abi::Seen;
use left_alone::is_left_alone;
use seeing::Seeing;
use streams::Streams;
use walker::{Read, Start};

/// Programs that are walked ahead of at once.
const WALKS_MAX: usize = 4;
/// Reads that wait for a walk's thread; more are lost to it.
const READS_MAX: usize = 1 << 16;
/// While somebody is walked ahead of, his reads from memory are looked for so often.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whom.
    pub whom: Whom,
    /// Most bytes that are in memory ahead of one program; by default half of what is available
    /// when its walk begins, and never more.
    pub budget_bytes: Option<u64>,
    /// Only say who would be walked ahead of.
    pub is_dry_run: bool,
    /// Whether notes are wanted of each call of the policy.
    pub is_logged: bool,
    /// The rights that threads of its own keep, where others are to be given up.
    pub rights: Option<&'static [Capability]>,
}

/// What came of it so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Files that somebody missed.
    pub misses: u64,
    /// Walks begun.
    pub walks: u64,
    /// Suspicions that were wrong.
    pub refused: u64,
    /// Of all walks that have ended.
    pub tally: Tally,
    /// Of streams in large files; `None` where the kernel refuses to follow them.
    pub streams: Option<StreamsSummary>,
    /// Records of reads, or of processes, that found no room.
    pub lost: u64,
}

/// A walk's thread.
struct Walking {
    device: Device,
    reads: SyncSender<Read>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// Watches until it is dropped.
pub struct Watching {
    options: Options,
    excluded: Excluded,
    seeing: Seeing,
    detector: Detector,
    walks: HashMap<u32, Walking>,
    streams: Option<Streams>,
    notes: (Sender<Note>, Receiver<Note>),
    summary: Summary,
    lost_reads: u64,
}

impl Watching {
    /// Watches from now on. Whoever is watched sees nothing of it before [`turn`](Self::turn).
    ///
    /// # Errors
    /// [`WatchError`] when the kernel can't or rights are missing.
    pub fn start(options: Options) -> Result<Self, WatchError> {
        // Walks are threads that come and go, of which few ask for memory at once.
        share_one_heap();
        let seeing = Seeing::start(options.whom)?;
        let notes = channel();
        let streams = seeing.tree().ok().and_then(|tree| {
            let options = streams::Options {
                whom: options.whom,
                tree,
                budget_bytes: options.budget_bytes,
                is_dry_run: options.is_dry_run,
                numbers_are_ours: seeing.numbers_are_ours,
                rights: options.rights,
                notes: options.is_logged.then(|| Sender::clone(&notes.0)),
            };
            Streams::start(options).ok()
        });
        Ok(Self {
            options,
            excluded: Excluded::default(),
            seeing,
            detector: Detector::default(),
            walks: HashMap::new(),
            streams,
            notes,
            summary: Summary::default(),
            lost_reads: 0,
        })
    }

    /// From the next walk on: how much may be ahead of a program, whether nothing is fetched, and
    /// whom and what to leave alone. Who is watched stays.
    pub fn set(&mut self, budget_bytes: Option<u64>, is_dry_run: bool, excluded: Excluded) {
        self.options.budget_bytes = budget_bytes;
        self.options.is_dry_run = is_dry_run;
        if let Some(streams) = &self.streams {
            streams.set(streams::Set {
                budget_bytes,
                is_dry_run,
                excluded: excluded.clone(),
            });
        }
        self.excluded = excluded;
    }

    /// What it has to do without here.
    #[must_use]
    pub fn lacking(&self) -> Vec<Lacking> {
        lacking::lacking(self.seeing.numbers_are_ours)
    }

    /// What came of it so far.
    #[must_use]
    pub fn summary(&self) -> Summary {
        Summary {
            lost: self.seeing.lost() + self.lost_reads,
            ..self.summary
        }
    }

    /// Waits so long at most until something is seen, or `also` is readable; does what is due, and
    /// says what was done since.
    ///
    /// # Errors
    /// When the kernel refuses to show what somebody reads from memory.
    pub fn turn(&mut self, also: BorrowedFd<'_>, limit: Duration) -> Result<Vec<Note>, WatchError> {
        let limit = match self.seeing.sees_hits() {
            true => limit.min(LOOK_EVERY),
            false => limit,
        };
        let seen = self.seeing.wait(also, limit);
        self.see(seen)?;
        let is_over =
            |(process, walking): (&u32, &Walking)| walking.thread.is_finished().then_some(*process);
        // Looked at before the notes: what is over then has left its last one.
        let over: Vec<u32> = self.walks.iter().filter_map(is_over).collect();
        let notes: Vec<Note> = self.notes.1.try_iter().collect();
        notes.iter().for_each(|note| self.take(note));
        // Only a thread that panicked is still there, and has said so itself.
        over.into_iter().for_each(|process| self.leave(process));
        Ok(notes)
    }

    fn see(&mut self, seen: Vec<Seen>) -> Result<(), WatchError> {
        for seen in seen {
            match seen {
                Seen::Missed(missed) => {
                    self.summary.misses += 1;
                    if let Some(walking) = self.walks.get(&missed.process) {
                        let read = Read::Missed {
                            directory: missed.directory,
                            inode: missed.inode,
                        };
                        let is_lost = walking.device == missed.device
                            && walking.reads.try_send(read).is_err();
                        self.lost_reads += u64::from(is_lost && !walking.thread.is_finished());
                    } else if let Some(suspicion) = self.detector.missed(missed) {
                        self.begin(suspicion)?;
                    }
                }
                Seen::Hit {
                    process,
                    device,
                    inode,
                } => {
                    if let Some(walking) = self.walks.get(&process) {
                        let is_lost = walking.device == device
                            && walking.reads.try_send(Read::Hit { inode }).is_err();
                        self.lost_reads += u64::from(is_lost && !walking.thread.is_finished());
                    }
                }
                Seen::Exited(process) => {
                    self.detector.ended(process);
                    if let Some(walking) = self.walks.get(&process) {
                        walking.stop.store(true, Ordering::Relaxed);
                    }
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, suspicion: Suspicion) -> Result<(), WatchError> {
        if self.walks.len() >= WALKS_MAX {
            return Ok(());
        }
        let (process, device) = (suspicion.process, suspicion.device);
        if is_left_alone(&self.excluded, &suspicion, self.seeing.numbers_are_ours) {
            self.detector.was_wrong(process);
            return Ok(());
        }
        let (reads, receiver) = sync_channel(READS_MAX);
        let stop = Arc::new(AtomicBool::new(false));
        let start = Start {
            suspicion,
            budget_bytes: budget_bytes(memory(), self.options.budget_bytes),
            is_dry_run: self.options.is_dry_run,
            numbers_are_ours: self.seeing.numbers_are_ours,
            reads: receiver,
            stop: Arc::clone(&stop),
            notes: self.notes.0.clone(),
        };
        let thread = thread::Builder::new().name("walk".into());
        // Without a thread there is no walk.
        if let Ok(thread) = thread.spawn(move || walker::run(&start)) {
            self.seeing.follow(process)?;
            self.walks.insert(
                process,
                Walking {
                    device,
                    reads,
                    stop,
                    thread,
                },
            );
        }
        Ok(())
    }

    fn take(&mut self, note: &Note) {
        match &note.what {
            What::Begun { .. } => self.summary.walks += 1,
            What::Refused { .. } => {
                self.summary.refused += 1;
                self.detector.was_wrong(note.process);
                self.leave(note.process);
            }
            What::Ended { why, tally } => {
                self.summary.tally = self.summary.tally.and(*tally);
                if matches!(why, Why::Unused | Why::Memory | Why::Stopped) {
                    self.detector.was_wrong(note.process);
                }
                self.leave(note.process);
            }
            _ => {}
        }
    }

    fn leave(&mut self, process: u32) {
        self.seeing.leave(process);
        if let Some(walking) = self.walks.remove(&process) {
            // It has said its last word.
            let _ = walking.thread.join();
            if self.walks.is_empty() {
                give_back();
            }
        }
    }

    /// Ends all walks, and says what came of them.
    pub fn finish(&mut self) -> (Summary, Vec<Note>) {
        let seen = self.seeing.take();
        // What it can't see any more it can't count.
        let _ = self.see(seen);
        for walking in self.walks.values() {
            walking.stop.store(true, Ordering::Relaxed);
        }
        for (_, walking) in std::mem::take(&mut self.walks) {
            drop(walking.reads);
            let _ = walking.thread.join();
        }
        let streams = self.streams.take().and_then(Streams::finish);
        let notes: Vec<Note> = self.notes.1.try_iter().collect();
        notes.iter().for_each(|note| self.take(note));
        let mut summary = self.summary();
        if let Some(Ok(streams)) = streams {
            summary.streams = Some(streams);
            summary.lost += streams.lost;
        }
        (summary, notes)
    }
}
