// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transfers whose speed depends on the size of the request: what flash with several channels does,
//! and what a bandwidth alone can't say.

use crate::arithmetic::scaled;
use crate::quantity::{self, SIZE, TIME};

/// Most sizes of a table.
const ENTRIES_MAX: usize = 64;

/// Times of the transfer of one request, by its size. If empty, the bandwidth gives them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransferTimes {
    /// Sizes in bytes with times in nanoseconds; sizes grow, and no time is 0.
    entries: Vec<(u64, u64)>,
}

impl TransferTimes {
    /// Reads `SIZE:TIME,SIZE:TIME,...`, as in `4K:120us,64K:2ms`. Sizes must grow. An empty
    /// text is an empty table.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut entries: Vec<(u64, u64)> = Vec::new();
        for part in text.split(',').filter(|_| !text.trim().is_empty()) {
            let (size, time) = part.split_once(':')?;
            let entry = (quantity::parse(size, SIZE)?, quantity::parse(time, TIME)?);
            let before = entries.last().copied().unwrap_or((0, 0));
            if entry.0 <= before.0 || entry.1 == 0 || entries.len() == ENTRIES_MAX {
                return None;
            }
            entries.push(entry);
        }
        Some(Self { entries })
    }

    /// The time of a request of this many bytes, interpolated between the sizes around it. Below
    /// the first size and above the last, it is proportional. `None` without a table.
    #[must_use]
    pub fn ns(&self, bytes: u64) -> Option<u64> {
        let (first, last) = (self.entries.first()?, self.entries.last()?);
        let above = self.entries.partition_point(|entry| entry.0 < bytes);
        Some(match self.entries.get(above) {
            None => scaled(last.1, bytes, last.0),
            Some(_) if above == 0 => scaled(first.1, bytes, first.0),
            Some(&(size, time)) => {
                let (size_below, time_below) = self.entries[above - 1];
                let part = scaled(
                    time.abs_diff(time_below),
                    bytes - size_below,
                    size - size_below,
                );
                if time < time_below {
                    time_below - part
                } else {
                    time_below + part
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_lie_on_the_lines_between_sizes() {
        let times = TransferTimes::parse("4K:100us, 8K:150us,64K:1ms").unwrap();
        assert_eq!(times.ns(4 << 10), Some(100_000));
        assert_eq!(times.ns(6 << 10), Some(125_000));
        assert_eq!(times.ns(64 << 10), Some(1_000_000));
        assert_eq!(times.ns(1 << 10), Some(25_000));
        assert_eq!(times.ns(128 << 10), Some(2_000_000));
        assert_eq!(times.ns(0), Some(0));
        assert_eq!(times.ns(u64::MAX), Some(u64::MAX));
        assert_eq!(TransferTimes::default().ns(4096), None);
        // Some sticks need longer for less.
        let odd = TransferTimes::parse("4K:600us,8K:500us").unwrap();
        assert_eq!(odd.ns(6 << 10), Some(550_000));
    }

    #[test]
    fn what_is_no_table_is_refused() {
        assert_eq!(TransferTimes::parse(" "), Some(TransferTimes::default()));
        for text in [
            "4K",
            "4K:",
            ":1us",
            "4K:1us,",
            "8K:1us,4K:2us",
            "4K:0us,8K:1us",
            "0:1us",
        ] {
            assert_eq!(TransferTimes::parse(text), None, "{text}");
        }
    }
}
