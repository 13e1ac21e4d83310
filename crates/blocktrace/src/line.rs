// SPDX-License-Identifier: MIT OR Apache-2.0
//! A line of `blkparse`'s default text, read and written.
//!
//! ```text
//!   8,208    3       25    0.028152940 29226  Q  R   173880 + 1024 [iozone]
//! ```
//!
//! Device, processor, number, time, thread, action, what is to be done, and then what the action
//! needs: its sectors, in parentheses the time since the step before (`blkparse -t`), in brackets
//! the name of the thread or the error.

mod write;

use thiserror::Error;

use crate::event::{Action, Device, Event, Letters, Rwbs};

/// How much of a bad line a message quotes.
const QUOTED_CHARS: usize = 60;

/// What marks a note about lost events among `blkparse`'s messages.
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
    /// A part of it isn't there or isn't what it should be.
    #[error("{what} is missing or wrong in `{line}`")]
    Part {
        /// Which part.
        what: &'static str,
        /// The line, shortened.
        line: String,
    },
    /// No line of a trace has so many bytes.
    #[error("the line has more than {0} bytes")]
    TooLong(usize),
}

/// Reads one line; `None` for what `blkparse` prints beside events: messages, sums, empty lines.
///
/// # Errors
/// [`LineError`] when it is neither.
pub fn parse_line(line: &str) -> Result<Option<Event>, LineError> {
    let trimmed = line.trim();
    if trimmed.is_empty() || BESIDE_EVENTS.iter().any(|p| trimmed.starts_with(p)) {
        return Ok(None);
    }
    let mut rest = Rest(trimmed);
    let device = rest.device();
    let device = device.ok_or_else(|| LineError::Form(quoted(trimmed)))?;
    let wrong = |what| LineError::Part {
        what,
        line: quoted(trimmed),
    };
    let mut event = Event {
        device,
        cpu: rest.number().ok_or_else(|| wrong("the processor"))?,
        sequence: rest.number().ok_or_else(|| wrong("the number"))?,
        time_ns: rest.time_ns().ok_or_else(|| wrong("the time"))?,
        pid: rest.number().ok_or_else(|| wrong("the process"))?,
        action: Action::Queued,
        rwbs: Rwbs::default(),
        sector: 0,
        sectors: 0,
        elapsed_ns: None,
        process: Box::from(""),
    };
    let letters = Letters::new(rest.word()).filter(|l| !l.as_str().is_empty());
    let letters = letters.ok_or_else(|| wrong("the action"))?;
    let rwbs = Letters::new(rest.word()).ok_or_else(|| wrong("what is to be done"))?;
    event.rwbs = Rwbs(rwbs);
    if letters.as_str() == "m" {
        return Ok(lost(rest.0).map(|events| {
            event.action = Action::Lost { events };
            event
        }));
    }
    fill(&mut event, letters, rest).map_err(wrong)?;
    Ok(Some(event))
}

