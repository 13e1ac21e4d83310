// SPDX-License-Identifier: MIT OR Apache-2.0
//! The generation of an inode, which tells a file from an earlier one with the same number.

use std::os::fd::{AsRawFd, BorrowedFd};

/// The generation of an open file; 0 where the file system has none.
#[must_use]
pub fn generation_of(fd: BorrowedFd<'_>) -> u32 {
    // The number of this call says `long`, but the kernel writes an int.
    let mut generation = [0u32; 2];
    // SAFETY: the kernel writes four bytes into the eight that are there.
    let done = unsafe {
        libc::ioctl(
            fd.as_raw_fd(),
            libc::FS_IOC_GETVERSION,
            generation.as_mut_ptr(),
        )
    };
    if done == 0 { generation[0] } else { 0 }
}
