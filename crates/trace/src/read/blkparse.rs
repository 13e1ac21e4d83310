// SPDX-License-Identifier: MIT OR Apache-2.0
//! Default output of `blkparse`: device, CPU, number, seconds, process, action, kind, first sector
//! `+` sectors, name.
//!
//! A read that was queued (`Q`) becomes an access of a file that is the device. Its duration is the
//! time until a completed request (`C`) covers it. A merged bio completes with the request that it
//! was merged into.

use std::collections::{BTreeMap, HashMap, VecDeque};

use foreread_blocktrace::{Device, Line, LineError, Lines, SECTOR_BYTES};

use super::emit::Emit;
use super::lines::LineReader;
use crate::error::ReadError;
use crate::findings::Place;
use crate::types::{Access, File, FileId, Flags, Header, Kind, LeftOut, Source, Thread, TimeIs};

/// Reads that wait for their completion; more than any queue holds.
const PENDING_MAX: usize = 8192;

/// Whether this is one of its lines.
pub(super) fn is_line(line: &[u8]) -> bool {
    matches!(Line::new(line), Ok(Some(_)))
}

/// As in `stat`.
fn device_number(device: Device) -> u64 {
    let (major, minor) = (u64::from(device.major), u64::from(device.minor));
    (minor & 0xff) | (major & 0xfff) << 8 | (minor & !0xff) << 12 | (major & !0xfff) << 32
}

/// Reads one.
pub(super) struct Blkparse {
    lines: Lines,
    files: HashMap<Device, FileId>,
    /// Reads in the order in which they were queued.
    pending: VecDeque<Pending>,
    /// Number of the first of them.
    first: u64,
    /// Those that are not complete: by device, first sector and number, the sector after the last.
    waiting: BTreeMap<(FileId, u64, u64), u64>,
}

struct Pending {
    access: Access,
    place: Place,
    sector: u64,
    is_done: bool,
}

impl Blkparse {
    // It has the form that readers of lines have in common.
    #[allow(clippy::unnecessary_wraps)]
    pub fn new(_: &[u8]) -> Result<(Header, Self), ReadError> {
        let blkparse = Self {
            lines: Lines::default(),
            files: HashMap::new(),
            pending: VecDeque::new(),
            first: 0,
            waiting: BTreeMap::new(),
        };
        Ok((Header::new(Source::Blkparse, TimeIs::Began), blkparse))
    }

    fn queued(&mut self, line: &Line<'_>, emit: &mut Emit) -> Result<(), &'static str> {
        let (sector, sectors) = line.sectors().map_err(|error| why(&error))?;
        if sectors == 0 {
            return Err("has no sectors");
        }
        let thread = emit.thread(u64::from(line.pid), || Thread {
            pid: line.pid,
            tid: line.pid,
            parent: None,
            name: line.process().to_vec(),
        });
        let (Some(thread), Some(file)) = (thread, self.file(line.device, emit)) else {
            emit.findings.over_limit();
            return Ok(());
        };
        let mut flags = Flags::default();
        if line.rwbs.is_readahead() {
            flags = flags.union(Flags::AHEAD);
        }
        if line.rwbs.is_metadata() {
            flags = flags.union(Flags::METADATA);
        }
        let access = Access {
            time_ns: line.time_ns,
            thread,
            file,
            stream: 0,
            offset_bytes: sector.saturating_mul(SECTOR_BYTES),
            length_bytes: u64::from(sectors) * SECTOR_BYTES,
            kind: Kind::Read,
            flags,
            waited_ns: None,
            duration_ns: None,
        };
        let number = self.first + self.pending.len() as u64;
        let end = sector.saturating_add(u64::from(sectors));
        self.waiting.insert((file, sector, number), end);
        self.pending.push_back(Pending {
            access,
            place: emit.place,
            sector,
            is_done: false,
        });
        if self.pending.len() > PENDING_MAX {
            self.give_first(emit);
        }
        Ok(())
    }

    fn completed(&mut self, line: &Line<'_>, emit: &mut Emit) -> Result<(), &'static str> {
        let (sector, sectors) = line.sectors().map_err(|error| why(&error))?;
        let end = sector.saturating_add(u64::from(sectors));
        let Some(&file) = self.files.get(&line.device) else {
            return Ok(());
        };
        let covered = self.waiting.range((file, sector, 0)..(file, end, 0));
        let covered: Vec<_> = covered
            .filter(|(_, read_end)| **read_end <= end)
            .map(|(key, _)| *key)
            .collect();
        for key in covered {
            self.waiting.remove(&key);
            let at = usize::try_from(key.2 - self.first).unwrap_or(usize::MAX);
            if let Some(pending) = self.pending.get_mut(at) {
                let duration_ns = line.time_ns.saturating_sub(pending.access.time_ns);
                pending.access.duration_ns = Some(duration_ns);
                pending.is_done = true;
            }
        }
        while self.pending.front().is_some_and(|first| first.is_done) {
            self.give_first(emit);
        }
        Ok(())
    }

    fn file(&mut self, device: Device, emit: &mut Emit) -> Option<FileId> {
        if let Some(file) = self.files.get(&device) {
            return Some(*file);
        }
        let path = device.to_string().into_bytes();
        let file = emit.new_file(path.len(), || File {
            path,
            device: device_number(device),
            ..File::default()
        })?;
        self.files.insert(device, file);
        Some(file)
    }

    fn give_first(&mut self, emit: &mut Emit) {
        let Some(first) = self.pending.pop_front() else {
            return;
        };
        let key = (first.access.file, first.sector, self.first);
        self.waiting.remove(&key);
        self.first += 1;
        let now = std::mem::replace(&mut emit.place, first.place);
        if let Err(why) = emit.access(first.access) {
            emit.findings.bad_record(first.place, why);
        }
        emit.place = now;
    }
}

impl LineReader for Blkparse {
    fn line(&mut self, line: &[u8], emit: &mut Emit) -> Result<(), &'static str> {
        let Some(line) = self.lines.line(line).map_err(|error| why(&error))? else {
            return Ok(());
        };
        match line.action.as_bytes() {
            b"Q" if line.rwbs.is_read() => self.queued(&line, emit),
            b"Q" => {
                emit.left_out(LeftOut::Writes);
                Ok(())
            }
            b"C" => self.completed(&line, emit),
            _ => Ok(()),
        }
    }

    fn end(&mut self, emit: &mut Emit) {
        while !self.pending.is_empty() {
            self.give_first(emit);
        }
    }
}

/// The error in a line, as a clause.
fn why(error: &LineError) -> &'static str {
    match error {
        LineError::Form(_) => "is no event with device, CPU, number, time, process and action",
        LineError::Part { .. } => "lacks a part of its event, or has one that is wrong",
        LineError::TooLong(_) => "is too long",
    }
}
