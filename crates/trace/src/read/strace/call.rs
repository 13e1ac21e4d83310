// SPDX-License-Identifier: MIT OR Apache-2.0
//! A call: its arguments, its result, and how long it took.

use super::super::number::{decimal, seconds_ns, signed};

/// Arguments that are looked at; no call that matters here has more.
const ARGUMENTS_MAX: usize = 6;

/// A call that returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call<'a> {
    arguments: [&'a [u8]; ARGUMENTS_MAX],
    /// Text after the equals sign, without the duration.
    pub result: &'a [u8],
    pub duration_ns: Option<u64>,
}

impl<'a> Call<'a> {
    /// Parses the text after the opening bracket; `None` when it isn't whole.
    pub fn new(text: &'a [u8]) -> Option<Self> {
        let mut arguments = [&text[..0]; ARGUMENTS_MAX];
        let close = split(text, &mut arguments)?;
        let after = text[close + 1..].trim_ascii_start();
        let result = after.strip_prefix(b"=")?.trim_ascii();
        let (result, duration_ns) = match duration(result) {
            Some((result, ns)) => (result, Some(ns)),
            None => (result, None),
        };
        Some(Self {
            arguments,
            result,
            duration_ns,
        })
    }

    /// Counted from 0; empty when there is none.
    pub fn argument(&self, at: usize) -> &'a [u8] {
        self.arguments.get(at).copied().unwrap_or(b"")
    }

    /// The returned value, if that is a number and no error.
    pub fn returned(&self) -> Option<u64> {
        let end = self.result.iter().position(|byte| !byte.is_ascii_digit());
        decimal(&self.result[..end.unwrap_or(self.result.len())])
    }

    /// Whether it failed, was interrupted, or never returned.
    pub fn has_failed(&self) -> bool {
        !self.result.first().is_some_and(u8::is_ascii_digit)
    }

    /// An argument that is a number.
    pub fn number(&self, at: usize) -> Option<u64> {
        signed(self.argument(at)).and_then(|number| u64::try_from(number).ok())
    }

    /// An argument that is a descriptor, and strace's annotation of it.
    pub fn descriptor(&self, at: usize) -> Option<(i32, Option<&'a [u8]>)> {
        descriptor(self.argument(at))
    }
}

/// `3` or, with `-y`, `3</etc/passwd>`.
pub(super) fn descriptor(text: &[u8]) -> Option<(i32, Option<&[u8]>)> {
    let end = text.iter().position(|byte| *byte == b'<');
    let (number, after) = text.split_at(end.unwrap_or(text.len()));
    let number = number.trim_ascii_end();
    let fd = match number {
        b"AT_FDCWD" => -100,
        number => i32::try_from(signed(number)?).ok()?,
    };
    // After it may stand that the file is deleted.
    let close = after.iter().rposition(|byte| *byte == b'>');
    Some((fd, close.map(|close| &after[1.min(close)..close])))
}

/// The duration at the end of a result, and the text before it.
fn duration(result: &[u8]) -> Option<(&[u8], u64)> {
    let inner = result.strip_suffix(b">")?;
    let open = inner.iter().rposition(|byte| *byte == b'<')?;
    let ns = seconds_ns(&inner[open + 1..]).filter(|_| open > 0 && inner[open - 1] == b' ')?;
    Some((inner[..open].trim_ascii_end(), ns))
}

/// Whether a line ends with a duration.
pub(super) fn has_duration(line: &[u8]) -> bool {
    duration(line).is_some()
}

/// Splits arguments at commas that are in no text, bracket or annotation; where they close.
fn split<'a>(text: &'a [u8], arguments: &mut [&'a [u8]; ARGUMENTS_MAX]) -> Option<usize> {
    let (mut depth, mut count, mut start, mut at) = (0_u32, 0, 0, 0);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => at = after_text(text, at)?,
            b'<' if at > 0 && is_annotated(text[at - 1]) && text.get(at + 1) != Some(&b'<') => {
                at = after_annotation(text, at)?;
            }
            b'(' | b'[' | b'{' => {
                depth += 1;
                at += 1;
            }
            b',' | b')' if depth == 0 => {
                if let Some(argument) = arguments.get_mut(count) {
                    *argument = text[start..at].trim_ascii();
                }
                if *byte == b')' {
                    return Some(at);
                }
                count += 1;
                at += 1;
                start = at;
            }
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                at += 1;
            }
            _ => at += 1,
        }
    }
    None
}

/// Descriptors end like this: a digit, or the D of AT_FDCWD.
fn is_annotated(before: u8) -> bool {
    before.is_ascii_digit() || before == b'D'
}

