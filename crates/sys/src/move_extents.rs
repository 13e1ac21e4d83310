// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exchange of blocks between two files of an ext4 file system.
//!
//! The kernel copies the contents through the page cache and swaps the extents within one
//! transaction of the journal, with both inodes locked. So a reader or writer of the file always
//! sees its contents, and after a power cut the file has its old blocks or its new ones. Times,
//! owner and attributes stay (`ext4_move_extents()`).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// `EXT4_IOC_MOVE_EXT`, of `fs/ext4/ext4.h`.
const EXT4_IOC_MOVE_EXT: libc::c_ulong = 0xc028_660f;

/// `struct move_extent` of `fs/ext4/ext4.h`.
#[repr(C)]
struct Request {
    reserved: u32,
    donor_fd: u32,
    file_start: u64,
    donor_start: u64,
    length: u64,
    moved: u64,
}

/// Blocks of a file and of its donor, in blocks of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The first block in the file.
    pub file_block: u64,
    /// The first block in the donor.
    pub donor_block: u64,
    /// How many blocks.
    pub blocks: u64,
}

/// Exchanges blocks between a file and a donor, both open for reading and writing. Returns the
/// number of blocks that were exchanged, which may be less than asked: also where an error came
/// after them, which the next call meets then. Asked again for the same blocks, the kernel would
/// exchange them back.
///
/// # Errors
/// As the kernel says: `EINVAL` and `EOPNOTSUPP` for files that it doesn't move, `ENODATA` where
/// the file has a hole to its end, `EBUSY` when its pages are dirty, or being written.
pub fn exchange(file: impl AsFd, donor: impl AsFd, what: Exchange) -> io::Result<u64> {
    let donor_fd = u32::try_from(donor.as_fd().as_raw_fd());
    let mut request = Request {
        reserved: 0,
        donor_fd: donor_fd.map_err(|_| io::ErrorKind::InvalidInput)?,
        file_start: what.file_block,
        donor_start: what.donor_block,
        length: what.blocks,
        moved: 0,
    };
    let file = file.as_fd().as_raw_fd();
    // SAFETY: the struct is laid out as the kernel's and lives through the call.
    let done = unsafe { libc::ioctl(file, EXT4_IOC_MOVE_EXT, &raw mut request) };
    match done {
        // The kernel says how far it came in either case.
        0 => Ok(request.moved),
        _ if request.moved > 0 => Ok(request.moved.min(what.blocks)),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_is_as_large_as_the_kernels() {
        assert_eq!(size_of::<Request>(), 0x28);
    }

    #[test]
    fn other_file_systems_refuse() {
        let (file, donor) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        let none = Exchange {
            file_block: 0,
            donor_block: 0,
            blocks: 0,
        };
        // Empty files have nothing to exchange; what isn't ext4 doesn't know the call.
        assert!(exchange(&file, &donor, none).is_err());
    }
}
