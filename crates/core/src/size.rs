// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sizes that people type.
//!
//! The tools of the field disagree on the unit of a bare number (`blockdev --setra` sectors,
//! `read_ahead_kb` KiB, fio bytes). So here a size has a unit, and the error for a bare number
//! lists the sizes that it could mean.

use crate::units::{Bytes, KiB, Pages, Sectors, Unit, UnitError, grouped};
use std::str::FromStr;
use thiserror::Error;

/// Units as typed, with the bytes in one. Case matters: `dd` reads `b` as 512 bytes and others as
/// a bit, so neither `b` nor `kb` is guessed at.
const UNITS: [(&str, u64); 19] = [
    ("B", 1),
    ("s", Sectors::UNIT_BYTES),
    ("p", Pages::UNIT_BYTES),
    ("K", 1 << 10),
    ("k", 1 << 10),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("kB", 1_000),
    ("M", 1 << 20),
    ("m", 1 << 20),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("G", 1 << 30),
    ("g", 1 << 30),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("T", 1 << 40),
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
];

/// Units that may be typed, for messages.
const UNITS_HELP: &str = "K, M, G or T (powers of 1,024), KB, MB, GB or TB (powers of 1,000), \
                          s (sectors of 512 bytes), p (pages of 4,096) or B (bytes)";

/// Maximum number of digits after a decimal point. Enough for any fraction of a `T` that is whole
/// bytes in decimal units, and far from an overflow of 128 bits.
const FRACTION_DIGITS_MAX: usize = 12;

/// Why a text is not a size.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SizeError {
    /// Nothing was typed.
    #[error("no size given; a size is a number and a unit, such as 128K")]
    Empty,
    /// A number without a unit.
    #[error("{number}: {number} what? {readings}")]
    NoUnit {
        /// As typed.
        number: String,
        /// Texts with a unit that it could stand for.
        readings: String,
    },
    /// A unit that is none of ours.
    #[error("{text}: unknown unit `{unit}`; use {UNITS_HELP}")]
    UnknownUnit {
        /// As typed.
        text: String,
        /// The part of it that should have been a unit.
        unit: String,
    },
    /// Doesn't start with a number.
    #[error("{text}: not a size; a size is a number and a unit, such as 128K or 1.5G")]
    NotANumber {
        /// As typed.
        text: String,
    },
    /// A fraction that leaves part of a byte.
    #[error("{text}: not a whole number of bytes")]
    PartOfAByte {
        /// As typed.
        text: String,
    },
    /// More than 64 bits can count.
    #[error("{text}: too large; the largest size is 2^64 - 1 bytes")]
    TooLarge {
        /// As typed.
        text: String,
    },
    /// A good size that the wanted unit can't express.
    #[error("{text}: {source}")]
    Unit {
        /// As typed.
        text: String,
        /// The error of the conversion.
        source: UnitError,
    },
}

/// Reads a size that a person typed: `128K`, `128 KiB`, `128KB`, `256s`, `32p`, `1.5G`.
///
/// # Errors
/// [`SizeError`], whose text says what to type instead; a bare number is one of them.
///
/// ```
/// use foreread_core::{Bytes, parse_size};
///
/// assert_eq!(parse_size("128K"), Ok(Bytes::new(131_072)));
/// assert_eq!(
///     parse_size("128").unwrap_err().to_string(),
///     "128: 128 what? 128K = 131,072 bytes, 128s = 65,536 bytes, 128p = 524,288 bytes"
/// );
/// ```
pub fn parse_size(typed: &str) -> Result<Bytes, SizeError> {
    let text = typed.trim();
    if text.is_empty() {
        return Err(SizeError::Empty);
    }
    let number_length = text
        .bytes()
        .take_while(|b| b.is_ascii_digit() || *b == b'.')
        .count();
    let (number, unit) = text.split_at(number_length);
    let unit = unit.trim_start();
    let number = Decimal::parse(number, text)?;
    if unit.is_empty() {
        return Err(no_unit(text, number));
    }
    let Some((_, unit_bytes)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        let (text, unit) = (text.to_owned(), unit.to_owned());
        return Err(SizeError::UnknownUnit { text, unit });
    };
    number.times(*unit_bytes, text)
}

