// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a trace could not be read or written. Each is one line for people.

use std::io;

use thiserror::Error;

/// Why reading had to stop. What one bad record costs is in [`Findings`](crate::Findings) instead.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The source of the bytes failed.
    #[error("cannot be read on: {0}")]
    Io(#[from] io::Error),
    /// Its format can't be told.
    #[error(
        "no known format of traces: none of frt, fio iolog, strace, blkparse, JuiceFS access log; \
         --from-format names one"
    )]
    UnknownFormat,
    /// It is not of the format that it was said to be.
    #[error("this is {0}")]
    Not(&'static str),
    /// It is not a trace of the own format.
    #[error("this is not a Foreread trace")]
    NotATrace,
    /// It ends within its header.
    #[error("the trace ends within its header; nothing of it can be used")]
    CutShort,
    /// Its header is damaged.
    #[error("the trace is damaged (the checksum of its header is wrong); nothing can be used")]
    Damaged,
    /// A later program wrote it.
    #[error(
        "the trace has format version {found}, and this foreread reads up to version {known}; use \
         a newer foreread"
    )]
    Newer {
        /// The version of the input.
        found: u16,
        /// The newest that this code reads.
        known: u16,
    },
    /// Its header says something impossible.
    #[error("the header of the trace {0}")]
    BadHeader(&'static str),
    /// It defines more than a trace may hold.
    #[error("at byte {at} the trace holds more {what} than any trace may; it was made to do harm")]
    TooMany {
        /// Offset of the block in the file.
        at: u64,
        /// The kind of thing.
        what: &'static str,
    },
}

/// Why an event could not be written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The receiver of the bytes failed.
    #[error("cannot be written: {0}")]
    Io(#[from] io::Error),
    /// The event breaks a rule of the model. Nothing was written of it, and the writer can go on.
    #[error("an event that {0} cannot be written to a trace")]
    Unfit(&'static str),
    /// A trace holds no more of this. Nothing was written of it, and the writer can go on.
    #[error("the trace holds as many {0} as a trace may")]
    Full(&'static str),
}
