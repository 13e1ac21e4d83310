// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides how long hits are observed after the last miss.
//!
//! Input: the counts of misses, fetched pages and accesses, and the time. Output: whether it is
//! quiet. Then hits are no longer observed, and the next miss starts it again.
//!
//! A stream whose windows arrive in time misses nothing. A slow stream needs no window for many
//! seconds either, and reads on all the same. By misses alone it would be forgotten amid the pages
//! fetched for it. Without a bound, hits of a file that lies in memory wholly would be observed for
//! as long as it is read.

use std::time::Duration;

/// It is quiet if nothing was missed, fetched or read for this long.
const IDLE: Duration = Duration::from_secs(2);
/// It is also quiet if nothing was missed or fetched for this long, even if files were read. At 0.5
/// MiB/s a stream reads the 15 MiB that are fetched ahead of it in this time.
const SERVED: Duration = Duration::from_secs(30);

/// When something was missed, fetched or read last. Times are since a common start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet {
    needed: (u64, u64),
    needed_at: Duration,
    accesses: u64,
    read_at: Duration,
}

impl Quiet {
    /// Ends the quiet period, whatever the counters say.
    pub fn break_at(&mut self, now: Duration) {
        self.needed_at = now;
        self.read_at = now;
    }

    /// Takes the totals counted so far. Returns whether it is quiet.
    pub fn look(&mut self, now: Duration, misses: u64, fetched_pages: u64, accesses: u64) -> bool {
        if self.needed != (misses, fetched_pages) {
            self.needed = (misses, fetched_pages);
            self.break_at(now);
        }
        if self.accesses != accesses {
            self.accesses = accesses;
            self.read_at = now;
        }
        now.saturating_sub(self.read_at) > IDLE || now.saturating_sub(self.needed_at) > SERVED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After how many seconds it is quiet, where each second something else is counted.
    fn quiet_after(count: impl Fn(u64) -> (u64, u64, u64)) -> Option<u64> {
        let mut quiet = Quiet::default();
        (1..100).find(|second| {
            let (misses, fetched, accesses) = count(*second);
            quiet.look(Duration::from_secs(*second), misses, fetched, accesses)
        })
    }

    #[test]
    fn a_slow_stream_is_seen_on_while_it_reads_what_was_fetched() {
        // It reads each second, and needs a window every 20.
        assert_eq!(quiet_after(|second| (9, second / 20, second)), None);
        // It needs none any more.
        assert_eq!(quiet_after(|second| (9, 9, second)), Some(32));
        // Nor does it read.
        assert_eq!(quiet_after(|second| (9, 9, second.min(10))), Some(13));
        assert_eq!(quiet_after(|_| (9, 9, 9)), Some(4));
        assert_eq!(quiet_after(|second| (second, 0, second)), None);
    }

    #[test]
    fn it_begins_anew() {
        let mut quiet = Quiet::default();
        assert!(quiet.look(Duration::from_secs(9), 0, 0, 0));
        quiet.break_at(Duration::from_secs(9));
        assert!(!quiet.look(Duration::from_secs(9), 0, 0, 0));
    }
}
