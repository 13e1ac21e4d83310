// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses the text in front of a call: process and time, in any of the forms that strace has.

use super::super::number::{decimal, seconds_ns, time_of_day_ns};

/// Largest process number of Linux; a number above it is seconds since 1970.
const PID_MAX: u64 = 1 << 22;
/// Seconds below this are since the line before, others since 1970.
const RELATIVE_S_MAX: u64 = 100_000_000;

/// The time in front of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamp {
    /// None.
    None,
    /// `-t`, `-tt`: nanoseconds since midnight.
    OfDay(u64),
    /// `-ttt`: nanoseconds since 1970.
    Unix(u64),
    /// `-r`: nanoseconds since the line before.
    Relative(u64),
}

/// A line in its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// 0 when it isn't shown.
    pub tid: u32,
    pub stamp: Stamp,
    pub what: What<'a>,
}

/// The content of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What<'a> {
    /// A call: its name, and the text after the opening bracket.
    Call(&'a [u8], &'a [u8]),
    /// The same up to where another thread came between.
    Unfinished(&'a [u8], &'a [u8]),
    /// The rest of such a call.
    Resumed(&'a [u8], &'a [u8]),
    /// The thread ended.
    Ended,
    /// A signal, or a message of strace itself.
    Remark,
    /// None of these.
    Unknown,
}

impl<'a> Line<'a> {
    pub fn new(line: &'a [u8]) -> Self {
        let mut rest = line.trim_ascii_start();
        let mut tid = 0;
        if let Some(after) = rest.strip_prefix(b"[pid ")
            && let Some(close) = after.iter().position(|byte| *byte == b']')
        {
            tid = decimal(after[..close].trim_ascii()).unwrap_or(0);
            rest = after[close + 1..].trim_ascii_start();
        } else if let Some((number, after)) = number_word(rest)
            && number <= PID_MAX
        {
            tid = number;
            rest = after;
        }
        let stamp = take_stamp(&mut rest);
        Self {
            tid: u32::try_from(tid).unwrap_or(0),
            stamp,
            what: what(rest),
        }
    }
}

/// A word of digits only, and the text after it.
fn number_word(text: &[u8]) -> Option<(u64, &[u8])> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit())?;
    let after = &text[end..];
    after.starts_with(b" ").then_some(())?;
    Some((decimal(&text[..end])?, after.trim_ascii_start()))
}

fn take_stamp(rest: &mut &[u8]) -> Stamp {
    if !rest.first().is_some_and(u8::is_ascii_digit) {
        return Stamp::None;
    }
    let end = rest.iter().position(|byte| *byte == b' ');
    let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
    let stamp = match (time_of_day_ns(word), seconds_ns(word)) {
        (Some(ns), _) => Stamp::OfDay(ns),
        (None, Some(ns)) if ns / 1_000_000_000 < RELATIVE_S_MAX => Stamp::Relative(ns),
        (None, Some(ns)) => Stamp::Unix(ns),
        (None, None) => return Stamp::None,
    };
    *rest = after.trim_ascii_start();
    // With -r beside another time.
    if rest.starts_with(b"(+")
        && let Some(close) = rest.iter().position(|byte| *byte == b')')
    {
        *rest = rest[close + 1..].trim_ascii_start();
    }
    stamp
}

fn what(rest: &[u8]) -> What<'_> {
    if let Some(after) = rest.strip_prefix(b"<... ") {
        let Some(name) = name(after) else {
            return What::Unknown;
        };
        let after = after[name.len()..].strip_prefix(b" resumed>");
        return after.map_or(What::Unknown, |after| What::Resumed(name, after));
    }
    if rest.starts_with(b"+++ ") {
        let ends = |word: &[u8]| rest[4..].starts_with(word);
        return match ends(b"exited") || ends(b"killed") {
            true => What::Ended,
            false => What::Remark,
        };
    }
    if rest.is_empty() || rest.starts_with(b"--- ") || rest.starts_with(b"strace: ") {
        return What::Remark;
    }
    let Some(name) = name(rest) else {
        return What::Unknown;
    };
    let Some(after) = rest[name.len()..].strip_prefix(b"(") else {
        return What::Unknown;
    };
    match after.strip_suffix(b"<unfinished ...>") {
        Some(before) => What::Unfinished(name, before.trim_ascii_end()),
        None => What::Call(name, after),
    }
}

/// The name of a call.
fn name(text: &[u8]) -> Option<&[u8]> {
    let in_name = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_';
    let end = text.iter().position(|byte| !in_name(byte))?;
    let starts = text.first().is_some_and(|byte| !byte.is_ascii_digit());
    (end > 0 && starts).then_some(&text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: What<'_> = What::Call(b"close", b"3) = 0");

    fn parts(line: &[u8]) -> (u32, Stamp) {
        let line = Line::new(line);
        assert_eq!(line.what, CALL);
        (line.tid, line.stamp)
    }

    #[test]
    fn process_and_time_are_found_in_every_form() {
        assert_eq!(parts(b"close(3) = 0"), (0, Stamp::None));
        assert_eq!(parts(b"[pid  1234] close(3) = 0"), (1234, Stamp::None));
        assert_eq!(parts(b"1234  close(3) = 0"), (1234, Stamp::None));
        let day = Stamp::OfDay(12 * 3_600_000_000_000 + 500_000_000);
        assert_eq!(parts(b"77 12:00:00.5 close(3) = 0"), (77, day));
        assert_eq!(parts(b"12:00:00.5 close(3) = 0"), (0, day));
        let unix = Stamp::Unix(1_700_000_000_000_001_000);
        assert_eq!(parts(b"1700000000.000001 close(3) = 0"), (0, unix));
        assert_eq!(parts(b"[pid 5] 1700000000.000001 close(3) = 0"), (5, unix));
        let second = Stamp::Unix(1_700_000_000_000_000_000);
        assert_eq!(parts(b"1700000000 close(3) = 0"), (0, second));
        let relative = Stamp::Relative(12_000);
        assert_eq!(parts(b"     0.000012 close(3) = 0"), (0, relative));
        assert_eq!(parts(b"9      0.000012 close(3) = 0"), (9, relative));
        assert_eq!(parts(b"12:00:00.5 (+     0.000012) close(3) = 0"), (0, day));
    }

    #[test]
    fn what_is_no_call_is_told_apart() {
        let what = |line: &'static [u8]| Line::new(line).what;
        assert_eq!(
            what(b"read(3,  <unfinished ...>"),
            What::Unfinished(b"read", b"3,")
        );
        assert_eq!(
            what(b"7 <... read resumed>\"\", 5) = 0"),
            What::Resumed(b"read", b"\"\", 5) = 0")
        );
        assert_eq!(what(b"7 +++ exited with 0 +++"), What::Ended);
        assert_eq!(what(b"--- SIGCHLD {si_signo=SIGCHLD} ---"), What::Remark);
        assert_eq!(what(b"strace: Process 7 attached"), What::Remark);
        assert_eq!(what(b"Hello, world"), What::Unknown);
        assert_eq!(what(b"<... resumed"), What::Unknown);
    }
}
