// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages of the block device below a file system, and of the disk that it is a partition of: what
//! others read of them directly, and metadata by its place.

use foreread_core::Device;
use foreread_prefetch::ext4::Extent;
use foreread_prefetch::plan::ReadPlan;
use foreread_prefetch::stages::Stage;
use foreread_profile::PAGE_BYTES;
use foreread_sys::block_device::{BlockDevice, disk_of_partition};

use super::fetcher::ask_for;
use super::targets::Target;

/// The pages of a stage.
pub(super) struct DeviceExtents {
    /// Of the device itself.
    pub own: Vec<Extent>,
    /// Of the disk that it is a partition of.
    whole_disk: Vec<Extent>,
}

impl DeviceExtents {
    pub fn of(plan: &ReadPlan, target: &Target, stage: &Stage) -> Self {
        let superblock = target.superblock();
        let extents = |is_whole_disk| {
            let devices = plan.devices(&superblock.mount_point);
            let ranges = devices
                .filter(|device| device.is_whole_disk == is_whole_disk)
                .flat_map(|device| &device.ranges)
                .filter(|range| stage.needs_ns.contains(&range.need_ns));
            let extent = |range: &foreread_profile::DeviceRange| Extent {
                offset_bytes: range.start_page.saturating_mul(PAGE_BYTES),
                length_bytes: range.pages.saturating_mul(PAGE_BYTES),
            };
            ranges.map(extent).collect()
        };
        Self {
            own: extents(false),
            whole_disk: extents(true),
        }
    }

    /// Asks for those of the whole disk, and doesn't wait. What can't be read is left out: whoever
    /// needs it reads it.
    pub fn ask_for_whole_disk(&self, target: &Target) {
        let device = Device {
            major: target.major,
            minor: target.minor,
        };
        if let Some(disk) = disk_of_partition(device).filter(|_| !self.whole_disk.is_empty()) {
            ask(disk, &self.whole_disk);
        }
    }

    /// Asks for all, where no metadata is read from the device.
    pub fn ask_for_all(&self, target: &Target) {
        self.ask_for_whole_disk(target);
        let device = Device {
            major: target.major,
            minor: target.minor,
        };
        ask(device, &self.own);
    }
}

fn ask(device: Device, extents: &[Extent]) {
    if let (false, Ok(device)) = (
        extents.is_empty(),
        BlockDevice::open(device.major, device.minor),
    ) {
        let _ = ask_for(&device, extents);
    }
}
