// SPDX-License-Identifier: MIT OR Apache-2.0
//! Integer times of transfers and seeks. Every function is total: extreme inputs saturate.

const NS_PER_S: u128 = 1_000_000_000;

/// The time to move `bytes` at `bytes_per_s`, rounded up so that no device is faster than its
/// bandwidth. A bandwidth of 0 counts as 1.
pub(crate) fn transfer_ns(bytes: u64, bytes_per_s: u64) -> u64 {
    let ns = (u128::from(bytes) * NS_PER_S).div_ceil(u128::from(bytes_per_s.max(1)));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// `value * part / whole`, rounded up. A whole of 0 counts as 1.
pub(crate) fn scaled(value: u64, part: u64, whole: u64) -> u64 {
    let scaled = (u128::from(value) * u128::from(part)).div_ceil(u128::from(whole.max(1)));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// The time between two starts at `per_s` requests a second, rounded up; 0 means no cap.
pub(crate) fn interval_ns(per_s: u64) -> u64 {
    if per_s == 0 {
        0
    } else {
        1_000_000_000_u64.div_ceil(per_s)
    }
}

/// `span_ns * sqrt(distance / capacity)`, with the ratio held to at most 1.
///
/// The root is computed in 32.32 fixed point. Its error is below one part in 2^31. It is the same
/// on every machine, which a float would not guarantee.
pub(crate) fn seek_span_ns(span_ns: u64, distance_bytes: u64, capacity_bytes: u64) -> u64 {
    let capacity = u128::from(capacity_bytes.max(1));
    let ratio = (u128::from(distance_bytes).min(capacity) << 64) / capacity;
    let root = ratio.isqrt();
    u64::try_from((u128::from(span_ns) * root) >> 32).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfer_rounds_up() {
        assert_eq!(transfer_ns(0, 120_000_000), 0);
        assert_eq!(transfer_ns(1, 120_000_000), 9);
        assert_eq!(transfer_ns(120_000_000, 120_000_000), 1_000_000_000);
        assert_eq!(transfer_ns(u64::MAX, 1), u64::MAX);
        assert_eq!(transfer_ns(1, 0), 1_000_000_000);
    }

    #[test]
    fn interval_never_exceeds_the_rate() {
        assert_eq!(interval_ns(0), 0);
        assert_eq!(interval_ns(3_000), 333_334);
        assert_eq!(interval_ns(u64::MAX), 1);
    }

    #[test]
    fn seek_follows_the_square_root() {
        assert_eq!(seek_span_ns(10_000_000, 0, 100), 0);
        assert_eq!(seek_span_ns(10_000_000, 25, 100), 5_000_000);
        assert_eq!(seek_span_ns(10_000_000, 100, 100), 10_000_000);
        // Farther than the disk is large: held to a full stroke.
        assert_eq!(seek_span_ns(10_000_000, u64::MAX, 100), 10_000_000);
        assert_eq!(seek_span_ns(u64::MAX, u64::MAX, u64::MAX), u64::MAX);
        assert_eq!(seek_span_ns(10_000_000, 5, 0), 10_000_000);
    }
}
