// SPDX-License-Identifier: MIT OR Apache-2.0
//! libCacheSim's oracleGeneral: little-endian records of 24 bytes. The fields are the time in
//! seconds (u32), the object (u64), its size in bytes (u32), and the number of its next access
//! (i64), which no trace needs.

use std::collections::HashMap;
use std::io::{BufReader, Read};

use super::emit::Emit;
use super::{Events, Objects};
use crate::error::ReadError;
use crate::findings::{Findings, Place};
use crate::input::fill;
use crate::types::{
    Access, Event, File, FileId, Flags, Header, Kind, Source, Thread, ThreadId, TimeIs,
};

const RECORD_BYTES: usize = 24;
/// Larger objects than this are not in any data set; a text would have them.
const OBJECT_BYTES_MAX: u32 = 1 << 30;
/// Bytes requested from the input at once.
const BUFFER_BYTES: usize = 1 << 17;

struct Record {
    time_s: u32,
    object: u64,
    size_bytes: u32,
    next: i64,
}

impl Record {
    fn new(bytes: &[u8; RECORD_BYTES]) -> Self {
        let u32_at = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        Self {
            time_s: u32_at(0),
            object: u64_at(4),
            size_bytes: u32_at(12),
            next: u64_at(16) as i64,
        }
    }
}

/// Whether this may be the start of one. The format has no signature. But times don't go back,
/// sizes are limited, and the next access of an object is later than this one, or never.
pub(super) fn is_one(peeked: &[u8]) -> bool {
    let (records, _) = peeked.as_chunks::<RECORD_BYTES>();
    let mut last_s = 0;
    for (number, bytes) in (0_i64..).zip(records) {
        let record = Record::new(bytes);
        let is_later = record.next == -1 || record.next > number;
        if record.time_s < last_s || record.size_bytes > OBJECT_BYTES_MAX || !is_later {
            return false;
        }
        last_s = record.time_s;
    }
    !records.is_empty()
}

/// Reads one.
pub(super) struct OracleGeneral<R: Read> {
    input: BufReader<R>,
    header: Header,
    objects: Objects,
    files: HashMap<u64, FileId>,
    emit: Emit,
    at: u64,
    first_s: Option<u32>,
    ended: bool,
}

impl<R: Read> OracleGeneral<R> {
    pub fn new(input: R, objects: Objects) -> Self {
        let header = Header::new(Source::OracleGeneral, TimeIs::Began);
        Self {
            input: BufReader::with_capacity(BUFFER_BYTES, input),
            emit: Emit::new(header.page_bytes),
            header,
            objects,
            files: HashMap::new(),
            at: 0,
            first_s: None,
            ended: false,
        }
    }

    fn next_record(&mut self) -> Result<bool, ReadError> {
        let mut bytes = [0; RECORD_BYTES];
        self.emit.place = Place::Byte(self.at);
        let got = fill(&mut self.input, &mut bytes)?;
        if got < RECORD_BYTES {
            if got > 0 {
                self.emit.findings.cut_off = Some(self.emit.place);
            }
            return Ok(false);
        }
        self.at += RECORD_BYTES as u64;
        let record = Record::new(&bytes);
        let Some((thread, file)) = self.place(record.object) else {
            self.emit.findings.over_limit();
            return Ok(true);
        };
        let first_s = *self.first_s.get_or_insert(record.time_s);
        let unit_bytes = match self.objects {
            Objects::Files => 0,
            Objects::Bytes => 1,
            Objects::Sectors => 512,
            Objects::Pages => 4096,
        };
        let offset_bytes = record.object.checked_mul(unit_bytes);
        let access = Access {
            time_ns: u64::from(record.time_s.saturating_sub(first_s)) * 1_000_000_000,
            thread,
            file,
            stream: 0,
            // Offsets beyond any file are refused later.
            offset_bytes: offset_bytes.unwrap_or(u64::MAX),
            length_bytes: u64::from(record.size_bytes),
            kind: Kind::Read,
            flags: Flags::default(),
            waited_ns: None,
            duration_ns: None,
        };
        if let Err(why) = self.emit.access(access) {
            self.emit.findings.bad_record(self.emit.place, why);
        }
        Ok(true)
    }

    fn place(&mut self, object: u64) -> Option<(ThreadId, FileId)> {
        let emit = &mut self.emit;
        let thread = emit.thread(0, Thread::default)?;
        if self.objects != Objects::Files {
            let path = b"objects";
            let file = || File {
                path: path.to_vec(),
                ..File::default()
            };
            return Some((thread, emit.file(path, file)?));
        }
        if let Some(file) = self.files.get(&object) {
            return Some((thread, *file));
        }
        let path = format!("object-{object}").into_bytes();
        let file = emit.new_file(path.len(), || File {
            path,
            ..File::default()
        })?;
        self.files.insert(object, file);
        Some((thread, file))
    }
}

impl<R: Read> Events for OracleGeneral<R> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        loop {
            if let Some(event) = self.emit.events.pop_front() {
                return Ok(Some(event));
            }
            if self.ended || !self.next_record()? {
                self.ended = true;
                return Ok(None);
            }
        }
    }

    fn findings(&self) -> &Findings {
        &self.emit.findings
    }
}
