// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the files of a plan lie on the disks of this machine, and what is free there.
//!
//! In: a plan. Out, for each file system with a block device: the wanted files with all of their
//! runs, the metadata that a replay reads step by step, and the free space.
//!
//! On ext4 whose block device can be opened, all of it is parsed from the device's page cache, as a
//! replay does it ([`raw`]). Elsewhere each file is opened and asked ([`asked`]); metadata are not
//! known then.
//!
//! And moves them: [`movable`] says whether a file system allows it, a [`Mover`] does it.
#![forbid(unsafe_code)]

mod asked;
mod claim;
mod mover;
mod obstacles;
mod raw;
mod refusal;

pub use mover::{MoveError, Moved, Mover, Skipped, Standing, Watcher};
pub use refusal::{Movable, Refusal, movable, uuid_of};

use std::fs::File;
use std::path::PathBuf;

use foreread_core::Device;
use foreread_layout::{FileOnDisk, FreeSpace};
use foreread_linux_prefetcher::targets::{Target, of_plan};
use foreread_prefetch::ext4::Extent;
use foreread_prefetch::plan::ReadPlan;
use foreread_sys::block_device::{BlockDevice, disk_bytes, disk_of_partition, has_head};
use foreread_sys::fsmap::free_extents;
use foreread_sys::mounts::Mounts;

/// Blocks of a file system that doesn't tell their size.
const BLOCK_BYTES: u64 = 4096;

/// What a plan wants of one file system, and where that lies.
#[derive(Debug)]
pub struct OnFileSystem {
    /// The device that the file system is on.
    pub device: Device,
    /// Its type, such as `ext4`.
    pub fs_type: Vec<u8>,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// Size of a block.
    pub block_bytes: u64,
    /// Files of which pages are wanted.
    pub files: Vec<FileOnDisk>,
    /// Files that are gone or are others now.
    pub gone_files: u64,
    /// What a replay reads of the metadata, step by step; `None` where that isn't known.
    pub metadata: Option<Vec<Vec<Extent>>>,
    /// Free space; `None` where the file system doesn't tell, or not to us.
    pub free: Option<FreeSpace>,
    /// The disk that the device is a partition of, or the device.
    pub disk: Device,
    /// Size of that disk; 0 where it isn't known.
    pub disk_bytes: u64,
    /// The largest request of the device.
    pub request_bytes_max: u64,
    /// Whether the device has a head.
    pub has_head: bool,
}

/// Finds where the files of a plan lie. File systems in memory and those of servers are left out,
/// and those that none of the files is on.
#[must_use]
pub fn find(plan: &ReadPlan, mounts: &Mounts) -> Vec<OnFileSystem> {
    let targets = of_plan(plan, mounts);
    let local = targets.iter().filter(|target| target.is_local);
    let found = local.filter_map(|target| on_target(plan, target));
    found.filter(|found| !found.files.is_empty()).collect()
}

fn on_target(plan: &ReadPlan, target: &Target) -> Option<OnFileSystem> {
    let device = BlockDevice::open(target.major, target.minor).ok();
    let is_ext4 = target.fs_type == b"ext4";
    let raw = device.as_ref().filter(|_| is_ext4);
    let raw = raw.and_then(|device| raw::find(plan, target, device).ok());
    let found = match raw {
        Some(found) => found,
        None => asked::find(plan, target)?,
    };
    let free = File::open(&target.mount_point).and_then(free_extents);
    let number = Device {
        major: target.major,
        minor: target.minor,
    };
    Some(OnFileSystem {
        device: number,
        fs_type: target.fs_type.clone(),
        mount_point: target.mount_point.clone(),
        block_bytes: found.block_bytes,
        files: found.files,
        gone_files: found.gone_files,
        metadata: found.metadata,
        free: free
            .ok()
            .map(|free| FreeSpace::new(free, found.block_bytes)),
        disk: disk_of_partition(number).unwrap_or(number),
        disk_bytes: disk_bytes(number),
        request_bytes_max: device.map_or(0, |d| d.request_bytes_max),
        has_head: has_head(target.major, target.minor),
    })
}

/// The files of one file system.
struct Found {
    block_bytes: u64,
    files: Vec<FileOnDisk>,
    gone_files: u64,
    metadata: Option<Vec<Vec<Extent>>>,
}