/// What differs from action to action; an error names the part that is wrong.
fn fill(event: &mut Event, letters: Letters, mut rest: Rest<'_>) -> Result<(), &'static str> {
    let tail = rest.bracketed();
    let after = tail.as_ref().map_or("", |tail| tail.after);
    event.process = tail.as_ref().map_or("", |tail| tail.inside).into();
    event.action = match letters.as_str() {
        "Q" => Action::Queued,
        "G" => Action::GotRequest,
        "S" => Action::Slept,
        "P" => Action::Plugged,
        "U" | "UT" => {
            let requests = match after {
                "" => None,
                number => Some(digits(number).ok_or("the number of requests")?),
            };
            match letters.as_str() {
                "U" => Action::Unplugged { requests },
                _ => Action::TimerUnplugged { requests },
            }
        }
        "I" => Action::Inserted,
        "M" => Action::BackMerged,
        "F" => Action::FrontMerged,
        "D" => Action::Issued,
        "C" | "R" => {
            let error = tail.and_then(|tail| tail.inside.parse().ok());
            let error = error.ok_or("the error in brackets")?;
            event.process = Box::from("");
            match letters.as_str() {
                "C" => Action::Completed { error },
                _ => Action::Requeued { error },
            }
        }
        "X" => return split(event, rest),
        "B" => Action::Bounced,
        "A" => return remapped(event, rest),
        _ => Action::Unknown(letters),
    };
    match event.action {
        Action::Plugged | Action::Unplugged { .. } | Action::TimerUnplugged { .. } => Ok(()),
        // Whatever it is, it isn't followed.
        Action::Unknown(_) => Ok(()),
        _ => sectors(event, rest),
    }
}

/// `173880 + 1024 ( 469126)`. A command that is passed through to the device has no sectors but a
/// number of bytes and its own bytes in parentheses.
fn sectors(event: &mut Event, mut rest: Rest<'_>) -> Result<(), &'static str> {
    if rest.0.is_empty() {
        return Ok(());
    }
    if !rest.0.starts_with('(') {
        let sector = rest.number().ok_or("the sector")?;
        if rest.symbol("+") {
            event.sector = sector;
            event.sectors = rest.number().ok_or("the number of sectors")?;
        }
    }
    event.elapsed_ns = rest.elapsed_ns();
    let end = event.sector.checked_add(u64::from(event.sectors));
    end.map(|_| ()).ok_or("the sector")
}

/// `173880 / 174904`
fn split(event: &mut Event, mut rest: Rest<'_>) -> Result<(), &'static str> {
    event.sector = rest.number().ok_or("the sector")?;
    if !rest.symbol("/") {
        return Err("where it is split");
    }
    let at_sector = rest.number().ok_or("where it is split")?;
    event.action = Action::Split { at_sector };
    Ok(())
}

/// `173880 + 1024 <- (8,1) 171832`
fn remapped(event: &mut Event, mut rest: Rest<'_>) -> Result<(), &'static str> {
    const FROM: &str = "where it came from";
    let (to, from) = rest.0.split_once("<-").ok_or(FROM)?;
    sectors(event, Rest(to.trim_end()))?;
    rest.0 = from.trim_start();
    let device = rest
        .word()
        .strip_prefix('(')
        .and_then(|d| d.strip_suffix(')'));
    let device = device.and_then(|d| d.parse().ok()).ok_or(FROM)?;
    event.action = Action::Remapped {
        from: device,
        from_sector: rest.number().ok_or(FROM)?,
    };
    Ok(())
}

fn lost(message: &str) -> Option<u64> {
    digits(
        message
            .trim()
            .strip_prefix(LOST_PREFIX)?
            .strip_suffix(LOST_SUFFIX)?,
    )
}

/// A number of plain digits.
fn digits<T: std::str::FromStr>(text: &str) -> Option<T> {
    let is_plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

/// The beginning of a line, for a message.
fn quoted(line: &str) -> String {
    let mut chars = line.chars();
    let mut text: String = chars.by_ref().take(QUOTED_CHARS).collect();
    if chars.next().is_some() {
        text.push_str("...");
    }
    text
}

/// What stands in the last brackets, and behind them.
struct Bracketed<'a> {
    inside: &'a str,
    after: &'a str,
}

/// What is left of a line.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn word(&mut self) -> &'a str {
        let text = self.0.trim_start();
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.0 = rest.trim_start();
        word
    }

    fn number<T: std::str::FromStr>(&mut self) -> Option<T> {
        digits(self.word())
    }

    fn device(&mut self) -> Option<Device> {
        self.word().parse().ok()
    }

    /// Seconds with nine digits of fraction.
    fn time_ns(&mut self) -> Option<u64> {
        let (seconds, fraction) = self.word().split_once('.')?;
        let fraction_ns: u64 = digits(fraction).filter(|_| fraction.len() == 9)?;
        digits::<u64>(seconds)?
            .checked_mul(1_000_000_000)?
            .checked_add(fraction_ns)
    }

    fn symbol(&mut self, symbol: &str) -> bool {
        let stripped = self.0.strip_prefix(symbol);
        self.0 = stripped.unwrap_or(self.0).trim_start();
        stripped.is_some()
    }

    /// `( 469126)`; other things in parentheses are none.
    fn elapsed_ns(&self) -> Option<u64> {
        let (inside, _) = self.0.strip_prefix('(')?.split_once(')')?;
        digits(inside.trim())
    }

    /// Takes the brackets off. A thread may be called anything, so they reach from the first that
    /// opens to the last that closes.
    fn bracketed(&mut self) -> Option<Bracketed<'a>> {
        let open = self.0.find('[')?;
        let close = self.0.rfind(']').filter(|close| *close > open)?;
        let found = Bracketed {
            inside: &self.0[open + 1..close],
            after: self.0[close + 1..].trim(),
        };
        self.0 = self.0[..open].trim_end();
        Some(found)
    }
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
