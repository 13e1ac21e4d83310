// SPDX-License-Identifier: MIT OR Apache-2.0
//! The effect of each call on descriptors, positions and the trace.

use super::super::emit::Emit;
use super::super::find::contains;
use super::super::number::c_number;
use super::call::{Call, reads};
use super::descriptors::{Open, OpenFile};
use super::tasks::{At, Tasks};
use crate::types::{Access, Flags, Kind, LeftOut};

/// Whether a call has anything to do with files that are read.
pub(super) fn matters(name: &[u8]) -> bool {
    reads(name)
        || writes(name)
        || matches!(
            name,
            b"open"
                | b"openat"
                | b"openat2"
                | b"creat"
                | b"close"
                | b"close_range"
                | b"dup"
                | b"dup2"
                | b"dup3"
                | b"fcntl"
                | b"fcntl64"
                | b"lseek"
                | b"_llseek"
                | b"clone"
                | b"clone3"
                | b"fork"
                | b"vfork"
                | b"execve"
                | b"execveat"
                | b"unshare"
                | b"pipe"
                | b"pipe2"
                | b"socket"
                | b"socketpair"
                | b"accept"
                | b"accept4"
                | b"eventfd2"
                | b"epoll_create1"
                | b"memfd_create"
                | b"timerfd_create"
                | b"signalfd4"
                | b"inotify_init1"
                | b"pidfd_open"
        )
}

fn writes(name: &[u8]) -> bool {
    matches!(
        name,
        b"write"
            | b"writev"
            | b"pwrite64"
            | b"pwritev"
            | b"pwritev2"
            | b"fsync"
            | b"fdatasync"
            | b"sync_file_range"
            | b"fallocate"
            | b"ftruncate"
    )
}

/// The kind and the range of an access.
pub(super) struct Of {
    pub kind: Kind,
    /// `None` is the position of the descriptor, which goes on.
    pub offset_bytes: Option<u64>,
    pub length_bytes: u64,
}

