// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers with units, as a user types them: `4.17ms`, `256K`, `120MB`.

/// A unit and how many of the base unit it is.
type Unit = (&'static str, u64);

/// Times, in nanoseconds.
pub(crate) const TIME: &[Unit] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
];

/// Sizes, in bytes. One letter is binary, as in `dd` and `fio`; `KB`, `MB` and `GB` are decimal.
pub(crate) const SIZE: &[Unit] = &[
    ("B", 1),
    ("K", 1 << 10),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("M", 1 << 20),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("G", 1 << 30),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("T", 1 << 40),
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
];

/// Plain numbers.
pub(crate) const COUNT: &[Unit] = &[];

/// A time as a user types it, in nanoseconds: `100us`, `1.5ms`. A bare number is refused.
#[must_use]
pub fn time_ns(text: &str) -> Option<u64> {
    let has_unit = text.trim_end().ends_with(|c: char| !c.is_ascii_digit());
    has_unit.then(|| parse(text, TIME)).flatten()
}

/// Reads `text` as a number in the base unit. A bare integer is in the base unit, because the
/// parameter's name ends in it; a unit from `units` multiplies; a fraction needs a unit.
pub(crate) fn parse(text: &str, units: &[Unit]) -> Option<u64> {
    let text = text.trim();
    let split = text
        .find(|c: char| c != '.' && !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = unit.trim_start().trim_end_matches("/s");
    let factor = if unit.is_empty() {
        1
    } else {
        units.iter().find(|u| u.0 == unit)?.1
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.len() > 18 || (number.contains('.') && (fraction.is_empty() || factor == 1)) {
        return None;
    }
    let whole = u128::from(whole.parse::<u64>().ok()?) * u128::from(factor);
    let scaled = if fraction.is_empty() {
        0
    } else {
        let digits = u128::from(fraction.parse::<u64>().ok()?) * u128::from(factor);
        digits / 10_u128.pow(u32::try_from(fraction.len()).ok()?)
    };
    u64::try_from(whole + scaled).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_numbers_with_units() {
        assert_eq!(parse("90000", TIME), Some(90_000));
        assert_eq!(parse("4.17ms", TIME), Some(4_170_000));
        assert_eq!(parse("0.09 ms", TIME), Some(90_000));
        assert_eq!(parse("256K", SIZE), Some(262_144));
        assert_eq!(parse("120MB/s", SIZE), Some(120_000_000));
        assert_eq!(parse("64", COUNT), Some(64));
    }

    #[test]
    fn a_time_alone_needs_its_unit() {
        assert_eq!(time_ns("100us"), Some(100_000));
        assert_eq!(["100", "", "us", "1.5", "5K"].map(time_ns), [None; 5]);
    }

    #[test]
    fn refuses_nonsense() {
        for bad in [
            "",
            "ms",
            "-1",
            "1.5",
            "1.ms",
            "1.2.3ms",
            "1e3",
            "12parsec",
            "99999999999T",
        ] {
            assert_eq!(parse(bad, TIME), None, "{bad}");
        }
        assert_eq!(parse("99999999999T", SIZE), None);
        assert_eq!(parse("5ms", SIZE), None);
    }
}
