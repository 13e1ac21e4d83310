// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading the own format: as a stream, or by the index where the input can seek.

use std::io::{self, Read, Seek, SeekFrom};

use foreread_core::bytes::{Cursor, Fault};
use zstd::bulk::Decompressor;

use super::defined::Defined;
use super::format::{
    BLOCK_HEADER_BYTES, BlockHeader, BlockKind, Method, TRAILER_BYTES, TRAILER_MAGIC, u32_at,
    u64_at,
};
use super::head;
use super::index::{Index, Span};
use super::record::{Before, Record, take_definition};
use crate::checks::Checks;
use crate::error::ReadError;
use crate::findings::{Findings, Place};
use crate::input::fill;
use crate::types::{Event, Header};

/// Reads a trace in the order in which it was written.
///
/// Damaged parts are left out and counted; a truncated trace ends where it was cut. A reader takes
/// memory for one block and a bit for each file and thread.
pub struct Reader<R: Read> {
    input: R,
    /// Where the input can seek.
    seek: Option<fn(&mut R, SeekFrom) -> io::Result<u64>>,
    /// Offset in the file of the next byte of `input`.
    at: u64,
    header: Header,
    /// Earliest and latest time that is wanted.
    wanted_ns: (u64, u64),
    /// With an index, the spans that are left, and the blocks left of the present one.
    plan: Option<(std::vec::IntoIter<Span>, u32)>,
    defined: Defined,
    decompressor: Decompressor<'static>,
    stored: Vec<u8>,
    block: Block,
    findings: Findings,
    checks: Checks,
    ended: bool,
}

/// The block that is being read.
struct Block {
    kind: BlockKind,
    at: u64,
    plain: Vec<u8>,
    used: usize,
    records_left: u32,
    times_ns: (u64, u64),
    before: Before,
}

impl<R: Read> Reader<R> {
    /// Reads the header of a trace.
    ///
    /// # Errors
    /// [`ReadError`] when the input has no header of a trace.
    pub fn new(mut input: R) -> Result<Self, ReadError> {
        let (header, at) = head::read(&mut input)?;
        let checks = Checks::of(header.source, header.page_bytes);
        Ok(Self {
            input,
            seek: None,
            at,
            header,
            wanted_ns: (0, u64::MAX),
            plan: None,
            defined: Defined::default(),
            decompressor: Decompressor::new()?,
            stored: Vec::new(),
            block: Block {
                kind: BlockKind::Accesses,
                at,
                plain: Vec::new(),
                used: 0,
                records_left: 0,
                times_ns: (0, 0),
                before: Before::new(),
            },
            findings: Findings::default(),
            checks,
            ended: false,
        })
    }

    /// The header of the trace.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Findings so far.
    #[must_use]
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Only accesses and ends of threads with these times, both included, and all definitions
    /// before them. Blocks of other times are not unpacked.
    #[must_use]
    pub fn within(mut self, from_ns: u64, to_ns: u64) -> Self {
        self.wanted_ns = (from_ns, to_ns);
        self
    }

