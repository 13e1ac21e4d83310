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
mod program_of;
mod replayer;
mod seeing;
mod sharing;
mod streams;
mod together;
mod tops;
mod walker;

pub use error::WatchError;
pub use lacking::Lacking;
pub use seeing::Whom;
pub use streams::StreamsSummary;
pub use streams::telling::{Asked as AskedStreams, FollowedFile, FollowedStream, NotFollowed};
pub use together::{Profiles, ProfilesSummary};

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use foreread_replay::budget::budget_bytes;
use foreread_watch::Device;
use foreread_watch::detect::Suspicion;
use foreread_watch::detect_call::{DetectCall, NoteDetect, NotedDetectors};
use foreread_watch::excluded::Excluded;
use foreread_watch::note::{Note, What};
use foreread_watch::tally::Tally;
use foreread_watch::walk::Why;

use crate::doctor::Capability;
use crate::memory::{give_back, memory, share_one_heap};
use crate::programs::{self, BpfError, MissingHook};
use abi::{Seen, Sight};
use left_alone::is_left_alone;
use seeing::Seeing;
use sharing::Sharing;
use streams::Streams;
use together::Together;
use tops::Tops;
use walker::{Read, Start};

/// Programs that are walked ahead of at once.
const WALKS_MAX: usize = 4;
/// A walk waits so long for the next process of the same parent.
const ALONE_MAX: Duration = Duration::from_millis(500);
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
    /// Whether notes are wanted of each call of the policy, of walks and of their detectors.
    pub is_logged: bool,
    /// The rights that threads of its own keep, where others are to be given up.
    pub rights: Option<&'static [Capability]>,
}

/// What came of it so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Files that somebody missed.
    pub misses: u64,
    /// Blocks of metadata that calls of somebody waited for.
    pub looks: u64,
    /// Walks begun.
    pub walks: u64,
    /// Suspicions that were wrong.
    pub refused: u64,
    /// Of all walks that have ended.
    pub tally: Tally,
    /// Of streams in large files; `None` where the kernel refuses to follow them.
    pub streams: Option<StreamsSummary>,
    /// Of programs that followed a profile; `None` where profiles aren't used.
    pub profiles: Option<ProfilesSummary>,
    /// Records of reads, or of processes, that found no room.
    pub lost: u64,
}

/// A process can be walked ahead of twice: where it reads, and where it only looks at files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct WalkId {
    process: u32,
    began_by_reads: bool,
}

/// A walk's thread.
struct Walking {
    /// What is to be seen of its program.
    sight: Sight,
    parent: u32,
    /// Whether others of the same parent share it.
    is_shared: bool,
    /// Since when nobody does.
    alone: Option<Instant>,
    /// The same for its thread, which fetches nothing for nobody.
    pause: Arc<AtomicBool>,
    reads: SyncSender<Read>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// Watches until it is dropped.
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
    notes: (Sender<Note>, Receiver<Note>),
    summary: Summary,
    lost_reads: u64,
    /// Suspicions that were followed.
    followed: u64,
}

/// Passes calls of the detectors on.
fn noting(notes: &Sender<Note>) -> NoteDetect {
    let notes = Sender::clone(notes);
    Box::new(move |call: DetectCall| {
        let note = Note {
            process: call.process,
            began_by_reads: true,
            what: What::DetectCalled(Box::new(call)),
        };
        // Whoever takes notes takes them as long as there are calls.
        let _ = notes.send(note);
    })
}

/// Attaches for a moment all that watches who reads directory trees; what this kernel doesn't show.
pub(crate) fn lacking_for_trees() -> Result<Vec<MissingHook>, WatchError> {
    let mut seeing = Seeing::start(Whom::All)?;
    seeing.follow(std::process::id(), Some(Sight::Looks))?;
    Ok(seeing.lacking().to_vec())
}

