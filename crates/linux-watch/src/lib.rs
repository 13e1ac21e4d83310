// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fetches files ahead of programs that read directory trees, on a live machine.
//!
//! [`Watching`] sees which files programs miss, and starts a thread for each program that
//! [walks](foreread_watch::walk). The thread lists directories. It passes them and the starts of
//! their files to the [replay engine](foreread_linux_prefetcher), one window at a time.
#![forbid(unsafe_code)]

mod abi;
mod arguments;
mod beat;
mod cgroups;
mod driver;
mod error;
mod lacking;
mod left_alone;
mod listing;
mod mailbox;
mod opened;
mod permitted;
mod program_of;
mod reader;
mod replayer;
mod seeing;
mod sharing;
mod streams;
mod together;
mod tops;
mod walker;

pub use error::{LoadError, WatchError};
pub use lacking::Lacking;
pub use seeing::Whom;
pub use streams::StreamsSummary;
pub use streams::telling::{Asked as AskedStreams, NotFollowed};
pub use together::{Profiles, ProfilesSummary};

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use foreread_bpf::{BpfError, MissingHook};
use foreread_core::Device;
use foreread_linux_helper::{Superblock, is_helper, local_failed};
use foreread_linux_prefetcher::Executor;
use foreread_prefetch::budget::budget_bytes;
use foreread_prefetch::helper::{HelperLimits, Reply, Request};
use foreread_sys::memory::{give_back, memory, share_one_heap};
use foreread_sys::mounts::mounts_of_self;
use foreread_sys::rights::Capability;
use foreread_watch::ahead::Access;
use foreread_watch::detect::{Missed, Suspicion};
use foreread_watch::excluded::Excluded;
use foreread_watch::log::detect_call::{DetectCall, NoteDetect, NotedDetectors};
use foreread_watch::log::note::{Note, OfProfile, PlannerCall, What};
use foreread_watch::memory_budget::MemoryBudget;
use foreread_watch::saved::{Baselines, Pace, Saved, SavedSum, Who};
use foreread_watch::skipped::Skipped;
use foreread_watch::tally::Tally;
use foreread_watch::walk::Why;

use abi::{Seen, Sight};
use beat::Beat;
use cgroups::Cgroups;
use left_alone::is_left_alone;
use mailbox::{Mailbox, Told};
use reader::Reader;
use seeing::Seeing;
use sharing::Sharing;
use streams::Streams;
use together::Together;
use tops::Tops;
use walker::Start;

/// Walks at the same time; each has a thread.
const WALKS_MAX: usize = 4;
/// Walks at the same time ahead of programs of one user, but for root: one is left for others.
const WALKS_OF_USER_MAX: usize = 3;
/// The ring has 1 MiB, and the shortest event 48 bytes with its header.
const RING_EVENTS_MAX: usize = (1 << 20) / 48;
/// Time that a walk without a process waits for the next process of the same parent.
const ALONE_MAX: Duration = Duration::from_millis(500);
/// A part that has not answered for so long hangs. They answer within milliseconds on an idle
/// machine.
const HANGS_AFTER: Duration = Duration::from_secs(30);
/// Interval at which hits are taken from the ring while there is a walk.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Options of [`Watching`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The scope.
    pub whom: Whom,
    /// Most bytes that are fetched ahead of one program and not used yet. Default and maximum: half
    /// of the memory that is available when its walk begins.
    pub budget_bytes: Option<u64>,
    /// Fetch nothing; only detect.
    pub is_dry_run: bool,
    /// Whether to note each call of the policy, of walks and of their detectors.
    pub is_logged: bool,
    /// The rights that its own threads keep; `None` if they give up none.
    pub rights: Option<&'static [Capability]>,
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Files that were missed.
    pub misses: u64,
    /// Blocks of metadata that calls waited for.
    pub looks: u64,
    /// Walks begun.
    pub walks: u64,
    /// Suspicions that were wrong.
    pub refused: u64,
    /// Times that nothing was fetched for a program: for its rights, or for a limit.
    pub skipped: u64,
    /// Files and directories that were left out, since their reader may not read them.
    pub withheld: u64,
    /// Files and pages of all walks that have ended.
    pub tally: Tally,
    /// Time saved by walks and replays, also by those that go on, and for readers of large files
    /// that paused or ended.
    pub saved: SavedSum,
    /// Streams in large files; `None` if the kernel refuses to follow them.
    pub streams: Option<StreamsSummary>,
    /// Programs that followed a profile; `None` if profiles aren't used.
    pub profiles: Option<ProfilesSummary>,
    /// Records of reads or processes for which there was no room.
    pub lost: u64,
}

