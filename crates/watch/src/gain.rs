// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides whether observing hits leads to useful fetches.
//!
//! Observing a hit costs each such read a tenth of a microsecond. This is worth it for streams,
//! whose windows are fetched. Where misses show no stream, hits are not observed for a pause, which
//! grows each time. Misses are always observed, and end a pause when they show a stream. So do
//! markers that readers reach. The kernel sets one in each window that it reads ahead, so a reader
//! that goes forward reaches them and misses nothing.

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
/// Markers that show a stream, each for a window of the kernel. Fewer may be small files.
const MARKS_MIN: u64 = 8;
/// Markers end a pause after this part of it: where others miss far more than streams fetch, it
/// begins again at once.
const PAUSE_FOR_MARKS: u32 = 8;

/// Misses and fetched pages since the last check.
#[derive(Clone, Copy, Debug)]
pub struct Gain {
    misses: u64,
    fetched_pages: u64,
    marks: u64,
    dull_looks: u32,
    rest: Duration,
    /// The pause that was returned last.
    resting: Duration,
}

impl Default for Gain {
    fn default() -> Self {
        Self {
            misses: 0,
            fetched_pages: 0,
            marks: 0,
            dull_looks: 0,
            rest: REST_MIN,
            resting: REST_MIN,
        }
    }
}

impl Gain {
    /// Compares the totals of misses and fetched pages with those of the last check. Returns a
    /// pause if observing hits brings nothing.
    pub fn look(&mut self, misses: u64, fetched_pages: u64, marks: u64) -> Option<Duration> {
        let (missed, fetched) = self.since(misses, fetched_pages);
        (self.misses, self.fetched_pages, self.marks) = (misses, fetched_pages, marks);
        if fetched.saturating_mul(MISSES_PER_PAGE_MAX) < missed {
            self.dull_looks += 1;
        } else if fetched > 0 {
            *self = Self {
                misses,
                fetched_pages,
                marks,
                ..Self::default()
            };
        }
        if self.dull_looks < DULL_LOOKS {
            return None;
        }
        self.dull_looks = 0;
        let rest = self.rest;
        self.rest = (rest * 2).min(REST_MAX);
        self.resting = rest;
        Some(rest)
    }

    /// Whether misses or markers alone have shown a stream since the last look. `left` is what is
    /// left of the pause.
    #[must_use]
    pub fn is_there(&self, misses: u64, fetched_pages: u64, marks: u64, left: Duration) -> bool {
        let (missed, fetched) = self.since(misses, fetched_pages);
        let rested = self.resting.saturating_sub(left);
        let is_marked = marks.saturating_sub(self.marks) >= MARKS_MIN
            && rested * PAUSE_FOR_MARKS >= self.resting;
        is_marked || fetched >= PAGES_MIN && fetched.saturating_mul(MISSES_PER_PAGE_MAX) >= missed
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
            .filter_map(|look| gain.look(look * 100, look, 0))
            .map(|rest| rest.as_secs())
            .collect();
        assert_eq!(rests[..7], [1, 2, 4, 8, 16, 32, 32]);
    }

    #[test]
    fn a_stream_is_seen_on_and_shortens_the_next_rest() {
        let mut gain = Gain::default();
        assert_eq!(gain.look(100, 0, 0), None);
        assert_eq!(gain.look(200, 0, 0), Some(REST_MIN));
        assert!(!gain.is_there(300, 12, 0, REST_MIN));
        assert!(!gain.is_there(1000, 64, 0, REST_MIN));
        assert!(gain.is_there(300, 64, 0, REST_MIN));
        assert_eq!(gain.look(300, 100, 0), None);
        assert_eq!(gain.look(400, 100, 0), None);
        assert_eq!(gain.look(500, 100, 0), Some(REST_MIN));
    }

    #[test]
    fn a_reader_that_misses_nothing_ends_a_rest_by_markers() {
        let mut gain = Gain::default();
        assert_eq!(gain.look(100, 0, 50), None);
        assert_eq!(gain.look(200, 0, 50), Some(REST_MIN));
        let left = REST_MIN - REST_MIN / PAUSE_FOR_MARKS;
        assert!(!gain.is_there(200, 0, 50 + MARKS_MIN - 1, left));
        assert!(!gain.is_there(200, 0, 50 + MARKS_MIN, REST_MIN));
        assert!(gain.is_there(200, 0, 50 + MARKS_MIN, left));
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
                prop_assert_eq!(gain.look(misses, fetched, 0), None);
            }
        }
    }
}
