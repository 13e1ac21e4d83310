// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers as text has them.

/// Digits that always fit.
const SURE_DIGITS: usize = 19;
/// Digits of the largest number.
const DIGITS_MAX: usize = 20;

/// A number of 1 to 20 plain digits, all of `text`; `None` for anything else, and beyond
/// [`u64::MAX`].
#[must_use]
#[inline]
pub fn decimal(text: &[u8]) -> Option<u64> {
    let (sure, last) = text.split_at(text.len().min(SURE_DIGITS));
    if sure.is_empty() || text.len() > DIGITS_MAX {
        return None;
    }
    let mut number = 0;
    for byte in sure {
        number = number * 10 + digit(*byte)?;
    }
    match last {
        [] => Some(number),
        [byte, ..] => number.checked_mul(10)?.checked_add(digit(*byte)?),
    }
}

#[inline]
fn digit(byte: u8) -> Option<u64> {
    let digit = byte.wrapping_sub(b'0');
    (digit <= 9).then_some(u64::from(digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_whole_or_not_at_all() {
        for number in [0, 7, 10_000_000_000_000_000_000, u64::MAX - 1, u64::MAX] {
            assert_eq!(decimal(number.to_string().as_bytes()), Some(number));
        }
        assert_eq!(decimal(b"00000000000000000007"), Some(7));
        for text in [
            "",
            "-1",
            "+1",
            "1x",
            "x1",
            " 1",
            "18446744073709551616",
            "99999999999999999999",
        ] {
            assert_eq!(decimal(text.as_bytes()), None, "{text}");
        }
        assert_eq!(decimal(&[b'0'; 21]), None);
    }
}
