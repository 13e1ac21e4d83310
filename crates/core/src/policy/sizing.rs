// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sizes of windows by device and by memory. All results are in pages of 4 KiB.

pub use super::limits::DEFAULT_PAGES;
use crate::ffi;

/// The largest window that suits a device of a capacity: its square root in powers of two, such as
/// 4 KiB for 2 MiB and 128 KiB for 2 GiB. `None` for 0, an unknown capacity: no cap.
///
/// Source: "limit readahead size for small devices", Message-ID
/// <20100301052651.857984880@intel.com>.
#[must_use]
pub fn capacity_cap_pages(capacity_bytes: u64) -> Option<u32> {
    (capacity_bytes > 0).then(|| ffi::capacity_cap_pages(capacity_bytes))
}

/// `ra_pages` after an update of a queue's limits: never lower than it is, at least twice the
/// optimal request and 128 KiB. A rotational queue without an optimal request takes its largest one
/// for it (Linux 6.17, commit 459779d04ae8).
#[must_use]
pub fn device_default_pages(
    current_pages: u32,
    io_opt_bytes: u64,
    max_sectors_pages: u32,
    rotational: bool,
) -> u32 {
    let rotational = u32::from(rotational);
    ffi::device_default_pages(current_pages, io_opt_bytes, max_sectors_pages, rotational)
}

/// The largest read-around of a mapping that suits a memory: a 1024th of it. `None` for an unknown
/// memory, 0.
#[must_use]
pub fn around_max_pages(memory_pages: u64) -> Option<u32> {
    (memory_pages > 0).then(|| ffi::around_max_pages(memory_pages))
}
