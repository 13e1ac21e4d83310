// SPDX-License-Identifier: MIT OR Apache-2.0
//! A line of `blkparse`'s default text, read and written.
//!
//! ```text
//!   8,208    3       25    0.028152940 29226  Q  R   173880 + 1024 [iozone]
//! ```
//!
//! Device, processor, number, time, thread, action and operation. The fields of the action follow:
//! its sectors, in parentheses the time since the step before (`blkparse -t`), and in brackets the
//! name of the thread or the error.

mod action;
mod rest;
mod write;

use action::{fill, lost};
use rest::Rest;
pub(crate) use rest::digits;
use thiserror::Error;

use crate::event::{Action, Device, Event, Letters, Rwbs};

/// Maximum length of the quotation of a bad line in a message.
const QUOTED_CHARS: usize = 60;

/// The prefix of a note about lost events among `blkparse`'s messages.
const LOST_PREFIX: &str = "foreread: ";
const LOST_SUFFIX: &str = " events lost";

/// How lines begin that `blkparse` prints beside events.
const BESIDE_EVENTS: [&str; 21] = [
    "CPU",
    "Total (",
    "Throughput (",
    "Events (",
    "Skips:",
    "Input file ",
    "Reads Queued:",
    "Read Dispatches:",
    "Reads Requeued:",
    "Reads Completed:",
    "Read Merges:",
    "Read depth:",
    "PC Reads Queued:",
    "PC Read Disp.:",
    "PC Reads Req.:",
    "PC Reads Compl.:",
    "PC Reads Merged:",
    "PC Writes Merged:",
    "IO unplugs:",
    "Allocation wait:",
    "Dispatch wait:",
];

/// Why a line is no event.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LineError {
    /// It doesn't begin like one.
    #[error(
        "not a line of blkparse's default text, which begins with MAJOR,MINOR CPU SEQUENCE \
         SECONDS PID ACTION: `{0}`"
    )]
    Form(String),
    /// A part of it is missing or wrong.
    #[error("{what} is missing or wrong in `{line}`")]
    Part {
        /// Which part.
        what: &'static str,
        /// The line, shortened.
        line: String,
    },
    /// The line is longer than any line of a trace.
    #[error("the line has more than {0} bytes")]
    TooLong(usize),
}

/// Reads one line; `None` for other lines of `blkparse`: messages, sums, empty lines.
///
/// # Errors
/// [`LineError`] when it is neither.
pub fn parse_line(line: &str) -> Result<Option<Event>, LineError> {
    match Line::new(line.as_bytes())? {
        Some(line) => line.event(),
        None => Ok(None),
    }
}

/// Tells events from other lines, line by line.
#[derive(Debug, Default)]
pub struct Lines {
    in_sums: bool,
}

impl Lines {
    /// The next line; `None` when it is beside events.
    ///
    /// # Errors
    /// [`LineError`] when it is neither.
    #[inline]
    pub fn line<'a>(&mut self, line: &'a [u8]) -> Result<Option<Line<'a>>, LineError> {
        let read = Line::new(line);
        match read {
            Ok(None) => self.in_sums |= begins_sums(line),
            // Sums of processes begin with the names of these.
            Err(LineError::Form(_)) if self.in_sums => return Ok(None),
            _ => {}
        }
        read
    }
}

fn begins_sums(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    line.starts_with(b"CPU") || line.starts_with(b"Total (")
}

/// The fields that every event has, and the rest of the line, not yet parsed.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// Which device.
    pub device: Device,
    /// Which processor.
    pub cpu: u32,
    /// Its number on that processor.
    pub sequence: u64,
    /// When, since the trace began.
    pub time_ns: u64,
    /// The thread that ran.
    pub pid: u32,
    /// The action, in the letters of `blkparse`.
    pub action: Letters,
    /// The operation.
    pub rwbs: Rwbs,
    rest: Rest<'a>,
    whole: &'a [u8],
}

