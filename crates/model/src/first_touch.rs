// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks that a disk must fetch from elsewhere before it reads them for the first time. A cloud
//! volume that was restored from a snapshot has such blocks.
//!
//! In: the bytes of a request, and when the disk turns to it. Out: when all of its blocks are
//! there. A block is fetched once. Fetches begin in the order of their requests. The parameters
//! limit fetches at once and fetches a second.

use std::collections::{HashMap, VecDeque};

use crate::arithmetic::interval_ns;
use crate::parameters::DiskParameters;

/// Blocks are at least this large: nobody fetches less than a page.
const BLOCK_BYTES_MIN: u64 = 4096;
/// Blocks of one request that are looked at, so that no request takes for ever. At the smallest
/// size they are 4 MiB, the largest request of Linux.
const BLOCKS_MAX: usize = 1 << 10;

/// The blocks that were touched, and the fetches that are under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct FirstTouches {
    /// When each touched block is there, by its number.
    there_ns: HashMap<u64, u64>,
    /// Ends of the last fetches, as many as run at once.
    ends_ns: VecDeque<u64>,
    allowed_ns: u64,
}

impl FirstTouches {
    /// Whether a disk with these parameters has blocks to fetch.
    pub(crate) fn are_modelled(parameters: &DiskParameters) -> bool {
        parameters.first_touch_bytes > 0
    }

    /// Whether blocks that were fetched by one disk are there on the other.
    pub(crate) fn are_alike(one: &DiskParameters, other: &DiskParameters) -> bool {
        let numbers = |parameters: &DiskParameters| {
            [
                parameters.first_touch_bytes,
                parameters.first_touch_ns,
                parameters.first_touch_parallel_requests,
                parameters.first_touch_rate_requests_per_s,
            ]
        };
        numbers(one) == numbers(other)
    }

    /// When the blocks of `length_bytes` bytes from `offset_bytes` on are there, at least `now_ns`;
    /// and how many of them this request is the first to touch.
    pub(crate) fn touch(
        &mut self,
        parameters: &DiskParameters,
        now_ns: u64,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> (u64, u64) {
        let block_bytes = parameters.first_touch_bytes.max(BLOCK_BYTES_MIN);
        let last_bytes = offset_bytes.saturating_add(length_bytes.saturating_sub(1));
        let (mut all_there_ns, mut fetched) = (now_ns, 0);
        let blocks = offset_bytes / block_bytes..=last_bytes / block_bytes;
        for block in blocks.take(BLOCKS_MAX) {
            let there_ns = match self.there_ns.get(&block) {
                Some(there_ns) => *there_ns,
                None => {
                    fetched += 1;
                    let there_ns = self.fetch(parameters, now_ns);
                    self.there_ns.insert(block, there_ns);
                    there_ns
                }
            };
            all_there_ns = all_there_ns.max(there_ns);
        }
        (all_there_ns, fetched)
    }

    /// Begins a fetch at `now_ns` or as soon as the others allow it; returns its end.
    fn fetch(&mut self, parameters: &DiskParameters, now_ns: u64) -> u64 {
        let mut start_ns = now_ns.max(self.allowed_ns);
        // All fetches take as long, so that they end in the order of their starts.
        if self.ends_ns.len() as u64 >= parameters.first_touch_parallel_requests.max(1) {
            start_ns = start_ns.max(self.ends_ns.pop_front().unwrap_or(0));
        }
        let pace_ns = interval_ns(parameters.first_touch_rate_requests_per_s);
        self.allowed_ns = start_ns.saturating_add(pace_ns);
        let end_ns = start_ns.saturating_add(parameters.first_touch_ns);
        self.ends_ns.push_back(end_ns);
        end_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lazy() -> DiskParameters {
        DiskParameters::preset("lazy").unwrap()
    }

    const BLOCK: u64 = 512 << 10;
    /// A three-hundredth of a second, rounded up.
    const PACE_NS: u64 = 3_333_334;

    #[test]
    fn a_block_is_fetched_once_and_waited_for_by_all() {
        let mut touches = FirstTouches::default();
        assert_eq!(touches.touch(&lazy(), 5, 0, 4096), (10_000_005, 1));
        assert_eq!(touches.touch(&lazy(), 7, BLOCK - 1, 1), (10_000_005, 0));
        assert_eq!(
            touches.touch(&lazy(), 20_000_000, 0, BLOCK),
            (20_000_000, 0)
        );
        // No byte is no block, but that of its offset.
        assert_eq!(touches.touch(&lazy(), 30_000_000, 8192, 0), (30_000_000, 0));
    }

    #[test]
    fn fetches_begin_at_their_pace_and_so_many_at_once() {
        let mut touches = FirstTouches::default();
        let last_ns = 2 * PACE_NS + 10_000_000;
        assert_eq!(
            touches.touch(&lazy(), 0, BLOCK - 1, BLOCK + 2),
            (last_ns, 3)
        );

        let mut touches = FirstTouches::default();
        let two = DiskParameters {
            first_touch_rate_requests_per_s: 0,
            first_touch_parallel_requests: 2,
            ..lazy()
        };
        assert_eq!(touches.touch(&two, 0, 0, 5 * BLOCK), (30_000_000, 5));
    }

    #[test]
    fn no_request_takes_for_ever() {
        let mut touches = FirstTouches::default();
        let small = DiskParameters {
            first_touch_bytes: 1,
            ..lazy()
        };
        let (there_ns, fetched) = touches.touch(&small, 0, 1, u64::MAX);
        assert_eq!(fetched, 1 << 10);
        assert!(there_ns > 0);
    }
}
