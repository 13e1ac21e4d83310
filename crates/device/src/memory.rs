// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory rule: pages that are read ahead and not yet used must not evict pages in use.

use foreread_core::policy::sizing::around_max_pages;
use foreread_core::{Bytes, KiB, Pages, Unit};

/// Default number of sequential readers at once: that of the measurements whose tables the advice
/// rests on.
pub const STREAMS_DEFAULT: u32 = 16;
/// The windows of all streams get at most one part in this many of memory. The kernel keeps up to
/// half of the page cache for pages that were read once; an eighth of that can be lost without
/// harm.
pub const MEMORY_SHARE: u64 = 16;
/// Windows that a stream holds: the one being used and the one being read.
const WINDOWS_A_STREAM: u64 = 2;

/// The largest window with which `streams` streams stay within their share of memory.
#[must_use]
pub fn streams_max(memory_bytes: u64, streams: u32) -> KiB {
    let windows = WINDOWS_A_STREAM.saturating_mul(u64::from(streams.max(1)));
    whole_pages(memory_bytes / MEMORY_SHARE / windows)
}

/// The largest read-around that suits a memory, 1/1024 of it. The kernel reads a whole window
/// around a fault in a mapping, so the setting has to obey it. `None` for an unknown memory, 0.
#[must_use]
pub fn around_max(memory_bytes: u64) -> Option<KiB> {
    let memory: Pages = Bytes::new(memory_bytes).to_floor().ok()?;
    Pages::new(around_max_pages(memory.count())?.into())
        .to_floor()
        .ok()
}

/// The kernel counts windows in pages.
fn whole_pages(bytes: u64) -> KiB {
    KiB::new(bytes / Pages::UNIT_BYTES * (Pages::UNIT_BYTES / KiB::UNIT_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_small_machine_has_small_windows() {
        assert_eq!(streams_max(16 << 30, 16), KiB::new(32 << 10));
        assert_eq!(streams_max(1 << 30, 64), KiB::new(512));
        assert_eq!(streams_max(0, 0), KiB::ZERO);
        assert_eq!(around_max(16 << 30), Some(KiB::new(16 << 10)));
        assert_eq!(around_max(64 << 20), Some(KiB::new(64)));
        assert_eq!(around_max(0), None);
    }

    proptest! {
        #[test]
        fn all_windows_fit_into_the_share(memory_bytes: u64, streams in 1u32..) {
            let bytes = u128::from(streams_max(memory_bytes, streams).count()) * 1024;
            let all = bytes * 2 * u128::from(streams);
            prop_assert!(all <= u128::from(memory_bytes) / u128::from(MEMORY_SHARE));
        }

        #[test]
        fn read_around_is_at_most_a_1024th(memory_bytes: u64) {
            let around = around_max(memory_bytes).map_or(0, KiB::count);
            // One page at least, as the kernel can't read less.
            prop_assert!(around <= (memory_bytes >> 20).max(4));
        }
    }
}
