// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writing traces.

mod csv;
mod fio;
#[cfg(feature = "parquet")]
mod parquet;

use std::io::Write;

use crate::error::{ReadError, WriteError};
use crate::findings::LeftOutCounts;
use crate::frt;
use crate::read::Events;
use crate::types::{Event, Header, LeftOut};

/// A format that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The own format.
    Frt,
    /// fio's iolog, version 3: reads with their times.
    Fio,
    /// fio's iolog, version 2: reads, and waits between them.
    FioV2,
    /// Comma-separated values, a line for each access.
    Csv,
    /// Parquet, a row for each access.
    #[cfg(feature = "parquet")]
    Parquet,
}

impl Target {
    /// All that this build can write.
    pub const ALL: &[Self] = &[
        Self::Frt,
        Self::Fio,
        Self::FioV2,
        Self::Csv,
        #[cfg(feature = "parquet")]
        Self::Parquet,
    ];

    /// For people and for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Frt => "frt",
            Self::Fio => "fio",
            Self::FioV2 => "fio2",
            Self::Csv => "csv",
            #[cfg(feature = "parquet")]
            Self::Parquet => "parquet",
        }
    }
}

/// The result of writing a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wrote {
    /// Accesses that were written.
    pub accesses: u64,
    /// Accesses that the format can't express.
    pub left_out: LeftOutCounts,
    /// Files whose names had to be changed for the format.
    pub renamed_files: u64,
}

/// Takes the events of a trace.
pub trait Sink {
    /// Adds an event.
    ///
    /// # Errors
    /// [`WriteError::Io`] when the output fails. [`WriteError::Unfit`] and [`WriteError::Full`]
    /// when the event breaks a rule, which those of [`Events`] don't.
    fn write(&mut self, event: &Event) -> Result<(), WriteError>;

    /// Notes that `count` more of these are not in the trace, where the format can express it.
    ///
    /// # Errors
    /// [`WriteError::Io`] when the output fails.
    fn left_out(&mut self, what: LeftOut, count: u64) -> Result<(), WriteError>;

    /// Ends the trace.
    ///
    /// # Errors
    /// [`WriteError::Io`] when the output fails.
    fn finish(self: Box<Self>) -> Result<Wrote, WriteError>;
}

impl<W: Write> Sink for frt::Writer<W> {
    fn write(&mut self, event: &Event) -> Result<(), WriteError> {
        self.write(event)
    }

    fn left_out(&mut self, what: LeftOut, count: u64) -> Result<(), WriteError> {
        self.left_out(what, count)
    }

    fn finish(self: Box<Self>) -> Result<Wrote, WriteError> {
        let (_, written) = (*self).finish()?;
        Ok(Wrote {
            accesses: written.accesses,
            ..Wrote::default()
        })
    }
}

/// Starts a trace in any format. Give it an output that is buffered.
///
/// # Errors
/// [`WriteError`] when its start can't be written.
pub fn create<'a>(
    output: impl Write + Send + 'a,
    target: Target,
    header: &Header,
) -> Result<Box<dyn Sink + 'a>, WriteError> {
    Ok(match target {
        Target::Frt => Box::new(frt::Writer::new(output, header)?),
        Target::Fio => Box::new(fio::Fio::new(output, true)?),
        Target::FioV2 => Box::new(fio::Fio::new(output, false)?),
        Target::Csv => Box::new(csv::Csv::new(output)?),
        #[cfg(feature = "parquet")]
        Target::Parquet => Box::new(parquet::Parquet::new(output)?),
    })
}

/// Why a copy stopped.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The input failed. What was read before was written.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The output failed.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Writes all events that `keep` wants, and the counts of events that the source left out. `keep`
/// gets definitions too, and may learn from them.
///
/// # Errors
/// [`CopyError`] when either side fails.
pub fn copy(
    events: &mut dyn Events,
    sink: &mut dyn Sink,
    mut keep: impl FnMut(&Event) -> bool,
) -> Result<(), CopyError> {
    while let Some(event) = events.next_event()? {
        if keep(&event) {
            sink.write(&event)?;
        }
    }
    for (what, count) in events.findings().left_out.iter() {
        sink.left_out(what, count)?;
    }
    Ok(())
}
