// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides whether observing hits leads to useful fetches.
//!
//! Observing a hit costs each such read a tenth of a microsecond. This is worth it for streams,
//! whose windows are fetched. Where misses show no stream, hits are not observed for a pause, which
//! grows each time. Misses are always observed, and end a pause when they show a stream.

use std::time::Duration;

/// Checks in a row without benefit after which a pause begins.
const DULL_LOOKS: u32 = 2;
/// The first pause; each further one is twice as long, up to `REST_MAX`.
const REST_MIN: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_secs(32);
/// Observing hits helps if at least one page is fetched per this many misses.
const MISSES_PER_PAGE_MAX: u64 = 8;
/// Fewer pages may be chance: two adjacent misses are taken for a stream.
const PAGES_MIN: u64 = 64;

/// Misses and fetched pages since the last check.
#[derive(Clone, Copy, Debug)]
pub struct Gain {
    misses: u64,
    fetched_pages: u64,
    dull_looks: u32,
    rest: Duration,
}

impl Default for Gain {
    fn default() -> Self {
        Self {
            misses: 0,
            fetched_pages: 0,
            dull_looks: 0,
            rest: REST_MIN,
        }
    }
}

impl Gain {
    /// Compares the totals of misses and fetched pages with those of the last check. Returns a
    /// pause if observing hits brings nothing.
    pub fn look(&mut self, misses: u64, fetched_pages: u64) -> Option<Duration> {
        let (missed, fetched) = self.since(misses, fetched_pages);
        (self.misses, self.fetched_pages) = (misses, fetched_pages);
        if fetched.saturating_mul(MISSES_PER_PAGE_MAX) < missed {
            self.dull_looks += 1;
        } else if fetched > 0 {
            *self = Self {
                misses,
                fetched_pages,
                ..Self::default()
            };
        }
        if self.dull_looks < DULL_LOOKS {
            return None;
        }
        self.dull_looks = 0;
        let rest = self.rest;
        self.rest = (rest * 2).min(REST_MAX);
        Some(rest)
    }

    /// Whether misses alone have shown a stream since the last look.
    #[must_use]
    pub fn is_there(&self, misses: u64, fetched_pages: u64) -> bool {
        let (missed, fetched) = self.since(misses, fetched_pages);
        fetched >= PAGES_MIN && fetched.saturating_mul(MISSES_PER_PAGE_MAX) >= missed
    }

    /// Misses and fetched pages since the last look.
    fn since(&self, misses: u64, fetched_pages: u64) -> (u64, u64) {
        (
            misses.saturating_sub(self.misses),
            fetched_pages.saturating_sub(self.fetched_pages),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn who_reads_at_random_is_seen_less_and_less() {
        let mut gain = Gain::default();
        let rests: Vec<u64> = (1..40u64)
            .filter_map(|look| gain.look(look * 100, look))
            .map(|rest| rest.as_secs())
            .collect();
        assert_eq!(rests[..7], [1, 2, 4, 8, 16, 32, 32]);
    }

    #[test]
    fn a_stream_is_seen_on_and_shortens_the_next_rest() {
        let mut gain = Gain::default();
        assert_eq!(gain.look(100, 0), None);
        assert_eq!(gain.look(200, 0), Some(REST_MIN));
        assert!(!gain.is_there(300, 12));
        assert!(!gain.is_there(1000, 64));
        assert!(gain.is_there(300, 64));
        assert_eq!(gain.look(300, 100), None);
        assert_eq!(gain.look(400, 100), None);
        assert_eq!(gain.look(500, 100), Some(REST_MIN));
    }

    proptest! {
        #[test]
        fn while_nothing_is_missed_it_never_rests(
            looks in prop::collection::vec((0u64..1000, 0u64..1000), 0..50)
        ) {
            let mut gain = Gain::default();
            let (mut misses, mut fetched) = (0, 0);
            for (more_misses, more_fetched) in looks {
                misses += more_misses.min(more_fetched * MISSES_PER_PAGE_MAX);
                fetched += more_fetched;
                prop_assert_eq!(gain.look(misses, fetched), None);
            }
        }
    }
}
