// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records a trace of a process tree: each access with its time, and how long it waited.
//!
//! The BPF recorder tells of pages; a [`TraceWriter`] makes accesses of them.

mod live_places;

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use foreread_bpf::{BpfError, MissingHook};
use foreread_recorder::accesses::{TraceWriter, Traced};
use foreread_sys::mounts::mounts_of_self;
use foreread_trace::{Header, Source, TimeIs, WriteError};

use super::bpf::{BpfRecorder, Limits, Watch};
use super::tracefs::remove_abandoned;
use live_places::LivePlaces;

/// Each access is a record of a hundred bytes: room for some hundred thousand.
const RECORDS_BYTES: u32 = 32 << 20;

/// A recorder that writes a trace. From its start on the next child of this thread is the one
/// recorded, once it calls exec.
pub struct TraceRecorder<W: Write> {
    recorder: BpfRecorder,
    writer: TraceWriter<W, LivePlaces>,
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
        remove_abandoned();
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
        let mounts = mounts_of_self().unwrap_or_default();
        let writer = TraceWriter::new(output, &header, mounts, LivePlaces)?;
        Ok(Self { recorder, writer })
    }

    /// Hooks that this kernel lacks, and what isn't seen without them.
    #[must_use]
    pub fn lacking(&self) -> &[MissingHook] {
        self.recorder.lacking()
    }

    /// Writes the accesses that have come; call it every few tens of milliseconds.
    ///
    /// # Errors
    /// [`WriteError`] when the output fails.
    pub fn drain(&mut self) -> Result<(), WriteError> {
        let writer = &mut self.writer;
        self.recorder
            .take_accesses(|access, nodes| writer.take(access, nodes));
        writer.write_old()
    }

    /// Ends it: writes the rest, and where the files are on their devices.
    ///
    /// # Errors
    /// [`WriteError`] when the output fails.
    pub fn finish(mut self) -> Result<(W, Traced), WriteError> {
        self.drain()?;
        let recording = self.recorder.finish();
        // Nothing came between the last drain and the end, unless the tree goes on running.
        let lost = recording.counts.lost();
        self.writer.finish(lost)
    }
}