    /// The next event, or `None` at the end.
    ///
    /// # Errors
    /// [`ReadError::Io`] when the input fails, [`ReadError::TooMany`] when the trace defines more
    /// than any may.
    pub fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        loop {
            if self.block.used < self.block.plain.len() {
                if let Some(event) = self.next_record()? {
                    return Ok(Some(event));
                }
            } else if self.ended || !self.next_block()? {
                self.ended = true;
                return Ok(None);
            }
        }
    }

    /// A record of the block; `None` when it gives no event.
    fn next_record(&mut self) -> Result<Option<Event>, ReadError> {
        let block = &mut self.block;
        let rest = &block.plain[block.used..];
        let mut cursor = Cursor::new(rest);
        let taken = match block.kind {
            BlockKind::Definitions => take_definition(&mut cursor).map(Taken::Event),
            _ => block.before.take(&mut cursor).map(Taken::from),
        };
        block.used += rest.len() - cursor.len();
        let counted = block.records_left.checked_sub(1);
        let taken = taken.and_then(|taken| {
            block.records_left = counted.ok_or(COUNTS_WRONG)?;
            if block.used == block.plain.len() && block.records_left > 0 {
                return Err(COUNTS_WRONG);
            }
            Ok(taken)
        });
        match taken.and_then(|taken| check_times(taken, block)) {
            Ok(Taken::Event(event)) => self.checked(event),
            Ok(Taken::LeftOut(what, count)) => {
                self.findings.left_out.add(what, count);
                Ok(None)
            }
            Err(why) => {
                self.drop_block(why);
                Ok(None)
            }
        }
    }

    /// The rest of the block can't be understood.
    fn drop_block(&mut self, why: Fault) {
        self.block.used = self.block.plain.len();
        let place = Place::Byte(self.block.at);
        self.findings.bad_record(place, why);
    }

    /// The event, when it is wanted and its file and thread are defined.
    fn checked(&mut self, event: Event) -> Result<Option<Event>, ReadError> {
        let (from_ns, to_ns) = self.wanted_ns;
        let wanted = |time_ns: u64| (from_ns..=to_ns).contains(&time_ns);
        let at = self.block.at;
        let too_many = |what| ReadError::TooMany { at, what };
        let defined = &mut self.defined;
        let is_known = match &event {
            Event::Access(access) if !wanted(access.time_ns) => return Ok(None),
            Event::ThreadEnd { time_ns, .. } if !wanted(*time_ns) => return Ok(None),
            Event::Access(access) => {
                defined.has_file(access.file) && defined.has_thread(access.thread)
            }
            Event::ThreadEnd { thread, .. } => defined.has_thread(*thread),
            Event::File(id, _) if defined.has_file(*id) => {
                self.drop_block("defines a file twice");
                return Ok(None);
            }
            Event::Thread(id, _) if defined.has_thread(*id) => {
                self.drop_block("defines a thread twice");
                return Ok(None);
            }
            Event::File(id, file) => {
                let added = defined.add_file(*id, file.path.len());
                added.map_err(too_many)?;
                self.checks.file(*id, file);
                true
            }
            Event::Thread(id, thread) => {
                let added = defined.add_thread(*id, thread.name.len());
                added.map_err(too_many)?;
                true
            }
            Event::Extents(id, extents) => {
                let added = defined.add_extents(extents.len());
                added.map_err(too_many)?;
                defined.has_file(*id)
            }
        };
        if !is_known {
            self.findings.undefined.add(Place::Byte(at));
            return Ok(None);
        }
        if let Event::Access(access) = &event {
            let place = Place::Byte(at);
            self.checks.access(access, place, &mut self.findings);
        }
        Ok(Some(event))
    }

    /// Reads the next block that is wanted; `false` when there is none.
    fn next_block(&mut self) -> Result<bool, ReadError> {
        loop {
            if !self.follow_plan()? {
                return Ok(false);
            }
            let at = self.at;
            let mut bytes = [0; BLOCK_HEADER_BYTES];
            let got = self.take(&mut bytes)?;
            if got < bytes.len() {
                self.findings.cut_off = Some(Place::Byte(at + got as u64));
                return Ok(false);
            }
            let Some(header) = BlockHeader::from_bytes(&bytes) else {
                // Its length is not known, so nothing after it can be found.
                let why = "is no block; the rest of the trace is lost";
                self.findings.bad_record(Place::Byte(at), why);
                return Ok(false);
            };
            if header.kind == BlockKind::Index {
                self.end(&header)?;
                return Ok(false);
            }
            if !self.wants(&header) {
                self.skip(header.stored_bytes as u64)?;
                continue;
            }
            if !self.take_stored(header.stored_bytes)? {
                self.findings.cut_off = Some(Place::Byte(self.at));
                return Ok(false);
            }
            if self.unpack(at, &header) {
                return Ok(true);
            }
            self.drop_block("is damaged (its checksum is wrong)");
        }
    }

    fn wants(&self, header: &BlockHeader) -> bool {
        let (from_ns, to_ns) = self.wanted_ns;
        let overlaps = header.first_ns <= to_ns && header.last_ns >= from_ns;
        header.kind == BlockKind::Definitions || overlaps
    }

    /// Makes `stored` the block that is being read.
    fn unpack(&mut self, at: u64, header: &BlockHeader) -> bool {
        self.block.at = at;
        if crc32fast::hash(&self.stored) != header.stored_crc {
            return false;
        }
        let plain = &mut self.block.plain;
        plain.clear();
        match header.method {
            Method::Plain => plain.extend_from_slice(&self.stored),
            Method::Zstd => {
                plain.resize(header.plain_bytes, 0);
                let unpacked = self
                    .decompressor
                    .decompress_to_buffer(&self.stored, &mut plain[..]);
                if unpacked.ok() != Some(header.plain_bytes) {
                    plain.clear();
                    return false;
                }
            }
        }
        self.block.kind = header.kind;
        self.block.used = 0;
        self.block.records_left = header.records;
        self.block.times_ns = (header.first_ns, header.last_ns);
        self.block.before = Before::new();
        true
    }

    /// Goes through the index and the trailer, which a whole trace ends with.
    fn end(&mut self, index: &BlockHeader) -> Result<(), ReadError> {
        let at = self.at;
        let is_there = self.take_stored(index.stored_bytes)?;
        let mut trailer = [0; TRAILER_BYTES];
        let got = self.take(&mut trailer)?;
        if !is_there || got < trailer.len() {
            self.findings.cut_off = Some(Place::Byte(self.at));
        } else if crc32fast::hash(&self.stored) != index.stored_crc || index_at(&trailer).is_none()
        {
            let why = "is a damaged index; nothing else is missing";
            self.findings.bad_record(Place::Byte(at), why);
        }
        Ok(())
    }

    /// Fills `stored` with `bytes` bytes; `false` if the input has fewer.
    fn take_stored(&mut self, bytes: usize) -> io::Result<bool> {
        self.stored.resize(bytes, 0);
        let got = fill(&mut self.input, &mut self.stored)?;
        self.at += got as u64;
        Ok(got == bytes)
    }

    /// Goes to where the plan has the next block; `false` when there is none.
    fn follow_plan(&mut self) -> Result<bool, ReadError> {
        let (Some((spans, blocks_left)), Some(seek)) = (&mut self.plan, self.seek) else {
            return Ok(true);
        };
        if *blocks_left == 0 {
            let (from_ns, to_ns) = self.wanted_ns;
            // Never back: an index that says so would have the same blocks read again and again.
            let at = self.at;
            let wanted = |span: &Span| {
                span.at >= at && (span.definition_blocks > 0 || span.overlaps(from_ns, to_ns))
            };
            let Some(span) = spans.find(wanted) else {
                return Ok(false);
            };
            *blocks_left = span.blocks;
            if span.at != self.at {
                seek(&mut self.input, SeekFrom::Start(span.at))?;
                self.at = span.at;
            }
        }
        *blocks_left = blocks_left.saturating_sub(1);
        Ok(true)
    }

    fn take(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let got = fill(&mut self.input, bytes)?;
        self.at += got as u64;
        Ok(got)
    }

    fn skip(&mut self, bytes: u64) -> io::Result<u64> {
        let skipped = match (self.seek, i64::try_from(bytes)) {
            (Some(seek), Ok(further)) => {
                seek(&mut self.input, SeekFrom::Current(further))?;
                bytes
            }
            _ => io::copy(&mut self.input.by_ref().take(bytes), &mut io::sink())?,
        };
        self.at += skipped;
        Ok(skipped)
    }
}

