// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading traces of any known format, packed by zstd or not.

mod blkparse;
mod detect;
mod emit;
mod find;
mod fio;
mod juicefs;
mod lines;
mod number;
mod oracle;
mod strace;

use std::io::Read;

use detect::Peeked;
use lines::LineEvents;

use crate::error::ReadError;
use crate::findings::Findings;
use crate::frt;
use crate::types::{Event, Header};

/// A format that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The own format.
    Frt,
    /// fio's iolog, version 2 or 3 as its first line says.
    Fio,
    /// The output of `strace -f`.
    Strace,
    /// The default output of `blkparse`.
    Blkparse,
    /// The access log of JuiceFS.
    JuiceFs,
    /// libCacheSim's oracleGeneral.
    OracleGeneral,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Frt,
        Self::Fio,
        Self::Strace,
        Self::Blkparse,
        Self::JuiceFs,
        Self::OracleGeneral,
    ];

    /// For people and for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Frt => "frt",
            Self::Fio => "fio",
            Self::Strace => "strace",
            Self::Blkparse => "blkparse",
            Self::JuiceFs => "juicefs",
            Self::OracleGeneral => "oracle-general",
        }
    }
}

/// The meaning of an object of oracleGeneral.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objects {
    /// A file of its own that is read whole.
    #[default]
    Files,
    /// A byte of one address space; the size is the length of the read from there.
    Bytes,
    /// The same, a sector of 512 bytes.
    Sectors,
    /// The same, a page of 4096 bytes.
    Pages,
}

/// How to read.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOptions {
    /// The format; when `None`, it is detected from the content.
    pub format: Option<Format>,
    /// The meaning of objects of oracleGeneral.
    pub objects: Objects,
}

/// A trace that is being read: its header, then its events.
pub trait Events {
    /// The header of the trace.
    fn header(&self) -> &Header;

    /// The next event, or `None` at the end.
    ///
    /// # Errors
    /// [`ReadError`] when reading has to stop.
    fn next_event(&mut self) -> Result<Option<Event>, ReadError>;

    /// Findings so far; complete when [`Events::next_event`] has given `None`.
    fn findings(&self) -> &Findings;
}

impl<R: Read> Events for frt::Reader<R> {
    fn header(&self) -> &Header {
        self.header()
    }

    fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        self.next_event()
    }

    fn findings(&self) -> &Findings {
        self.findings()
    }
}

/// Reads a trace of any known format.
///
/// # Errors
/// [`ReadError::UnknownFormat`] when the content is of none; else as the format's header has it.
pub fn open<'a>(
    input: impl Read + 'a,
    options: ReadOptions,
) -> Result<Box<dyn Events + 'a>, ReadError> {
    let input = detect::unpacked(Box::new(input))?;
    let format = match options.format {
        Some(format) => format,
        None => detect::format(input.peeked()).ok_or(ReadError::UnknownFormat)?,
    };
    Ok(match format {
        Format::Frt => Box::new(frt::Reader::new(input)?),
        Format::Fio => of_lines(input, fio::Fio::new)?,
        Format::Strace => of_lines(input, strace::Strace::new)?,
        Format::Blkparse => of_lines(input, blkparse::Blkparse::new)?,
        Format::JuiceFs => of_lines(input, juicefs::JuiceFs::new)?,
        Format::OracleGeneral => Box::new(oracle::OracleGeneral::new(input, options.objects)),
    })
}

fn of_lines<'a, L: lines::LineReader + 'a>(
    input: Peeked<'a>,
    reader: impl FnOnce(&[u8]) -> Result<(Header, L), ReadError>,
) -> Result<Box<dyn Events + 'a>, ReadError> {
    let (header, reader) = reader(input.peeked())?;
    Ok(Box::new(LineEvents::new(input, header, reader)))
}
