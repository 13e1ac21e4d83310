// SPDX-License-Identifier: MIT OR Apache-2.0
//! The flags of a file that `lsattr` shows.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use foreread_prefetch::ext4::InodeFlags;

/// The flags of an open file. All file systems that have some use ext4's numbers for them.
///
/// # Errors
/// `ENOTTY` or `EOPNOTSUPP` where the file system has none.
pub fn flags_of(file: impl AsFd) -> io::Result<InodeFlags> {
    // The number of this call says `long`, but the kernel writes an int.
    let mut flags = [0u32; 2];
    // SAFETY: the kernel writes four bytes into the eight that are there.
    let done = unsafe {
        libc::ioctl(
            file.as_fd().as_raw_fd(),
            libc::FS_IOC_GETFLAGS,
            flags.as_mut_ptr(),
        )
    };
    match done {
        0 => Ok(InodeFlags(flags[0])),
        _ => Err(io::Error::last_os_error()),
    }
}
