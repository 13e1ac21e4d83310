// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times in a histogram: 64 steps to each power of two, so a percentile is at most 1.6 % too high.
//! The largest time is exact. Only steps that have a time take memory, as there may be a histogram
//! for each of a million files.

/// Steps to a power of two, as a shift.
const STEPS_SHIFT: u32 = 6;

/// A histogram of the durations of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Number of the bucket, in ascending order, and the count of durations in it.
    buckets: Vec<(u16, u64)>,
    count: u64,
    max_ns: u64,
}

impl Latencies {
    /// Adds a time.
    pub fn add(&mut self, ns: u64) {
        self.add_to(bucket(ns), 1);
        self.count += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds all times of another.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, times) in &other.buckets {
            self.add_to(*bucket, *times);
        }
        self.count += other.count;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest time; 0 without any.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// A time that `permille` of all times don't exceed; 0 without any.
    #[must_use]
    pub fn permille_ns(&self, permille: u64) -> u64 {
        let wanted = (u128::from(self.count) * u128::from(permille)).div_ceil(1000) as u64;
        let mut seen = 0;
        for (bucket, times) in &self.buckets {
            seen += times;
            if seen >= wanted && seen > 0 {
                return last_of(*bucket).min(self.max_ns);
            }
        }
        self.max_ns
    }

    fn add_to(&mut self, bucket: u16, times: u64) {
        let place = self.buckets.binary_search_by_key(&bucket, |(at, _)| *at);
        match place {
            Ok(place) => self.buckets[place].1 += times,
            Err(place) => self.buckets.insert(place, (bucket, times)),
        }
    }
}

fn bucket(ns: u64) -> u16 {
    let bits = u64::BITS - ns.leading_zeros();
    let shift = bits.saturating_sub(STEPS_SHIFT + 1);
    let base = u64::from(shift) << STEPS_SHIFT;
    u16::try_from(base + (ns >> shift)).unwrap_or(u16::MAX)
}

/// The longest time of a bucket.
fn last_of(bucket: u16) -> u64 {
    let (at, steps) = (u64::from(bucket), 1u64 << STEPS_SHIFT);
    if at < 2 * steps {
        return at;
    }
    let shift = at / steps - 1;
    let first = u128::from(at - shift * steps) << shift;
    u64::try_from(first + (1 << shift) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_close_and_the_longest_is_exact() {
        let mut all = Latencies::default();
        for us in 1..=1000 {
            all.add(us * 1000);
        }
        let close = |got: u64, want: u64| got >= want && got <= want + want / 60;
        assert!(
            close(all.permille_ns(500), 500_000),
            "{}",
            all.permille_ns(500)
        );
        assert!(
            close(all.permille_ns(990), 990_000),
            "{}",
            all.permille_ns(990)
        );
        assert_eq!((all.max_ns(), all.count()), (1_000_000, 1000));
        assert_eq!(Latencies::default().permille_ns(500), 0);
    }

    #[test]
    fn a_bucket_holds_its_times() {
        for ns in [0, 1, 63, 64, 127, 128, 129, 1_000_003, u64::MAX] {
            let last = last_of(bucket(ns));
            assert!(last >= ns && bucket(last) == bucket(ns), "{ns}: {last}");
        }
    }
}