impl Tasks {
    /// A call that did not fail, and neither starts a thread nor a program.
    pub(super) fn call(
        &mut self,
        at: At,
        name: &[u8],
        call: &Call<'_>,
        emit: &mut Emit,
    ) -> Result<(), &'static str> {
        match name {
            b"open" | b"openat" | b"openat2" | b"creat" => self.open_file(at, name, call, emit),
            b"close" | b"close_range" => self.close_files(at, name, call, emit),
            b"dup" | b"dup2" | b"dup3" => {
                let closes_on_exec = call.argument(2) == b"O_CLOEXEC";
                self.duplicate(at, call, closes_on_exec, emit)
            }
            b"fcntl" | b"fcntl64" => self.control(at, call, emit),
            b"lseek" | b"_llseek" => self.seek(at, name, call),
            b"mmap" | b"mmap2" => self.map(at, call, emit),
            b"fadvise64" | b"fadvise64_64" => self.advise(at, call, emit),
            name if reads(name) => self.read(at, name, call, emit),
            name if writes(name) => self.write(at, name, call, emit),
            _ => self.open_other(at, name, call, emit),
        }
    }

    fn read(
        &mut self,
        at: At,
        name: &[u8],
        call: &Call<'_>,
        emit: &mut Emit,
    ) -> Result<(), &'static str> {
        // Which argument is the descriptor, and which the offset, if any.
        let (fd_at, offset) = match name {
            b"pread64" | b"preadv" | b"readahead" => (0, Some(call.argument(at_of_offset(name)))),
            // An offset of -1 is the position.
            b"preadv2" => (0, Some(call.argument(3)).filter(|offset| *offset != b"-1")),
            b"sendfile" | b"sendfile64" => (1, pointed(call.argument(2))),
            b"copy_file_range" | b"splice" => (0, pointed(call.argument(1))),
            _ => (0, None),
        };
        let (fd, annotated) = call.descriptor(fd_at).ok_or("reads from no descriptor")?;
        let offset_bytes = match offset {
            Some(text) => Some(c_number(text).ok_or("has an offset that is no number")?),
            None => None,
        };
        let (kind, length_bytes) = match name {
            b"readahead" => (Kind::Readahead, call.number(2).unwrap_or(0)),
            _ => (Kind::Read, call.returned().unwrap_or(0)),
        };
        if length_bytes == 0 {
            emit.left_out(LeftOut::Empty);
            return Ok(());
        }
        let Some(file) = self.file(at, fd, annotated, emit) else {
            return Ok(());
        };
        let of = Of {
            kind,
            offset_bytes,
            length_bytes,
        };
        self.give(at, file, &of, emit)?;
        if offset_bytes.is_none() {
            self.advance(at, fd, length_bytes);
        }
        Ok(())
    }

    fn write(
        &mut self,
        at: At,
        name: &[u8],
        call: &Call<'_>,
        emit: &mut Emit,
    ) -> Result<(), &'static str> {
        emit.left_out(LeftOut::Writes);
        if let (b"write" | b"writev", Some((fd, _)), Some(bytes)) =
            (name, call.descriptor(0), call.returned())
        {
            self.advance(at, fd, bytes);
        }
        Ok(())
    }

    fn map(&mut self, at: At, call: &Call<'_>, emit: &mut Emit) -> Result<(), &'static str> {
        let Some((fd, annotated)) = call.descriptor(4).filter(|(fd, _)| *fd >= 0) else {
            return Ok(());
        };
        let Some(length_bytes) = c_number(call.argument(1)) else {
            return Err("maps no length");
        };
        let offset_bytes = c_number(call.argument(5)).ok_or("maps from no offset")?;
        let Some(file) = self.file(at, fd, annotated, emit) else {
            return Ok(());
        };
        let populates = contains(call.argument(3), b"MAP_POPULATE");
        let kinds = [Some(Kind::Map), populates.then_some(Kind::Readahead)];
        for kind in kinds.into_iter().flatten() {
            let of = Of {
                kind,
                offset_bytes: Some(offset_bytes),
                length_bytes,
            };
            self.give(at, file, &of, emit)?;
        }
        Ok(())
    }

    fn advise(&mut self, at: At, call: &Call<'_>, emit: &mut Emit) -> Result<(), &'static str> {
        let (fd, annotated) = call.descriptor(0).ok_or("advises of no descriptor")?;
        let offset_bytes = call.number(1).ok_or("advises of no offset")?;
        let length_bytes = call.number(2).ok_or("advises of no length")?;
        let kind = match call.argument(3) {
            b"POSIX_FADV_NORMAL" => Kind::AdviseNormal,
            b"POSIX_FADV_SEQUENTIAL" => Kind::AdviseSequential,
            b"POSIX_FADV_RANDOM" => Kind::AdviseRandom,
            b"POSIX_FADV_WILLNEED" => Kind::Readahead,
            b"POSIX_FADV_DONTNEED" => Kind::AdviseDontNeed,
            _ => {
                emit.left_out(LeftOut::Others);
                return Ok(());
            }
        };
        let Some(mut file) = self.file(at, fd, annotated, emit) else {
            return Ok(());
        };
        let pattern = match kind {
            Kind::AdviseNormal => Some(Flags::default()),
            Kind::AdviseSequential => Some(Flags::SEQUENTIAL),
            Kind::AdviseRandom => Some(Flags::RANDOM),
            _ => None,
        };
        if let (Some(pattern), Some(Open::File(open))) =
            (pattern, self.descriptors.get(at.table, fd))
        {
            open.flags = Flags(open.flags.0 & Flags::DIRECT.0).union(pattern);
            file.flags = open.flags;
        }
        let of = Of {
            kind,
            offset_bytes: Some(offset_bytes),
            length_bytes,
        };
        self.give(at, file, &of, emit)
    }

    /// The file of a descriptor; `None`, and counted, when it is none or not known.
    fn file(
        &mut self,
        at: At,
        fd: i32,
        annotated: Option<&[u8]>,
        emit: &mut Emit,
    ) -> Option<OpenFile> {
        self.opened(at, fd, annotated, emit);
        match self.descriptors.get(at.table, fd) {
            Some(Open::File(file)) => Some(*file),
            Some(Open::NotFile) => {
                emit.left_out(LeftOut::NotFiles);
                None
            }
            None => {
                emit.left_out(LeftOut::UnknownFiles);
                None
            }
        }
    }

    fn advance(&mut self, at: At, fd: i32, bytes: u64) {
        if let Some(Open::File(file)) = self.descriptors.get(at.table, fd) {
            file.position_bytes = file.position_bytes.saturating_add(bytes);
        }
    }

    pub(super) fn give(
        &self,
        at: At,
        file: OpenFile,
        of: &Of,
        emit: &mut Emit,
    ) -> Result<(), &'static str> {
        let Some(thread) = self.thread(at.tid, emit) else {
            emit.findings.over_limit();
            return Ok(());
        };
        emit.access(Access {
            time_ns: at.time_ns,
            thread,
            file: file.file,
            stream: file.stream,
            offset_bytes: of.offset_bytes.unwrap_or(file.position_bytes),
            length_bytes: of.length_bytes,
            kind: of.kind,
            flags: file.flags,
            waited_ns: None,
            duration_ns: at.duration_ns,
        })
    }
}

fn at_of_offset(name: &[u8]) -> usize {
    if name == b"readahead" { 1 } else { 3 }
}

/// The offset that a pointer points to, `[4096]` or `[0] => [4096]`; `None` is no pointer.
pub(super) fn pointed(text: &[u8]) -> Option<&[u8]> {
    let inner = text.strip_prefix(b"[")?;
    let end = inner.iter().position(|byte| *byte == b']' || *byte == b' ');
    Some(&inner[..end.unwrap_or(inner.len())])
}
