// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether disks are read from.

use std::fs;
use std::time::{Duration, Instant};

/// Reads of all disks in a second below which they count as quiet: the journal and timers read a
/// little now and then.
const QUIET_READS_PER_S: u64 = 4;

/// Tells since when nobody reads.
pub struct Quiet {
    reads: u64,
    looked: Instant,
    since: Option<Instant>,
}

impl Quiet {
    pub fn begin() -> Self {
        Self {
            reads: reads(),
            looked: Instant::now(),
            since: None,
        }
    }

    /// Looks, at most once a second. Returns for how long disks have been quiet.
    pub fn look(&mut self) -> Duration {
        const LOOK_EVERY: Duration = Duration::from_secs(1);
        let passed = self.looked.elapsed();
        if passed >= LOOK_EVERY {
            let now = reads();
            let most = QUIET_READS_PER_S * passed.as_secs().max(1);
            self.since = match now.saturating_sub(self.reads) <= most {
                true => self.since.or(Some(self.looked)),
                false => None,
            };
            (self.reads, self.looked) = (now, Instant::now());
        }
        self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// Reads that all disks have completed.
fn reads() -> u64 {
    of_text(&fs::read_to_string("/proc/diskstats").unwrap_or_default())
}

/// Of `/proc/diskstats`: the fourth field is reads completed. A device that lies on another one
/// counts twice, which makes no difference to what is quiet.
fn of_text(text: &str) -> u64 {
    let reads = text.lines().filter_map(|line| {
        let field = line.split_whitespace().nth(3)?;
        field.parse::<u64>().ok()
    });
    reads.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_of_all_disks_are_added_up() {
        let text = "   8       0 sda 120 3 4 5 6 7 8\n 253 0 dm-0 7 0 0\nshort line\n";
        assert_eq!(of_text(text), 127);
        assert_eq!(of_text(""), 0);
    }

    #[test]
    fn it_is_quiet_only_after_a_look() {
        assert_eq!(Quiet::begin().look(), Duration::ZERO);
    }
}