impl<'a> Line<'a> {
    /// Reads one line; `None` for other lines of `blkparse`.
    ///
    /// # Errors
    /// [`LineError`] when it is neither.
    #[inline]
    pub fn new(line: &'a [u8]) -> Result<Option<Self>, LineError> {
        let whole = line.trim_ascii();
        let is_beside = match whole.first() {
            None => true,
            Some(b'0'..=b'9') => false,
            Some(_) => is_beside_events(whole),
        };
        if is_beside {
            return Ok(None);
        }
        let mut rest = Rest(whole);
        let device = Device::from_bytes(rest.word());
        let device = device.ok_or_else(|| LineError::Form(quoted(whole)))?;
        let wrong = |what| wrong(what, whole);
        let cpu = rest.number().ok_or_else(|| wrong("the processor"))?;
        let sequence = rest.number().ok_or_else(|| wrong("the number"))?;
        let time_ns = rest.time_ns().ok_or_else(|| wrong("the time"))?;
        let pid = rest.number().ok_or_else(|| wrong("the process"))?;
        let action = Letters::from_bytes(rest.word()).filter(|l| !l.as_bytes().is_empty());
        let action = action.ok_or_else(|| wrong("the action"))?;
        let rwbs = Letters::from_bytes(rest.word());
        let rwbs = rwbs.ok_or_else(|| wrong("what is to be done"))?;
        Ok(Some(Self {
            device,
            cpu,
            sequence,
            time_ns,
            pid,
            action,
            rwbs: Rwbs(rwbs),
            rest,
            whole,
        }))
    }

    /// First sector and how many; both are 0 where the event has none.
    ///
    /// # Errors
    /// [`LineError::Part`] when it is no number, or beyond any disk.
    pub fn sectors(&self) -> Result<(u64, u32), LineError> {
        let mut rest = self.rest;
        rest.bracketed();
        let read = rest.sectors().map_err(|what| wrong(what, self.whole))?;
        Ok((read.sector, read.sectors))
    }

    /// Name of the thread, where the action comes with one.
    #[must_use]
    pub fn process(&self) -> &'a [u8] {
        let mut rest = self.rest;
        rest.bracketed().map_or(b"", |(inside, _)| inside)
    }

    /// All of it; `None` for a message that tells of no lost events.
    ///
    /// # Errors
    /// [`LineError::Part`] when it lacks a field of its action.
    pub fn event(self) -> Result<Option<Event>, LineError> {
        let mut event = Event {
            device: self.device,
            cpu: self.cpu,
            sequence: self.sequence,
            time_ns: self.time_ns,
            pid: self.pid,
            action: Action::Queued,
            rwbs: self.rwbs,
            sector: 0,
            sectors: 0,
            elapsed_ns: None,
            process: Box::from(""),
        };
        if self.action.as_bytes() == b"m" {
            return Ok(lost(self.rest.0).map(|events| {
                event.action = Action::Lost { events };
                event
            }));
        }
        fill(&mut event, self.action, self.rest).map_err(|what| wrong(what, self.whole))?;
        Ok(Some(event))
    }
}

#[cold]
fn is_beside_events(line: &[u8]) -> bool {
    BESIDE_EVENTS.iter().any(|p| line.starts_with(p.as_bytes()))
}

#[cold]
fn wrong(what: &'static str, line: &[u8]) -> LineError {
    LineError::Part {
        what,
        line: quoted(line),
    }
}