/// A process can have two walks: one where it reads files, one where it only looks them up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct WalkId {
    process: u32,
    began_by_reads: bool,
}

/// A walk's thread.
struct Walking {
    /// The events of its program that are needed.
    sight: Sight,
    parent: u32,
    /// The user of its processes.
    user: u32,
    /// Whether others of the same parent share it.
    is_shared: Arc<AtomicBool>,
    /// The time since which no process shares it.
    alone: Option<Instant>,
    /// The mailbox of its thread, which fetches nothing while it is paused.
    mailbox: Arc<Mailbox<Told>>,
    /// Shows whether its thread goes on.
    beat: Beat,
    /// The file system that it walks through.
    device: Device,
    thread: JoinHandle<()>,
}

impl Walking {
    fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed)
    }
}

/// Answers what a helper process is asked about directories and large files.
#[must_use]
pub fn answer_helper_request(request: &Request) -> Option<Reply> {
    match request {
        Request::List { top, below } => Some(listing::answer(top, below)),
        Request::ReadAhead {
            path,
            inode,
            ranges,
        } => Some(streams::fetching::answer(path, *inode, ranges)),
        _ => None,
    }
}

/// Watches programs until it is dropped.
pub struct Watching {
    options: Options,
    excluded: Excluded,
    seeing: Seeing,
    detectors: NotedDetectors,
    walks: HashMap<WalkId, Walking>,
    tops: Tops,
    sharing: Sharing,
    streams: Option<Streams>,
    together: Together,
    /// Carries out what walks and replays plan.
    executor: Executor,
    /// The memory of all planners, their lists and their mailboxes.
    memory: MemoryBudget,
    cgroups: Cgroups,
    /// What files cost programs without help.
    baselines: Baselines,
    /// The latest estimates of walks and replays that go on.
    saved_now: HashMap<WalkId, Saved>,
    notes: (Sender<Note>, Receiver<Note>),
    summary: Summary,
    lost_reads: u64,
    /// Suspicions that were followed.
    followed: u64,
}

/// Passes calls of the detectors on as notes.
fn noting(notes: &Sender<Note>) -> NoteDetect {
    let notes = Sender::clone(notes);
    Box::new(move |call: DetectCall| {
        let note = Note {
            process: call.process,
            began_by_reads: true,
            owner: None,
            what: What::Called(PlannerCall::Detector(Box::new(call))),
        };
        // The receiver of notes lives as long as there are calls.
        let _ = notes.send(note);
    })
}

/// Attaches all programs for directory walks for a moment; returns the hooks that are missing.
pub fn lacking_for_trees() -> Result<Vec<MissingHook>, WatchError> {
    let mut seeing = Seeing::start(Whom::All)?;
    seeing.follow(std::process::id(), Some(Sight::Looks))?;
    Ok(seeing.lacking().to_vec())
}

/// Attaches all programs for large files for a moment; returns the hooks that are missing.
pub fn lacking_for_streams() -> Result<Vec<MissingHook>, WatchError> {
    let trees = Seeing::start(Whom::All)?;
    foreread_bpf::leave_out_so_far();
    let tree = trees.tree().map_err(|error| BpfError::Refused {
        step: "sharing the map of processes",
        reason: error.to_string(),
    })?;
    Ok(streams::lacking(tree.as_fd())?)
}

