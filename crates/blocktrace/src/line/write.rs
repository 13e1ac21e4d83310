// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a line.

use std::fmt::{self, Write as _};

use super::{LOST_PREFIX, LOST_SUFFIX};
use crate::event::{Action, Event};

impl fmt::Display for Event {
    /// As `blkparse` prints it; [`parse_line`](crate::parse_line) reads it back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>3},{:<3} {:>2} {:>8} {:>5}.{:09} {:>5} {:>2} {:>3} ",
            self.device.major,
            self.device.minor,
            self.cpu,
            self.sequence,
            self.time_ns / 1_000_000_000,
            self.time_ns % 1_000_000_000,
            self.pid,
            self.action.letters(),
            match self.rwbs.0.as_str() {
                "" => "N",
                letters => letters,
            },
        )?;
        match self.action {
            Action::Lost { events } => write!(f, "{LOST_PREFIX}{events}{LOST_SUFFIX}"),
            Action::Plugged => self.write_process(f),
            Action::Unplugged { requests } | Action::TimerUnplugged { requests } => {
                self.write_process(f)?;
                requests.map_or(Ok(()), |requests| write!(f, " {requests}"))
            }
            Action::Split { at_sector } => {
                write!(f, "{} / {at_sector} ", self.sector)?;
                self.write_process(f)
            }
            Action::Remapped { from, from_sector } => {
                write!(f, "{} + {}", self.sector, self.sectors)?;
                write!(f, " <- ({from}) {from_sector}")
            }
            Action::Completed { error } | Action::Requeued { error } => {
                self.write_sectors(f)?;
                write!(f, "[{error}]")
            }
            _ => {
                self.write_sectors(f)?;
                self.write_process(f)
            }
        }
    }
}

impl Event {
    fn write_sectors(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.sectors > 0 {
            write!(f, "{} + {} ", self.sector, self.sectors)?;
        }
        match self.elapsed_ns {
            Some(elapsed_ns) => write!(f, "({elapsed_ns:>8}) "),
            None => Ok(()),
        }
    }

    /// A thread may be called anything, even a line break.
    fn write_process(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('[')?;
        for c in self.process.chars() {
            f.write_char(if c.is_control() { '?' } else { c })?;
        }
        f.write_char(']')
    }
}
