// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output of `strace`, of one process or, with `-f`, of many.
//!
//! The file of a descriptor follows from the calls that open, duplicate, share and close it. `-y`
//! names it as well, and helps if the opening is not in the trace. Positions follow from reads,
//! writes and seeks.

mod call;
mod calls;
mod descriptors;
mod line;
mod opening;
mod tasks;

use std::collections::HashMap;

use call::Call;
use line::{Line, Stamp, What};
use tasks::Tasks;

use super::emit::Emit;
use super::lines::{LineReader, whole_lines};
use crate::error::ReadError;
use crate::types::{Header, LeftOut, Source, TimeIs};

/// Limit of the text that is kept of calls that did not return yet, all together.
const UNFINISHED_BYTES_MAX: usize = 1 << 24;
const DAY_NS: u64 = 86_400_000_000_000;

/// Whether this is one of its lines, and none that any program may print.
pub(super) fn is_line(line: &[u8]) -> bool {
    match Line::new(line).what {
        What::Call(_, rest) => Call::new(rest).is_some(),
        What::Unfinished(..) | What::Resumed(..) | What::Ended => true,
        What::Remark | What::Unknown => false,
    }
}

/// Reads one.
pub(super) struct Strace {
    clock: Clock,
    /// Whether the time of a call is that of its beginning, and it says how long it took.
    returns: bool,
    tasks: Tasks,
    unfinished: HashMap<u32, Vec<u8>>,
    unfinished_bytes: usize,
}

/// The meaning of the time in front of a line.
#[derive(Clone, Copy)]
enum At {
    /// When the call began.
    Beginning(u64),
    /// When its rest was printed, which is when it returned.
    Return(u64),
}

impl Strace {
    // It has the form that readers of lines have in common.
    #[allow(clippy::unnecessary_wraps)]
    pub fn new(peeked: &[u8]) -> Result<(Header, Self), ReadError> {
        let is_told = |line: &&[u8]| !matches!(Line::new(line).what, What::Unknown);
        let mut told = whole_lines(peeked).filter(is_told);
        let first = told
            .next()
            .map_or(Stamp::None, |line| Line::new(line).stamp);
        let returns = whole_lines(peeked).any(call::has_duration);
        let time_is = match (first, returns) {
            (Stamp::None, _) => TimeIs::Order,
            (_, true) => TimeIs::Returned,
            (_, false) => TimeIs::Began,
        };
        let mut header = Header::new(Source::Strace, time_is);
        if let Stamp::Unix(ns) = first {
            header.started_unix_ns = Some(ns);
        }
        let strace = Self {
            clock: Clock::new(first),
            returns,
            tasks: Tasks::default(),
            unfinished: HashMap::new(),
            unfinished_bytes: 0,
        };
        Ok((header, strace))
    }

    fn returned(
        &mut self,
        tid: u32,
        at: At,
        name: &[u8],
        text: &[u8],
        emit: &mut Emit,
    ) -> Result<(), &'static str> {
        let call = Call::new(text).ok_or("is a call that does not end")?;
        let time_ns = match at {
            At::Beginning(ns) if self.returns => ns.saturating_add(call.duration_ns.unwrap_or(0)),
            At::Beginning(ns) | At::Return(ns) => ns,
        };
        self.tasks.returned(tid, time_ns, name, &call, emit)
    }

    fn interrupted(&mut self, tid: u32, name: &[u8], before: &[u8]) {
        self.tasks.began(tid, name, before);
        let bytes = self.unfinished_bytes + before.len();
        if !calls::matters(name) || bytes > UNFINISHED_BYTES_MAX {
            return;
        }
        self.unfinished_bytes = bytes;
        if let Some(other) = self.unfinished.insert(tid, before.to_vec()) {
            self.unfinished_bytes -= other.len();
        }
    }

    fn resumed(&mut self, tid: u32, rest: &[u8]) -> Option<Vec<u8>> {
        let mut text = self.unfinished.remove(&tid)?;
        self.unfinished_bytes -= text.len();
        text.extend_from_slice(rest);
        Some(text)
    }
}

impl LineReader for Strace {
    fn line(&mut self, line: &[u8], emit: &mut Emit) -> Result<(), &'static str> {
        let line = Line::new(line);
        if line.what == What::Unknown {
            return Err("is no call, signal or end of a process");
        }
        let time_ns = self.clock.time_ns(line.stamp);
        match line.what {
            What::Call(name, text) if calls::matters(name) => {
                let began = At::Beginning(time_ns);
                self.returned(line.tid, began, name, text, emit)
            }
            What::Resumed(name, rest) if calls::matters(name) => {
                let Some(text) = self.resumed(line.tid, rest) else {
                    // The trace began in the middle of it.
                    emit.left_out(LeftOut::Others);
                    return Ok(());
                };
                let returned = At::Return(time_ns);
                self.returned(line.tid, returned, name, &text, emit)
            }
            // With -qq, a call to exit is the last that is heard of it.
            What::Ended
            | What::Call(b"exit" | b"exit_group", _)
            | What::Unfinished(b"exit" | b"exit_group", _) => {
                let text = self.unfinished.remove(&line.tid);
                self.unfinished_bytes -= text.map_or(0, |text| text.len());
                self.tasks.ended(line.tid, time_ns, emit)
            }
            What::Unfinished(name, before) => {
                self.interrupted(line.tid, name, before);
                Ok(())
            }
            What::Call(..) | What::Resumed(..) | What::Remark | What::Unknown => Ok(()),
        }
    }
}

/// Times since the first line.
struct Clock {
    start_ns: u64,
    last_ns: u64,
    /// Midnights that have passed.
    days_ns: u64,
    last_of_day_ns: u64,
}

impl Clock {
    fn new(first: Stamp) -> Self {
        let start_ns = match first {
            Stamp::OfDay(ns) | Stamp::Unix(ns) => ns,
            Stamp::Relative(_) | Stamp::None => 0,
        };
        Self {
            start_ns,
            last_ns: 0,
            days_ns: 0,
            last_of_day_ns: start_ns,
        }
    }

    fn time_ns(&mut self, stamp: Stamp) -> u64 {
        let time_ns = match stamp {
            Stamp::None => self.last_ns,
            Stamp::Unix(ns) => ns.saturating_sub(self.start_ns),
            Stamp::Relative(ns) => self.last_ns.saturating_add(ns),
            Stamp::OfDay(ns) => {
                // Back by more than half a day is past midnight.
                if ns.saturating_add(DAY_NS / 2) < self.last_of_day_ns {
                    self.days_ns = self.days_ns.saturating_add(DAY_NS);
                }
                self.last_of_day_ns = ns;
                self.days_ns
                    .saturating_add(ns)
                    .saturating_sub(self.start_ns)
            }
        };
        self.last_ns = time_ns;
        time_ns
    }
}