/// A file system, by its number.
fn superblock_of(device: Device) -> Option<Superblock> {
    let mounts = mounts_of_self().ok()?;
    let mut points = mounts.points().iter();
    let point = points.find(|point| point.device() == device)?;
    Some(Superblock::from(point))
}

impl Watching {
    /// Attaches the programs. Nothing is fetched before the first [`turn`](Self::turn).
    ///
    /// # Errors
    /// [`WatchError`] when the kernel can't or rights are missing.
    pub fn start(options: Options) -> Result<Self, WatchError> {
        // Walks are short-lived threads, few of which allocate at the same time.
        share_one_heap();
        let seeing = Seeing::start(options.whom)?;
        let (notes, cgroups) = (channel(), Cgroups::default());
        let streams = seeing.tree().ok().and_then(|tree| {
            let options = streams::Options {
                whom: options.whom,
                tree,
                budget_bytes: options.budget_bytes,
                is_dry_run: options.is_dry_run,
                numbers_are_ours: seeing.numbers_are_ours,
                rights: options.rights,
                notes: Sender::clone(&notes.0),
                is_logged: options.is_logged,
                cgroups: cgroups.clone(),
            };
            Streams::start(options).ok()
        });
        let detectors = NotedDetectors::new(options.is_logged.then(|| noting(&notes.0)));
        Ok(Self {
            options,
            excluded: Excluded::default(),
            seeing,
            detectors,
            walks: HashMap::new(),
            tops: Tops::default(),
            sharing: Sharing::default(),
            streams,
            together: Together::new(),
            executor: Executor::default(),
            memory: MemoryBudget::default(),
            cgroups,
            baselines: Baselines::default(),
            saved_now: HashMap::new(),
            notes,
            summary: Summary::default(),
            lost_reads: 0,
            followed: 0,
        })
    }

    /// Sets the budget, the dry run and the exclusions, from the next walk on. The scope does not
    /// change.
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

    /// Sets the profiles that programs are matched with; `None` turns matching off.
    pub fn know(&mut self, profiles: Option<Profiles>) {
        self.together.know(profiles);
    }

    /// The features that this machine lacks.
    #[must_use]
    pub fn lacking(&self) -> Vec<Lacking> {
        let streams = self.streams.as_ref().map_or(&[][..], Streams::lacking);
        let hooks = self.seeing.lacking().iter().chain(streams);
        let mut lacking = lacking::lacking(self.seeing.numbers_are_ours);
        lacking.extend(hooks.cloned().map(Lacking::Hook));
        lacking
    }

