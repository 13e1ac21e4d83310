// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each call means for descriptors, positions and the trace.

use super::super::emit::Emit;
use super::super::number::{c_number, signed};
use super::call::{Call, descriptor, unescaped};
use super::descriptors::{Open, OpenFile};
use super::tasks::{At, Tasks};
use crate::types::{Access, File, FileId, Flags, Kind, LeftOut};

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

/// Whether it gives an access when it succeeds.
pub(super) fn reads(name: &[u8]) -> bool {
    matches!(
        name,
        b"read"
            | b"pread64"
            | b"readv"
            | b"preadv"
            | b"preadv2"
            | b"mmap"
            | b"mmap2"
            | b"fadvise64"
            | b"fadvise64_64"
            | b"readahead"
            | b"sendfile"
            | b"sendfile64"
            | b"copy_file_range"
            | b"splice"
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

/// What an access is of.
struct Of {
    kind: Kind,
    /// `None` is the position of the descriptor, which goes on.
    offset_bytes: Option<u64>,
    length_bytes: u64,
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

    fn open_file(
        &mut self,
        at: At,
        name: &[u8],
        call: &Call<'_>,
        emit: &mut Emit,
    ) -> Result<(), &'static str> {
        let (fd, annotated) = descriptor(call.result).ok_or("opens no descriptor")?;
        let has_directory = name.starts_with(b"openat");
        let path_at = usize::from(has_directory);
        let how = call.argument(path_at + 1);
        let has = |flag: &[u8]| how.windows(flag.len()).any(|part| part == flag);
        let path = match annotated {
            Some(text) if is_not_file(text) => {
                let closed = self
                    .descriptors
                    .open(at.table, fd, Open::NotFile, has(b"O_CLOEXEC"));
                return self.closed_maybe(at, closed, emit);
            }
            Some(text) => unescaped(text),
            None => {
                let path = unescaped(call.argument(path_at));
                let directory = call.descriptor(0).filter(|_| has_directory);
                self.absolute(directory.and_then(|(_, text)| text), path)
            }
        };
        let Some(file) = define(&path, emit) else {
            emit.findings.over_limit();
            return Ok(());
        };
        let flags = match has(b"O_DIRECT") && !has(b"O_DIRECTORY") {
            true => Flags::DIRECT,
            false => Flags::default(),
        };
        let opened = OpenFile {
            file,
            stream: emit.stream(),
            position_bytes: 0,
            flags,
        };
        let closes_on_exec = has(b"O_CLOEXEC");
        let closed = self
            .descriptors
            .open(at.table, fd, Open::File(opened), closes_on_exec);
        self.closed_maybe(at, closed, emit)?;
        let of = Of {
            kind: Kind::Open,
            offset_bytes: Some(0),
            length_bytes: 0,
        };
        self.give(at, opened, &of, emit)
    }

    /// A path as far as it is known: below its directory when strace says which.
    fn absolute(&self, directory: Option<&[u8]>, path: Vec<u8>) -> Vec<u8> {
        match directory {
            Some(directory) if !path.starts_with(b"/") => {
                let mut whole = unescaped(directory);
                whole.push(b'/');
                whole.extend(path);
                whole
            }
            _ => path,
        }
    }

    /// Descriptors of what is no file: those that it returned, or wrote to its argument.
    fn open_other(
        &mut self,
        at: At,
        name: &[u8],
        call: &Call<'_>,
        emit: &mut Emit,
    ) -> Result<(), &'static str> {
        let pair = match name {
            b"pipe" | b"pipe2" => call.argument(0),
            b"socketpair" => call.argument(3),
            _ => b"",
        };
        let pair = pair
            .strip_prefix(b"[")
            .and_then(|pair| pair.strip_suffix(b"]"));
        let both = pair.unwrap_or(call.result).split(|byte| *byte == b',');
        for one in both {
            if let Some((fd, _)) = descriptor(one.trim_ascii()) {
                let closed = self.descriptors.open(at.table, fd, Open::NotFile, false);
                self.closed_maybe(at, closed, emit)?;
            }
        }
        Ok(())
    }

    fn close_files(
        &mut self,
        at: At,
        name: &[u8],
        call: &Call<'_>,
        emit: &mut Emit,
    ) -> Result<(), &'static str> {
        let (first, _) = call.descriptor(0).ok_or("closes no descriptor")?;
        if name == b"close" {
            let closed = self.descriptors.close(at.table, first);
            return self.closed_maybe(at, closed, emit);
        }
        let last = call.number(1).unwrap_or(u64::from(u32::MAX));
        let last = i64::try_from(last).unwrap_or(i64::MAX);
        let on_exec = call.argument(2).windows(7).any(|part| part == b"CLOEXEC");
        let mut numbers = self.descriptors.numbers(at.table, i64::from(first), last);
        numbers.sort_unstable();
        for fd in numbers {
            if on_exec {
                self.descriptors.set_closes_on_exec(at.table, fd, true);
            } else {
                let closed = self.descriptors.close(at.table, fd);
                self.closed_maybe(at, closed, emit)?;
            }
        }
        Ok(())
    }

    fn duplicate(
        &mut self,
        at: At,
        call: &Call<'_>,
        closes_on_exec: bool,
        emit: &mut Emit,
    ) -> Result<(), &'static str> {
        let (from, annotated) = call.descriptor(0).ok_or("duplicates no descriptor")?;
        let (to, _) = descriptor(call.result).ok_or("duplicates to no descriptor")?;
        self.opened(at, from, annotated, emit);
        let closed = self
            .descriptors
            .duplicate(at.table, from, to, closes_on_exec);
        self.closed_maybe(at, closed, emit)
    }

    fn control(&mut self, at: At, call: &Call<'_>, emit: &mut Emit) -> Result<(), &'static str> {
        match call.argument(1) {
            b"F_DUPFD" => self.duplicate(at, call, false, emit),
            b"F_DUPFD_CLOEXEC" => self.duplicate(at, call, true, emit),
            b"F_SETFD" => {
                if let Some((fd, _)) = call.descriptor(0) {
                    let closes = call.argument(2) == b"FD_CLOEXEC";
                    self.descriptors.set_closes_on_exec(at.table, fd, closes);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn seek(&mut self, at: At, name: &[u8], call: &Call<'_>) -> Result<(), &'static str> {
        let (fd, _) = call.descriptor(0).ok_or("seeks in no descriptor")?;
        // The older one writes the position to an argument: _llseek(3, 0, [4096], SEEK_SET).
        let position = match name {
            b"lseek" => call.returned(),
            _ => [2, 1]
                .into_iter()
                .find_map(|at| bracketed(call.argument(at))),
        };
        if let (Some(position_bytes), Some(Open::File(file))) =
            (position, self.descriptors.get(at.table, fd))
        {
            file.position_bytes = position_bytes;
        }
        Ok(())
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
        let flags = call.argument(3);
        let populates = flags.windows(12).any(|part| part == b"MAP_POPULATE");
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

    /// A descriptor whose opening isn't in the trace, when strace says what it is. Its position is
    /// not known, and taken for 0.
    fn opened(&mut self, at: At, fd: i32, annotated: Option<&[u8]>, emit: &mut Emit) {
        let Some(text) = annotated else {
            return;
        };
        if self.descriptors.get(at.table, fd).is_some() {
            return;
        }
        if is_not_file(text) {
            self.descriptors.open(at.table, fd, Open::NotFile, false);
            return;
        }
        let Some(file) = define(&unescaped(text), emit) else {
            return;
        };
        let open = Open::File(OpenFile {
            file,
            stream: emit.stream(),
            position_bytes: 0,
            flags: Flags::default(),
        });
        self.descriptors.open(at.table, fd, open, false);
    }

    fn advance(&mut self, at: At, fd: i32, bytes: u64) {
        if let Some(Open::File(file)) = self.descriptors.get(at.table, fd) {
            file.position_bytes = file.position_bytes.saturating_add(bytes);
        }
    }

    fn closed_maybe(
        &self,
        at: At,
        closed: Option<OpenFile>,
        emit: &mut Emit,
    ) -> Result<(), &'static str> {
        closed.map_or(Ok(()), |file| self.closed(at, file, emit))
    }

    fn give(&self, at: At, file: OpenFile, of: &Of, emit: &mut Emit) -> Result<(), &'static str> {
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
fn pointed(text: &[u8]) -> Option<&[u8]> {
    let inner = text.strip_prefix(b"[")?;
    let end = inner.iter().position(|byte| *byte == b']' || *byte == b' ');
    Some(&inner[..end.unwrap_or(inner.len())])
}

fn bracketed(text: &[u8]) -> Option<u64> {
    pointed(text)
        .and_then(signed)
        .and_then(|value| u64::try_from(value).ok())
}

/// Whether what strace says of a descriptor is no file: `pipe:[1]`, `socket:[1]`, `TCP:[...]`,
/// `anon_inode:[eventfd]`, `/dev/null<char 1:3>`.
fn is_not_file(text: &[u8]) -> bool {
    !text.starts_with(b"/") || text.windows(6).any(|part| part == b"<char ")
}

fn define(path: &[u8], emit: &mut Emit) -> Option<FileId> {
    emit.file(path, || File {
        path: path.to_vec(),
        ..File::default()
    })
}
