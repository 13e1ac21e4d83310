// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts names and paths of any bytes to text for a log of `watch`, and back.

/// Converts bytes to text, reversibly. The text has no character that JSON would escape.
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

/// Reverses [`escaped`]; `None` for text that `escaped` doesn't produce.
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
