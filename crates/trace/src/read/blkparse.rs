// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `blkparse` prints by default: device, CPU, number, seconds, process, action, kind, first
//! sector `+` sectors, name.
//!
//! A read that was queued (`Q`) becomes an access of a file that is the device. How long it took is
//! the time until a completed request (`C`) covers it; what was merged completes with what it was
//! merged into.

use std::collections::{BTreeMap, VecDeque};

use super::emit::Emit;
use super::lines::LineReader;
use super::number::{decimal, seconds_ns};
use crate::error::ReadError;
use crate::findings::Place;
use crate::types::{
    Access, File, FileId, Flags, Header, Kind, LeftOut, Source, Thread, ThreadId, TimeIs,
};

const SECTOR_BYTES: u64 = 512;
/// Reads that wait for their completion; more than any queue holds.
const PENDING_MAX: usize = 8192;

/// The words that every event has.
struct Line<'a> {
    device: &'a [u8],
    time_ns: u64,
    pid: u32,
    action: &'a [u8],
    kind: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Line<'a> {
    fn new(line: &'a [u8]) -> Option<Self> {
        let mut rest = line;
        let device = word(&mut rest)?;
        major_minor(device)?;
        let _cpu = decimal(word(&mut rest)?)?;
        let _number = decimal(word(&mut rest)?)?;
        let time = word(&mut rest)?;
        Some(Self {
            device,
            time_ns: seconds_ns(time).filter(|_| time.contains(&b'.'))?,
            pid: u32::try_from(decimal(word(&mut rest)?)?).ok()?,
            action: word(&mut rest)?,
            kind: word(&mut rest).unwrap_or(b""),
            rest,
        })
    }

    /// First sector, and the one after the last.
    fn sectors(&self) -> Option<(u64, u64)> {
        let mut rest = self.rest;
        let first = decimal(word(&mut rest)?)?;
        word(&mut rest).filter(|plus| *plus == b"+")?;
        let count = decimal(word(&mut rest)?)?;
        Some((first, first.checked_add(count)?))
    }

    fn name(&self) -> &'a [u8] {
        let name = self.rest.strip_suffix(b"]").unwrap_or(b"");
        let open = name.iter().rposition(|byte| *byte == b'[');
        open.map_or(b"", |open| &name[open + 1..])
    }
}

fn word<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let text = rest.trim_ascii_start();
    let end = text.iter().position(|byte| *byte == b' ');
    let (word, after) = text.split_at(end.unwrap_or(text.len()));
    *rest = after;
    (!word.is_empty()).then_some(word)
}

fn major_minor(device: &[u8]) -> Option<(u64, u64)> {
    let comma = device.iter().position(|byte| *byte == b',')?;
    Some((decimal(&device[..comma])?, decimal(&device[comma + 1..])?))
}

/// As in `stat`.
fn device_number(device: &[u8]) -> u64 {
    let (major, minor) = major_minor(device).unwrap_or((0, 0));
    (minor & 0xff) | (major & 0xfff) << 8 | (minor & !0xff) << 12 | (major & !0xfff) << 32
}

/// Whether this is one of its lines.
pub(super) fn is_line(line: &[u8]) -> bool {
    Line::new(line).is_some()
}

/// Reads one.
pub(super) struct Blkparse {
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
            pending: VecDeque::new(),
            first: 0,
            waiting: BTreeMap::new(),
        };
        Ok((Header::new(Source::Blkparse, TimeIs::Began), blkparse))
    }

    fn queued(&mut self, line: &Line<'_>, emit: &mut Emit) -> Result<(), &'static str> {
        if !line.kind.contains(&b'R') {
            emit.left_out(LeftOut::Writes);
            return Ok(());
        }
        let (sector, end) = line.sectors().ok_or("has no sectors")?;
        let Some((thread, file)) = place(line, emit) else {
            emit.findings.over_limit();
            return Ok(());
        };
        let mut flags = Flags::default();
        if line.kind.contains(&b'A') {
            flags = flags.union(Flags::AHEAD);
        }
        if line.kind.contains(&b'M') {
            flags = flags.union(Flags::METADATA);
        }
        let access = Access {
            time_ns: line.time_ns,
            thread,
            file,
            stream: 0,
            offset_bytes: sector.saturating_mul(SECTOR_BYTES),
            length_bytes: (end - sector).saturating_mul(SECTOR_BYTES),
            kind: Kind::Read,
            flags,
            waited_ns: None,
            duration_ns: None,
        };
        let number = self.first + self.pending.len() as u64;
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

    fn completed(&mut self, line: &Line<'_>, emit: &mut Emit) {
        let (Some((sector, end)), Some((_, file))) = (line.sectors(), place(line, emit)) else {
            return;
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

fn place(line: &Line<'_>, emit: &mut Emit) -> Option<(ThreadId, FileId)> {
    // Completions are seen in whatever process was interrupted by them.
    let thread = match line.action {
        b"C" => ThreadId(0),
        _ => emit.thread(u64::from(line.pid), || Thread {
            pid: line.pid,
            tid: line.pid,
            parent: None,
            name: line.name().to_vec(),
        })?,
    };
    let file = emit.file(line.device, || File {
        path: line.device.to_vec(),
        device: device_number(line.device),
        ..File::default()
    })?;
    Some((thread, file))
}

impl LineReader for Blkparse {
    fn line(&mut self, line: &[u8], emit: &mut Emit) -> Result<(), &'static str> {
        let Some(event) = Line::new(line) else {
            // The totals at its end have names and colons.
            let is_total = line.is_empty() || line.contains(&b':');
            return match is_total {
                true => Ok(()),
                false => Err("is no event with device, CPU, number, time, process and action"),
            };
        };
        match event.action {
            b"Q" => self.queued(&event, emit),
            b"C" => {
                self.completed(&event, emit);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn end(&mut self, emit: &mut Emit) {
        while !self.pending.is_empty() {
            self.give_first(emit);
        }
    }
}