/// The beginning of a line, for a message.
fn quoted(line: &[u8]) -> String {
    // No character has more than four bytes.
    let line = String::from_utf8_lossy(&line[..line.len().min(4 * (QUOTED_CHARS + 1))]);
    let mut chars = line.chars();
    let mut text: String = chars.by_ref().take(QUOTED_CHARS).collect();
    if chars.next().is_some() {
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Event {
        parse_line(line).unwrap().unwrap()
    }

    #[test]
    fn lines_with_and_without_times_since_the_step_before_are_read() {
        let issue = "  8,208  3  33  0.028625035 29226  D  R   173880 + 2048 ( 469126) [iozone]";
        let issue = read(issue);
        assert_eq!((issue.device.major, issue.device.minor), (8, 208));
        assert_eq!((issue.cpu, issue.sequence, issue.pid), (3, 33, 29226));
        assert_eq!(issue.time_ns, 28_625_035);
        assert_eq!((issue.sector, issue.sectors), (173_880, 2048));
        assert_eq!(issue.elapsed_ns, Some(469_126));
        assert_eq!(&*issue.process, "iozone");
        let done = read("8,208 1 26 1.032984442 0 C R 173880 + 2048 [-5]");
        assert_eq!(done.action, Action::Completed { error: -5 });
        assert_eq!((done.time_ns, done.elapsed_ns), (1_032_984_442, None));
    }

    #[test]
    fn unplugs_say_how_many_or_not() {
        let unplugged = |requests| Action::Unplugged { requests };
        assert_eq!(
            read("8,0 1 2 0.000000001 7 U N [a b] 12").action,
            unplugged(Some(12))
        );
        assert_eq!(
            read("8,0 1 2 0.000000001 7 U N [a b]").action,
            unplugged(None)
        );
        let timer = Action::TimerUnplugged { requests: Some(1) };
        assert_eq!(read("8,0 1 2 0.000000001 0 UT N [swapper] 1").action, timer);
    }

    #[test]
    fn other_actions_are_read() {
        assert_eq!(
            read("8,0 1 2 0.000000001 7 X R 100 / 164 [x]").action,
            Action::Split { at_sector: 164 }
        );
        let from = Device { major: 8, minor: 1 };
        assert_eq!(
            read("8,0 1 2 0.000000001 7 A R 2148 + 8 <- (8,1) 100").action,
            Action::Remapped {
                from,
                from_sector: 100
            }
        );
        // A command that is passed through.
        let inquiry = read("8,0 1 2 0.000000001 7 D R 36 (12 00 00 00 24 00 ..) [udevd]");
        assert_eq!((inquiry.sectors, inquiry.elapsed_ns), (0, None));
        assert_eq!(read("8,0 1 2 0.000000001 7 C N (00 ..) [0]").sectors, 0);
        let unknown = Action::Unknown(Letters::new("ZQ").unwrap());
        assert_eq!(read("8,0 1 2 0.000000001 7 ZQ R what ever").action, unknown);
    }

    #[test]
    fn a_thread_may_be_called_anything() {
        let event = read("8,0 1 2 0.000000001 7 Q R 8 + 8 [a ] [b + 1]");
        assert_eq!(&*event.process, "a ] [b + 1");
        assert_eq!(read(&event.to_string()), event);
    }

    #[test]
    fn messages_and_sums_are_no_events() {
        for line in [
            "",
            "   ",
            "  8,0  1  0  0.000000001  0  m   N cfq29226S insert_request",
            "CPU0 (8,208):",
            " Reads Queued:           1,    1,024KiB\t Writes Queued:           0,        0KiB",
            "Throughput (R/W): 1KiB/s / 0KiB/s",
            "Events (8,208): 9 entries",
            "Skips: 0 forward (0 -   0.0%)",
        ] {
            assert_eq!(parse_line(line), Ok(None), "{line}");
        }
    }

    #[test]
    fn lost_events_are_noted_and_read_back() {
        let mut event = read("8,0 1 2 0.000000001 7 P N [x]");
        event.action = Action::Lost { events: 17 };
        event.process = Box::from("");
        assert_eq!(read(&event.to_string()), event);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let message = |line| parse_line(line).unwrap_err().to_string();
        assert!(message("dd 8,0 R 100 + 8").contains("default text"));
        assert!(message("8,0 x 2 0.000000001 7 Q R 8 + 8 [x]").contains("processor"));
        assert!(message("8,0 1 2 0.01 7 Q R 8 + 8 [x]").contains("time"));
        assert!(message("8,0 1 2 0.000000001 7 Q R 8 + -8 [x]").contains("number of sectors"));
        assert!(message("8,0 1 2 0.000000001 7 C R 8 + 8").contains("error in brackets"));
        let beyond = "8,0 1 2 0.000000001 7 Q R 18446744073709551615 + 8 [x]";
        assert!(message(beyond).contains("the sector"));
        let long = "x".repeat(1000);
        assert!(message(&long).len() < 250);
    }
}