fn after_text(text: &[u8], open: usize) -> Option<usize> {
    let mut at = open + 1;
    loop {
        match text.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// Annotations may hold others, as in `</dev/null<char 1:3>>`, and arrows between addresses.
fn after_annotation(text: &[u8], open: usize) -> Option<usize> {
    let is_path = text.get(open + 1) == Some(&b'/');
    let mut depth = 0;
    for (at, byte) in text.iter().enumerate().skip(open) {
        match byte {
            b'<' => depth += 1,
            b'>' if !is_path && text[at - 1] == b'-' => {}
            b'>' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// The text of a quoted argument, or of an annotation, without C's escapes.
pub(super) fn unescaped(text: &[u8]) -> Vec<u8> {
    let text = text.strip_prefix(b"\"").unwrap_or(text);
    let end = match text {
        [text @ .., b'"'] => text.len(),
        // A text that strace cut ends with dots.
        [text @ .., b'"', b'.', b'.', b'.'] => text.len(),
        text => text.len(),
    };
    let mut rest = &text[..end];
    let mut out = Vec::with_capacity(rest.len());
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some((&escape, after)) = rest.split_first() else {
            break;
        };
        rest = after;
        match escape {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'v' => out.push(0x0b),
            b'f' => out.push(0x0c),
            b'0'..=b'7' => {
                let mut value = u32::from(escape - b'0');
                for _ in 0..2 {
                    if let [digit @ b'0'..=b'7', after @ ..] = rest {
                        value = value * 8 + u32::from(digit - b'0');
                        rest = after;
                    }
                }
                out.push(value as u8);
            }
            b'x' => {
                let digits = rest
                    .iter()
                    .take(2)
                    .take_while(|byte| byte.is_ascii_hexdigit());
                let (digits, after) = rest.split_at(digits.count());
                let digits = std::str::from_utf8(digits).unwrap_or("");
                out.push(u8::from_str_radix(digits, 16).unwrap_or(b'x'));
                rest = after;
            }
            other => out.push(other),
        }
    }
    out
}

/// Whether it gives an access when it succeeds.
pub(super) fn reads(name: &[u8]) -> bool {
    matches!(
        name,
        b"read"
            | b"pread64"
            | b"readv"
            | b"preadv"
            | b"preadv2"
            | b"mmap"
            | b"mmap2"
            | b"fadvise64"
            | b"fadvise64_64"
            | b"readahead"
            | b"sendfile"
            | b"sendfile64"
            | b"copy_file_range"
            | b"splice"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_split_outside_of_texts_and_brackets() {
        let call = Call::new(br#"3</a,b>, "x\", )", {a=[1, 2], b=(3)}, 4) = 832 <0.000010>"#);
        let call = call.unwrap();
        assert_eq!(call.descriptor(0), Some((3, Some(&b"/a,b"[..]))));
        assert_eq!(call.argument(1), br#""x\", )""#);
        assert_eq!(call.argument(2), b"{a=[1, 2], b=(3)}");
        assert_eq!(call.number(3), Some(4));
        assert_eq!(call.argument(4), b"");
        assert_eq!(
            (call.returned(), call.duration_ns),
            (Some(832), Some(10_000))
        );
    }

    #[test]
    fn annotations_may_hold_anything() {
        let call = Call::new(b"5<TCP:[1.2.3.4:5->6.7.8.9:1]>, 0</dev/null<char 1:3>>, 1<<20) = 0");
        let call = call.unwrap();
        assert_eq!(call.descriptor(0).unwrap().1.unwrap()[..4], *b"TCP:");
        assert_eq!(
            call.descriptor(1).unwrap().1,
            Some(&b"/dev/null<char 1:3>"[..])
        );
        assert_eq!(call.argument(2), b"1<<20");
        let call = Call::new(b"AT_FDCWD</tmp>, 1) = 3</tmp/x>(deleted) <0.1>").unwrap();
        assert_eq!(call.descriptor(0), Some((-100, Some(&b"/tmp"[..]))));
        assert_eq!(descriptor(call.result), Some((3, Some(&b"/tmp/x"[..]))));
    }

    #[test]
    fn failures_are_seen() {
        let failed = |text: &[u8]| Call::new(text).unwrap().has_failed();
        assert!(failed(b"0) = -1 ENOENT (No such file or directory)"));
        assert!(failed(b"0) = ? ERESTARTSYS (To be restarted)"));
        assert!(!failed(b"0) = 0x7f0000000000"));
        assert_eq!(Call::new(b"3, \"unended"), None);
        assert_eq!(Call::new(b"3) 4"), None);
    }

    #[test]
    fn escapes_are_undone() {
        assert_eq!(
            unescaped(br#""/a\n\303\244\x41\"\\""#),
            "/a\n\u{e4}A\"\\".as_bytes()
        );
        assert_eq!(unescaped(br#""cut"..."#), b"cut");
        assert_eq!(unescaped(br"\"), b"");
    }
}
