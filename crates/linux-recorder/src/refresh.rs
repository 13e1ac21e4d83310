// SPDX-License-Identifier: MIT OR Apache-2.0
//! Watches a replayed run from a thread of its own, and reports what the profile got wrong.
//!
//! The program doesn't wait for the watcher: loading its programs takes some 23 ms, more than a
//! warm start. What the program does before counts as not seen. Data isn't replayed before the
//! watcher is there, so what becomes of each fetched page is seen exactly.

use std::fs;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use foreread_bpf::BpfError;
use foreread_profile::{PagesOf, Profile, ProfileBuilder, Program, Source};
use foreread_recorder::{HitWatch, Known, unused};
use foreread_sys::mounts::mounts_of_self;

use super::live_residency::gone_pages;
use super::{BpfRecorder, Counts, Unresolved, Watch, resolve};

/// Findings of a replayed run.
pub struct Refreshed {
    /// Files and pages that the profile doesn't hold; none where they weren't wanted.
    pub news: Profile,
    /// Pages that the replay fetched and nobody used.
    pub unused: Vec<PagesOf>,
    /// Number of these pages that have left the page cache again.
    pub wasted_pages: u64,
    /// Inodes that couldn't be named.
    pub unresolved: Unresolved,
    /// Sums since the watcher was there; stall from the start.
    pub counts: Counts,
}

/// How often the recorder's ring buffer is emptied.
const DRAIN_EVERY: Duration = Duration::from_millis(20);

/// How often it is looked whether hits still bring news. A program that reads from memory makes
/// more than a thousand reads in a millisecond, each slower by a tenth while it is watched.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A watcher of one process tree.
pub struct Watcher {
    /// Whether news are wanted.
    stop: Sender<bool>,
    attached: Receiver<Result<(), BpfError>>,
    done: Receiver<Refreshed>,
}

/// The tree to watch.
pub struct Watched {
    /// Its first process, in our PID namespace, which must be the machine's.
    pub pid: u32,
    /// When it started.
    pub started: Instant,
    /// The program that was run.
    pub program: Program,
    /// How it is being recorded.
    pub source: Source,
    /// The profile that is being replayed for it.
    pub known: Arc<Profile>,
}

/// Whether our process numbers are the machine's, as the watcher needs.
#[must_use]
pub fn in_first_pid_namespace() -> bool {
    /// `PROC_PID_INIT_INO` of the kernel.
    const FIRST: &str = "pid:[4026531836]";
    fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == FIRST)
}

impl Watcher {
    /// Starts watching. `ready` is called once it sees everything, or can't; `used` again and again
    /// with how many pages of the replay were used by then.
    #[must_use]
    pub fn start(
        watched: Watched,
        ready: impl FnOnce() + Send + 'static,
        used: impl Fn(u64) + Send + 'static,
    ) -> Option<Self> {
        let (stop, stopped) = mpsc::channel();
        let (tell_attached, attached) = mpsc::channel();
        let (tell_done, done) = mpsc::channel();
        let watch = move || {
            let recorder = attach(&watched);
            ready();
            let (recorder, waited_ns) = match recorder {
                Ok(there) => there,
                Err(error) => {
                    // The receiver may be gone already.
                    let _ = tell_attached.send(Err(error));
                    return;
                }
            };
            let _ = tell_attached.send(Ok(()));
            let (recorder, wants_news) = follow(recorder, &stopped, used);
            let _ = tell_done.send(finish(recorder, watched, waited_ns, wants_news));
        };
        thread::Builder::new()
            .name("watcher".into())
            .spawn(watch)
            .ok()?;
        Some(Self {
            stop,
            attached,
            done,
        })
    }

    /// Ends it. A watcher that was not ready yet has seen nothing, and is not waited for. News take
    /// a look at each file, so they are found when `wants_news` only.
    ///
    /// # Errors
    /// [`BpfError`] when the kernel refused; `Ok(None)` when it wasn't ready.
    pub fn finish(self, wants_news: bool) -> Result<Option<Refreshed>, BpfError> {
        match self.attached.try_recv() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(error),
            Err(_) => return Ok(None),
        }
        // If the thread has died there is nothing to receive either.
        let _ = self.stop.send(wants_news);
        Ok(self.done.recv().ok())
    }
}

fn attach(watched: &Watched) -> Result<(BpfRecorder, u64), BpfError> {
    let mut recorder = BpfRecorder::load(Watch::Refresh)?;
    recorder.attach_to(watched.pid, watched.started)?;
    recorder.count_own_reads(true);
    recorder.note_helpers();
    Ok((recorder, waited_ns(watched.pid, watched.started)))
}

/// Time that a process has waited since its start: what was neither running nor ready to run.
fn waited_ns(pid: u32, started: Instant) -> u64 {
    let elapsed_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    let busy_ns: u64 = text
        .split(' ')
        .take(2)
        .filter_map(|n| n.parse::<u64>().ok())
        .sum();
    elapsed_ns.saturating_sub(busy_ns)
}

fn follow(
    mut recorder: BpfRecorder,
    stopped: &Receiver<bool>,
    used: impl Fn(u64),
) -> (BpfRecorder, bool) {
    let mut hits = HitWatch::default();
    let mut drained = Instant::now();
    loop {
        let every = if recorder.watches_hits() {
            LOOK_EVERY
        } else {
            DRAIN_EVERY
        };
        match stopped.recv_timeout(every) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(wants_news) => return (recorder, wants_news),
            Err(RecvTimeoutError::Disconnected) => return (recorder, false),
        }
        if drained.elapsed() >= DRAIN_EVERY {
            // The watcher is in the first PID namespace.
            recorder.note_helpers();
            recorder.drain();
            drained = Instant::now();
        }
        let counts = recorder.counts();
        used(counts.used_pages);
        if let Some(watch) = hits.decide(recorder.watches_hits(), counts) {
            // Failing to switch only means to go on as before.
            let _ = recorder.watch_hits(watch);
        }
    }
}

fn finish(
    mut recorder: BpfRecorder,
    watched: Watched,
    waited_ns: u64,
    wants_news: bool,
) -> Refreshed {
    recorder.count_own_reads(false);
    // Without hits, a page that wasn't seen used may have been.
    let sees_use = recorder.has_watched_hits_only();
    let recording = recorder.finish();
    let mounts = mounts_of_self().unwrap_or_default();
    let unused = unused(&recording, &Known::new(&watched.known, &mounts));
    let wasted_pages = gone_pages(&unused, &watched.known, &mounts);
    let Watched {
        program,
        source,
        known,
        ..
    } = watched;
    let (news, unresolved) = match wants_news {
        true => resolve(&recording, &mounts, program, source, Some(&known)),
        false => {
            let none = ProfileBuilder::new(program, source).finish();
            (none, Unresolved::default())
        }
    };
    let mut counts = recording.counts;
    counts.stall_ns = counts.stall_ns.saturating_add(waited_ns);
    let unused = if sees_use { unused } else { Vec::new() };
    Refreshed {
        news,
        unused,
        wasted_pages,
        unresolved,
        counts,
    }
}
