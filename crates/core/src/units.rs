// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages, bytes, KiB and sectors as types that don't mix.
//!
//! `blockdev --getra` counts sectors, `read_ahead_kb` counts KiB, the kernel's window counts pages,
//! and file offsets count bytes. A number that changes its unit unseen is off by a factor of 2 to
//! 4096, so each unit is a type. Every change of unit names its treatment of a remainder.

use std::fmt;
use thiserror::Error;

/// Why a count can't be given in another unit.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum UnitError {
    /// More bytes than 64 bits can count.
    #[error("{count} {unit} are more bytes than 64 bits can count; give a smaller number")]
    TooLarge {
        /// The count, in `unit`.
        count: u64,
        /// Plural name of the unit.
        unit: &'static str,
    },
    /// A remainder is left.
    #[error("{bytes} is not a whole number of {unit} ({unit_bytes} bytes each)")]
    NotWhole {
        /// The size that was to be converted.
        bytes: Bytes,
        /// Plural name of the unit that was asked for.
        unit: &'static str,
        /// Bytes in one of it.
        unit_bytes: u64,
    },
}

/// Common interface of all units.
///
/// Every count from 0 to `u64::MAX` is a value; whether it can be said in bytes is checked when
/// it is asked for.
pub trait Unit: Copy + fmt::Display {
    /// Bytes in one of this unit.
    const UNIT_BYTES: u64;
    /// Plural name, as in messages.
    const PLURAL: &'static str;

    /// This many of the unit.
    fn new(count: u64) -> Self;

    /// The count, in this unit.
    fn count(self) -> u64;

    /// The same size in bytes.
    ///
    /// # Errors
    /// [`UnitError::TooLarge`] above 2^64 - 1 bytes.
    fn to_bytes(self) -> Result<Bytes, UnitError> {
        let (count, unit) = (self.count(), Self::PLURAL);
        let bytes = count.checked_mul(Self::UNIT_BYTES);
        bytes
            .map(Bytes::new)
            .ok_or(UnitError::TooLarge { count, unit })
    }

    /// The same size in another unit, without rounding.
    ///
    /// # Errors
    /// [`UnitError::NotWhole`] when a remainder is left, [`UnitError::TooLarge`] as in
    /// [`Unit::to_bytes`].
    fn to_exact<U: Unit>(self) -> Result<U, UnitError> {
        let bytes = self.to_bytes()?;
        let (unit, unit_bytes) = (U::PLURAL, U::UNIT_BYTES);
        if bytes.count().is_multiple_of(unit_bytes) {
            Ok(U::new(bytes.count() / unit_bytes))
        } else {
            Err(UnitError::NotWhole {
                bytes,
                unit,
                unit_bytes,
            })
        }
    }

    /// The size in another unit, rounded down.
    ///
    /// # Errors
    /// [`UnitError::TooLarge`] as in [`Unit::to_bytes`].
    fn to_floor<U: Unit>(self) -> Result<U, UnitError> {
        Ok(U::new(self.to_bytes()?.count() / U::UNIT_BYTES))
    }

    /// The size in another unit, rounded up.
    ///
    /// # Errors
    /// [`UnitError::TooLarge`] as in [`Unit::to_bytes`].
    fn to_ceil<U: Unit>(self) -> Result<U, UnitError> {
        Ok(U::new(self.to_bytes()?.count().div_ceil(U::UNIT_BYTES)))
    }
}

/// A newtype over a count, with arithmetic that can't overflow unseen.
macro_rules! unit {
    ($(#[$doc:meta])* $name:ident, $unit_bytes:literal, $singular:literal, $plural:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u64);

        impl $name {
            /// None of it.
            pub const ZERO: Self = Self(0);

            /// This many.
            #[must_use]
            pub const fn new(count: u64) -> Self {
                Self(count)
            }

            /// The count.
            #[must_use]
            pub const fn count(self) -> u64 {
                self.0
            }

            /// The sum; `None` above 2^64 - 1.
            #[must_use]
            pub const fn checked_add(self, other: Self) -> Option<Self> {
                match self.0.checked_add(other.0) {
                    Some(count) => Some(Self(count)),
                    None => None,
                }
            }

            /// The difference; `None` below zero.
            #[must_use]
            pub const fn checked_sub(self, other: Self) -> Option<Self> {
                match self.0.checked_sub(other.0) {
                    Some(count) => Some(Self(count)),
                    None => None,
                }
            }

            /// The difference; zero when `other` is larger.
            #[must_use]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }

        impl Unit for $name {
            const UNIT_BYTES: u64 = $unit_bytes;
            const PLURAL: &'static str = $plural;

            fn new(count: u64) -> Self {
                Self(count)
            }

            fn count(self) -> u64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let unit = if self.0 == 1 { $singular } else { $plural };
                f.pad(&format!("{} {unit}", grouped(self.0)))
            }
        }
    };
}

unit! {
    /// A number of bytes.
    Bytes, 1, "byte", "bytes"
}
unit! {
    /// A number of KiB: 1,024 bytes each, as in `read_ahead_kb`.
    KiB, 1024, "KiB", "KiB"
}
unit! {
    /// A number of sectors: 512 bytes each on every device, as in `blockdev --getra`.
    Sectors, 512, "sector", "sectors"
}
unit! {
    /// A number of pages: 4,096 bytes each on every machine, whatever its own page size.
    Pages, 4096, "page", "pages"
}

impl Bytes {
    /// For people: three digits or a little more, binary units (`128 KiB`, `132.6 MiB`).
    #[must_use]
    pub fn human(self) -> Human {
        Human(self)
    }
}

/// A size for people; see [`Bytes::human`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Human(Bytes);

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let bytes = self.0.count();
        if bytes < 1024 {
            return self.0.fmt(f);
        }
        let mut power = (u64::BITS - 1 - bytes.leading_zeros()) / 10;
        let tenths = |power: u32| {
            let unit = 1u128 << (10 * power);
            (u128::from(bytes) * 10 + unit / 2) / unit
        };
        // 1023.96 KiB would round to 1024.0 KiB.
        if tenths(power) >= 10240 && (power as usize) < NAMES.len() {
            power += 1;
        }
        let (tenths, name) = (tenths(power), NAMES[power as usize - 1]);
        f.pad(&match tenths % 10 {
            0 => format!("{} {name}", tenths / 10),
            rest => format!("{}.{rest} {name}", tenths / 10),
        })
    }
}

