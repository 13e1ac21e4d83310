// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading ahead of streams in large files, on a live machine.
//!
//! The policy `foreread` runs in the kernel, in `bpf/streams.bpf.c`. A thread here waits for the
//! windows that it asks for, and passes them to a few other threads, which [fetch](fetching) them.

mod abi;
pub(super) mod fetching;
mod heads;
mod load;
mod seeing;
pub mod telling;

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use foreread_bpf::{BpfError, MissingHook};
use foreread_linux_helper::is_helper;
use foreread_profile::PAGE_BYTES;
use foreread_sys::interrupt;
use foreread_sys::memory::memory;
use foreread_sys::mounts::{MountTable, Mounts};
use foreread_sys::rights::Capability;
use foreread_sys::rights::keep_only;
use foreread_watch::excluded::Excluded;
use foreread_watch::gain::Gain;
use foreread_watch::log::followed::{FollowedFile, FollowedStream};
use foreread_watch::log::note::{Note, PlannerCall, Streamed, What};
use foreread_watch::paths::joined;
use foreread_watch::place::Place;
use foreread_watch::quiet::Quiet;
use foreread_watch::saved::streams::{self, Accounts};
use foreread_watch::skipped::Skipped;
use foreread_watch::stream::{Ask, FileKey, read_pages_of};
use rustix::event::{EventfdFlags, eventfd};
use rustix::time::ClockId;

use super::Whom;
use super::cgroups::Cgroups;
use super::left_alone::is_program;
use super::listing::far;
use abi::Told;
use fetching::{Fetched, Fetchers, Reached};
use seeing::{Counted, Room, Seeing};
use telling::{Asked, NotFollowed};

/// Interval at which memory and the gain of seeing hits are checked, while hits are seen.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Interval at which sums of processes that go on are noted.
const TELL_EVERY: Duration = Duration::from_millis(250);
/// Interval at which calls are taken for a log.
const LOG_EVERY: Duration = Duration::from_millis(20);
/// Written to the event descriptor to wake the thread, and to stop it. The latter is larger than
/// any number of wakes.
const WAKE: u64 = 1;
const STOP: u64 = 1 << 32;
/// Time that an end waits for the thread, and how often it looks. Threads that fetch are waited for
/// a shorter time.
const END_LIMIT: Duration = Duration::from_millis(600);
const END_LOOK_EVERY: Duration = Duration::from_millis(1);
/// Maximum number of known files; the BPF map has room for fewer.
const FILES_MAX: usize = 4096;
/// Bytes of the paths of all known files.
const PATH_BYTES_MAX: usize = 2 << 20;
/// Bytes of an entry besides its path.
const ENTRY_BYTES: usize = 128;
/// Processes that are remembered as left alone.
const SKIPPED_MAX: usize = 1024;

/// Counters since the start. Pages are of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamsSummary {
    /// Accesses that the policy was told of.
    pub accesses: u64,
    /// Windows that it asked for, with repetitions.
    pub windows: u64,
    /// Pages of these windows.
    pub asked_pages: u64,
    /// Pages of these windows that were not in memory yet and were fetched.
    pub fetched_pages: u64,
    /// Accesses that were skipped, since the policy was busy on another processor.
    pub untold: u64,
    /// Windows that were dropped before a thread fetched them.
    pub forgotten: u64,
    /// Records for which there was no room.
    pub lost: u64,
}

/// Options of the streams' thread.
pub(super) struct Options {
    pub whom: Whom,
    /// The BPF map of the watched processes.
    pub tree: OwnedFd,
    /// Most bytes that are fetched ahead of one reader.
    pub budget_bytes: Option<u64>,
    /// Fetch nothing; only count what would be fetched.
    pub is_dry_run: bool,
    /// Whether the kernel's process numbers are those of our `/proc`.
    pub numbers_are_ours: bool,
    /// The rights that the thread keeps once the programs are loaded; `None` if it gives up none.
    pub rights: Option<&'static [Capability]>,
    /// Takes notes, of calls of the core only if they are logged.
    pub notes: Sender<Note>,
    pub is_logged: bool,
    pub cgroups: Cgroups,
}

/// Settings that may change while it runs.
#[derive(Clone, Debug)]
pub(super) struct Set {
    pub budget_bytes: Option<u64>,
    pub is_dry_run: bool,
    pub excluded: Excluded,
}

/// A message to the running thread.
enum Order {
    Set(Set),
    /// Send the list of followed streams.
    Tell(Sender<Vec<FollowedFile>>),
    /// Answer at once, to show that the thread goes on.
    Answer(Sender<()>),
}

