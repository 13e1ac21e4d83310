// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls that change the files behind descriptors, and their positions.

use super::super::emit::Emit;
use super::super::find::contains;
use super::super::number::signed;
use super::call::{Call, descriptor, unescaped};
use super::calls::{Of, pointed};
use super::descriptors::{Open, OpenFile};
use super::tasks::{At, Tasks};
use crate::types::{File, FileId, Flags, Kind};

impl Tasks {
    pub(super) fn open_file(
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
        let closes_on_exec = contains(how, b"O_CLOEXEC");
        let path = match annotated {
            Some(text) if is_not_file(text) => {
                let closed = self
                    .descriptors
                    .open(at.table, fd, Open::NotFile, closes_on_exec);
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
        let flags = match contains(how, b"O_DIRECT") && !contains(how, b"O_DIRECTORY") {
            true => Flags::DIRECT,
            false => Flags::default(),
        };
        let opened = OpenFile {
            file,
            stream: emit.stream(),
            position_bytes: 0,
            flags,
        };
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

    /// Descriptors of anything but files: those that the call returned, or wrote to its argument.
    pub(super) fn open_other(
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

    pub(super) fn close_files(
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
        let on_exec = contains(call.argument(2), b"CLOEXEC");
        for fd in self.descriptors.numbers(at.table, i64::from(first), last) {
            if on_exec {
                self.descriptors.set_closes_on_exec(at.table, fd, true);
            } else {
                let closed = self.descriptors.close(at.table, fd);
                self.closed_maybe(at, closed, emit)?;
            }
        }
        Ok(())
    }

    pub(super) fn duplicate(
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

    pub(super) fn control(
        &mut self,
        at: At,
        call: &Call<'_>,
        emit: &mut Emit,
    ) -> Result<(), &'static str> {
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

    pub(super) fn seek(
        &mut self,
        at: At,
        name: &[u8],
        call: &Call<'_>,
    ) -> Result<(), &'static str> {
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

    /// A descriptor whose opening isn't in the trace, when strace prints its file. Its position is
    /// not known, and taken for 0.
    pub(super) fn opened(&mut self, at: At, fd: i32, annotated: Option<&[u8]>, emit: &mut Emit) {
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

    pub(super) fn closed_maybe(
        &self,
        at: At,
        closed: Option<OpenFile>,
        emit: &mut Emit,
    ) -> Result<(), &'static str> {
        closed.map_or(Ok(()), |file| self.closed(at, file, emit))
    }
}

fn bracketed(text: &[u8]) -> Option<u64> {
    pointed(text)
        .and_then(signed)
        .and_then(|value| u64::try_from(value).ok())
}

/// Whether strace's annotation of a descriptor is no file: `pipe:[1]`, `socket:[1]`, `TCP:[...]`,
/// `anon_inode:[eventfd]`, `/dev/null<char 1:3>`.
fn is_not_file(text: &[u8]) -> bool {
    !text.starts_with(b"/") || contains(text, b"<char ")
}

fn define(path: &[u8], emit: &mut Emit) -> Option<FileId> {
    emit.file(path, || File {
        path: path.to_vec(),
        ..File::default()
    })
}
