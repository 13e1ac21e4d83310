// SPDX-License-Identifier: MIT OR Apache-2.0
//! The best recorder that works here, and one way to use any of them.

use foreread_bpf::BpfError;
use foreread_profile::{Profile, Program, Recorder, Source};
use foreread_recorder::{Known, unused};
use foreread_sys::mounts::mounts_of_self;
use thiserror::Error;

use super::device_pages;
use super::live_residency::gone_pages;
use super::tracefs::remove_abandoned;
use super::{BpfRecorder, Counts, FanotifyError, FanotifyRecorder, TracefsError, TracefsRecorder};
use super::{Unresolved, Watch, in_first_pid_namespace, resolve};

/// Why one of the recorders does not start.
#[derive(Debug, Error)]
enum StartError {
    #[error(transparent)]
    Bpf(#[from] BpfError),
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    #[error(transparent)]
    Fanotify(#[from] FanotifyError),
}

/// Which recorder to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The first that works, of those below in their order.
    #[default]
    Best,
    /// The first that works, without trying BPF.
    Fallback,
    /// Accesses, aggregated in the kernel.
    Bpf,
    /// Accesses from a tracefs instance.
    Tracefs,
    /// Opened files, pages by residency.
    Fanotify,
}

/// A recorder that has begun: the next child of this thread is what it records.
pub enum AnyRecorder {
    /// See [`BpfRecorder`].
    Bpf(Box<BpfRecorder>),
    /// See [`TracefsRecorder`].
    Tracefs(Box<TracefsRecorder>),
    /// See [`FanotifyRecorder`].
    Fanotify(Box<FanotifyRecorder>),
}

/// Result of a recording.
pub struct Recorded {
    /// Files and pages that were read.
    pub profile: Profile,
    /// Inodes that couldn't be named.
    pub unresolved: Unresolved,
    /// Sums.
    pub counts: Counts,
    /// Pages that the replay fetched, that nobody used, and that are gone from memory again.
    pub wasted_pages: u64,
    /// Whether stall, misses and use were counted: the BPF recorder only.
    pub measured: bool,
}

impl AnyRecorder {
    /// Starts a recorder. On the way to one that works, the reasons of those that don't are added
    /// to `refusals`, a line each; `None` when none works.
    pub fn start(choice: Choice, watch: Watch, refusals: &mut Vec<String>) -> Option<Self> {
        foreread_sys::start_pages::read_for_recording();
        if choice != Choice::Tracefs {
            // A recorder by tracefs does so itself.
            remove_abandoned();
        }
        let mut attempt = |wanted: Choice, start: &dyn Fn() -> Result<Self, StartError>| {
            let is_tried = match choice {
                Choice::Best => true,
                Choice::Fallback => wanted != Choice::Bpf,
                one => one == wanted,
            };
            if !is_tried {
                return None;
            }
            let started = start().map_err(|error| refusals.push(error.to_string()));
            started.ok()
        };
        let bpf = || {
            let mut recorder = BpfRecorder::load(watch)?;
            recorder.attach()?;
            Ok(Self::Bpf(Box::new(recorder)))
        };
        let tracefs = || {
            let recorder = TracefsRecorder::start()?;
            Ok(Self::Tracefs(Box::new(recorder)))
        };
        let fanotify = || {
            let recorder = FanotifyRecorder::start()?;
            Ok(Self::Fanotify(Box::new(recorder)))
        };
        attempt(Choice::Bpf, &bpf)
            .or_else(|| attempt(Choice::Tracefs, &tracefs))
            .or_else(|| attempt(Choice::Fanotify, &fanotify))
    }

    /// Which one it is.
    #[must_use]
    pub fn kind(&self) -> Recorder {
        match self {
            Self::Bpf(_) => Recorder::Bpf,
            Self::Tracefs(_) => Recorder::Tracefs,
            Self::Fanotify(_) => Recorder::Fanotify,
        }
    }

    /// Takes what has come; call it every few tens of milliseconds.
    pub fn drain(&mut self) {
        match self {
            Self::Bpf(recorder) => {
                if in_first_pid_namespace() {
                    recorder.note_helpers();
                }
                recorder.drain();
            }
            Self::Tracefs(recorder) => recorder.drain(),
            Self::Fanotify(recorder) => recorder.drain(),
        }
    }

    /// Ends it and makes a profile. `known` is what was replayed meanwhile.
    #[must_use]
    pub fn finish(self, program: Program, mut source: Source, known: Option<&Profile>) -> Recorded {
        let mounts = mounts_of_self().unwrap_or_default();
        let (profile, unresolved, counts) = match self {
            Self::Bpf(recorder) => {
                source.blind_spots = recorder.blind_spots();
                let recording = recorder.finish();
                source.recorder = Recorder::Bpf;
                source.events_lost = recording.counts.lost();
                let (mut profile, unresolved) = resolve(&recording, &mounts, program, source, None);
                profile.devices = device_pages::of_recording(&recording.devices, &mounts);
                return Recorded {
                    profile,
                    unresolved,
                    counts: recording.counts,
                    wasted_pages: known.map_or(0, |known| {
                        let unused = unused(&recording, &Known::new(known, &mounts));
                        gone_pages(&unused, known, &mounts)
                    }),
                    measured: true,
                };
            }
            Self::Tracefs(recorder) => recorder.finish(&mounts, program, source),
            Self::Fanotify(recorder) => recorder.finish(&mounts, program, source),
        };
        Recorded {
            profile,
            unresolved,
            counts,
            wasted_pages: 0,
            measured: false,
        }
    }
}