    /// Counters since the start.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let now = self.saved_now.values();
        let now = now.map(|saved| SavedSum::of(Some(saved), 0));
        Summary {
            saved: now.fold(self.summary.saved, SavedSum::and),
            profiles: self.together.summary(),
            lost: self.seeing.lost() + self.lost_reads + self.together.lost_reads(),
            ..self.summary
        }
    }

    /// The parts that make no progress, though they never wait for a file system; to be called
    /// every few seconds. Only a new start helps them.
    pub fn hanging(&mut self) -> Vec<&'static str> {
        let streams = self.streams.as_mut();
        let streams = streams.is_some_and(|streams| streams.hangs_for(HANGS_AFTER));
        let executor = self.executor.hangs_for(HANGS_AFTER);
        let parts = [(streams, "streams"), (executor, "executor")];
        let hanging = parts.into_iter().filter(|(hangs, _)| *hangs);
        hanging.map(|(_, part)| part).collect()
    }

    /// Asks which streams in large files are followed now.
    #[must_use]
    pub fn ask_streams(&self) -> AskedStreams {
        let streams = self.streams.as_ref();
        streams.map_or_else(AskedStreams::of_none, Streams::ask)
    }

    /// Waits for events, for `also` to be readable, or for the timeout. Then handles what is due.
    /// Returns the notes since the last call.
    ///
    /// # Errors
    /// When the kernel refuses to attach the programs that see hits.
    pub fn turn(
        &mut self,
        also: Option<BorrowedFd<'_>>,
        limit: Duration,
    ) -> Result<Vec<Note>, WatchError> {
        let limit = match self.seeing.sees_hits() {
            true => limit.min(LOOK_EVERY),
            false => limit,
        };
        let seen = self.seeing.wait(also, limit);
        self.see(seen)?;
        let is_over =
            |(id, walking): (&WalkId, &Walking)| walking.thread.is_finished().then_some(*id);
        for walking in self.walks.values() {
            if walking
                .alone
                .is_some_and(|since| since.elapsed() > ALONE_MAX)
            {
                walking.mailbox.stop();
            }
        }
        // Read before the notes: a walk that is over by now has left its last note.
        self.leave_hanging()?;
        let over: Vec<WalkId> = self.walks.iter().filter_map(is_over).collect();
        let replayed = self.together.over();
        let (notes, taken) = self.take_notes();
        taken?;
        // Only a thread that panicked is still there; it has printed its panic.
        over.into_iter().try_for_each(|id| self.leave(id))?;
        for process in replayed {
            self.leave_replay(process)?;
        }
        Ok(notes)
    }

    /// Leaves walks whose threads hang in a local file system: their ends are not waited for.
    fn leave_hanging(&mut self) -> Result<(), WatchError> {
        let walks = self.walks.iter();
        let hangs =
            |(_, walking): &(&WalkId, &Walking)| walking.beat.hangs_for(HelperLimits::LOCAL);
        let hanging: Vec<WalkId> = walks.filter(hangs).map(|(id, _)| *id).collect();
        for id in hanging {
            self.sharing.over(id);
            self.tops.give(id.process, id.began_by_reads);
            let Some(walking) = self.walks.remove(&id) else {
                continue;
            };
            walking.mailbox.stop();
            if let Some(superblock) = superblock_of(walking.device) {
                local_failed(&superblock);
            }
            self.look_at(id.process)?;
        }
        Ok(())
    }

    fn see(&mut self, seen: Vec<Seen>) -> Result<(), WatchError> {
        for seen in seen {
            // Helpers read for us.
            if seen.process().is_some_and(is_helper) {
                continue;
            }
            match seen {
                Seen::Missed { mut missed, at_ns } => {
                    self.summary.misses += 1;
                    self.keep_baseline(&missed, at_ns);
                    if let Some(process) = self.replayed(&missed, at_ns)? {
                        self.together.tell(process, &Access::Missed(missed), at_ns);
                        continue;
                    }
                    let of = (missed.process, missed.parent, missed.user);
                    missed.process = self.join(of, missed.device, &missed.directory);
                    let user = missed.user;
                    // A process that looks files up may begin to read them.
                    if self.is_followed(missed.process) {
                        self.tell(missed.process, &Access::Missed(missed), at_ns);
                    } else if let Some(suspicion) = self.detectors.missed(missed) {
                        self.begin(suspicion, user, at_ns)?;
                    }
                }
                Seen::Hit {
                    at_ns,
                    process,
                    thread,
                    device,
                    inode,
                } => {
                    let hit = Access::Hit {
                        thread,
                        device,
                        inode,
                    };
                    self.tell(process, &hit, at_ns);
                    self.together.tell(process, &hit, at_ns);
                }
                Seen::Look(mut look) => {
                    self.summary.looks += 1;
                    let of = (look.process, look.parent, look.user);
                    look.process = self.join(of, look.device, &look.directory);
                    let user = look.user;
                    let looks = |(id, _): (&WalkId, _)| !id.began_by_reads;
                    if self.of(look.process).any(looks) {
                        self.tell(look.process, &Access::Waits(look), 0);
                    } else if let Some(suspicion) = self.detectors.waited(look) {
                        self.begin(suspicion, user, 0)?;
                    }
                }
                Seen::Looked {
                    process,
                    device,
                    inode,
                    is_late,
                } => self.tell(
                    process,
                    &Access::Looked {
                        device,
                        inode,
                        is_late,
                    },
                    0,
                ),
                Seen::Shares {
                    process,
                    member,
                    user,
                } => {
                    self.end_mixed(process, user);
                    let walks = self.walks.iter();
                    let of = walks.filter(|(id, of)| id.process == process && of.is_shared());
                    of.for_each(|(id, _)| self.sharing.shares(*id, member, user));
                }
                Seen::Exited(process) => {
                    self.detectors.ended(process);
                    self.baselines.ended(process);
                    self.together.ended(process);
                    self.sharing.ended(process);
                    self.ended(process);
                }
            }
        }
        Ok(())
    }

    /// A process of a walk has ended.
    fn ended(&mut self, process: u32) {
        for (id, walking) in &mut self.walks {
            if walking.is_shared() && walking.parent == process {
                walking.mailbox.stop();
            } else if !walking.is_shared() && id.process == process {
                // The next process of its parent may continue the walk.
                walking.alone = Some(Instant::now());
                walking.mailbox.pause(true);
            }
        }
    }

    /// The walks of a process.
    fn of(&self, process: u32) -> impl Iterator<Item = (&WalkId, &Walking)> {
        let walks = self.walks.iter();
        walks.filter(move |(id, _)| id.process == process)
    }

    /// Ends what is fetched ahead of a process if a process of another user shares it, whose rights
    /// may be smaller.
    fn end_mixed(&mut self, process: u32, user: u32) {
        let walks = self.of(process).filter(|(_, of)| of.user != user);
        let mut mixed: Vec<bool> = Vec::new();
        for (id, walking) in walks {
            walking.mailbox.stop();
            mixed.push(id.began_by_reads);
        }
        mixed.extend(self.together.shared_by(process, user).then_some(true));
        for began_by_reads in mixed {
            let what = What::Skipped {
                directory: Vec::new(),
                why: Skipped::MixedThreads,
            };
            // This is the receiver.
            let _ = self.notes.0.send(Note {
                process,
                began_by_reads,
                // It was of this user, and no more.
                owner: None,
                what,
            });
        }
    }

    /// Lets a process share the walk of a sibling of the same user if it reads in the same tree.
    /// Such a process was started for a part of the tree. Returns the process that began the walk.
    fn join(&mut self, of: (u32, u32, u32), device: Device, directory: &[u8]) -> u32 {
        let (process, parent, user) = of;
        if self.walks.is_empty() || self.is_followed(process) {
            return process;
        }
        let here = self.tops.walks_in(device, directory).into_iter();
        let mut here = here.map(|(process, began_by_reads)| WalkId {
            process,
            began_by_reads,
        });
        let is_kin = |id: &WalkId| {
            let of = self.walks.get(id);
            of.is_some_and(|of| (of.parent, of.user) == (parent, user))
        };
        let Some(id) = here.find(is_kin) else {
            return process;
        };
        if let Some(walking) = self.walks.get_mut(&id) {
            walking.is_shared.store(true, Ordering::Relaxed);
            walking.alone = None;
            walking.mailbox.pause(false);
        }
        self.sharing.shares(id, process, user);
        self.seeing.share(id.process, process, true);
        self.seeing.share(id.process, parent, true);
        id.process
    }

    fn is_followed(&self, process: u32) -> bool {
        self.of(process).next().is_some()
    }

    /// Passes a read of a process to its walks.
    fn tell(&mut self, process: u32, read: &Access, at_ns: u64) {
        let mut lost = 0;
        for (_, walking) in self.of(process) {
            let access = read.clone();
            lost += u64::from(walking.mailbox.put(Told { access, at_ns }));
        }
        self.lost_reads += lost;
    }

    /// Keeps the time of a miss of which nothing is known to be fetched.
    fn keep_baseline(&mut self, missed: &Missed, at_ns: u64) {
        let mut walks = self.walks.values();
        let is_calm = !walks.any(|of| of.device == missed.device) && self.together.is_idle();
        let who = Who {
            process: missed.process,
            parent: missed.parent,
            user: missed.user,
        };
        let directory = &missed.directory;
        self.baselines
            .missed(who, missed.device, directory, at_ns, is_calm);
    }

    /// The pace of a program from a miss on. Of one that only looks files up it isn't known.
    fn pace(&self, who: Who, device: Device, reads: bool, at_ns: u64) -> Pace {
        let baselines = reads.then_some(&self.baselines);
        Pace::since(
            at_ns,
            baselines.and_then(|all| all.of(who, device)),
            baselines.and_then(|all| all.of_siblings(who, device)),
        )
    }

    /// `at_ns`: the time of the last miss of a suspicion by reads.
    fn begin(&mut self, suspicion: Suspicion, user: u32, at_ns: u64) -> Result<(), WatchError> {
        let of_user = self.walks.values().filter(|of| of.user == user).count();
        if self.walks.len() >= WALKS_MAX || user != 0 && of_user >= WALKS_OF_USER_MAX {
            return Ok(());
        }
        if is_left_alone(&self.excluded, &suspicion, self.seeing.numbers_are_ours) {
            let process = suspicion.process;
            self.detectors.was_wrong(process, suspicion.reads, user);
            return Ok(());
        }
        let id = WalkId {
            process: suspicion.process,
            began_by_reads: suspicion.reads,
        };
        let sight = match suspicion.reads {
            true => Sight::Reads,
            false => Sight::Looks,
        };
        let mailbox = Arc::new(Mailbox::charging(self.memory.charge_of(user)));
        let (parent, device) = (suspicion.parent, suspicion.device);
        let beat = Beat::default();
        let is_shared = Arc::new(AtomicBool::new(false));
        let who = Who {
            process: suspicion.process,
            parent,
            user,
        };
        let pace = self.pace(who, device, suspicion.reads, at_ns);
        self.followed += 1;
        let start = Start {
            // While it waits for what it missed.
            reader: Reader::of(
                suspicion.process,
                self.seeing.numbers_are_ours,
                &self.cgroups,
            ),
            suspicion,
            budget_bytes: budget_bytes(memory(), self.options.budget_bytes),
            memory: self.memory.clone(),
            user,
            is_dry_run: self.options.is_dry_run,
            numbers_are_ours: self.seeing.numbers_are_ours,
            tops: self.tops.clone(),
            mailbox: Arc::clone(&mailbox),
            pace,
            is_shared: Arc::clone(&is_shared),
            executor: self.executor.clone(),
            beat: beat.clone(),
            notes: self.notes.0.clone(),
            number: self.followed,
            is_logged: self.options.is_logged,
        };
        let thread = thread::Builder::new().name("walk".into());
        // Without a thread there is no walk.
        if let Ok(thread) = thread.spawn(move || walker::run(&start)) {
            self.walks.insert(
                id,
                Walking {
                    sight,
                    parent,
                    user,
                    is_shared,
                    alone: None,
                    mailbox,
                    beat,
                    device,
                    thread,
                },
            );
            self.look_at(id.process)?;
        }
        Ok(())
    }

    /// Requests the events of a process that its walks need.
    fn look_at(&mut self, process: u32) -> Result<(), WatchError> {
        let walks = self.of(process).map(|(_, walking)| walking.sight);
        let replayed = self.together.leads(process).then_some(Sight::Reads);
        self.seeing.follow(process, walks.chain(replayed).max())
    }

    /// The notes since the last call. Sharing is noted after a walk's beginning, before its end.
    fn take_notes(&mut self) -> (Vec<Note>, Result<(), WatchError>) {
        let mut notes = self.sharing.notes();
        let others: Vec<Note> = self.notes.1.try_iter().collect();
        let mut all = Ok(());
        for note in others {
            let taken = self.take(&note);
            all = all.and(taken);
            notes.push(note);
            notes.extend(self.sharing.notes());
        }
        (notes, all)
    }

    fn take(&mut self, note: &Note) -> Result<(), WatchError> {
        let id = WalkId {
            process: note.process,
            began_by_reads: note.began_by_reads,
        };
        let user = self.walks.get(&id).map_or(0, |walking| walking.user);
        match &note.what {
            What::Begun { .. } => {
                self.summary.walks += 1;
                self.sharing.begun(id);
                if let Some(device) = self.walks.get(&id).map(|of| of.device) {
                    self.baselines.walks(id.process, user, device);
                }
            }
            What::TooEarly { .. } => {
                self.detectors.was_too_early(note.process);
                self.leave(id)?;
            }
            What::Refused { .. } | What::Known => {
                self.summary.refused += u64::from(note.what != What::Known);
                self.detectors
                    .was_wrong(note.process, note.began_by_reads, user);
                self.leave(id)?;
            }
            What::Skipped { .. } => {
                self.summary.skipped += 1;
                // Streams are left alone, too.
                if self.walks.contains_key(&id) {
                    self.detectors
                        .was_wrong(note.process, note.began_by_reads, user);
                }
            }
            What::Withheld { files, directories } => {
                self.summary.withheld += files + directories;
            }
            What::Reads => {
                if let Some(walking) = self.walks.get_mut(&id) {
                    walking.sight = Sight::Reads;
                }
                self.look_at(note.process)?;
            }
            What::Saved(saved) => drop(self.saved_now.insert(id, *saved)),
            What::Streamed(streamed) if streamed.is_over => {
                self.summary.saved = self.summary.saved.and(streamed.saved_sum());
            }
            What::OfProfile(what) => {
                if let OfProfile::Ended { tally, .. } = &**what {
                    self.sum_up(id, tally.used_files);
                }
                if let Some(members) = self.together.take(note.process, what) {
                    self.look_at_replay(&members)?;
                }
            }
            What::Ended { why, tally } => {
                self.summary.tally = self.summary.tally.and(*tally);
                self.sum_up(id, tally.used_files);
                if tally.used_files > 0 {
                    self.detectors.was_right(note.process, user);
                }
                if matches!(why, Why::Unused | Why::Memory | Why::Stopped) {
                    self.detectors.was_wrong(note.process, true, user);
                    self.detectors.was_wrong(note.process, false, user);
                }
                self.leave(id)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds the last estimate of a walk or replay to the sum.
    fn sum_up(&mut self, id: WalkId, used_files: u64) {
        let saved = self.saved_now.remove(&id);
        let saved = SavedSum::of(saved.as_ref(), used_files);
        self.summary.saved = self.summary.saved.and(saved);
    }

    fn leave(&mut self, id: WalkId) -> Result<(), WatchError> {
        self.sharing.over(id);
        if let Some(walking) = self.walks.remove(&id) {
            self.look_at(id.process)?;
            // This was its last note.
            let _ = walking.thread.join();
            if self.walks.is_empty() {
                give_back();
            }
        }
        Ok(())
    }

    /// Ends all walks, and returns their results.
    pub fn finish(&mut self) -> (Summary, Vec<Note>) {
        // A walk can't count reads that it does not see any more. A full ring has this many events.
        for _ in 0..RING_EVENTS_MAX.div_ceil(seeing::EVENTS_MAX) {
            let seen = self.seeing.take();
            if seen.is_empty() {
                break;
            }
            let _ = self.see(seen);
        }
        for walking in self.walks.values() {
            walking.mailbox.stop();
        }
        let walks = std::mem::take(&mut self.walks).into_values();
        beat::join(walks.map(|walking| walking.thread));
        self.together.stop();
        let streams = self.streams.take().and_then(Streams::finish);
        let (notes, _) = self.take_notes();
        let mut summary = self.summary();
        if let Some(Ok(streams)) = streams {
            summary.streams = Some(streams);
            summary.lost += streams.lost;
        }
        (summary, notes)
    }
}
