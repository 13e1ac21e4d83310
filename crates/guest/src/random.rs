// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random numbers that are the same for the same seed (SplitMix64).

/// See the [module](self).
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    /// The numbers of one part of what a seed stands for.
    pub fn of_part(seed: u64, part: u64) -> Self {
        Self(Self(seed).next() ^ Self(!part).next())
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`, which is above 0. Numbers are as good as equally likely: `end` is far below
    /// 2^64.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// One of these.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        let at = self.below(all.len() as u64);
        all.get(usize::try_from(at).unwrap_or(0)).copied()
    }

    /// Puts these into another order.
    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for end in (1..all.len()).rev() {
            let at = self.below(end as u64 + 1);
            all.swap(end, usize::try_from(at).unwrap_or(end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_and_another_one_others() {
        let numbers = |part| {
            let mut random = Random::of_part(1, part);
            (0..4).map(|_| random.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(numbers(3), numbers(3));
        assert_ne!(numbers(3), numbers(4));
        let mut all: Vec<u32> = (0..20).collect();
        Random::of_part(1, 0).shuffle(&mut all);
        assert!(!all.is_sorted());
        all.sort_unstable();
        assert_eq!(all, (0..20).collect::<Vec<_>>());
        assert_eq!(Random::of_part(1, 0).one_of::<u32>(&[]), None);
    }
}