/// The same of what watches who reads large files.
pub(crate) fn lacking_for_streams() -> Result<Vec<MissingHook>, WatchError> {
    let trees = Seeing::start(Whom::All)?;
    programs::leave_out_so_far();
    let tree = trees.tree().map_err(|error| BpfError::Refused {
        step: "sharing the map of processes",
        reason: error.to_string(),
    })?;
    Ok(streams::lacking(tree.as_fd())?)
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
            notes,
            summary: Summary::default(),
            lost_reads: 0,
            followed: 0,
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

    /// From now on these profiles are known, and replayed ahead of the programs that follow them;
    /// with `None` there are none.
    pub fn know(&mut self, profiles: Option<Profiles>) {
        self.together.know(profiles);
    }

    /// What it has to do without here.
    #[must_use]
    pub fn lacking(&self) -> Vec<Lacking> {
        let streams = self.streams.as_ref().map_or(&[][..], Streams::lacking);
        let hooks = self.seeing.lacking().iter().chain(streams);
        let mut lacking = lacking::lacking(self.seeing.numbers_are_ours);
        lacking.extend(hooks.cloned().map(Lacking::Hook));
        lacking
    }

    /// What came of it so far.
    #[must_use]
    pub fn summary(&self) -> Summary {
        Summary {
            profiles: self.together.summary(),
            lost: self.seeing.lost() + self.lost_reads + self.together.lost_reads(),
            ..self.summary
        }
    }

    /// Asks which streams in large files are followed now.
    #[must_use]
    pub fn ask_streams(&self) -> AskedStreams {
        let streams = self.streams.as_ref();
        streams.map_or_else(AskedStreams::of_none, Streams::ask)
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
            |(id, walking): (&WalkId, &Walking)| walking.thread.is_finished().then_some(*id);
        for walking in self.walks.values() {
            if walking
                .alone
                .is_some_and(|since| since.elapsed() > ALONE_MAX)
            {
                walking.stop.store(true, Ordering::Relaxed);
            }
        }
        // Looked at before the notes: what is over then has left its last one.
        let over: Vec<WalkId> = self.walks.iter().filter_map(is_over).collect();
        let replayed = self.together.over();
        let (notes, taken) = self.take_notes();
        taken?;
        // Only a thread that panicked is still there, and has said so itself.
        over.into_iter().try_for_each(|id| self.leave(id))?;
        for process in replayed {
            self.leave_replay(process)?;
        }
        Ok(notes)
    }

    fn see(&mut self, seen: Vec<Seen>) -> Result<(), WatchError> {
        for seen in seen {
            match seen {
                Seen::Missed(mut missed) => {
                    self.summary.misses += 1;
                    if let Some(process) = self.replayed(&missed)? {
                        self.together.tell(process, &Read::Missed(missed));
                        continue;
                    }
                    let (of, parent) = (missed.process, missed.parent);
                    missed.process = self.join(of, parent, missed.device, &missed.directory);
                    // Where it looks at files, it may begin to read them.
                    if self.is_followed(missed.process) {
                        self.tell(missed.process, &Read::Missed(missed));
                    } else if let Some(suspicion) = self.detectors.missed(missed) {
                        self.begin(suspicion)?;
                    }
                }
                Seen::Hit {
                    process,
                    thread,
                    device,
                    inode,
                } => {
                    let hit = Read::Hit {
                        thread,
                        device,
                        inode,
                    };
                    self.tell(process, &hit);
                    self.together.tell(process, &hit);
                }
                Seen::Look(mut look) => {
                    self.summary.looks += 1;
                    let (of, parent) = (look.process, look.parent);
                    look.process = self.join(of, parent, look.device, &look.directory);
                    let looks = |(id, _): (&WalkId, _)| !id.began_by_reads;
                    if self.of(look.process).any(looks) {
                        self.tell(look.process, &Read::Waits(look));
                    } else if let Some(suspicion) = self.detectors.waited(look) {
                        self.begin(suspicion)?;
                    }
                }
                Seen::Looked {
                    process,
                    device,
                    inode,
                    is_late,
                } => self.tell(
                    process,
                    &Read::Looked {
                        device,
                        inode,
                        is_late,
                    },
                ),
                Seen::Shares { process, member } => {
                    let walks = self.walks.iter();
                    let of = walks.filter(|(id, of)| id.process == process && of.is_shared);
                    of.for_each(|(id, _)| self.sharing.shares(*id, member));
                }
                Seen::Exited(process) => {
                    self.detectors.ended(process);
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
            if walking.is_shared && walking.parent == process {
                walking.stop.store(true, Ordering::Relaxed);
            } else if !walking.is_shared && id.process == process {
                // The next one of its parent may go on where it left.
                walking.alone = Some(Instant::now());
                walking.pause.store(true, Ordering::Relaxed);
            }
        }
    }

    /// The walks ahead of a process.
    fn of(&self, process: u32) -> impl Iterator<Item = (&WalkId, &Walking)> {
        let walks = self.walks.iter();
        walks.filter(move |(id, _)| id.process == process)
    }

    /// Lets a process share the walk of another one of its parent, when it comes into the same
    /// tree: one that was told to go through a part of it. Says with whom the walk began.
    fn join(&mut self, process: u32, parent: u32, device: Device, directory: &[u8]) -> u32 {
        if self.walks.is_empty() || self.is_followed(process) {
            return process;
        }
        let here = self.tops.walks_in(device, directory).into_iter();
        let mut here = here.map(|(process, began_by_reads)| WalkId {
            process,
            began_by_reads,
        });
        let is_kin = |id: &WalkId| self.walks.get(id).is_some_and(|of| of.parent == parent);
        let Some(id) = here.find(is_kin) else {
            return process;
        };
        if let Some(walking) = self.walks.get_mut(&id) {
            walking.is_shared = true;
            walking.alone = None;
            walking.pause.store(false, Ordering::Relaxed);
        }
        self.sharing.shares(id, process);
        self.seeing.share(id.process, process, true);
        self.seeing.share(id.process, parent, true);
        id.process
    }

    fn is_followed(&self, process: u32) -> bool {
        self.of(process).next().is_some()
    }

    /// Tells the walks ahead of a process what it has read.
    fn tell(&mut self, process: u32, read: &Read) {
        let mut lost = 0;
        for (_, walking) in self.of(process) {
            lost += u64::from(read.is_lost_on(&walking.reads));
        }
        self.lost_reads += lost;
    }

    fn begin(&mut self, suspicion: Suspicion) -> Result<(), WatchError> {
        if self.walks.len() >= WALKS_MAX {
            return Ok(());
        }
        if is_left_alone(&self.excluded, &suspicion, self.seeing.numbers_are_ours) {
            self.detectors.was_wrong(suspicion.process, suspicion.reads);
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
        let (reads, receiver) = sync_channel(READS_MAX);
        let stop = Arc::new(AtomicBool::new(false));
        let pause = Arc::new(AtomicBool::new(false));
        let parent = suspicion.parent;
        self.followed += 1;
        let start = Start {
            suspicion,
            budget_bytes: budget_bytes(memory(), self.options.budget_bytes),
            is_dry_run: self.options.is_dry_run,
            numbers_are_ours: self.seeing.numbers_are_ours,
            tops: self.tops.clone(),
            reads: receiver,
            stop: Arc::clone(&stop),
            pause: Arc::clone(&pause),
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
                    is_shared: false,
                    alone: None,
                    pause,
                    reads,
                    stop,
                    thread,
                },
            );
            self.look_at(id.process)?;
        }
        Ok(())
    }

    /// Sees of a process what the walks ahead of it need.
    fn look_at(&mut self, process: u32) -> Result<(), WatchError> {
        let walks = self.of(process).map(|(_, walking)| walking.sight);
        let replayed = self.together.leads(process).then_some(Sight::Reads);
        self.seeing.follow(process, walks.chain(replayed).max())
    }

    /// What was noted since. Who shares a walk is told before its end, and after its beginning.
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
        match &note.what {
            What::Begun { .. } => {
                self.summary.walks += 1;
                self.sharing.begun(id);
            }
            What::TooEarly { .. } => {
                self.detectors.was_too_early(note.process);
                self.leave(id)?;
            }
            What::Refused { .. } | What::Known => {
                self.summary.refused += u64::from(note.what != What::Known);
                self.detectors.was_wrong(note.process, note.began_by_reads);
                self.leave(id)?;
            }
            What::Reads => {
                if let Some(walking) = self.walks.get_mut(&id) {
                    walking.sight = Sight::Reads;
                }
                self.look_at(note.process)?;
            }
            What::OfProfile(what) => {
                if let Some(members) = self.together.take(note.process, what) {
                    self.look_at_replay(&members)?;
                }
            }
            What::Ended { why, tally } => {
                self.summary.tally = self.summary.tally.and(*tally);
                if matches!(why, Why::Unused | Why::Memory | Why::Stopped) {
                    self.detectors.was_wrong(note.process, true);
                    self.detectors.was_wrong(note.process, false);
                }
                self.leave(id)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn leave(&mut self, id: WalkId) -> Result<(), WatchError> {
        self.sharing.over(id);
        if let Some(walking) = self.walks.remove(&id) {
            self.look_at(id.process)?;
            // It has said its last word.
            let _ = walking.thread.join();
            if self.walks.is_empty() {
                give_back();
            }
        }
        Ok(())
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
