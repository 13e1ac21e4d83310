// SPDX-License-Identifier: MIT OR Apache-2.0
//! File systems on which nothing is moved, and why.
//!
//! In: a mounted file system. Out: what is needed to move on it, or the reason not to. Each reason
//! is one for which the kernel refuses, or for which a move has been seen to do harm.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use foreread_core::Device;
use foreread_prefetch::ext4::{Ext4Error, Geometry};
use foreread_sys::block_device::{BlockDevice, grows_when_written};
use foreread_sys::ext4::MountedExt4;
use rustix::fs::{Mode, OFlags, open, statvfs};
use rustix::process::{Resource, getrlimit};
use thiserror::Error;

use crate::claim::DEVICE_BLOCKS_MAX;

/// Part of a file system that stays free while a block group is held. ext4 fragments when it is
/// fuller, and others would run out of space.
const FREE_PERCENT_MIN: u64 = 5;

/// Why nothing can be moved on a file system.
#[derive(Debug, Error)]
pub enum Refusal {
    /// Its extents are shared between snapshots and copies.
    #[error(
        "on btrfs a move would end the sharing of blocks with snapshots and copies, and double \
         their space"
    )]
    Btrfs,
    /// It exchanges ranges of files since Linux 6.10. But new blocks come from where it likes: a
    /// donor can't be had at chosen blocks, and so not at the old ones either.
    #[error(
        "XFS lets nobody choose blocks, so files would not lie where the plan says, and `undo` could \
         not put them back"
    )]
    Xfs,
    /// No call moves blocks.
    #[error("{fs_type} has no call that moves blocks")]
    OtherType {
        /// The type of the file system.
        fs_type: String,
    },
    /// The superblock can't be read.
    #[error("its device can't be opened, so what it is can't be checked: {0}")]
    NoDevice(io::Error),
    /// The superblock isn't understood.
    #[error("its superblock: {0}")]
    Superblock(#[from] Ext4Error),
    /// `/proc/fs/ext4` doesn't tell.
    #[error("the kernel doesn't tell how it is mounted: {0}")]
    UnknownOptions(io::Error),
    /// `ro`.
    #[error("it is mounted read-only")]
    ReadOnly,
    /// Space is allocated in clusters.
    #[error("it allocates clusters of blocks (bigalloc), which the kernel doesn't move")]
    Bigalloc,
    /// The kernel moves pages.
    #[error("its blocks of {block_bytes} bytes are not the size of a page")]
    BlockSize {
        /// Size of a block.
        block_bytes: u32,
    },
    /// More blocks than can be asked for.
    #[error("it has more than 2^31 blocks")]
    TooLarge,
    /// `data=journal`.
    #[error(
        "the contents of its files go through its journal (data=journal), so the kernel doesn't move them"
    )]
    JournalledData,
    /// `dax`.
    #[error("its files are accessed past the page cache (dax), so the kernel doesn't move them")]
    Dax,
    /// A known defect.
    #[error(
        "it has fast commits (fast_commit), and this kernel can lose a block map that was changed \
         before a power cut; kernels from February 2026 on are mended"
    )]
    FastCommit,
    /// A move would build on them.
    #[error("the kernel has found errors on it; run e2fsck first")]
    Errors,
    /// Less than a block group and 5 % are free.
    #[error("it is nearly full: less than a block group and {FREE_PERCENT_MIN} % are free")]
    NearlyFull,
    /// Snapshots and thin volumes.
    #[error(
        "below it is a thin volume, a snapshot or its origin, or VDO: each moved block would take new space"
    )]
    Grows,
    /// A seed lies behind a large hole.
    #[error("files may not be large here (ulimit -f)")]
    FileSizeLimit,
    /// The directory of the mount.
    #[error("its directory can't be opened: {0}")]
    Directory(io::Error),
}

/// A file system on which files can be moved.
#[derive(Debug)]
pub struct Movable {
    /// The directory that it is mounted on.
    pub directory: OwnedFd,
    /// Its device, for reads past the page cache.
    pub device: File,
    /// Its shape.
    pub geometry: Geometry,
}

