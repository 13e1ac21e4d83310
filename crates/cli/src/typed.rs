// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sizes and times as people type them.
//!
//! A size needs a unit: `128` may mean KiB, sectors or pages, each of which some tool of the field
//! takes. A bare time is in seconds, as in vmstat, iostat, sleep and timeout.

use foreread_core::Bytes;

/// Units of time that [`foreread_model::time_ns`] lacks, in seconds.
const LONG_UNITS_S: [(char, u64); 3] = [('m', 60), ('h', 3600), ('d', 86_400)];

/// A size, such as `64M`.
pub fn size(text: &str) -> Result<Bytes, String> {
    foreread_core::parse_size(text).map_err(|error| error.to_string())
}

/// A time in ns, such as `5ms`, `2m` or, in seconds, `10`.
pub fn time_ns(text: &str) -> Result<u64, String> {
    let seconds = |digits: &str, unit_s: u64| {
        // No sign, which parse() would take.
        let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        let number: u64 = digits.parse().ok().filter(|_| is_plain)?;
        number.checked_mul(unit_s)?.checked_mul(1_000_000_000)
    };
    let long = || {
        let mut units = LONG_UNITS_S.into_iter();
        units.find_map(|(unit, unit_s)| seconds(text.strip_suffix(unit)?, unit_s))
    };
    foreread_model::time_ns(text)
        .or_else(long)
        .or_else(|| seconds(text, 1))
        .ok_or_else(|| format!("{text}: a time is as in 100us, 5ms, 10s, 2m, or 10 for seconds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_time_is_in_seconds_and_a_bare_size_is_an_error() {
        assert_eq!(time_ns("5ms"), Ok(5_000_000));
        assert_eq!(time_ns("2"), Ok(2_000_000_000));
        assert_eq!(time_ns("2m"), Ok(120_000_000_000));
        assert_eq!(time_ns("30d"), Ok(2_592_000_000_000_000));
        for wrong in [
            "",
            "m",
            "-1",
            "+1",
            "1.5x",
            "99999999999999999999m",
            "600000000d",
        ] {
            assert!(time_ns(wrong).is_err(), "{wrong}");
        }
        assert!(size("128").is_err());
    }
}