/// Attaches all programs for a moment; returns the hooks that are missing.
pub(super) fn lacking(tree: BorrowedFd<'_>) -> Result<Vec<MissingHook>, BpfError> {
    let mut seeing = Seeing::start(Whom::All, tree, Room::default(), false)?;
    seeing.follow()?;
    Ok(seeing.lacking().to_vec())
}

/// Reads ahead of streams until it is dropped.
pub(super) struct Streams {
    stop: Arc<OwnedFd>,
    orders: Sender<Order>,
    numbers_are_ours: bool,
    /// The reason, if the kernel refuses the programs.
    refused: Arc<OnceLock<String>>,
    /// Hooks that this kernel lacks.
    lacking: Vec<MissingHook>,
    /// Since when an answer is waited for.
    asked: Option<(Instant, Receiver<()>)>,
    thread: JoinHandle<Result<StreamsSummary, BpfError>>,
}

impl Streams {
    /// Starts the thread. Returns after the kernel has verified the programs and rights were given
    /// up. A watched command would otherwise be half done by then.
    ///
    /// # Errors
    /// If no descriptor or thread can be created.
    pub fn start(options: Options) -> std::io::Result<Self> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (orders, receiver) = channel();
        let (beginning, begun) = channel::<Vec<MissingHook>>();
        let stopped = Arc::clone(&stop);
        let refused = Arc::new(OnceLock::new());
        let refusing = Arc::clone(&refused);
        let numbers_are_ours = options.numbers_are_ours;
        let rights = options.rights;
        let thread = thread::Builder::new().name("streams".into());
        let thread = thread.spawn(move || {
            // Another thread waits for signals. It has set its own rights.
            interrupt::leave_to_others();
            let started = Loop::start(options, receiver);
            let lacking = match &started {
                Ok(started) => started.seeing.lacking().to_vec(),
                Err(error) => {
                    // Nothing else reports this.
                    let _ = refusing.set(error.to_string());
                    Vec::new()
                }
            };
            if let Some(rights) = rights {
                // If that is refused, the thread keeps the rights that it has.
                let _ = keep_only(rights);
            }
            // The thread that started it may have ended.
            let _ = beginning.send(lacking);
            Ok(started?.run(&stopped))
        })?;
        // It also returns when the sender is dropped.
        let lacking = begun.recv().unwrap_or_default();
        Ok(Self {
            stop,
            orders,
            numbers_are_ours,
            refused,
            lacking,
            asked: None,
            thread,
        })
    }

    /// Whether its thread has not answered for this long. It never asks a file system, so that is a
    /// defect. To be called every few seconds.
    pub fn hangs_for(&mut self, limit: Duration) -> bool {
        let asked = self.asked.take();
        self.asked = match asked {
            // It has answered, or ended.
            Some((_, answer)) if answer.try_recv() != Err(TryRecvError::Empty) => None,
            Some(asked) => Some(asked),
            None => {
                let (answer, receiver) = channel();
                let sent = self.orders.send(Order::Answer(answer));
                self.wake(WAKE);
                sent.ok().map(|()| (Instant::now(), receiver))
            }
        };
        self.asked
            .as_ref()
            .is_some_and(|(since, _)| since.elapsed() >= limit)
    }

    /// Hooks that this kernel lacks, and why.
    pub fn lacking(&self) -> &[MissingHook] {
        &self.lacking
    }

    /// Changes the settings.
    pub fn set(&self, set: Set) {
        // A thread that has ended needs no settings.
        let _ = self.orders.send(Order::Set(set));
        self.wake(WAKE);
    }

    /// Asks which streams are followed now.
    pub fn ask(&self) -> Asked {
        let (answer, receiver) = channel();
        let answer = match (self.orders.send(Order::Tell(answer)), self.refused.get()) {
            (_, Some(why)) => Err(NotFollowed::Refused(why.clone())),
            (Err(_), None) => Err(NotFollowed::ended()),
            (Ok(()), None) => Ok(receiver),
        };
        self.wake(WAKE);
        Asked {
            answer,
            numbers_are_ours: self.numbers_are_ours,
        }
    }

    fn wake(&self, number: u64) {
        // The counter can't overflow: the thread reads it after each wait.
        let _ = rustix::io::write(&*self.stop, &number.to_ne_bytes());
    }

    /// Stops the thread, and returns its counters or why it did not start; `None` after a panic.
    pub fn finish(self) -> Option<Result<StreamsSummary, BpfError>> {
        self.wake(STOP);
        let began = Instant::now();
        while !self.thread.is_finished() {
            if began.elapsed() > END_LIMIT {
                // Its counters are lost.
                return None;
            }
            thread::sleep(END_LOOK_EVERY);
        }
        // A thread that panicked has printed its panic.
        self.thread.join().ok()
    }
}

