// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers in text.

pub(super) use foreread_core::decimal;

/// A decimal number that may have a sign.
pub(super) fn signed(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some(digits) => 0_i64.checked_sub_unsigned(decimal(digits)?),
        None => i64::try_from(decimal(text)?).ok(),
    }
}

/// A number of any base that C knows: decimal, 0x, or 0 for octal.
pub(super) fn c_number(text: &[u8]) -> Option<u64> {
    let (digits, radix) = match text {
        [b'0', b'x' | b'X', digits @ ..] => (digits, 16),
        [b'0', digits @ ..] if !digits.is_empty() => (digits, 8),
        digits => return decimal(digits),
    };
    let digits = std::str::from_utf8(digits).ok()?;
    u64::from_str_radix(digits, radix).ok()
}

/// Factors that turn a fraction of seconds into nanoseconds, by its number of digits.
const FRACTION_NS: [u64; 10] = [
    1_000_000_000,
    100_000_000,
    10_000_000,
    1_000_000,
    100_000,
    10_000,
    1000,
    100,
    10,
    1,
];

/// Seconds with or without a fraction, as nanoseconds. Digits after the ninth don't count.
#[inline]
pub(super) fn seconds_ns(text: &[u8]) -> Option<u64> {
    let point = text.iter().position(|byte| *byte == b'.');
    let (seconds, fraction_ns) = match point {
        Some(point) => {
            let fraction = &text[point + 1..];
            let fraction = &fraction[..fraction.len().min(FRACTION_NS.len() - 1)];
            let unit_ns = FRACTION_NS[fraction.len()];
            (&text[..point], decimal(fraction)? * unit_ns)
        }
        None => (text, 0),
    };
    decimal(seconds)?
        .checked_mul(1_000_000_000)?
        .checked_add(fraction_ns)
}

/// Days from 1970 to a date of the calendar; `None` when it is none or before that.
pub(super) fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years are counted from March, so that a leap day is the last of its year.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + day_of_year;
    days.checked_sub(719_468)
}

/// A time of day, `08:26:11.003330`, in nanoseconds.
pub(super) fn time_of_day_ns(text: &[u8]) -> Option<u64> {
    let [h1, h2, b':', m1, m2, b':', seconds @ ..] = text else {
        return None;
    };
    let hours = decimal(&[*h1, *h2]).filter(|hours| *hours < 24)?;
    let minutes = decimal(&[*m1, *m2]).filter(|minutes| *minutes < 60)?;
    // A leap second is the sixtieth.
    let seconds_ns = seconds_ns(seconds).filter(|ns| *ns < 61_000_000_000)?;
    Some((hours * 3600 + minutes * 60) * 1_000_000_000 + seconds_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_and_bases_are_read() {
        assert_eq!(signed(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(signed(b"9223372036854775808"), None);
        assert_eq!(c_number(b"0x1f"), Some(31));
        assert_eq!(c_number(b"0644"), Some(0o644));
        assert_eq!(c_number(b"0"), Some(0));
    }

    #[test]
    fn times_keep_their_fraction() {
        assert_eq!(seconds_ns(b"1.5"), Some(1_500_000_000));
        assert_eq!(seconds_ns(b"0.000010"), Some(10_000));
        assert_eq!(seconds_ns(b"7"), Some(7_000_000_000));
        assert_eq!(seconds_ns(b"1.0000000019"), Some(1_000_000_001));
        assert_eq!([seconds_ns(b"1."), seconds_ns(b".5")], [None; 2]);
        assert_eq!(time_of_day_ns(b"00:01:02.5"), Some(62_500_000_000));
        assert_eq!(time_of_day_ns(b"24:00:00"), None);
    }

    #[test]
    fn dates_are_days_since_1970() {
        assert_eq!(days(1970, 1, 1), Some(0));
        assert_eq!(days(2000, 2, 29), Some(11_016));
        assert_eq!(days(2021, 1, 15), Some(18_642));
        assert_eq!(days(2021, 13, 15), None);
    }
}
