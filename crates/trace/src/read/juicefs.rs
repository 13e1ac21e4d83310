// SPDX-License-Identifier: MIT OR Apache-2.0
//! The access log of JuiceFS: the calls that went through its mount, a line each, written when the
//! call was done.
//!
//! `2021.01.15 08:26:11.003330 [uid:0,gid:0,pid:4403] read (17669,8669,4993160): OK (8669)
//! <0.000010>`: time, who, operation with inode, size and offset, result, and the seconds it took.

use std::collections::HashMap;

use super::emit::Emit;
use super::find::{position, rposition};
use super::lines::{LineReader, whole_lines};
use super::number::{days, decimal, seconds_ns, time_of_day_ns};
use crate::error::ReadError;
use crate::limits::{FILES_MAX, NAMES_BYTES_MAX, PATH_BYTES_MAX};
use crate::types::{
    Access, File, FileId, Flags, Header, Kind, LeftOut, Source, Thread, ThreadId, TimeIs,
};

/// The root of every JuiceFS.
const ROOT_INODE: u64 = 1;

/// A line in its parts.
struct Line<'a> {
    /// Since 1970, of whatever clock the machine showed.
    time_ns: u64,
    pid: u32,
    operation: &'a [u8],
    /// Between the brackets.
    arguments: &'a [u8],
    /// After them.
    result: &'a [u8],
    duration_ns: u64,
}

impl<'a> Line<'a> {
    fn new(line: &'a [u8]) -> Result<Self, &'static str> {
        const NO_TIME: &str = "does not begin with a date and a time";
        const NOT_WHOLE: &str = "is no operation with its arguments, result and duration";
        let (stamp, rest) = line.split_at_checked(26).ok_or(NO_TIME)?;
        let time_ns = time_ns(stamp).ok_or(NO_TIME)?;
        let rest = rest.strip_prefix(b" [").ok_or(NOT_WHOLE)?;
        let close = position(rest, b"] ").ok_or(NOT_WHOLE)?;
        let pid = rest[..close].rsplit(|byte| *byte == b':').next();
        let pid = pid
            .and_then(decimal)
            .and_then(|pid| u32::try_from(pid).ok());
        let pid = pid.ok_or("names no process")?;
        let rest = &rest[close + 2..];
        let open = position(rest, b" (").ok_or(NOT_WHOLE)?;
        let (operation, rest) = (&rest[..open], &rest[open + 2..]);
        // Names may hold anything, so the text after them is searched from the end.
        let rest = rest.strip_suffix(b">").ok_or(NOT_WHOLE)?;
        let angle = rposition(rest, b" <").ok_or(NOT_WHOLE)?;
        let duration_ns = seconds_ns(&rest[angle + 2..]).ok_or("has no duration")?;
        let rest = &rest[..angle];
        let close = rposition(rest, b"): ").ok_or(NOT_WHOLE)?;
        Ok(Self {
            time_ns,
            pid,
            operation,
            arguments: &rest[..close],
            result: &rest[close + 3..],
            duration_ns,
        })
    }

    fn is_ok(&self) -> bool {
        self.result.starts_with(b"OK")
    }

    /// The arguments that are numbers.
    fn numbers(&self) -> impl Iterator<Item = Option<u64>> + 'a {
        self.arguments.split(|byte| *byte == b',').map(decimal)
    }
}

/// `2021.01.15 08:26:11.003330`, since 1970.
fn time_ns(stamp: &[u8]) -> Option<u64> {
    let [y1, y2, y3, y4, b'.', m1, m2, b'.', d1, d2, b' ', time @ ..] = stamp else {
        return None;
    };
    let year = decimal(&[*y1, *y2, *y3, *y4])?;
    let days = days(year, decimal(&[*m1, *m2])?, decimal(&[*d1, *d2])?)?;
    let day_ns = days.checked_mul(86_400_000_000_000)?;
    day_ns.checked_add(time_of_day_ns(time)?)
}

/// Whether this is one of its lines.
pub(super) fn is_line(line: &[u8]) -> bool {
    Line::new(line).is_ok()
}

/// Reads one.
pub(super) struct JuiceFs {
    start_ns: u64,
    /// Files by inode.
    files: HashMap<u64, FileId>,
    names: Names,
}

impl JuiceFs {
    pub fn new(peeked: &[u8]) -> Result<(Header, Self), ReadError> {
        let first = whole_lines(peeked).find_map(|line| Line::new(line).ok());
        let mut header = Header::new(Source::JuiceFs, TimeIs::Returned);
        header.started_unix_ns = first.map(|line| line.time_ns);
        let juicefs = Self {
            start_ns: header.started_unix_ns.unwrap_or(0),
            files: HashMap::new(),
            names: Names::default(),
        };
        Ok((header, juicefs))
    }

    fn access(
        &mut self,
        line: &Line<'_>,
        kind: Kind,
        (inode, offset_bytes, length_bytes): (u64, u64, u64),
        emit: &mut Emit,
    ) -> Result<(), &'static str> {
        let Some((thread, file)) = self.place(line.pid, inode, emit) else {
            emit.findings.over_limit();
            return Ok(());
        };
        emit.access(Access {
            time_ns: line.time_ns.saturating_sub(self.start_ns),
            thread,
            file,
            stream: 0,
            offset_bytes,
            length_bytes,
            kind,
            flags: Flags::default(),
            waited_ns: None,
            duration_ns: Some(line.duration_ns),
        })
    }

    fn place(&mut self, pid: u32, inode: u64, emit: &mut Emit) -> Option<(ThreadId, FileId)> {
        let thread = emit.thread(u64::from(pid), || Thread {
            pid,
            tid: pid,
            ..Thread::default()
        })?;
        if let Some(file) = self.files.get(&inode) {
            return Some((thread, *file));
        }
        let (path, size_bytes) = self.names.path(inode);
        let file = emit.new_file(path.len(), || File {
            path,
            size_bytes,
            inode,
            ..File::default()
        })?;
        self.files.insert(inode, file);
        Some((thread, file))
    }
}

