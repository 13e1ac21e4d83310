// SPDX-License-Identifier: MIT OR Apache-2.0
//! A whole text of `blkparse`, line by line.

use std::io::{self, BufRead, Read};

use thiserror::Error;

use crate::event::Event;
use crate::line::{Line, LineError, Lines};

/// A longer line isn't one of a trace.
pub const LINE_BYTES_MAX: usize = 4096;

/// A file with this many bad lines before the first event is of another kind.
const BAD_LINES_MAX: u64 = 20;

/// How the binary file of `blktrace` begins, but for its version, in either byte order.
const BINARY_MARKS: [&[u8]; 2] = [b"tae", b"eat"];

/// Why there is no event.
#[derive(Debug, Error)]
pub enum ReadError {
    /// This line is bad; the next one may be good.
    #[error("line {line}: {error}")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// The error in it.
        error: LineError,
    },
    /// It is no such text; nothing more comes.
    #[error("{0}")]
    Form(String),
    /// It can't be read on.
    #[error("{0}")]
    Input(io::Error),
}

impl ReadError {
    /// Whether nothing comes behind it.
    #[must_use]
    pub fn is_last(&self) -> bool {
        !matches!(self, Self::Line { .. })
    }
}

/// Events as they stand in a text; no more than a line is kept.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    buffer: Vec<u8>,
    number: u64,
    events: u64,
    bad_lines: u64,
    first_error: Option<LineError>,
    lines: Lines,
    is_over: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads this input.
    pub fn new(input: R) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            number: 0,
            events: 0,
            bad_lines: 0,
            first_error: None,
            lines: Lines::default(),
            is_over: false,
        }
    }

    /// Lines so far.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.number
    }

    /// Lines so far that could not be read.
    #[must_use]
    pub fn bad_lines(&self) -> u64 {
        self.bad_lines
    }

    /// The next line is in the buffer, if there is one; `Err` when it is too long to be kept.
    fn next_line(&mut self) -> io::Result<Option<Result<(), LineError>>> {
        self.buffer.clear();
        let most = LINE_BYTES_MAX as u64 + 1;
        self.input
            .by_ref()
            .take(most)
            .read_until(b'\n', &mut self.buffer)?;
        if self.buffer.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        if self.buffer.len() <= LINE_BYTES_MAX || self.buffer.ends_with(b"\n") {
            return Ok(Some(Ok(())));
        }
        while !self.buffer.is_empty() && !self.buffer.ends_with(b"\n") {
            self.buffer.clear();
            self.input
                .by_ref()
                .take(most)
                .read_until(b'\n', &mut self.buffer)?;
        }
        Ok(Some(Err(LineError::TooLong(LINE_BYTES_MAX))))
    }

    fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        while let Some(kept) = self.next_line().map_err(ReadError::Input)? {
            if self.number == 1 && BINARY_MARKS.iter().any(|m| is_marked(&self.buffer, m)) {
                let what = "this is blktrace's binary file; make a text of it with blkparse -i";
                return Err(ReadError::Form(what.into()));
            }
            let line = kept.and_then(|()| self.lines.line(&self.buffer));
            match line.and_then(|line| line.map_or(Ok(None), Line::event)) {
                Ok(Some(event)) => {
                    self.events += 1;
                    return Ok(Some(event));
                }
                Ok(None) => {}
                Err(error) => return Err(self.bad(error)),
            }
        }
        match self.first_error.take() {
            Some(error) if self.events == 0 => Err(self.other_form(&error)),
            _ => Ok(None),
        }
    }

    fn bad(&mut self, error: LineError) -> ReadError {
        self.bad_lines += 1;
        let first = self
            .first_error
            .get_or_insert_with(|| error.clone())
            .clone();
        if self.events == 0 && self.bad_lines >= BAD_LINES_MAX {
            return self.other_form(&first);
        }
        ReadError::Line {
            line: self.number,
            error,
        }
    }

    fn other_form(&self, error: &LineError) -> ReadError {
        ReadError::Form(format!(
            "no line of the first {} is an event: run blkparse without -f and -F; {error}",
            self.number
        ))
    }
}

fn is_marked(bytes: &[u8], mark: &[u8]) -> bool {
    bytes.get(..4).is_some_and(|first| {
        first.strip_prefix(mark).is_some() || first.strip_suffix(mark).is_some()
    })
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Event, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.next_event().transpose();
        self.is_over = match &next {
            None => true,
            Some(Err(error)) => error.is_last(),
            Some(Ok(_)) => false,
        };
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "8,0 1 2 0.000000001 7 Q R 8 + 8 [x]\n";

    fn read(text: &[u8]) -> Vec<Result<Event, String>> {
        let events = Reader::new(text).map(|event| event.map_err(|error| error.to_string()));
        events.collect()
    }

    #[test]
    fn bad_lines_are_named_and_the_rest_is_read() {
        let text = format!(
            "{GOOD}8,0 1 oops\n{GOOD}{}\n{GOOD}",
            "9".repeat(3 * LINE_BYTES_MAX)
        );
        let items = read(text.as_bytes());
        assert_eq!(items.iter().filter(|item| item.is_ok()).count(), 3);
        let errors: Vec<&String> = items
            .iter()
            .filter_map(|item| item.as_ref().err())
            .collect();
        assert!(
            errors[0].starts_with("line 2: the number is missing"),
            "{errors:?}"
        );
        assert!(
            errors[1].starts_with("line 4: the line has more than"),
            "{errors:?}"
        );
    }

    #[test]
    fn other_texts_are_refused_once() {
        let all_bad = "Q 8 0 0.1\n".repeat(1000);
        let items = read(all_bad.as_bytes());
        assert_eq!(items.len(), BAD_LINES_MAX as usize);
        let last = items.last().unwrap().as_ref().unwrap_err();
        assert!(last.contains("without -f"), "{last}");
        // A short one, too.
        let items = read(b"Q 8 0 0.1\n");
        assert!(
            items
                .last()
                .unwrap()
                .as_ref()
                .unwrap_err()
                .contains("without -f")
        );
        for mark in [b"\x07tae\0\0", b"eat\x07\0\0"] {
            let items = read(mark);
            assert!(items[0].as_ref().unwrap_err().contains("blkparse -i"));
            assert_eq!(items.len(), 1);
        }
    }

    #[test]
    fn sums_behind_the_events_are_left_out() {
        let sums = "CPU0 (8,0):\n Reads Queued: 1, 4KiB\niozone (29226)\n\t x\nTotal (8,0):\n";
        let items = read(format!("{GOOD}{sums}").as_bytes());
        assert_eq!(items.len(), 1);
        assert!(read(b"").is_empty());
    }
}
