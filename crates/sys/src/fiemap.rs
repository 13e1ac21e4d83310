// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a file's pages lie, as its file system tells.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

const FS_IOC_FIEMAP: libc::c_ulong = 0xc020_660b;
const FLAG_LAST: u32 = 0x1;
const FLAG_UNKNOWN: u32 = 0x2;
const FLAG_DELALLOC: u32 = 0x4;
const FLAG_INLINE: u32 = 0x200;
const FLAG_UNWRITTEN: u32 = 0x800;
const FLAG_SHARED: u32 = 0x2000;
const EXTENTS: usize = 32;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap` of `<linux/fiemap.h>`, with room for extents.
#[repr(C)]
struct Request {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [RawExtent; EXTENTS],
}

/// A run of bytes that lie together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where it starts in the file.
    pub offset_bytes: u64,
    /// Where it starts on the device (on btrfs: in the volume).
    pub place_bytes: u64,
    /// Length in bytes.
    pub length_bytes: u64,
    /// Whether they belong to another file, too.
    pub is_shared: bool,
    /// Whether they are preallocated only: they read as zeros.
    pub is_unwritten: bool,
}

/// The runs that cover a part of a file, in order; at most `runs_max`. Holes, preallocated space
/// and data inside an inode are left out: nothing is read for them.
///
/// # Errors
/// When the file system can't tell (`EOPNOTSUPP`), or reading its block map fails.
pub fn runs(
    file: impl AsFd,
    offset_bytes: u64,
    length_bytes: u64,
    runs_max: usize,
) -> io::Result<Vec<Run>> {
    let mut runs = allocated_runs(file, offset_bytes, length_bytes, runs_max)?;
    runs.retain(|run| !run.is_unwritten);
    Ok(runs)
}

/// The same, with preallocated space.
///
/// # Errors
/// Those of [`runs`].
pub fn allocated_runs(
    file: impl AsFd,
    offset_bytes: u64,
    length_bytes: u64,
    runs_max: usize,
) -> io::Result<Vec<Run>> {
    let end = offset_bytes.saturating_add(length_bytes);
    let mut runs = Vec::new();
    let mut at = offset_bytes;
    while at < end && runs.len() < runs_max {
        let mut request = Request {
            start: at,
            length: end - at,
            flags: 0,
            mapped_extents: 0,
            extent_count: EXTENTS as u32,
            reserved: 0,
            extents: [RawExtent::default(); EXTENTS],
        };
        // SAFETY: the struct is laid out as the kernel's, has the room it claims, and lives through
        // the call.
        let result =
            unsafe { libc::ioctl(file.as_fd().as_raw_fd(), FS_IOC_FIEMAP, &raw mut request) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        let mapped = (request.mapped_extents as usize).min(EXTENTS);
        for extent in &request.extents[..mapped] {
            let skip = FLAG_UNKNOWN | FLAG_DELALLOC | FLAG_INLINE;
            if extent.flags & skip == 0 {
                runs.push(Run {
                    offset_bytes: extent.logical,
                    place_bytes: extent.physical,
                    length_bytes: extent.length,
                    is_shared: extent.flags & FLAG_SHARED != 0,
                    is_unwritten: extent.flags & FLAG_UNWRITTEN != 0,
                });
            }
            if extent.flags & FLAG_LAST != 0 {
                return Ok(runs);
            }
            let next = extent.logical.saturating_add(extent.length);
            if next <= at {
                return Ok(runs);
            }
            at = next;
        }
        if mapped == 0 {
            break;
        }
    }
    Ok(runs)
}
