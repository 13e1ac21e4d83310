// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a replay is worth it, from times alone and with it.
//!
//! Two rules, both of which must hold, as for boots: the median is clearly lower, and almost all
//! pairs of a run alone and a run with a replay say the same. So one outlier decides nothing.

use foreread_boot::faster_pairs_permille;
use foreread_measure::sample::Sample;

/// The median with a replay must be below this share of the median alone, in thousandths. Below it
/// a person doesn't notice, and the noise of most machines is larger.
const MEDIAN_BELOW_PERMILLE: u64 = 950;
/// Share of pairs that must agree, in thousandths. Of 25 pairs these are 23. Where a replay makes
/// no difference, so many agree in 4 of 252 orders of 5 and 5 runs (exact distribution of Mann-
/// Whitney's U).
const PAIRS_PERMILLE: u64 = 900;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Clearly faster with a replay.
    Faster,
    /// The spread is larger than the difference.
    Unclear,
    /// Clearly slower with a replay.
    Slower,
}

/// Times in ns.
pub fn judge(alone_ns: &[u64], with_ns: &[u64]) -> Verdict {
    let median = |times: &[u64]| Sample::of_ns(times.iter().copied()).median_ns();
    let is_below = |lower: u64, upper: u64| {
        u128::from(lower) * 1000 <= u128::from(upper) * u128::from(MEDIAN_BELOW_PERMILLE)
    };
    let pairs = faster_pairs_permille(with_ns, alone_ns).unwrap_or(500);
    let (alone, with) = (median(alone_ns), median(with_ns));
    if pairs >= PAIRS_PERMILLE && is_below(with, alone) {
        Verdict::Faster
    } else if pairs <= 1000 - PAIRS_PERMILLE && is_below(alone, with) {
        Verdict::Slower
    } else {
        Verdict::Unclear
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_the_median_and_the_pairs_must_say_so() {
        let alone = [1000, 1100, 1050, 980, 1020];
        assert_eq!(judge(&alone, &[500, 520, 480, 510, 490]), Verdict::Faster);
        assert_eq!(judge(&[500, 520, 480, 510, 490], &alone), Verdict::Slower);
        // All pairs agree, and nobody notices.
        assert_eq!(judge(&alone, &[970, 975, 960, 965, 979]), Verdict::Unclear);
        // The median says so, and the spread is as large.
        assert_eq!(
            judge(&alone, &[500, 2000, 3000, 510, 900]),
            Verdict::Unclear
        );
        assert_eq!(judge(&[], &[]), Verdict::Unclear);
    }
}
