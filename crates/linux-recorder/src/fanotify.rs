// SPDX-License-Identifier: MIT OR Apache-2.0
//! The last resort: which files are opened, by fanotify, and their pages by residency.
//!
//! It needs neither BPF nor tracefs, only `CAP_SYS_ADMIN`. What it can't see is in
//! [`FanotifyRecorder::BLIND_SPOTS`]. The parts that give names to inodes serve the tracefs
//! recorder as well.

mod live_names;
mod residency;

use std::time::SystemTime;

use foreread_profile::{BlindSpots, Profile, Program, Recorder, Source};
use foreread_sys::mounts::{Mounts, mounts_of_self};
use rustix::process::getpid;
use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};

use super::live_tree::{LiveTree, answering, resolve};
use foreread_recorder::{Ancestry, Counts, Family, Names, Unresolved, assemble, opened};

pub use foreread_sys::fanotify::FanotifyError;
use foreread_sys::fanotify::Group;
use foreread_sys::process_events::{Connector, Event};
use foreread_sys::process_stat::parent_of;
pub(super) use live_names::{LiveFile, inherited_names};
pub(super) use residency::read_pages;

/// `CLOCK_MONOTONIC`, which the kernel's events count in as well.
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// `CLOCK_REALTIME`, which files are stamped with.
pub(super) fn wall_ns() -> i64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| {
            i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
        })
}

/// Records which files a process tree opens; their pages are those in memory at the end.
pub struct FanotifyRecorder {
    group: Group,
    names: Names,
    family: LiveFamily,
    counts: Counts,
    drained_ns: u64,
    started_ns: u64,
    started_wall_ns: i64,
}

impl FanotifyRecorder {
    /// Accesses that it can't see.
    pub const BLIND_SPOTS: BlindSpots = BlindSpots(
        BlindSpots::RESIDENCY_NOT_ACCESS.0
            | BlindSpots::NO_LOOKUPS.0
            | BlindSpots::NOT_ONLY_THIS_TREE.0
            | BlindSpots::NO_PAGE_TIMES.0
            | BlindSpots::NO_STALL.0,
    );

    /// Starts to watch. The next child of this thread is the one recorded.
    ///
    /// # Errors
    /// [`FanotifyError`] when the kernel refuses, as it does without `CAP_SYS_ADMIN`.
    pub fn start() -> Result<Self, FanotifyError> {
        let mounts = mounts_of_self().map_err(FanotifyError::NoMounts)?;
        let group = Group::watch(&answering(&mounts))?;
        let started_ns = now_ns();
        Ok(Self {
            group,
            names: inherited_names(),
            family: LiveFamily::start(),
            counts: Counts::default(),
            drained_ns: started_ns,
            started_ns,
            started_wall_ns: wall_ns(),
        })
    }

    /// How many mounts couldn't be watched: what is opened there goes unseen.
    #[must_use]
    pub fn unwatched_mounts(&self) -> usize {
        self.group.unwatched()
    }

    /// Takes the events that have come since. Call it every few tens of milliseconds, so that paths
    /// are read before files are renamed or deleted.
    pub fn drain(&mut self) {
        let now = now_ns();
        let (names, family) = (&mut self.names, &mut self.family);
        family.take();
        let span = (self.drained_ns, now);
        let calls = &mut self.counts.calls;
        self.group.read(|opened| {
            if family.has(opened.pid) {
                *calls += 1;
                names.note(&LiveFile(opened.fd), opened.executed, span);
            }
        });
        family.settle();
        self.drained_ns = now;
    }

    /// Ends the recording and makes a profile of it. `source` is completed with the recorder, its
    /// blind spots and what was lost. The counts hold opens in `calls`, and losses.
    #[must_use]
    pub fn finish(
        mut self,
        mounts: &Mounts,
        program: Program,
        mut source: Source,
    ) -> (Profile, Unresolved, Counts) {
        self.drain();
        let start_ns = self.family.start_ns().unwrap_or(self.started_ns);
        self.counts.lost_records += self.group.lost();
        self.counts.lost_processes += self.family.lost();
        self.counts.lost_paths += self.names.lost();
        let tree = LiveTree::new(mounts);
        let mut seen = Vec::new();
        for name in self.names.into_used() {
            let pages = read_pages(&name, &tree, self.started_wall_ns);
            seen.extend(opened(name, pages, start_ns, mounts, &tree));
        }
        let recording = assemble(seen, 0, self.counts, mounts, &tree);
        source.recorder = Recorder::Fanotify;
        source.blind_spots = BlindSpots(source.blind_spots.0 | Self::BLIND_SPOTS.0);
        source.events_lost = self.counts.lost();
        let (profile, unresolved) = resolve(&recording, mounts, program, source, None);
        (profile, unresolved, self.counts)
    }
}

/// Processes of the program: by the kernel's process events where they can be had, else by `/proc`,
/// where a process that has ended since leaves no trace.
struct LiveFamily {
    connector: Option<Connector>,
    family: Family,
    ancestry: Ancestry<fn(i32) -> Option<i32>>,
    own_pid: i32,
}

impl LiveFamily {
    fn start() -> Self {
        let own_pid = getpid().as_raw_pid();
        Self {
            connector: Connector::open().ok(),
            family: Family::new(own_pid, gettid().as_raw_pid()),
            ancestry: Ancestry::new(own_pid, parent_of),
            own_pid,
        }
    }

    fn take(&mut self) {
        let Some(connector) = &mut self.connector else {
            return;
        };
        let family = &mut self.family;
        connector.read(|time_ns, event| match event {
            Event::Fork {
                parent_tid,
                parent,
                child,
            } => family.forked(time_ns, parent, parent_tid, child),
            Event::Exec { pid } => family.executed(time_ns, pid),
            Event::Exit { pid } => family.ended(time_ns, pid),
        });
    }

    /// Whether a process belongs to the program. One that ended before it could be asked about
    /// counts, when there are no process events: too much fades, too little stays slow.
    fn has(&mut self, pid: i32) -> bool {
        if pid == self.own_pid {
            return false;
        }
        if self.family.contains(pid) {
            return true;
        }
        // A process makes its fork known before it runs, so a second look finds it.
        self.take();
        if self.family.contains(pid) {
            return true;
        }
        let complete = self.connector.as_ref().is_some_and(|c| c.lost() == 0);
        !complete && self.ancestry.descends(pid).unwrap_or(true)
    }

    fn settle(&mut self) {
        self.family.settle();
        self.ancestry.forget();
    }

    fn start_ns(&self) -> Option<u64> {
        self.family.start_ns()
    }

    fn lost(&self) -> u64 {
        self.connector.as_ref().map_or(0, Connector::lost)
    }
}
