// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages of the block device below a file system, and of the disk that it is a partition of: what
//! others read of them directly, and metadata by its place.

use foreread_core::Device;
use foreread_prefetch::ext4::{Extent, device_extents_of};
use foreread_prefetch::plan::ReadPlan;
use foreread_prefetch::stages::Stage;
use foreread_sys::block_device::{BlockDevice, disk_of_partition};

use super::fetcher::ask_for;
use super::targets::Target;

/// The pages of a stage.
#[derive(Default)]
pub(super) struct DeviceExtents {
    /// Of the device itself.
    pub own: Vec<Extent>,
    /// Of the disk that it is a partition of.
    whole_disk: Vec<Extent>,
}

impl DeviceExtents {
    /// Takes what they need of the budget. Nothing where that is more than is left.
    pub fn of(plan: &ReadPlan, target: &Target, stage: &Stage, budget_bytes: &mut u64) -> Self {
        let superblock = target.superblock();
        let extents =
            |is_whole_disk| device_extents_of(plan, stage, &superblock.mount_point, is_whole_disk);
        let (own, whole_disk) = (extents(false), extents(true));
        let bytes = own.iter().chain(&whole_disk).map(|one| one.length_bytes);
        match budget_bytes.checked_sub(bytes.fold(0, u64::saturating_add)) {
            Some(left_bytes) => {
                *budget_bytes = left_bytes;
                Self { own, whole_disk }
            }
            None => Self::default(),
        }
    }

    /// Asks for those of the whole disk, and doesn't wait. What can't be read is left out: whoever
    /// needs it reads it.
    pub fn ask_for_whole_disk(&self, target: &Target) {
        let disk = || disk_of_partition(target.below);
        if !self.whole_disk.is_empty()
            && let Some(disk) = disk()
        {
            ask(disk, &self.whole_disk);
        }
    }

    /// Asks for all, where no metadata is read from the device.
    pub fn ask_for_all(&self, target: &Target) {
        self.ask_for_whole_disk(target);
        ask(target.below, &self.own);
    }
}

fn ask(device: Device, extents: &[Extent]) {
    if extents.is_empty() {
        return;
    }
    if let Ok(device) = BlockDevice::open(device.major, device.minor) {
        let _ = ask_for(&device, extents);
    }
}
