// SPDX-License-Identifier: MIT OR Apache-2.0
//! Foreign bytes as text that is safe on a terminal, and results on stdout.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;

/// A path or another string of unknown origin: what isn't UTF-8 as `\xHH`, control characters as
/// `\n`, `\t`, `\xHH` or `\u{HHHH}`, a backslash doubled. So nothing in a profile can move the
/// cursor, and different names stay different.
pub fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                c => push_escaped(&mut text, c),
            }
        }
        push_hex(&mut text, chunk.invalid());
    }
    text
}

/// A message of our own that may quote foreign text: one line, and nothing that moves the cursor.
pub fn printable(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    for c in message.chars() {
        push_escaped(&mut text, c);
    }
    text
}

/// A path of this machine, escaped.
pub fn escaped_path(path: &Path) -> String {
    escaped(path.as_os_str().as_bytes())
}

/// A command line that a shell reads back as these arguments.
pub fn command_line(arguments: &[Vec<u8>]) -> String {
    let quoted: Vec<String> = arguments.iter().map(|argument| quoted(argument)).collect();
    quoted.join(" ")
}

/// The same of words as the system gives them.
pub fn command_line_of(words: &[OsString]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| quoted(word.as_bytes())).collect();
    quoted.join(" ")
}

fn quoted(argument: &[u8]) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_./=+:,@%^".contains(b);
    if !argument.is_empty() && argument.iter().all(plain) {
        return String::from_utf8_lossy(argument).into_owned();
    }
    match std::str::from_utf8(argument) {
        Ok(text) if !text.chars().any(is_unsafe) => format!("'{}'", text.replace('\'', r"'\''")),
        _ => format!("$'{}'", escaped(argument).replace('\'', r"\'")),
    }
}

fn push_escaped(text: &mut String, c: char) {
    match c {
        '\n' => text.push_str("\\n"),
        '\t' => text.push_str("\\t"),
        c if c.is_ascii() && is_unsafe(c) => push_hex(text, &[c as u8]),
        c if is_unsafe(c) => {
            // Writing to a string can't fail.
            let _ = write!(text, "\\u{{{:x}}}", c as u32);
        }
        c => text.push(c),
    }
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // As above.
        let _ = write!(text, "\\x{byte:02x}");
    }
}

/// Control characters, and what turns the direction of text around: with it a name can look like
/// another one.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Seconds since 1970 as `2026-11-20 16:05 UTC`.
pub fn date(unix_s: u64) -> String {
    format!("{} UTC", to_the_minute(unix_s))
}

/// Seconds since 1970 as `2026-11-20 16:05:42 UTC`: what stands before a line of news.
pub fn timestamp(unix_s: u64) -> String {
    format!("{}:{:02} UTC", to_the_minute(unix_s), unix_s % 60)
}

fn to_the_minute(unix_s: u64) -> String {
    let (days, rest_s) = (unix_s / 86_400, unix_s % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute) = (rest_s / 3600, rest_s / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}")
}

/// Days since 1970 as year, month and day. Years are counted from March, so that a leap day is the
/// last of its year; 400 of them have 146,097 days.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (400 * era + year_of_era + u64::from(month <= 2), month, day)
}

/// Writes a result to stdout. A reader that has gone, as in `| head`, has seen what it wanted.
pub fn print(text: &str) -> Result<()> {
    print_bytes(text.as_bytes())
}

/// The same of a result for programs that isn't text.
pub fn print_bytes(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}

/// Writes a report to stdout as one JSON document.
///
/// The fields of its objects are sorted by name, see [`json`].
pub fn print_json(report: &impl Serialize) -> Result<()> {
    print(&format!("{:#}\n", json(report)))
}

/// A report as a JSON document: `{}` writes it in one line, `{:#}` in many.
///
/// A [`Value`] sorts the fields of objects by name. So their order in a document does not depend on
/// the order in which a type declares them.
pub fn json(report: &impl Serialize) -> Value {
    // A report holds numbers, texts and fields with names: it can always be written.
    serde_json::to_value(report).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_the_terminal_raw() {
        assert_eq!(escaped(b"/a b/\xc3\xa4"), "/a b/ä");
        assert_eq!(
            escaped(b"\x1b[31m\n\t\x7f\xff\\"),
            r"\x1b[31m\n\t\x7f\xff\\"
        );
        assert_eq!(escaped("a\u{202e}b\u{85}".as_bytes()), r"a\u{202e}b\u{85}");
    }

    #[test]
    fn messages_are_one_line() {
        assert_eq!(
            printable("a\\b: c\n\x1b[2J\u{fffd}"),
            "a\\b: c\\n\\x1b[2J\u{fffd}"
        );
    }

    #[test]
    fn different_names_stay_different() {
        assert_ne!(escaped(b"\\x41"), escaped(b"A"));
        assert_ne!(escaped(b"\\xff"), escaped(b"\xff"));
    }

    #[test]
    fn command_lines_can_be_pasted() {
        let line = |arguments: &[&[u8]]| {
            command_line(&arguments.iter().map(|a| a.to_vec()).collect::<Vec<_>>())
        };
        assert_eq!(line(&[b"grep", b"-rq", b"a b", b""]), "grep -rq 'a b' ''");
        assert_eq!(
            line(&[b"it's", b"a\\b", b"a\nb'"]),
            r"'it'\''s' 'a\b' $'a\nb\''"
        );
    }

    #[test]
    fn dates_are_right_around_leap_days() {
        let dates = [
            0,
            951_782_399,
            951_782_400,
            951_868_800,
            1_760_000_000,
            4_107_542_400,
        ];
        assert_eq!(
            dates.map(date),
            [
                "1970-01-01 00:00 UTC",
                "2000-02-28 23:59 UTC",
                "2000-02-29 00:00 UTC",
                "2000-03-01 00:00 UTC",
                "2025-10-09 08:53 UTC",
                "2100-03-01 00:00 UTC",
            ]
        );
        // Far beyond any calendar, as a hostile profile may say.
        assert!(date(u64::MAX).ends_with("UTC"));
    }
}
