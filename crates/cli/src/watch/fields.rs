// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fields of a line of the log of `watch`, and what is said where they are wrong.

use anyhow::{Context, Result};
use serde_json::Value;

pub fn text<'a>(line: &'a Value, name: &str) -> Result<&'a str> {
    let text = line[name].as_str();
    text.with_context(|| format!("it has no \"{name}\", or that is no text"))
}

pub fn number(line: &Value, name: &str) -> Result<u64> {
    let number = line[name].as_u64();
    number.with_context(|| format!("it has no \"{name}\", or that is no number"))
}

pub fn small(line: &Value, name: &str) -> Result<u32> {
    u32::try_from(number(line, name)?).with_context(|| format!("\"{name}\" is too large"))
}

pub fn is(line: &Value, name: &str) -> Result<bool> {
    let is = line[name].as_bool();
    is.with_context(|| format!("it has no \"{name}\", or that is neither true nor false"))
}

/// Names or paths of any bytes.
pub fn path(line: &Value, name: &str) -> Result<Vec<u8>> {
    unescaped(text(line, name)?).with_context(|| format!("\"{name}\" is escaped wrongly"))
}

pub fn paths(line: &Value, name: &str) -> Result<Vec<Vec<u8>>> {
    let paths = line[name].as_array();
    let paths = paths.with_context(|| format!("it has no \"{name}\", or that is no list"))?;
    let path = |path: &Value| unescaped(path.as_str()?);
    let paths: Option<Vec<_>> = paths.iter().map(path).collect();
    paths.with_context(|| format!("\"{name}\" has what is no path"))
}

/// The same of what need not be there.
pub fn path_or_none(line: &Value, name: &str) -> Result<Option<Vec<u8>>> {
    match &line[name] {
        Value::Null => Ok(None),
        _ => path(line, name).map(Some),
    }
}

/// One of several words.
pub fn word<T: Copy>(
    line: &Value,
    name: &str,
    all: &[T],
    word_of: impl Fn(T) -> &'static str,
) -> Result<T> {
    let word = text(line, name)?;
    let found = all.iter().find(|one| word_of(**one) == word).copied();
    found.with_context(|| format!("\"{name}\" is none of those that there are"))
}

/// Any bytes as text that stands for them alone, and has no character that needs an escape of
/// JSON.
pub fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '%' | '"' | '\\' => text += &format!("%{:02x}", c as u32),
                c if c.is_ascii_control() => text += &format!("%{:02x}", c as u32),
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            text += &format!("%{byte:02x}");
        }
    }
    text
}

/// The same of each.
pub fn all_escaped(paths: &[Vec<u8>]) -> Vec<String> {
    paths.iter().map(|path| escaped(path)).collect()
}

/// What was [`escaped`].
pub fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2).filter(|digits| !digits.starts_with('+'))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend(&part.as_bytes()[2..]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_escapes_are_none() {
        for wrong in ["%", "%1", "%zz", "a%+1", "%é"] {
            assert_eq!(unescaped(wrong), None, "{wrong}");
        }
        assert_eq!(escaped(b"100% \xff\n\"\\"), "100%25 %ff%0a%22%5c");
    }

    #[test]
    fn any_bytes_come_back() {
        for first in 0..=u8::MAX {
            for second in 0..=u8::MAX {
                let bytes = [b'a', first, second, 0xc3];
                let text = escaped(&bytes);
                assert_eq!(unescaped(&text).unwrap(), bytes, "{text}");
            }
        }
    }
}