impl<R: Read + Seek> Reader<R> {
    /// As [`Reader::new`] and [`Reader::within`]; with an index, only blocks of definitions and of
    /// these times are read at all.
    ///
    /// # Errors
    /// As [`Reader::new`].
    pub fn seeking(input: R, from_ns: u64, to_ns: u64) -> Result<Self, ReadError> {
        let mut reader = Self::new(input)?.within(from_ns, to_ns);
        reader.seek = Some(R::seek);
        let index = reader.read_index()?;
        let at = reader.at;
        reader.input.seek(SeekFrom::Start(at))?;
        reader.plan = index.map(|index| (index.spans.into_iter(), 0));
        Ok(reader)
    }

    /// The index of a trace that has one.
    ///
    /// # Errors
    /// As [`Reader::new`].
    pub fn index(input: R) -> Result<Option<Index>, ReadError> {
        let mut reader = Self::new(input)?;
        Ok(reader.read_index()?)
    }

    fn read_index(&mut self) -> io::Result<Option<Index>> {
        let length = self.input.seek(SeekFrom::End(0))?;
        let Some(trailer_at) = length.checked_sub(TRAILER_BYTES as u64) else {
            return Ok(None);
        };
        let mut trailer = [0; TRAILER_BYTES];
        self.input.seek(SeekFrom::Start(trailer_at))?;
        fill(&mut self.input, &mut trailer)?;
        let Some(at) = index_at(&trailer).filter(|at| (self.at..trailer_at).contains(at)) else {
            return Ok(None);
        };
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        self.input.seek(SeekFrom::Start(at))?;
        fill(&mut self.input, &mut bytes)?;
        let header = BlockHeader::from_bytes(&bytes);
        let Some(header) = header.filter(|header| header.kind == BlockKind::Index) else {
            return Ok(None);
        };
        self.stored.resize(header.stored_bytes, 0);
        let got = fill(&mut self.input, &mut self.stored)?;
        if got < header.stored_bytes || !self.unpack(at, &header) {
            return Ok(None);
        }
        let plain = std::mem::take(&mut self.block.plain);
        Ok(Index::decode(&plain, self.at, at).ok())
    }
}

const COUNTS_WRONG: Fault = "does not have as many records as it says";

/// The content of a record.
enum Taken {
    Event(Event),
    LeftOut(crate::types::LeftOut, u64),
}

impl From<Record> for Taken {
    fn from(record: Record) -> Self {
        match record {
            Record::Access(access) => Self::Event(Event::Access(access)),
            Record::ThreadEnd { time_ns, thread } => {
                Self::Event(Event::ThreadEnd { time_ns, thread })
            }
            Record::LeftOut(what, count) => Self::LeftOut(what, count),
        }
    }
}

/// Whether its time is one that the block says it has: else a cut would miss it.
fn check_times(taken: Taken, block: &Block) -> Result<Taken, Fault> {
    let time_ns = match &taken {
        Taken::Event(Event::Access(access)) => access.time_ns,
        Taken::Event(Event::ThreadEnd { time_ns, .. }) => *time_ns,
        _ => return Ok(taken),
    };
    if (block.times_ns.0..=block.times_ns.1).contains(&time_ns) {
        Ok(taken)
    } else {
        Err("holds a time that it says it has not")
    }
}

/// Where the index is, if this is a trailer.
fn index_at(trailer: &[u8; TRAILER_BYTES]) -> Option<u64> {
    let is_one = trailer.starts_with(&TRAILER_MAGIC)
        && crc32fast::hash(&trailer[..20]) == u32_at(trailer, 20);
    is_one.then(|| u64_at(trailer, 8))
}
