// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records in blocks: definitions, and accesses as differences to the accesses before them in
//! the same block.

use foreread_core::bytes::{Cursor, Fault, TOO_BIG, put_difference, put_text, put_varint};

use super::format::RECORD_BYTES_MAX;
use crate::limits::{OFFSET_BYTES_MAX, PATH_BYTES_MAX};
use crate::types::{Access, Event, Extent, File, FileId, Flags, Kind, LeftOut, Thread, ThreadId};

/// First bytes of records in a block of definitions.
mod definition {
    pub const FILE: u8 = 1;
    pub const THREAD: u8 = 2;
    pub const EXTENTS: u8 = 3;
}

/// Which optional fields of a file are there.
mod file_has {
    pub const SIZE: u8 = 1;
    pub const METADATA: u8 = 1 << 1;
    pub const ALL: u8 = SIZE | METADATA;
}

/// First bytes of records in a block of accesses: a [`Kind`] with these bits, or one of the others.
mod tag {
    pub const KIND: u8 = 0x0f;
    pub const WAITED: u8 = 1 << 4;
    pub const DURATION: u8 = 1 << 5;
    pub const FLAGS: u8 = 1 << 6;
    pub const THREAD_END: u8 = 0x80;
    pub const LEFT_OUT: u8 = 0x81;
}

/// Extents in one record, such that it stays below [`RECORD_BYTES_MAX`] with all numbers at their
/// longest.
pub(super) const EXTENTS_IN_RECORD: usize = (RECORD_BYTES_MAX - 32) / 30;

pub(super) fn put_file(out: &mut Vec<u8>, id: FileId, file: &File) {
    let mut has = 0;
    if file.size_bytes.is_some() {
        has |= file_has::SIZE;
    }
    if file.metadata {
        has |= file_has::METADATA;
    }
    out.push(definition::FILE);
    put_varint(out, u64::from(id.0));
    out.push(has);
    put_varint(out, file.device);
    put_varint(out, file.inode);
    if let Some(size_bytes) = file.size_bytes {
        put_varint(out, size_bytes);
    }
    put_text(out, &file.path);
}

pub(super) fn put_thread(out: &mut Vec<u8>, id: ThreadId, thread: &Thread) {
    out.push(definition::THREAD);
    put_varint(out, u64::from(id.0));
    put_varint(out, u64::from(thread.pid));
    put_difference(out, u64::from(thread.tid), u64::from(thread.pid));
    put_varint(
        out,
        thread.parent.map_or(0, |parent| u64::from(parent.0) + 1),
    );
    put_text(out, &thread.name);
}

/// At most [`EXTENTS_IN_RECORD`] of them.
pub(super) fn put_extents(out: &mut Vec<u8>, id: FileId, extents: &[Extent]) {
    out.push(definition::EXTENTS);
    put_varint(out, u64::from(id.0));
    put_varint(out, extents.len() as u64);
    let (mut logical, mut physical) = (0, 0);
    for extent in extents {
        put_difference(out, extent.logical_bytes, logical);
        put_difference(out, extent.physical_bytes, physical);
        put_varint(out, extent.length_bytes);
        logical = extent.logical_bytes.wrapping_add(extent.length_bytes);
        physical = extent.physical_bytes.wrapping_add(extent.length_bytes);
    }
}

