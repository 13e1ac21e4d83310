// SPDX-License-Identifier: MIT OR Apache-2.0
//! File systems by their superblocks, with names for people.

use foreread_core::Device;
use foreread_core::mounts::MountPoint;

/// A file system, by its superblock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Superblock {
    /// Its number.
    pub device: Device,
    /// Its type.
    pub fs_type: Vec<u8>,
    /// Where it is mounted.
    pub mount_point: Vec<u8>,
}

impl From<&MountPoint> for Superblock {
    fn from(point: &MountPoint) -> Self {
        Self {
            device: point.device(),
            fs_type: point.fs_type.clone(),
            mount_point: point.mount_point.clone(),
        }
    }
}
