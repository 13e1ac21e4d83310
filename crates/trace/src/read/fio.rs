// SPDX-License-Identifier: MIT OR Apache-2.0
//! fio's iolog, versions 2 and 3.
//!
//! A line names a file and an action: `add`, `open` and `close`, or `read`, `write`, `sync`,
//! `datasync` and `trim` with offset and length in bytes. Version 3 puts the microseconds since its
//! start in front. Version 2 has no times but `wait`, which lets a number of microseconds pass.

use std::collections::HashMap;

use super::emit::Emit;
use super::lines::{LineReader, whole_lines};
use super::number::decimal;
use crate::error::ReadError;
use crate::types::{
    Access, File, FileId, Flags, Header, Kind, LeftOut, Source, Thread, ThreadId, TimeIs,
};

const FIRST_LINE_V2: &[u8] = b"fio version 2 iolog";
const FIRST_LINE_V3: &[u8] = b"fio version 3 iolog";

/// Whether this is the start of one.
pub(super) fn is_one(peeked: &[u8]) -> bool {
    peeked.starts_with(FIRST_LINE_V2) || peeked.starts_with(FIRST_LINE_V3)
}

/// Reads one.
pub(super) struct Fio {
    has_times: bool,
    is_first: bool,
    time_ns: u64,
    /// Streams of files that are open.
    streams: HashMap<FileId, u32>,
}

impl Fio {
    pub fn new(peeked: &[u8]) -> Result<(Header, Self), ReadError> {
        let first = whole_lines(peeked).next();
        let has_times = match first {
            Some(FIRST_LINE_V2) => false,
            Some(FIRST_LINE_V3) => true,
            _ => {
                return Err(ReadError::Not(
                    "no iolog of fio: its first line says no version",
                ));
            }
        };
        let header = if has_times {
            Header::new(Source::FioIologV3, TimeIs::Began)
        } else {
            Header::new(Source::FioIologV2, TimeIs::Order)
        };
        let fio = Self {
            has_times,
            is_first: true,
            time_ns: 0,
            streams: HashMap::new(),
        };
        Ok((header, fio))
    }

    /// An action with a file only.
    fn on_file(
        &mut self,
        action: &[u8],
        place: Place,
        emit: &mut Emit,
    ) -> Result<(), &'static str> {
        let kind = match action {
            b"open" => Kind::Open,
            b"close" => Kind::Close,
            b"add" | b"unlink" => return Ok(()),
            _ => return Err("names an action that fio does not have"),
        };
        let stream = match kind {
            Kind::Open => {
                let stream = emit.stream();
                self.streams.insert(place.file, stream);
                stream
            }
            _ => self.streams.remove(&place.file).unwrap_or(0),
        };
        emit.access(self.access(place, stream, kind, 0, 0))
    }

    fn access(
        &self,
        place: Place,
        stream: u32,
        kind: Kind,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Access {
        Access {
            time_ns: self.time_ns,
            thread: place.thread,
            file: place.file,
            stream,
            offset_bytes,
            length_bytes,
            kind,
            flags: Flags::default(),
            waited_ns: None,
            duration_ns: None,
        }
    }
}

/// The thread and the file of an access.
#[derive(Clone, Copy)]
struct Place {
    thread: ThreadId,
    file: FileId,
}

fn place(name: &[u8], emit: &mut Emit) -> Option<Place> {
    let thread = || Thread {
        name: b"fio".to_vec(),
        ..Thread::default()
    };
    let file = || File {
        path: name.to_vec(),
        ..File::default()
    };
    Some(Place {
        thread: emit.thread(0, thread)?,
        file: emit.file(name, file)?,
    })
}

impl LineReader for Fio {
    fn line(&mut self, line: &[u8], emit: &mut Emit) -> Result<(), &'static str> {
        if std::mem::replace(&mut self.is_first, false) || line.is_empty() {
            return Ok(());
        }
        let mut words = line
            .split(|byte| *byte == b' ' || *byte == b'\t')
            .filter(|word| !word.is_empty());
        if self.has_times {
            let time_us = words.next().and_then(decimal);
            let time_us = time_us.ok_or("does not begin with a time in microseconds")?;
            self.time_ns = time_us.saturating_mul(1000);
        }
        let (name, action) = (words.next(), words.next());
        let (Some(name), Some(action)) = (name, action) else {
            return Err("has no file and action");
        };
        let range = match (words.next(), words.next(), words.next()) {
            (None, _, _) => None,
            (Some(offset), Some(length), None) => Some((
                decimal(offset).ok_or("has an offset that is no number")?,
                decimal(length).ok_or("has a length that is no number")?,
            )),
            _ => return Err("has neither a file action nor an offset and a length"),
        };
        match (action, range) {
            (b"read", Some((offset_bytes, length_bytes))) => {
                let Some(place) = place(name, emit) else {
                    emit.findings.over_limit();
                    return Ok(());
                };
                let stream = self.streams.get(&place.file).copied().unwrap_or(0);
                emit.access(self.access(place, stream, Kind::Read, offset_bytes, length_bytes))
            }
            (b"write" | b"sync" | b"datasync" | b"sync_file_range" | b"trim", Some(_)) => {
                emit.left_out(LeftOut::Writes);
                Ok(())
            }
            (b"wait", Some((wait_us, _))) if !self.has_times => {
                let wait_ns = wait_us.saturating_mul(1000);
                self.time_ns = self.time_ns.saturating_add(wait_ns);
                Ok(())
            }
            (action, None) => match place(name, emit) {
                Some(place) => self.on_file(action, place, emit),
                None => {
                    emit.findings.over_limit();
                    Ok(())
                }
            },
            _ => Err("names an action that fio does not have"),
        }
    }
}