/// A definition.
pub(super) fn take_definition(cursor: &mut Cursor<'_>) -> Result<Event, Fault> {
    match cursor.byte()? {
        definition::FILE => {
            let id = FileId(cursor.number()?);
            let has = cursor.byte()?;
            if has & !file_has::ALL != 0 {
                return Err("has a field that is not known");
            }
            let device = cursor.varint()?;
            let inode = cursor.varint()?;
            let size_bytes = match has & file_has::SIZE {
                0 => None,
                _ => Some(cursor.varint()?),
            };
            let path = cursor.text(PATH_BYTES_MAX)?.to_vec();
            let metadata = has & file_has::METADATA != 0;
            let file = File {
                path,
                size_bytes,
                device,
                inode,
                metadata,
            };
            Ok(Event::File(id, Box::new(file)))
        }
        definition::THREAD => {
            let id = ThreadId(cursor.number()?);
            let pid: u32 = cursor.number()?;
            let tid = cursor.difference(u64::from(pid))?;
            let tid = u32::try_from(tid).map_err(|_| TOO_BIG)?;
            let parent: u64 = cursor.varint()?;
            let parent = match parent.checked_sub(1) {
                Some(parent) => Some(ThreadId(u32::try_from(parent).map_err(|_| TOO_BIG)?)),
                None => None,
            };
            let name = cursor.text(PATH_BYTES_MAX)?.to_vec();
            let thread = Thread {
                pid,
                tid,
                parent,
                name,
            };
            Ok(Event::Thread(id, Box::new(thread)))
        }
        definition::EXTENTS => take_extents(cursor),
        _ => Err("holds a kind of definition that is not known"),
    }
}

fn take_extents(cursor: &mut Cursor<'_>) -> Result<Event, Fault> {
    let id = FileId(cursor.number()?);
    let count: usize = cursor.number()?;
    if count > EXTENTS_IN_RECORD {
        return Err(TOO_BIG);
    }
    let mut extents = Vec::with_capacity(count);
    let (mut logical, mut physical) = (0, 0);
    for _ in 0..count {
        let logical_bytes = cursor.difference(logical)?;
        let physical_bytes = cursor.difference(physical)?;
        let length_bytes = cursor.varint()?;
        let extent = Extent {
            logical_bytes,
            physical_bytes,
            length_bytes,
        };
        check_extent(&extent)?;
        logical = logical_bytes.wrapping_add(length_bytes);
        physical = physical_bytes.wrapping_add(length_bytes);
        extents.push(extent);
    }
    Ok(Event::Extents(id, extents))
}

/// Whether an extent is one.
pub(super) fn check_extent(extent: &Extent) -> Result<(), Fault> {
    let ends = |start: u64| start.checked_add(extent.length_bytes);
    let fits = |start| ends(start).is_some_and(|end| end <= OFFSET_BYTES_MAX);
    if extent.length_bytes == 0 || !fits(extent.logical_bytes) || !fits(extent.physical_bytes) {
        return Err("holds an extent that no file has");
    }
    Ok(())
}

/// Whether the range of an access is one.
pub(super) fn check_access(access: &Access) -> Result<(), Fault> {
    match access.offset_bytes.checked_add(access.length_bytes) {
        Some(end) if end <= OFFSET_BYTES_MAX && access.offset_bytes < OFFSET_BYTES_MAX => Ok(()),
        _ => Err("holds an access beyond the end of any file"),
    }
}

/// A record of a block of accesses.
pub(super) enum Record {
    Access(Access),
    ThreadEnd { time_ns: u64, thread: ThreadId },
    LeftOut(LeftOut, u64),
}

/// Slots of the state that is remembered by file.
const SLOTS: usize = 256;

/// The values that a record is a difference to. They start afresh in each block.
#[derive(Clone, Debug)]
pub(super) struct Before {
    time_ns: u64,
    thread: u32,
    file: u32,
    /// By the low bits of the file: where a sequential access would go on.
    slots: [Slot; SLOTS],
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    end_bytes: u64,
    length_bytes: u64,
    stream: u32,
}

impl Before {
    /// At the start of a block.
    pub fn new() -> Self {
        Self {
            time_ns: 0,
            thread: 0,
            file: 0,
            slots: [Slot::default(); SLOTS],
        }
    }

