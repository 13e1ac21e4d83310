// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct streams_load` of `bpf/streams.h`: the load of a disk, as the BPF programs count it.

use std::sync::atomic::{AtomicBool, Ordering};

use foreread_bpf::field;
use foreread_bpf::skeletons::streams::types::disk;
use foreread_watch::fetch_queue::DiskLoad;
use foreread_watch::saved::streams::Costs;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapMut};

/// The map of disks, for the threads that fetch. Without a map, no request counts as in flight.
#[derive(Debug, Default)]
pub(super) struct Load {
    disks: Option<MapHandle>,
    /// Whether requests are seen. Counters from before the programs were attached are invalid.
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

    /// The load of a disk; all zero if it is not seen.
    pub fn of_disk(&self, disk: u64) -> DiskLoad {
        if !self.is_seen.load(Ordering::Relaxed) {
            return DiskLoad::default();
        }
        self.value(disk)
            .and_then(|value| load_of(&value))
            .unwrap_or_default()
    }

    /// The measured costs of a disk; they stay valid while requests are not seen.
    pub fn costs_of(&self, disk: u64) -> Costs {
        self.value(disk)
            .and_then(|value| costs_of(&value))
            .unwrap_or_default()
    }

    fn value(&self, disk: u64) -> Option<Vec<u8>> {
        let disks = self.disks.as_ref()?;
        disks.lookup(&disk.to_ne_bytes(), MapFlags::ANY).ok()?
    }
}

/// The costs in a value of the map; `None` if it is too short.
fn costs_of(value: &[u8]) -> Option<Costs> {
    Some(Costs {
        latency_ns: field!(value, disk, load.latency_ns)?,
        next_ns: field!(value, disk, load.next_ns)?,
        cost_ns: field!(value, disk, load.cost_ns)?,
        least_ns: field!(value, disk, load.least_ns)?,
        least_pages: field!(value, disk, load.least_pages)?,
        page_ns: field!(value, disk, load.fit_ns)?,
        page_ns_max: field!(value, disk, load.page_ns)?,
        turns: field!(value, disk, load.turns)? != 0,
    })
}

/// The load in a value of the map; `None` if it is too short.
fn load_of(value: &[u8]) -> Option<DiskLoad> {
    let in_flight_pages = field!(value, disk, load.in_flight_pages)?;
    Some(DiskLoad {
        // Negative if the start of some requests wasn't seen.
        in_flight_pages: in_flight_pages.cast_signed().max(0).cast_unsigned(),
        least_ns: field!(value, disk, load.least_ns)?,
        page_ns: field!(value, disk, load.page_ns)?,
        latency_ns: field!(value, disk, load.latency_ns)?,
        turns: field!(value, disk, load.turns)? != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_disk_has_to_do_is_read() {
        let value: Vec<u8> = [-1i64, 2, 3, 4, 1]
            .into_iter()
            .flat_map(i64::to_ne_bytes)
            .collect();
        let load = load_of(&value).unwrap();
        assert_eq!((load.in_flight_pages, load.least_ns), (0, 2));
        assert_eq!((load.page_ns, load.latency_ns, load.turns), (3, 4, true));
        assert!(load_of(&value[1..]).is_none());
    }

    #[test]
    fn what_requests_of_a_disk_cost_is_read() {
        let value: Vec<u8> = (1u64..=9).flat_map(u64::to_ne_bytes).collect();
        let costs = costs_of(&value).unwrap();
        assert_eq!((costs.least_ns, costs.least_pages), (2, 9));
        assert_eq!((costs.page_ns, costs.page_ns_max), (6, 3));
        assert_eq!((costs.latency_ns, costs.next_ns, costs.cost_ns), (4, 7, 8));
        assert!(costs.turns);
        assert!(costs_of(&value[1..]).is_none());
    }

    #[test]
    fn what_is_not_seen_is_nothing() {
        let load = Load::default();
        load.set_seen(true);
        assert_eq!(load.of_disk(8 << 32), DiskLoad::default());
    }
}
