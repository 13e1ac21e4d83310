// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits of the oracle's use of a disk and of memory, and the cost of a request there.

use foreread_model::{DiskModel, DiskParameters};

use crate::block::{BlockQueue, QueueRules};
use crate::cache::PageCache;
use crate::path::PAGE_BYTES;

/// Pages read ahead and not used yet, at most, where nothing bounds memory: 256 MiB.
const AHEAD_PAGES_MAX: u64 = 1 << 16;
/// The part of the memory that pages read now pass through, which pages read ahead may fill.
const MEMORY_PART: u64 = 2;
/// Least number of bytes outstanding on a disk before the oracle waits for an answer.
const LOW_BYTES_MIN: u64 = 64 << 10;

/// When a disk is given more, and which holes are worth reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// With fewer requests outstanding, and no more bytes, the disk is given more.
    requests: u64,
    bytes: u64,
    /// A hole up to this size costs less than one request more.
    pub hole_pages: u64,
    /// Whether the order of places matters, not that of need.
    pub is_head: bool,
}

impl Room {
    pub fn new(disk: &DiskParameters, rules: &QueueRules) -> Self {
        let slots = disk.served_at_once().min(rules.depth).max(1);
        let hole_bytes = match disk.model {
            DiskModel::Head => {
                let seek_ns = disk.seek_min_ns.saturating_add(disk.half_turn_ns);
                bytes_in(disk, seek_ns).max(disk.gap_limit_bytes.saturating_sub(1))
            }
            DiskModel::Parallel => {
                let pace_ns = 1_000_000_000u64.checked_div(disk.rate_requests_per_s);
                let cost_ns = (disk.latency_ns / slots).max(pace_ns.unwrap_or(0));
                bytes_in(disk, cost_ns)
            }
            DiskModel::Instant => 0,
        };
        let on_the_way = match disk.model {
            DiskModel::Parallel => bytes_in(disk, disk.latency_ns.saturating_mul(2)),
            DiskModel::Head | DiskModel::Instant => 0,
        };
        Self {
            // One more than it serves, so that the next one is there when one is done.
            requests: slots.max(2),
            bytes: on_the_way.max(LOW_BYTES_MIN).max(match disk.model {
                DiskModel::Head => rules.request_bytes_max,
                DiskModel::Parallel | DiskModel::Instant => 0,
            }),
            hole_pages: hole_bytes / PAGE_BYTES,
            is_head: disk.model == DiskModel::Head,
        }
    }

    /// Whether the disk may be given more.
    pub fn is_in(&self, queue: &BlockQueue) -> bool {
        let (requests, bytes) = queue.outstanding_ahead();
        requests < self.requests && bytes <= self.bytes
    }
}

fn bytes_in(disk: &DiskParameters, time_ns: u64) -> u64 {
    let bytes = u128::from(disk.bandwidth_bytes_per_s) * u128::from(time_ns) / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Maximum number of pages read ahead and not used yet. It is half of the pages that reclaim leaves
/// to pages read now, so that none is evicted before its use.
pub(super) fn ahead_pages_max(cache: &PageCache) -> u64 {
    match cache.capacity_pages() {
        Some(_) => cache.reclaim_pages() / MEMORY_PART,
        None => AHEAD_PAGES_MAX,
    }
}