    pub fn put_access(&mut self, out: &mut Vec<u8>, access: &Access) {
        let mut tag = access.kind as u8;
        if access.waited_ns.is_some() {
            tag |= tag::WAITED;
        }
        if access.duration_ns.is_some() {
            tag |= tag::DURATION;
        }
        if access.flags != Flags::default() {
            tag |= tag::FLAGS;
        }
        out.push(tag);
        put_difference(out, access.time_ns, self.time_ns);
        put_difference(out, u64::from(access.thread.0), u64::from(self.thread));
        put_difference(out, u64::from(access.file.0), u64::from(self.file));
        let slot = &mut self.slots[access.file.0 as usize % SLOTS];
        put_difference(out, u64::from(access.stream), u64::from(slot.stream));
        put_difference(out, access.offset_bytes, slot.end_bytes);
        put_difference(out, access.length_bytes, slot.length_bytes);
        if access.flags != Flags::default() {
            out.push(access.flags.0);
        }
        if let Some(waited_ns) = access.waited_ns {
            put_varint(out, waited_ns);
        }
        if let Some(duration_ns) = access.duration_ns {
            put_varint(out, duration_ns);
        }
        *slot = Slot {
            end_bytes: access.end_bytes(),
            length_bytes: access.length_bytes,
            stream: access.stream,
        };
        self.time_ns = access.time_ns;
        self.thread = access.thread.0;
        self.file = access.file.0;
    }

    pub fn put_thread_end(&mut self, out: &mut Vec<u8>, time_ns: u64, thread: ThreadId) {
        out.push(tag::THREAD_END);
        put_difference(out, time_ns, self.time_ns);
        put_difference(out, u64::from(thread.0), u64::from(self.thread));
        self.time_ns = time_ns;
        self.thread = thread.0;
    }

    pub fn put_left_out(out: &mut Vec<u8>, what: LeftOut, count: u64) {
        out.extend([tag::LEFT_OUT, what as u8]);
        put_varint(out, count);
    }

    /// A record of a block of accesses.
    #[inline]
    pub fn take(&mut self, cursor: &mut Cursor<'_>) -> Result<Record, Fault> {
        match cursor.byte()? {
            tag if tag < 0x80 => self.take_access(tag, cursor).map(Record::Access),
            tag::THREAD_END => {
                let time_ns = cursor.difference(self.time_ns)?;
                let thread = small(cursor.difference(u64::from(self.thread))?)?;
                (self.time_ns, self.thread) = (time_ns, thread);
                let thread = ThreadId(thread);
                Ok(Record::ThreadEnd { time_ns, thread })
            }
            tag::LEFT_OUT => {
                let what = LeftOut::ALL.get(usize::from(cursor.byte()?));
                let what = *what.ok_or("leaves out something that is not known")?;
                Ok(Record::LeftOut(what, cursor.varint()?))
            }
            _ => Err("holds a kind of record that is not known"),
        }
    }

    #[inline]
    fn take_access(&mut self, tag: u8, cursor: &mut Cursor<'_>) -> Result<Access, Fault> {
        let kind = Kind::ALL.get(usize::from(tag & tag::KIND));
        let kind = *kind.ok_or("holds a kind of access that is not known")?;
        let time_ns = cursor.difference(self.time_ns)?;
        let thread = small(cursor.difference(u64::from(self.thread))?)?;
        let file = small(cursor.difference(u64::from(self.file))?)?;
        let slot = &mut self.slots[file as usize % SLOTS];
        let stream = small(cursor.difference(u64::from(slot.stream))?)?;
        let offset_bytes = cursor.difference(slot.end_bytes)?;
        let length_bytes = cursor.difference(slot.length_bytes)?;
        let flags = match tag & tag::FLAGS {
            0 => Flags::default(),
            _ => Flags(cursor.byte()?),
        };
        if !Flags::ALL.contains(flags) {
            return Err("holds a flag that is not known");
        }
        let mut optional = |bit| match tag & bit {
            0 => Ok(None),
            _ => cursor.varint().map(Some),
        };
        let access = Access {
            time_ns,
            thread: ThreadId(thread),
            file: FileId(file),
            stream,
            offset_bytes,
            length_bytes,
            kind,
            flags,
            waited_ns: optional(tag::WAITED)?,
            duration_ns: optional(tag::DURATION)?,
        };
        check_access(&access)?;
        *slot = Slot {
            end_bytes: access.end_bytes(),
            length_bytes,
            stream,
        };
        (self.time_ns, self.thread, self.file) = (time_ns, thread, file);
        Ok(access)
    }
}

fn small(value: u64) -> Result<u32, Fault> {
    u32::try_from(value).map_err(|_| TOO_BIG)
}