struct Loop {
    options: Options,
    excluded: Excluded,
    orders: Receiver<Order>,
    seeing: Seeing,
    fetchers: Option<Fetchers>,
    files: HashMap<FileKey, Option<Arc<Reached>>>,
    /// Bytes of the paths of these files.
    path_bytes: usize,
    mount_table: MountTable,
    fetched: (Sender<Fetched>, Receiver<Fetched>),
    summary: StreamsSummary,
    began: Instant,
    /// Decides how long hits are seen after the last miss.
    quiet: Quiet,
    gain: Gain,
    /// The time until which hits are not seen, because seeing them brought no gain.
    rests_until: Option<Instant>,
    /// Processes that were left alone, and why.
    skipped: HashSet<(u32, Skipped)>,
    /// Estimates the time saved.
    accounts: Accounts,
    /// When the sums so far were noted.
    told_at: Instant,
}

impl Loop {
    fn start(options: Options, orders: Receiver<Order>) -> Result<Self, BpfError> {
        let room = room(options.budget_bytes);
        let is_logged = options.is_logged;
        let seeing = Seeing::start(options.whom, options.tree.as_fd(), room, is_logged)?;
        Ok(Self {
            options,
            excluded: Excluded::default(),
            orders,
            seeing,
            fetchers: None,
            files: HashMap::new(),
            path_bytes: 0,
            mount_table: MountTable::default(),
            fetched: channel(),
            summary: StreamsSummary::default(),
            began: Instant::now(),
            quiet: Quiet::default(),
            gain: Gain::default(),
            rests_until: None,
            skipped: HashSet::new(),
            accounts: Accounts::default(),
            told_at: Instant::now(),
        })
    }

    fn run(mut self, stop: &OwnedFd) -> StreamsSummary {
        let mut looked = Instant::now();
        loop {
            let look_every = match self.options.is_logged {
                true => LOG_EVERY,
                false => LOOK_EVERY,
            };
            let rests = self
                .rests_until
                .map(|until| until.saturating_duration_since(Instant::now()));
            // Markers that end a rest wake nobody.
            let limit = match self.seeing.sees_hits() {
                true => Some(look_every),
                false => rests.map(|rests| rests.min(LOOK_EVERY)),
            };
            for told in self.seeing.wait(stop.as_fd(), limit) {
                self.take(told);
            }
            while let Ok(fetched) = self.fetched.1.try_recv() {
                self.take_fetched(&fetched);
            }
            self.end_rest();
            self.note_calls();
            if was_told(stop) >= STOP {
                return self.end();
            }
            while let Ok(order) = self.orders.try_recv() {
                match order {
                    Order::Set(set) => self.set(set),
                    // The asker may have gone.
                    Order::Tell(answer) => drop(answer.send(self.followed())),
                    Order::Answer(answer) => drop(answer.send(())),
                }
            }
            if self.seeing.sees_hits() && looked.elapsed() >= LOOK_EVERY {
                looked = Instant::now();
                self.seeing.set_room(room(self.options.budget_bytes));
                self.note_streamed(false);
                self.leave_when_quiet();
                self.rest_when_dull();
            }
        }
    }

    fn take(&mut self, told: Told) {
        match told {
            Told::Begin => {
                self.quiet.break_at(self.began.elapsed());
                self.seeing.set_room(room(self.options.budget_bytes));
                if self.fetchers.is_none() && !self.options.is_dry_run {
                    self.fetchers = Some(Fetchers::start(self.seeing.load(), &self.fetched.0));
                }
                // If the kernel refuses now, streams are not followed: misses alone are too little
                // evidence.
                let _ = self.seeing.follow();
            }
            Told::File {
                file,
                directory,
                name,
                call_pages_max,
            } => {
                // Each path is held twice, while it is fetched.
                self.path_bytes += directory.len() + name.len() + ENTRY_BYTES;
                if self.files.len() >= FILES_MAX || self.path_bytes > PATH_BYTES_MAX {
                    self.files.clear();
                    self.path_bytes = directory.len() + name.len() + ENTRY_BYTES;
                }
                let mounts = self.mount_table.current().ok();
                let reached = mounts
                    .and_then(|mounts| reach(&mounts, file, &directory, &name, call_pages_max));
                self.files.insert(file, reached.map(Arc::new));
            }
            Told::Ask(ask) => self.ask(ask),
            Told::Pace(paced) => {
                let load = self.seeing.load();
                self.accounts.paced(&paced, &mut |disk| load.costs_of(disk));
            }
        }
    }