impl LineReader for JuiceFs {
    fn line(&mut self, line: &[u8], emit: &mut Emit) -> Result<(), &'static str> {
        // JuiceFS prints these lines when it has nothing to report.
        if line.is_empty() || line == b"#" {
            return Ok(());
        }
        let line = Line::new(line)?;
        let mut numbers = line.numbers();
        match line.operation {
            b"read" => {
                let mut number = || {
                    numbers
                        .next()
                        .flatten()
                        .ok_or("has no inode, size and offset")
                };
                let (inode, _asked, offset_bytes) = (number()?, number()?, number()?);
                if !line.is_ok() {
                    emit.left_out(LeftOut::Failed);
                    return Ok(());
                }
                let got = line.result.strip_prefix(b"OK (");
                let got = got.and_then(|got| got.split(|byte| *byte == b')').next());
                let got = got
                    .and_then(decimal)
                    .ok_or("does not say how much was read")?;
                if got == 0 {
                    emit.left_out(LeftOut::Empty);
                    return Ok(());
                }
                self.access(&line, Kind::Read, (inode, offset_bytes, got), emit)
            }
            b"open" if line.is_ok() => {
                let inode = numbers.next().flatten().ok_or("opens no inode")?;
                self.access(&line, Kind::Open, (inode, 0, 0), emit)
            }
            b"lookup" | b"create" if line.is_ok() => {
                let named = match line.operation {
                    b"lookup" => line.arguments,
                    // The mode stands behind the name.
                    _ => upto_last(line.arguments, b','),
                };
                self.names.learn(named, line.result);
                emit.left_out(LeftOut::Others);
                Ok(())
            }
            b"write" | b"fsync" | b"flush" | b"truncate" | b"fallocate" => {
                emit.left_out(LeftOut::Writes);
                Ok(())
            }
            _ if !line.is_ok() => {
                emit.left_out(LeftOut::Failed);
                Ok(())
            }
            _ => {
                emit.left_out(LeftOut::Others);
                Ok(())
            }
        }
    }
}

/// Names and sizes of inodes, from lookups.
#[derive(Default)]
struct Names {
    entries: HashMap<u64, Entry>,
    bytes: u64,
}

struct Entry {
    parent: u64,
    name: Box<[u8]>,
    size_bytes: Option<u64>,
}

impl Names {
    /// `parent,name`, and `OK (inode,[mode:...,...,length])...`.
    fn learn(&mut self, arguments: &[u8], result: &[u8]) {
        let mut arguments = arguments.splitn(2, |byte| *byte == b',');
        let parent = arguments.next().and_then(decimal);
        let (Some(parent), Some(name)) = (parent, arguments.next()) else {
            return;
        };
        let entry = result.strip_prefix(b"OK (").unwrap_or(b"");
        let inode = entry.split(|byte| *byte == b',').next().and_then(decimal);
        let Some(inode) = inode else {
            return;
        };
        let attributes = entry.split(|byte| *byte == b']').next().unwrap_or(b"");
        let size_bytes = attributes.rsplit(|byte| *byte == b',').next();
        let entry = Entry {
            parent,
            name: name.into(),
            size_bytes: size_bytes.and_then(decimal),
        };
        let bytes = self.bytes + name.len() as u64;
        if bytes > NAMES_BYTES_MAX || self.entries.len() >= FILES_MAX as usize {
            return;
        }
        let before = self.entries.insert(inode, entry);
        self.bytes = bytes - before.map_or(0, |entry| entry.name.len() as u64);
    }

    /// The path as far as it is known, and the size.
    fn path(&self, inode: u64) -> (Vec<u8>, Option<u64>) {
        let size_bytes = self.entries.get(&inode).and_then(|entry| entry.size_bytes);
        let mut names: Vec<&[u8]> = Vec::new();
        let mut at = inode;
        let mut bytes = 0;
        while at != ROOT_INODE {
            let Some(entry) = self.entries.get(&at) else {
                let mut path = format!("inode-{at}").into_bytes();
                push_names(&mut path, &names);
                return (path, size_bytes);
            };
            names.push(&entry.name);
            bytes += entry.name.len() + 1;
            // A directory that is in itself ends here too.
            if bytes > PATH_BYTES_MAX {
                break;
            }
            at = entry.parent;
        }
        let mut path = Vec::new();
        push_names(&mut path, &names);
        (path, size_bytes)
    }
}

/// The text before the last `byte`; all of it when there is none.
fn upto_last(text: &[u8], byte: u8) -> &[u8] {
    let last = text.iter().rposition(|other| *other == byte);
    &text[..last.unwrap_or(text.len())]
}

fn push_names(path: &mut Vec<u8>, names: &[&[u8]]) {
    for name in names.iter().rev() {
        path.push(b'/');
        path.extend_from_slice(name);
    }
}
