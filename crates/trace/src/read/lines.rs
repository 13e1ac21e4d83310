// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of lines of text.

use std::io::{BufRead, BufReader, ErrorKind, Read};

use super::Events;
use super::emit::Emit;
use crate::error::ReadError;
use crate::findings::{Findings, Place};
use crate::types::{Event, Header};

/// Longest line, in bytes. A call with the longest path and its annotations stays far below it.
const LINE_BYTES_MAX: u64 = 1 << 16;
/// Bytes requested from the input at once.
const BUFFER_BYTES: usize = 1 << 17;

/// Understands lines, one after another.
pub(super) trait LineReader {
    /// A line without its end. The error is the fault in it, as a clause.
    fn line(&mut self, line: &[u8], emit: &mut Emit) -> Result<(), &'static str>;

    /// There are no more lines.
    fn end(&mut self, emit: &mut Emit) {
        let _ = emit;
    }
}

/// The events of lines.
pub(super) struct LineEvents<R: Read, L> {
    input: BufReader<R>,
    header: Header,
    reader: L,
    emit: Emit,
    line: Vec<u8>,
    number: u64,
    ended: bool,
}

impl<R: Read, L: LineReader> LineEvents<R, L> {
    pub fn new(input: R, header: Header, reader: L) -> Self {
        let emit = Emit::new(header.page_bytes);
        Self {
            input: BufReader::with_capacity(BUFFER_BYTES, input),
            header,
            reader,
            emit,
            line: Vec::new(),
            number: 0,
            ended: false,
        }
    }

    /// Reads a line and emits its events; `false` when there is none.
    fn next_line(&mut self) -> Result<bool, ReadError> {
        self.line.clear();
        self.number += 1;
        self.emit.place = Place::Line(self.number);
        let mut limited = (&mut self.input).take(LINE_BYTES_MAX);
        match limited.read_until(b'\n', &mut self.line) {
            Ok(_) => {}
            // A packed stream that was cut off.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {}
            Err(error) => return Err(error.into()),
        }
        if self.line.pop_if(|byte| *byte == b'\n').is_none() {
            return self.unended();
        }
        let line = match self.line.split_last() {
            Some((b'\r', line)) => line,
            _ => &self.line,
        };
        if let Err(why) = self.reader.line(line, &mut self.emit) {
            self.emit.findings.bad_record(self.emit.place, why);
        }
        Ok(true)
    }

    /// A line that has no end: too long, or the last one.
    fn unended(&mut self) -> Result<bool, ReadError> {
        if self.line.len() as u64 == LINE_BYTES_MAX {
            let why = "is longer than 64 KiB";
            self.emit.findings.bad_record(self.emit.place, why);
            self.skip_line()?;
            return Ok(true);
        }
        if self.line.is_empty() {
            return Ok(false);
        }
        // A number at its end may lack digits, which can't be detected.
        self.emit.findings.cut_off = Some(self.emit.place);
        Ok(false)
    }

    fn skip_line(&mut self) -> Result<(), ReadError> {
        loop {
            let buffer = match self.input.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            if buffer.is_empty() {
                return Ok(());
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(buffer.len(), |end| end + 1);
            self.input.consume(used);
            if end.is_some() {
                return Ok(());
            }
        }
    }
}

impl<R: Read, L: LineReader> Events for LineEvents<R, L> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        loop {
            if let Some(event) = self.emit.events.pop_front() {
                return Ok(Some(event));
            }
            if self.ended {
                return Ok(None);
            }
            if !self.next_line()? {
                self.reader.end(&mut self.emit);
                self.ended = true;
            }
        }
    }

    fn findings(&self) -> &Findings {
        &self.emit.findings
    }
}

/// The whole lines at the start of a trace, for telling its format.
pub(super) fn whole_lines(peeked: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = peeked.split_inclusive(|byte| *byte == b'\n');
    lines
        .filter_map(|line| line.strip_suffix(b"\n"))
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}
