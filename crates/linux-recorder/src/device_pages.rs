// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages of block devices in a recording, as a profile has them: by the file systems on them.

use std::collections::BTreeMap;

use foreread_core::Device;
use foreread_core::mounts::{MountPoint, Mounts};
use foreread_profile::devices::{DevicePage, joined};
use foreread_profile::{DevicePages, PAGE_BYTES};
use foreread_recorder::DeviceRecord;
use foreread_sys::block_device::{BlockDevice, device_below, disk_of_partition};
use foreread_sys::cache::cached_ranges;

/// A device that is read as a whole, such as by a check, is no device that a boot needs.
const PAGES_MAX: usize = 1 << 14;

/// Those of devices with a mounted file system, and of disks of which such a device is a partition.
pub(crate) fn of_recording(records: &[DeviceRecord], mounts: &Mounts) -> Vec<DevicePages> {
    named(records, mounts, &device_below, &disk_of_partition)
}

/// Pages of the devices of mounted file systems that are in memory by now. In a boot from a cold
/// disk that is what was read before the recorder was there.
pub(crate) fn resident(mounts: &Mounts) -> Vec<DeviceRecord> {
    let mut devices: Vec<Device> = Vec::new();
    for point in mounts.points().iter().filter(|point| !point.is_virtual()) {
        let device = device_below(point);
        let disk = disk_of_partition(device);
        devices.extend([device].into_iter().chain(disk));
    }
    devices.sort_unstable();
    devices.dedup();
    let mut records = Vec::new();
    for device in devices {
        // One that can't be opened has no device, or is asked by others than us.
        let Ok(opened) = BlockDevice::open(device.major, device.minor) else {
            continue;
        };
        let bytes = opened.bytes().unwrap_or(0);
        let cached = cached_ranges(opened.file(), bytes / PAGE_BYTES).unwrap_or_default();
        records.extend(cached.into_iter().map(|(start_page, pages)| DeviceRecord {
            device: device.to_kernel(),
            start_page,
            pages,
            need_ns: 0,
        }));
    }
    records
}

fn named(
    records: &[DeviceRecord],
    mounts: &Mounts,
    below: &dyn Fn(&MountPoint) -> Device,
    disk_of: &dyn Fn(Device) -> Option<Device>,
) -> Vec<DevicePages> {
    let mut pages_of: BTreeMap<u32, Vec<DevicePage>> = BTreeMap::new();
    for record in records {
        let pages = pages_of.entry(record.device).or_default();
        let last = record.start_page.saturating_add(record.pages);
        // One more than may be shows that it is too much.
        let room = (PAGES_MAX + 1).saturating_sub(pages.len());
        let new = (record.start_page..last).map(|page| (page, record.need_ns));
        pages.extend(new.take(room));
    }
    let points = mounts.points().iter().filter(|point| !point.is_virtual());
    let mounted: Vec<(Device, &[u8])> = points
        .map(|point| (below(point), point.mount_point.as_slice()))
        .collect();
    let mut devices = Vec::new();
    for (number, pages) in pages_of {
        let device = Device::from_kernel(number);
        let on = |wanted: &dyn Fn(Device) -> bool| {
            let found = mounted.iter().find(|(below, _)| wanted(*below));
            found.map(|(_, mount_point)| mount_point.to_vec())
        };
        let own = on(&|mounted| mounted == device);
        let is_whole_disk = own.is_none();
        let mount_point = own.or_else(|| on(&|mounted| disk_of(mounted) == Some(device)));
        if let Some(mount_point) = mount_point
            && pages.len() <= PAGES_MAX
        {
            devices.push(DevicePages::new(mount_point, is_whole_disk, pages));
        }
    }
    joined(&[], &devices)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_known_by_a_file_system_on_it_or_on_a_partition() {
        let mounts = Mounts::parse(
            b"20 1 8:1 / / rw - ext4 /dev/sda1 rw\n21 20 8:17 / /data rw - xfs /dev/sdb1 rw\n\
             22 20 0:5 / /dev rw - devtmpfs dev rw\n23 20 0:40 /@home /home rw - btrfs /dev/sde rw\n",
        );
        let record = |major, minor, start_page, pages| DeviceRecord {
            device: Device { major, minor }.to_kernel(),
            start_page,
            pages,
            need_ns: 7,
        };
        let records = [
            record(8, 1, 10, 2),
            record(8, 1, 12, 1),
            record(8, 16, 0, 1),
            record(8, 32, 0, 1),
            record(8, 17, 0, PAGES_MAX as u64 + 1),
            record(8, 64, 0, 4),
        ];
        let disk_of = |device: Device| {
            let is_partition = device.minor & 15 != 0;
            is_partition.then_some(Device {
                minor: device.minor & !15,
                ..device
            })
        };
        // Its superblock has another number than the device that it was mounted from.
        let below = |point: &MountPoint| match point.fs_type == b"btrfs" {
            true => Device {
                major: 8,
                minor: 64,
            },
            false => point.device(),
        };
        let found = named(&records, &mounts, &below, &disk_of);
        let told: Vec<_> = found
            .iter()
            .map(|device| {
                let pages: u64 = device.ranges.iter().map(|range| range.pages).sum();
                (device.mount_point.as_slice(), device.is_whole_disk, pages)
            })
            .collect();
        let home = (&b"/home"[..], false, 4);
        assert_eq!(told, [(&b"/"[..], false, 3), (b"/data", true, 1), home]);
    }
}