/// A number in decimal digits: `digits / scale`.
#[derive(Clone, Copy)]
struct Decimal {
    digits: u128,
    scale: u128,
}

impl Decimal {
    /// `number` is of digits and points; `text` is all that was typed, for errors.
    fn parse(number: &str, text: &str) -> Result<Self, SizeError> {
        let not_a_number = || SizeError::NotANumber {
            text: text.to_owned(),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
            return Err(not_a_number());
        }
        let fraction = fraction.trim_end_matches('0');
        if fraction.len() > FRACTION_DIGITS_MAX {
            return Err(SizeError::PartOfAByte {
                text: text.to_owned(),
            });
        }
        // Only digits are left, so the one way for this to fail is a number beyond 64 bits.
        let whole = u64::from_str(whole);
        let whole = whole.map_err(|_| SizeError::TooLarge {
            text: text.to_owned(),
        })?;
        let scale = fraction.bytes().fold(1, |scale, _| scale * 10);
        let fraction = fraction
            .bytes()
            .fold(0, |sum, b| sum * 10 + u128::from(b - b'0'));
        Ok(Self {
            digits: u128::from(whole) * scale + fraction,
            scale,
        })
    }

    /// This many units of `unit_bytes`. What overflows 128 bits here is above 2^128 / 10^12 bytes,
    /// so it is too large for 64 bits in any case.
    fn times(self, unit_bytes: u64, text: &str) -> Result<Bytes, SizeError> {
        let too_large = || SizeError::TooLarge {
            text: text.to_owned(),
        };
        let scaled = self
            .digits
            .checked_mul(u128::from(unit_bytes))
            .ok_or_else(too_large)?;
        if scaled / self.scale > u128::from(u64::MAX) {
            return Err(too_large());
        }
        if !scaled.is_multiple_of(self.scale) {
            return Err(SizeError::PartOfAByte {
                text: text.to_owned(),
            });
        }
        u64::try_from(scaled / self.scale)
            .map(Bytes::new)
            .map_err(|_| too_large())
    }
}

/// The error for a bare number: the sizes that it could mean, as far as 64 bits go.
fn no_unit(number: &str, value: Decimal) -> SizeError {
    let readings: Vec<String> = [
        ("K", KiB::UNIT_BYTES),
        ("s", Sectors::UNIT_BYTES),
        ("p", Pages::UNIT_BYTES),
    ]
    .into_iter()
    .filter_map(|(unit, unit_bytes)| {
        let bytes = value.times(unit_bytes, number).ok()?;
        Some(format!("{number}{unit} = {} bytes", grouped(bytes.count())))
    })
    .collect();
    if readings.is_empty() {
        return SizeError::TooLarge {
            text: number.to_owned(),
        };
    }
    SizeError::NoUnit {
        number: number.to_owned(),
        readings: readings.join(", "),
    }
}

/// `FromStr` for a unit: a typed size that must be a whole number of it.
macro_rules! from_str {
    ($($unit:ident),*) => {
        $(impl FromStr for $unit {
            type Err = SizeError;

            fn from_str(text: &str) -> Result<Self, SizeError> {
                let bytes = parse_size(text)?;
                bytes.to_exact().map_err(|source| {
                    SizeError::Unit { text: text.trim().to_owned(), source }
                })
            }
        })*
    };
}

