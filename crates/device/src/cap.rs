// SPDX-License-Identifier: MIT OR Apache-2.0
//! The capacity cap, and the floor above it. Small devices are slow ones, so the capacity of a
//! device bounds the useful readahead, as long as nobody has measured it.

use foreread_core::policy::sizing::capacity_cap_pages;
use foreread_core::{KiB, Pages, Unit};

/// Below this no rule but the capacity cap brings a device, and none at all one whose capacity cap
/// is this or more: the kernel's smallest read-around that still reads more than was asked for.
pub const FLOOR: KiB = KiB::new(32);

/// The capacity cap: 4 KiB for 2 MiB, twice as much for each fourfold capacity. `None` for an
/// unknown capacity: no cap. A multipath device that says 0 and was taken for tiny lost 40 % of its
/// throughput.
#[must_use]
pub fn capacity_cap(capacity_bytes: Option<u64>) -> Option<KiB> {
    let pages = capacity_cap_pages(capacity_bytes?)?;
    Pages::new(pages.into()).to_floor().ok()
}

/// The setting for a capacity cap. A cap of one page means that only requested pages are read. That
/// takes a setting of 0: since Linux 4.10 a read that is larger than the window is taken for a
/// stream of requests of the largest size, with as much again read ahead of it. For a label probe
/// of 17 KiB, a device set to 4 KiB was asked for 32 KiB, one set to 0 for 20 KiB (`make bench
/// BENCH_ARGS="--only small-device"`, Linux 6.18).
#[must_use]
pub fn setting_of_cap(cap: KiB) -> KiB {
    match cap.count() {
        ..=4 => KiB::new(0),
        _ => cap,
    }
}

/// Whether a device with this capacity cap has the floor.
#[must_use]
pub fn has_floor(cap: Option<KiB>) -> bool {
    cap.is_none_or(|cap| cap >= FLOOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_source_comes_out() {
        for (capacity_bytes, kib) in [
            (1, 4),
            (505_000, 4),
            (2 << 20, 4),
            (8 << 20, 8),
            (32 << 20, 16),
            (128 << 20, 32),
            (512 << 20, 64),
            (2 << 30, 128),
            (8 << 30, 256),
            (32 << 30, 512),
            (128 << 30, 1024),
        ] {
            assert_eq!(capacity_cap(Some(capacity_bytes)), Some(KiB::new(kib)));
        }
        assert_eq!(capacity_cap(None), None);
        assert_eq!(capacity_cap(Some(0)), None);
        assert!(capacity_cap(Some(u64::MAX)) > Some(KiB::new(1024)));
    }

    #[test]
    fn small_devices_have_no_floor() {
        assert!(!has_floor(Some(KiB::new(16))));
        assert!(has_floor(Some(KiB::new(32))) && has_floor(None));
    }
}
