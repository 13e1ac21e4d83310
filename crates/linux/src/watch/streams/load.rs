// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct streams_load` of `bpf/streams.h`: what a disk has to do, as the kernel's side sees it.

use std::sync::atomic::{AtomicBool, Ordering};

use foreread_watch::fetch_queue::DiskLoad;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapMut};

/// The map of disks, for those that fetch. Without one nothing is ever under way.
#[derive(Debug, Default)]
pub(super) struct Load {
    disks: Option<MapHandle>,
    /// Whether requests are seen: what was counted before they weren't means nothing.
    is_seen: AtomicBool,
}

impl Load {
    pub fn of(disks: &MapMut<'_>) -> libbpf_rs::Result<Self> {
        Ok(Self {
            disks: Some(MapHandle::try_from(disks)?),
            is_seen: AtomicBool::new(false),
        })
    }

    pub fn set_seen(&self, is_seen: bool) {
        self.is_seen.store(is_seen, Ordering::Relaxed);
    }

    /// What a disk has to do; nothing where that isn't seen.
    pub fn of_disk(&self, disk: u64) -> DiskLoad {
        let disks = self.disks.as_ref();
        let Some(disks) = disks.filter(|_| self.is_seen.load(Ordering::Relaxed)) else {
            return DiskLoad::default();
        };
        let value = disks.lookup(&disk.to_ne_bytes(), MapFlags::ANY);
        let value = value.ok().flatten().unwrap_or_default();
        let number = |at: usize| {
            let bytes = value.get(at * 8..at * 8 + 8)?.try_into().ok()?;
            Some(u64::from_ne_bytes(bytes))
        };
        let numbers = [0, 1, 2, 3, 4].map(|at| number(at).unwrap_or(0));
        let [in_flight_pages, least_ns, page_ns, latency_ns, turns] = numbers;
        DiskLoad {
            // Less than none when the beginning of some wasn't seen.
            in_flight_pages: in_flight_pages.cast_signed().max(0).cast_unsigned(),
            least_ns,
            page_ns,
            latency_ns,
            turns: turns != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_is_nothing() {
        let load = Load::default();
        load.set_seen(true);
        assert_eq!(load.of_disk(8 << 32), DiskLoad::default());
    }
}
