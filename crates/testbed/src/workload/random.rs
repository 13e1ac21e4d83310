// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pseudo-random numbers that are the same on every machine, without a library's choice of
//! algorithm in between.

/// The generator splitmix64.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 for a bound of 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let product = u128::from(self.next()) * bound as u128;
        (product >> 64) as usize
    }

    /// A number of nearly normal distribution, mean 0, deviation 1: a sum of twelve even ones.
    fn normal(&mut self) -> f64 {
        let unit = |bits: u64| (bits >> 11) as f64 / (1_u64 << 53) as f64;
        (0..12).map(|_| unit(self.next())).sum::<f64>() - 6.0
    }

    /// A number of log-normal distribution with the median 1.
    pub(super) fn log_normal(&mut self, deviation: f64) -> f64 {
        // e^x as (1 + x/1024)^1024: `exp` may differ in its last bits between C libraries, and a
        // file's size with it.
        let mut power = 1.0 + deviation * self.normal() / 1024.0;
        for _ in 0..10 {
            power *= power;
        }
        power
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_splitmix64() {
        let mut random = Random::new(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn numbers_stay_below_their_bound() {
        let mut random = Random::new(1);
        assert!((0..1000).all(|_| random.below(7) < 7));
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn log_normal_has_its_median() {
        let mut random = Random::new(1);
        let mut values: Vec<f64> = (0..10_001).map(|_| random.log_normal(1.3)).collect();
        values.sort_by(f64::total_cmp);
        assert!((0.9..1.1).contains(&values[5_000]), "{}", values[5_000]);
        // One deviation up: e^1.3.
        assert!((3.3..4.1).contains(&values[8_413]), "{}", values[8_413]);
    }
}
