// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages of block devices in a profile: metadata of file systems, labels, partition tables.
//!
//! A device is known by a file system on it, since the names of disks change from boot to boot.

use foreread_core::bytes::{Cursor, Fault, TOO_BIG, put_difference, put_text, put_varint};

use crate::limits::{
    DEVICE_PAGES_MAX, DEVICE_RANGES_MAX, DEVICES_MAX, PAGE_END_MAX, TEXT_BYTES_MAX,
};
use crate::types::{DevicePages, DeviceRange};

/// Fewest bytes that a device takes in its section, and a range.
const DEVICE_BYTES_MIN: usize = 3;
const RANGE_BYTES_MIN: usize = 3;

/// Pages are needed together within this time: a disk reads a hundred neighbours in it.
const TOGETHER_NS: u64 = 50_000_000;

/// A page of a device, and when it was needed in ns from the start of the recording.
pub type DevicePage = (u64, u64);

impl DevicePages {
    /// Of pages in any order, each with the time of its first need. Neighbours that were needed
    /// at about the same time become one range.
    #[must_use]
    pub fn new(mount_point: Vec<u8>, is_whole_disk: bool, mut pages: Vec<DevicePage>) -> Self {
        pages.retain(|(page, _)| *page < PAGE_END_MAX);
        pages.sort_unstable();
        pages.dedup_by_key(|(page, _)| *page);
        let mut ranges: Vec<DeviceRange> = Vec::new();
        for (page, need_ns) in pages {
            match ranges.last_mut() {
                Some(last)
                    if last.end_page() == page && last.need_ns.abs_diff(need_ns) <= TOGETHER_NS =>
                {
                    last.pages += 1;
                    last.need_ns = last.need_ns.min(need_ns);
                }
                _ => ranges.push(DeviceRange {
                    start_page: page,
                    pages: 1,
                    need_ns,
                }),
            }
        }
        Self {
            mount_point,
            is_whole_disk,
            ranges,
        }
    }

    /// The pages, each with the need of its range.
    pub fn pages(&self) -> impl Iterator<Item = DevicePage> + '_ {
        self.ranges.iter().flat_map(|range| {
            (range.start_page..range.end_page()).map(|page| (page, range.need_ns))
        })
    }
}

/// The devices of both; pages of both have the earlier need.
#[must_use]
pub fn joined(old: &[DevicePages], new: &[DevicePages]) -> Vec<DevicePages> {
    let key = |device: &DevicePages| (device.mount_point.clone(), device.is_whole_disk);
    let mut joined: Vec<DevicePages> = Vec::new();
    for device in old.iter().chain(new) {
        if joined.iter().any(|known| key(known) == key(device)) {
            continue;
        }
        let same = old.iter().chain(new).filter(|one| key(one) == key(device));
        let pages = same.flat_map(DevicePages::pages).collect();
        let (mount_point, is_whole_disk) = key(device);
        joined.push(DevicePages::new(mount_point, is_whole_disk, pages));
    }
    bounded(joined)
}

/// Within the limits of a profile: what is needed last is left out.
fn bounded(mut devices: Vec<DevicePages>) -> Vec<DevicePages> {
    devices.retain(|device| is_mount_point(&device.mount_point));
    devices.truncate(DEVICES_MAX);
    let ranges = devices.iter().flat_map(|device| &device.ranges);
    let mut needs: Vec<(u64, u64)> = ranges.map(|range| (range.need_ns, range.pages)).collect();
    needs.sort_unstable();
    let mut pages = 0u64;
    let over = needs.iter().enumerate().position(|(at, (_, more))| {
        pages = pages.saturating_add(*more);
        at >= DEVICE_RANGES_MAX || pages > DEVICE_PAGES_MAX
    });
    if let Some(over) = over {
        let (left_out_ns, _) = needs[over];
        for device in &mut devices {
            device.ranges.retain(|range| range.need_ns < left_out_ns);
        }
    }
    devices.retain(|device| !device.ranges.is_empty());
    devices
}

fn is_mount_point(path: &[u8]) -> bool {
    path.first() == Some(&b'/') && path.len() <= TEXT_BYTES_MAX
}

/// Whether they are as [`DevicePages`] promises, and within the limits.
pub(crate) fn are_valid(devices: &[DevicePages]) -> bool {
    let ranges: usize = devices.iter().map(|device| device.ranges.len()).sum();
    let all = devices.iter().flat_map(|device| &device.ranges);
    let pages = all.fold(0u64, |sum, range| sum.saturating_add(range.pages));
    let is_valid = |device: &DevicePages| {
        let mut end_page = 0;
        is_mount_point(&device.mount_point)
            && device.ranges.iter().all(|range| {
                let end = range.start_page.checked_add(range.pages);
                let is_placed = range.pages > 0 && range.start_page >= end_page;
                end_page = end.unwrap_or(u64::MAX);
                is_placed && end_page <= PAGE_END_MAX
            })
    };
    devices.len() <= DEVICES_MAX
        && ranges <= DEVICE_RANGES_MAX
        && pages <= DEVICE_PAGES_MAX
        && devices.iter().all(is_valid)
}

/// The stored form.
pub(crate) fn encode(devices: &[DevicePages]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, devices.len() as u64);
    for device in devices {
        put_text(&mut out, &device.mount_point);
        out.push(device.is_whole_disk.into());
        put_varint(&mut out, device.ranges.len() as u64);
        let (mut end_page, mut need_ns) = (0, 0);
        for range in &device.ranges {
            put_varint(&mut out, range.start_page.wrapping_sub(end_page));
            put_varint(&mut out, range.pages);
            put_difference(&mut out, range.need_ns, need_ns);
            (end_page, need_ns) = (range.end_page(), range.need_ns);
        }
    }
    out
}