/// The digits of a number in groups of three: `131,072`.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_same_window_in_the_units_of_four_tools() {
        let window = KiB::new(128);
        assert_eq!(window.to_bytes(), Ok(Bytes::new(131_072)));
        assert_eq!(window.to_exact(), Ok(Sectors::new(256)));
        assert_eq!(window.to_exact(), Ok(Pages::new(32)));
        assert_eq!(Pages::new(32).to_exact(), Ok(window));
    }

    #[test]
    fn a_remainder_is_an_error_unless_a_direction_is_named() {
        let size = Bytes::new(4097);
        let error = size.to_exact::<Pages>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "4,097 bytes is not a whole number of pages (4096 bytes each)"
        );
        assert_eq!(size.to_floor(), Ok(Pages::new(1)));
        assert_eq!(size.to_ceil(), Ok(Pages::new(2)));
        assert_eq!(Bytes::ZERO.to_ceil(), Ok(Pages::ZERO));
    }

    #[test]
    fn what_64_bits_cannot_count_is_refused() {
        let most = Pages::new(u64::MAX / 4096);
        assert_eq!(most.to_bytes(), Ok(Bytes::new(u64::MAX - 4095)));
        let error = Pages::new(u64::MAX / 4096 + 1).to_bytes().unwrap_err();
        assert_eq!(
            error,
            UnitError::TooLarge {
                count: 1 << 52,
                unit: "pages"
            }
        );
        assert_eq!(Bytes::new(u64::MAX).to_ceil(), Ok(Pages::new(1 << 52)));
    }

    #[test]
    fn arithmetic_stops_at_the_ends() {
        assert_eq!(Pages::new(u64::MAX).checked_add(Pages::new(1)), None);
        assert_eq!(
            Pages::new(2).checked_add(Pages::new(3)),
            Some(Pages::new(5))
        );
        assert_eq!(Pages::new(2).checked_sub(Pages::new(3)), None);
        assert_eq!(Pages::new(2).saturating_sub(Pages::new(3)), Pages::ZERO);
    }

    #[test]
    fn display_names_the_unit() {
        assert_eq!(Pages::new(1).to_string(), "1 page");
        assert_eq!(Sectors::new(0).to_string(), "0 sectors");
        assert_eq!(KiB::new(128).to_string(), "128 KiB");
        assert_eq!(Bytes::new(139_000_000).to_string(), "139,000,000 bytes");
        assert_eq!(format!("[{:>9}]", Pages::new(32)), "[ 32 pages]");
    }

    #[test]
    fn human_sizes_have_few_digits() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1023, "1,023 bytes"),
            (1024, "1 KiB"),
            (131_072, "128 KiB"),
            (139_000_000, "132.6 MiB"),
            ((1 << 20) - 1, "1 MiB"),
            (1 << 40, "1 TiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(Bytes::new(bytes).human().to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn exact_conversion_there_and_back(count in 0u64..=u64::MAX / 4096) {
            let pages = Pages::new(count);
            let sectors: Sectors = pages.to_exact().unwrap();
            prop_assert_eq!(sectors.to_exact::<Pages>(), Ok(pages));
            let kib: KiB = pages.to_exact().unwrap();
            prop_assert_eq!(kib.to_exact::<Pages>(), Ok(pages));
        }

        #[test]
        fn floor_and_ceil_enclose_the_size(count: u64) {
            let bytes = Bytes::new(count);
            let floor = bytes.to_floor::<Pages>().unwrap().count();
            let ceil = bytes.to_ceil::<Pages>().unwrap().count();
            prop_assert!(u128::from(floor) * 4096 <= u128::from(count));
            prop_assert!(u128::from(ceil) * 4096 >= u128::from(count));
            prop_assert!(ceil - floor <= 1);
            prop_assert_eq!(ceil == floor, bytes.to_exact::<Pages>().is_ok());
        }

        #[test]
        fn grouping_keeps_the_digits(number: u64) {
            let text = grouped(number);
            prop_assert_eq!(text.replace(',', ""), number.to_string());
            let mut groups = text.split(',');
            prop_assert!((1..=3).contains(&groups.next().map_or(0, str::len)));
            prop_assert!(groups.all(|group| group.len() == 3));
        }
    }
}