    /// Stops seeing hits for a while if that brings no gain.
    fn rest_when_dull(&mut self) {
        let Counted { misses, marks, .. } = self.seeing.counted();
        let rest = self.gain.look(misses, self.summary.fetched_pages, marks);
        // A log shall have all accesses, and a dry run fetches nothing, so it can show no gain.
        if let Some(rest) = rest
            && self.seeing.sees_hits()
            && !self.options.is_logged
            && !self.options.is_dry_run
        {
            self.seeing.rest();
            self.rests_until = Some(Instant::now() + rest);
        }
    }

    /// Ends a rest when it is over: the next miss attaches the programs again. A stream ends it
    /// early.
    fn end_rest(&mut self) {
        let Some(until) = self.rests_until else {
            return;
        };
        let Counted { misses, marks, .. } = self.seeing.counted();
        let left = until.saturating_duration_since(Instant::now());
        if self
            .gain
            .is_there(misses, self.summary.fetched_pages, marks, left)
        {
            self.rests_until = None;
            self.take(Told::Begin);
        } else if Instant::now() >= until {
            self.rests_until = None;
            self.rest();
            self.seeing.leave();
        }
    }

    fn set(&mut self, set: Set) {
        self.options.budget_bytes = set.budget_bytes;
        self.options.is_dry_run = set.is_dry_run;
        self.excluded = set.excluded;
        if self.options.is_dry_run {
            self.rest();
        }
        self.seeing.set_room(room(self.options.budget_bytes));
    }

    fn followed(&mut self) -> Vec<FollowedFile> {
        let files = self.seeing.files().into_iter();
        let followed = files.filter_map(|file| {
            let streams = self.seeing.remembered(file)?;
            let reached = self.files.get(&file).and_then(Option::as_ref);
            let of = |stream| FollowedStream {
                stream,
                process: None,
                idle_ns: None,
            };
            Some(FollowedFile {
                file,
                path: reached.map(|reached| reached.path.clone()),
                accesses: streams.accesses(),
                streams: streams.followed().map(of).collect(),
            })
        });
        followed.collect()
    }

    fn ask(&mut self, ask: Ask) {
        self.quiet.break_at(self.began.elapsed());
        let reached = match self.files.get(&ask.file) {
            Some(Some(reached)) => reached,
            Some(None) => return,
            None => {
                // The kernel sends its name again with the next miss.
                self.seeing.forget(ask.file);
                return;
            }
        };
        // What a helper reads is no stream.
        if is_helper(ask.process)
            || self.excluded.is_device(ask.file.device)
            || self.excluded.is_path(&reached.path)
            || is_program(&self.excluded, ask.process, self.options.numbers_are_ours)
        {
            return;
        }
        let reached = Arc::clone(reached);
        if ask.is_leased {
            self.skip(ask.process, Skipped::Leased);
            return;
        }
        if self.is_throttled(ask.process) {
            self.skip(ask.process, Skipped::Throttled);
            return;
        }
        for (_, pages) in ask.ranges() {
            self.summary.windows += 1;
            self.summary.asked_pages += pages;
        }
        if let Some(fetchers) = &mut self.fetchers {
            let now_ns = telling::now_ns(ClockId::Monotonic);
            self.accounts
                .asked(ask.process, ask.thread, ask.file, now_ns);
            fetchers.fetch(reached, ask);
        }
    }

    /// Notes what was fetched and saved for processes that paused, or for all of them. Every now
    /// and then it notes the sums so far of those that go on.
    fn note_streamed(&mut self, all: bool) {
        let load = Arc::clone(self.seeing.load());
        let of_disk = &mut |disk| load.costs_of(disk);
        let now_ns = telling::now_ns(ClockId::Monotonic);
        for over in self.accounts.paused(now_ns, all, of_disk) {
            self.note_one_streamed(&over, true);
        }
        // New ones at once: the name of a process can be read only while it lives.
        let only_new = self.told_at.elapsed() < TELL_EVERY;
        if !only_new {
            self.told_at = Instant::now();
        }
        for so_far in self.accounts.going_on(only_new, of_disk) {
            self.note_one_streamed(&so_far, false);
        }
    }

    fn note_one_streamed(&self, of: &streams::Streamed, is_over: bool) {
        let reached = self.files.get(&of.file).and_then(Option::as_ref);
        let streamed = Streamed {
            file: reached
                .map(|reached| reached.path.clone())
                .unwrap_or_default(),
            found_pages: of.found_pages,
            fetched_pages: of.fetched_pages,
            is_over,
            saved: of.saved,
        };
        // Without a receiver of notes this thread ends soon.
        let _ = self.options.notes.send(Note {
            process: of.process,
            began_by_reads: true,
            owner: None,
            what: What::Streamed(Box::new(streamed)),
        });
    }