/// Reads the stored form; [`are_valid`] is for the caller to ask.
pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<Vec<DevicePages>, Fault> {
    let count = cursor.count(DEVICE_BYTES_MIN)?;
    if count > DEVICES_MAX {
        return Err(TOO_BIG);
    }
    let mut devices = Vec::with_capacity(count);
    for _ in 0..count {
        let mount_point = cursor.text(TEXT_BYTES_MAX)?.to_vec();
        let is_whole_disk = match cursor.byte()? {
            0 => false,
            1 => true,
            _ => return Err("has an unknown kind of device"),
        };
        let count = cursor.count(RANGE_BYTES_MIN)?;
        if count > DEVICE_RANGES_MAX {
            return Err(TOO_BIG);
        }
        let mut ranges = Vec::with_capacity(count);
        let (mut end_page, mut need_ns) = (0u64, 0);
        for _ in 0..count {
            let start_page = end_page.checked_add(cursor.varint()?).ok_or(TOO_BIG)?;
            let pages = cursor.varint()?;
            need_ns = cursor.difference(need_ns)?;
            end_page = start_page.checked_add(pages).ok_or(TOO_BIG)?;
            ranges.push(DeviceRange {
                start_page,
                pages,
                need_ns,
            });
        }
        devices.push(DevicePages {
            mount_point,
            is_whole_disk,
            ranges,
        });
    }
    Ok(devices)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LATER: u64 = 10 * TOGETHER_NS;

    fn device(pages: &[DevicePage]) -> DevicePages {
        DevicePages::new(b"/".to_vec(), false, pages.to_vec())
    }

    #[test]
    fn neighbours_that_are_needed_together_are_one_range() {
        let ranges = device(&[(9, 100), (7, 105), (8, 104), (10, LATER), (7, LATER)]).ranges;
        let range = |start_page, pages, need_ns| DeviceRange {
            start_page,
            pages,
            need_ns,
        };
        assert_eq!(ranges, [range(7, 3, 100), range(10, 1, LATER)]);
    }

    #[test]
    fn what_is_needed_last_is_left_out() {
        let pages: Vec<DevicePage> = (0..DEVICE_RANGES_MAX as u64 + 10)
            .map(|at| (at * 2, at))
            .collect();
        let kept = bounded(vec![device(&pages)]);
        assert!(are_valid(&kept));
        assert_eq!(kept[0].ranges.len(), DEVICE_RANGES_MAX);
        // Half of the limit each, and the last one is needed last.
        let half = |start_page, need_ns| DeviceRange {
            start_page,
            pages: DEVICE_PAGES_MAX / 2,
            need_ns,
        };
        let large = DevicePages {
            ranges: vec![half(0, 9), half(1 << 20, 1), half(1 << 30, 2)],
            ..device(&[])
        };
        assert!(!are_valid(std::slice::from_ref(&large)));
        let kept = bounded(vec![large]);
        assert_eq!(kept[0].ranges, [half(1 << 20, 1), half(1 << 30, 2)]);
        let nowhere = DevicePages::new(b"sda".to_vec(), true, vec![(1, 1)]);
        assert_eq!(bounded(vec![nowhere, device(&[])]), []);
    }

    #[test]
    fn pages_out_of_place_are_refused() {
        let with = |ranges: &[(u64, u64)]| {
            let ranges = ranges.iter().map(|(start_page, pages)| DeviceRange {
                start_page: *start_page,
                pages: *pages,
                need_ns: 0,
            });
            DevicePages {
                ranges: ranges.collect(),
                ..device(&[])
            }
        };
        assert!(are_valid(&[with(&[(0, 4), (4, 1)])]));
        assert!(!are_valid(&[with(&[(0, 4), (3, 1)])]));
        assert!(!are_valid(&[with(&[(0, 0)])]));
        assert!(!are_valid(&[with(&[(u64::MAX, 2)])]));
        assert!(!are_valid(&vec![with(&[(0, 1)]); DEVICES_MAX + 1]));
    }

    fn any_device() -> impl Strategy<Value = DevicePages> {
        let pages = prop::collection::vec((0u64..500, any::<u64>()), 0..40);
        (0u8..3, any::<bool>(), pages).prop_map(|(mount, whole, pages)| {
            DevicePages::new(format!("/{mount}").into_bytes(), whole, pages)
        })
    }

    proptest! {
        #[test]
        fn the_stored_form_is_read_back(devices in prop::collection::vec(any_device(), 0..5)) {
            prop_assert!(are_valid(&devices));
            let bytes = encode(&devices);
            let mut cursor = Cursor::new(&bytes);
            prop_assert_eq!(decode(&mut cursor), Ok(devices));
            prop_assert!(cursor.is_empty());
        }

        #[test]
        fn any_bytes_give_devices_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(devices) = decode(&mut Cursor::new(&bytes)) {
                let _ = are_valid(&devices);
            }
        }

        #[test]
        fn all_pages_of_both_are_in_the_joined(
            old in prop::collection::vec(any_device(), 0..4),
            new in prop::collection::vec(any_device(), 0..4),
        ) {
            let both = joined(&old, &new);
            prop_assert!(are_valid(&both));
            for device in old.iter().chain(&new) {
                let same = |one: &&DevicePages| {
                    one.mount_point == device.mount_point
                        && one.is_whole_disk == device.is_whole_disk
                };
                for (page, need_ns) in device.pages() {
                    let found = both.iter().filter(same).flat_map(DevicePages::pages);
                    let mut needs = found.filter(|(at, _)| *at == page).map(|(_, need)| need);
                    prop_assert!(needs.next().is_some_and(|need| need <= need_ns));
                }
            }
        }
    }
}