/// The name that an ext4 has of its own; `None` where its device can't be opened, or has none.
#[must_use]
pub fn uuid_of(device: Device) -> Option<[u8; 16]> {
    let opened = BlockDevice::open(device.major, device.minor).ok()?;
    let geometry = Geometry::read(&mut &opened).ok()?;
    Some(geometry.uuid())
}

/// Whether files can be moved on a file system.
///
/// # Errors
/// Why not.
pub fn movable(fs_type: &[u8], device: Device, mount_point: &Path) -> Result<Movable, Refusal> {
    match fs_type {
        b"ext4" => {}
        b"btrfs" => return Err(Refusal::Btrfs),
        b"xfs" => return Err(Refusal::Xfs),
        other => {
            return Err(Refusal::OtherType {
                fs_type: String::from_utf8_lossy(other).into_owned(),
            });
        }
    }
    let opened = BlockDevice::open(device.major, device.minor).map_err(Refusal::NoDevice)?;
    let geometry = Geometry::read(&mut &opened)?;
    let features = geometry.features();
    if features.has_bigalloc() {
        return Err(Refusal::Bigalloc);
    }
    let block_bytes = geometry.block_bytes();
    if usize::try_from(block_bytes) != Ok(rustix::param::page_size()) {
        return Err(Refusal::BlockSize { block_bytes });
    }
    if geometry.blocks() > DEVICE_BLOCKS_MAX {
        return Err(Refusal::TooLarge);
    }
    if geometry.has_errors() {
        return Err(Refusal::Errors);
    }
    let mounted = MountedExt4::on(device).map_err(Refusal::UnknownOptions)?;
    let has = |option| mounted.has_option(option);
    if has("ro") {
        return Err(Refusal::ReadOnly);
    }
    if has("data=journal") {
        return Err(Refusal::JournalledData);
    }
    if ["dax", "dax=always"].into_iter().any(has) {
        return Err(Refusal::Dax);
    }
    if features.has_fast_commit() && !mounted.commits_moves_in_full() {
        return Err(Refusal::FastCommit);
    }
    if grows_when_written(device) {
        return Err(Refusal::Grows);
    }
    if getrlimit(Resource::Fsize).current.is_some() {
        return Err(Refusal::FileSizeLimit);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = open(mount_point, flags, Mode::empty());
    let directory = directory.map_err(|error| Refusal::Directory(error.into()))?;
    let space = statvfs(mount_point).map_err(|error| Refusal::Directory(error.into()))?;
    let group = geometry.blocks_of_group(0);
    let held = group.end - group.start;
    if is_nearly_full(geometry.blocks(), space.f_bavail, held) {
        return Err(Refusal::NearlyFull);
    }
    Ok(Movable {
        directory,
        device: opened.past_the_cache().map_err(Refusal::NoDevice)?,
        geometry,
    })
}

/// Whether less than a twentieth stays free when so many blocks are held.
fn is_nearly_full(blocks: u64, free_blocks: u64, held_blocks: u64) -> bool {
    let left = free_blocks.saturating_sub(held_blocks);
    left.saturating_mul(100) < blocks.saturating_mul(FREE_PERCENT_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_counts_as_used() {
        assert!(!is_nearly_full(100_000, 38_000, 32_768));
        assert!(is_nearly_full(100_000, 37_000, 32_768));
        assert!(is_nearly_full(100_000, 10_000, 32_768));
    }

    #[test]
    fn other_file_systems_are_refused_by_their_type() {
        let device = Device { major: 0, minor: 1 };
        let said = |fs_type: &[u8]| {
            let refusal = movable(fs_type, device, Path::new("/"));
            refusal.map_or_else(|refusal| refusal.to_string(), |_| "movable".to_owned())
        };
        assert!(said(b"btrfs").contains("snapshots"));
        assert!(said(b"xfs").contains("XFS"));
        assert_eq!(said(b"f2fs"), "f2fs has no call that moves blocks");
        assert!(said(b"ext4").contains("can't be opened"));
    }
}
