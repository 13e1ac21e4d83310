// SPDX-License-Identifier: MIT OR Apache-2.0
//! Low priority, for work that must not hold up anybody.

use std::io;

/// `IOPRIO_CLASS_IDLE` of `<linux/ioprio.h>`, above the 13 bits of the level.
const IDLE: libc::c_int = 3 << 13;
const IOPRIO_WHO_PROCESS: libc::c_int = 1;

/// From now on, this thread and those that it starts read and write when nobody else does, where
/// the I/O scheduler knows of priorities (BFQ, mq-deadline), and run after all others.
///
/// # Errors
/// As the kernel says; a filter of system calls may refuse.
pub fn be_last() -> io::Result<()> {
    // SAFETY: plain system calls.
    unsafe {
        if libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IDLE) != 0 {
            return Err(io::Error::last_os_error());
        }
        // The highest number is allowed to everybody.
        if libc::setpriority(libc::PRIO_PROCESS, 0, 19) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