    fn take_fetched(&mut self, fetched: &Fetched) {
        self.summary.fetched_pages += fetched.read_pages();
        let read_pages = read_pages_of(&fetched.asks, &fetched.ranges);
        for (ask, read_pages) in fetched.asks.iter().zip(read_pages) {
            let pages = ask.all_pages();
            self.accounts.fetched(ask.thread, read_pages);
            self.seeing
                .tell_issued(ask.file, ask.thread, pages, read_pages);
        }
    }

    fn note_calls(&mut self) {
        if !self.options.is_logged {
            return;
        }
        for call in self.seeing.take_calls() {
            let note = Note {
                process: call.process,
                began_by_reads: true,
                owner: None,
                what: What::Called(PlannerCall::Stream(Box::new(call))),
            };
            // Without a receiver of notes this thread ends soon.
            let _ = self.options.notes.send(note);
        }
    }

    /// Whether the I/O of a process is limited.
    fn is_throttled(&mut self, process: u32) -> bool {
        let limits = &self.options.cgroups;
        let is_throttled =
            self.options.numbers_are_ours && limits.is_throttled(process) == Some(true);
        if !is_throttled {
            self.skipped.remove(&(process, Skipped::Throttled));
        }
        is_throttled
    }

    /// Notes why a process is left alone, once for each process and reason.
    fn skip(&mut self, process: u32, why: Skipped) {
        if self.skipped.len() >= SKIPPED_MAX {
            self.skipped.clear();
        }
        if !self.skipped.insert((process, why)) {
            return;
        }
        // Without a receiver of notes this thread ends soon.
        let _ = self.options.notes.send(Note {
            process,
            began_by_reads: true,
            owner: None,
            what: What::Skipped {
                directory: Vec::new(),
                why,
            },
        });
    }

    fn leave_when_quiet(&mut self) {
        let Counted {
            misses, accesses, ..
        } = self.seeing.counted();
        let fetched_pages = self.summary.fetched_pages;
        let now = self.began.elapsed();
        if self.quiet.look(now, misses, fetched_pages, accesses) {
            self.seeing.leave();
            self.rest();
        }
    }

    /// Ends the threads that fetch.
    fn rest(&mut self) {
        if let Some(fetchers) = self.fetchers.take() {
            self.summary.forgotten += fetchers.forgotten();
        }
    }

    fn end(mut self) -> StreamsSummary {
        self.seeing.leave();
        self.rest();
        self.seeing.consume();
        self.note_calls();
        for told in self.seeing.take_told() {
            if matches!(told, Told::Pace(_)) {
                self.take(told);
            }
        }
        while let Ok(fetched) = self.fetched.1.try_recv() {
            self.summary.fetched_pages += fetched.read_pages();
        }
        self.note_streamed(true);
        let Counted {
            accesses,
            untold,
            lost,
            ..
        } = self.seeing.counted();
        StreamsSummary {
            accesses,
            untold,
            lost,
            ..self.summary
        }
    }
}

/// The sum of the numbers that were written to the descriptor since the last call.
fn was_told(fd: &OwnedFd) -> u64 {
    let mut number = [0; 8];
    match rustix::io::read(fd, &mut number) {
        Ok(8) => u64::from_ne_bytes(number),
        _ => 0,
    }
}

fn room(budget_bytes: Option<u64>) -> Room {
    let memory = memory();
    let left_bytes = memory
        .cgroup_left_bytes
        .unwrap_or(u64::MAX)
        .min(memory.available_bytes);
    Room {
        // The core bounds the pages around a fault by this; for that, only available memory counts.
        memory_pages: memory.available_bytes / PAGE_BYTES,
        reclaim_pages: left_bytes / PAGE_BYTES,
        budget_pages: budget_bytes.map_or(0, |bytes| {
            u32::try_from(bytes / PAGE_BYTES).unwrap_or(u32::MAX).max(1)
        }),
    }
}

/// The path at which we can open a file; `None` if it is in memory only, or not mounted where we
/// see it.
fn reach(
    mounts: &Mounts,
    file: FileKey,
    directory: &[u8],
    name: &[u8],
    call_pages_max: u32,
) -> Option<Reached> {
    let place = Place::find(mounts, file.device, directory)?;
    let path = joined(&place.path_of(directory), name);
    Some(Reached {
        far: far(mounts, &path),
        path,
        inode: file.inode,
        call_pages_max: call_pages_max.into(),
    })
}
