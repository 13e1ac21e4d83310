// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides whether a refresh watches hits. Watching slows each read of a program; it is worth that
//! while hits show pages that the profile hasn't got.

use crate::counts::Counts;

/// Hits are watched as long as a good part of them is news. Below one in a hundred, over at least
/// so many accesses, the program reads what it has read before.
const HITS_WITHOUT_NEWS: u64 = 2000;

/// Sums at the last decision.
#[derive(Clone, Copy, Debug, Default)]
pub struct HitWatch {
    seen: Counts,
}

impl HitWatch {
    /// Decides by the sums `now`: `Some(true)` to watch hits from now on, `Some(false)` to watch
    /// misses only, `None` to go on as before.
    pub fn decide(&mut self, watches_hits: bool, now: Counts) -> Option<bool> {
        let (calls, news) = (now.calls - self.seen.calls, now.news - self.seen.news);
        if watches_hits && calls < HITS_WITHOUT_NEWS {
            return None;
        }
        self.seen = now;
        match watches_hits {
            true => (news * 100 < calls).then_some(false),
            false => (news > 0).then_some(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(calls: u64, news: u64) -> Counts {
        Counts {
            calls,
            news,
            ..Counts::default()
        }
    }

    #[test]
    fn hits_are_watched_while_one_in_a_hundred_is_news() {
        let mut watch = HitWatch::default();
        assert_eq!(watch.decide(true, sums(1_999, 0)), None, "too few to tell");
        assert_eq!(watch.decide(true, sums(2_000, 20)), None);
        assert_eq!(watch.decide(true, sums(4_000, 39)), Some(false));
    }

    #[test]
    fn a_miss_that_is_news_brings_hits_back() {
        let mut watch = HitWatch::default();
        assert_eq!(watch.decide(false, sums(9_000, 0)), None);
        assert_eq!(watch.decide(false, sums(9_001, 1)), Some(true));
        assert_eq!(watch.decide(false, sums(9_002, 1)), None);
    }
}
