// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace of what a process tree reads: each access with its time, and how long it waited.
//!
//! The kernel tells of pages, at several places of one read or fault; [`joined`] makes one access
//! of what belongs together, and puts all in order of time. Memory is bounded: what a thread is at
//! is held back for a second at most.

mod files;
mod join;
mod joined;
mod metadata;

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use foreread_bpf::{BpfError, MissingHook};
use foreread_trace::{Header, Source, TimeIs, WriteError};

use super::bpf::{BpfRecorder, Limits, Watch};
use joined::Joined;

/// Each access is a record of a hundred bytes: room for some hundred thousand.
const RECORDS_BYTES: u32 = 32 << 20;

/// What was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// Accesses.
    pub accesses: u64,
    /// Of these, those that waited.
    pub waited: u64,
    /// How long all of them waited together.
    pub waited_ns: u64,
    /// Files.
    pub files: u64,
    /// Bytes of the trace.
    pub bytes: u64,
    /// Events that were lost.
    pub lost: u64,
}

/// A recorder that writes a trace. From its start on the next child of this thread is the one
/// recorded, once it calls exec.
pub struct TraceRecorder<W: Write> {
    recorder: BpfRecorder,
    joined: Joined<W>,
}

/// Why no trace can be recorded.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The kernel refuses.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The trace can't be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl<W: Write> TraceRecorder<W> {
    /// Starts; `command` is what the trace will say that it is of.
    ///
    /// # Errors
    /// [`TraceError`] when BPF is refused, or the trace can't be written.
    pub fn start(output: W, command: Vec<Vec<u8>>) -> Result<Self, TraceError> {
        let limits = Limits {
            records_bytes: RECORDS_BYTES,
            ..Limits::default()
        };
        let mut recorder = BpfRecorder::load_with(Watch::EachAccess, limits)?;
        recorder.attach()?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let started_unix_ns = since
            .ok()
            .and_then(|since| since.as_nanos().try_into().ok());
        let header = Header {
            started_unix_ns,
            command,
            kernel: rustix::system::uname().release().to_bytes().to_vec(),
            ..Header::new(Source::Recorded, TimeIs::Returned)
        };
        let joined = Joined::new(output, &header)?;
        Ok(Self { recorder, joined })
    }

    /// What isn't seen on this kernel, and why.
    #[must_use]
    pub fn lacking(&self) -> &[MissingHook] {
        self.recorder.lacking()
    }

    /// Writes what has come; call it every few tens of milliseconds.
    ///
    /// # Errors
    /// [`WriteError`] when the output fails.
    pub fn drain(&mut self) -> Result<(), WriteError> {
        let joined = &mut self.joined;
        self.recorder
            .take_accesses(|access, nodes| joined.take(access, nodes));
        joined.write_old()
    }

    /// Ends it: writes the rest, and where the files are on their devices.
    ///
    /// # Errors
    /// [`WriteError`] when the output fails.
    pub fn finish(mut self) -> Result<(W, Traced), WriteError> {
        self.drain()?;
        let recording = self.recorder.finish();
        // What came between the last drain and the end: nothing, unless the tree goes on running.
        let lost = recording.counts.lost();
        self.joined.finish(lost)
    }
}