from_str!(Bytes, KiB, Pages, Sectors);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn error(text: &str) -> String {
        parse_size(text).unwrap_err().to_string()
    }

    #[test]
    fn every_unit_means_what_its_name_says() {
        for (text, bytes) in [
            ("128K", 131_072),
            ("128k", 131_072),
            ("128KiB", 131_072),
            ("128KB", 128_000),
            ("128kB", 128_000),
            ("256s", 131_072),
            ("32p", 131_072),
            ("7B", 7),
            ("2M", 2 << 20),
            ("2MiB", 2 << 20),
            ("2MB", 2_000_000),
            ("3G", 3 << 30),
            ("3GB", 3_000_000_000),
            ("4T", 4 << 40),
            ("4TiB", 4 << 40),
            ("4TB", 4_000_000_000_000),
            (" 128 K ", 131_072),
            ("0s", 0),
            ("1.5G", 3 << 29),
            ("0.25K", 256),
            ("1.50KB", 1500),
            ("00128K", 131_072),
            ("18446744073709551615B", u64::MAX),
        ] {
            assert_eq!(parse_size(text), Ok(Bytes::new(bytes)), "{text}");
        }
    }

    #[test]
    fn a_bare_number_is_answered_with_its_readings() {
        assert_eq!(
            error("128"),
            "128: 128 what? 128K = 131,072 bytes, 128s = 65,536 bytes, 128p = 524,288 bytes"
        );
        assert_eq!(
            error("0"),
            "0: 0 what? 0K = 0 bytes, 0s = 0 bytes, 0p = 0 bytes"
        );
        // 2^54 KiB are more than 64 bits can count; as many sectors are not.
        assert_eq!(
            error("18014398509481984"),
            "18014398509481984: 18014398509481984 what? \
             18014398509481984s = 9,223,372,036,854,775,808 bytes"
        );
    }

    #[test]
    fn what_is_no_size_says_what_to_type() {
        assert_eq!(
            error(" "),
            "no size given; a size is a number and a unit, such as 128K"
        );
        for text in [
            "K", "-5K", "+5K", ".5K", "5.K", "1.2.3K", "1..K", "٣K", "0x10K",
        ] {
            let message = error(text);
            assert!(message.starts_with(text), "{message}");
        }
        for unit in [
            "b", "kb", "Kb", "mb", "KIB", "X", "s s", "K128", ",000K", "e3K",
        ] {
            let message = error(&format!("1{unit}"));
            assert!(
                message.contains(&format!("unknown unit `{unit}`; use K, M, G")),
                "{message}"
            );
        }
        assert_eq!(error("0.3B"), "0.3B: not a whole number of bytes");
        assert_eq!(
            error("0.0000000000001K"),
            "0.0000000000001K: not a whole number of bytes"
        );
    }

    #[test]
    fn what_64_bits_cannot_count_is_refused() {
        for text in [
            "18446744073709551616B",
            "18014398509481984K",
            "99999999T",
            "18446744073709551615.999999999999TB",
            "123456789012345678901234567890",
            "18446744073709551615",
        ] {
            assert_eq!(
                error(text),
                format!("{text}: too large; the largest size is 2^64 - 1 bytes")
            );
        }
    }

    #[test]
    fn a_size_for_a_coarser_unit_must_be_whole() {
        assert_eq!("128K".parse(), Ok(Pages::new(32)));
        assert_eq!("32p".parse(), Ok(Sectors::new(256)));
        assert_eq!("1M".parse(), Ok(KiB::new(1024)));
        assert_eq!(
            "3s".parse::<Pages>().unwrap_err().to_string(),
            "3s: 1,536 bytes is not a whole number of pages (4096 bytes each)"
        );
    }

    proptest! {
        #[test]
        fn any_text_gets_an_answer(text in ".{0,40}") {
            if let Err(error) = parse_size(&text) {
                prop_assert!(!error.to_string().is_empty());
            }
        }

        #[test]
        fn number_times_unit(count: u64, unit in 0..UNITS.len()) {
            let (name, unit_bytes) = UNITS[unit];
            let wanted = count.checked_mul(unit_bytes).map(Bytes::new);
            prop_assert_eq!(parse_size(&format!("{count}{name}")).ok(), wanted);
        }

        #[test]
        fn a_fraction_is_exact_or_refused(whole in 0u64..1 << 20, eighths in 0u64..8) {
            let text = format!("{whole}.{:03}K", eighths * 125);
            prop_assert_eq!(parse_size(&text), Ok(Bytes::new(whole * 1024 + eighths * 128)));
        }

        #[test]
        fn no_bare_number_is_a_size(count: u64) {
            prop_assert!(parse_size(&count.to_string()).is_err());
        }
    }
}
