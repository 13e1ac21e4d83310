// SPDX-License-Identifier: MIT OR Apache-2.0
//! Closes the descriptors that a forked process inherits and must not keep.

use std::os::fd::RawFd;

/// Closes all descriptors above the standard streams but for some, which are in order.
///
/// # Safety
/// Nobody may use them afterwards.
pub(crate) unsafe fn close_all_but(keep: &[RawFd]) {
    let mut first = 3;
    for kept in keep.iter().map(|kept| kept.cast_unsigned()) {
        if first < kept {
            // SAFETY: as the caller promises.
            unsafe { close_range(first, kept - 1) };
        }
        first = first.max(kept + 1);
    }
    // SAFETY: as the caller promises.
    unsafe { close_from(first) };
}

/// Closes all descriptors from this one on.
///
/// # Safety
/// Nobody may use them afterwards.
pub(crate) unsafe fn close_from(first: libc::c_uint) {
    // SAFETY: as the caller promises.
    unsafe { close_range(first, libc::c_uint::MAX) };
}

/// Closes the descriptors from `first` to `last`.
///
/// # Safety
/// Nobody may use them afterwards.
unsafe fn close_range(first: libc::c_uint, last: libc::c_uint) {
    // SAFETY: plain system calls on numbers; see above.
    unsafe {
        if libc::syscall(libc::SYS_close_range, first, last, 0) == 0 {
            return;
        }
        // Before Linux 5.9.
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        let most = u32::try_from(limit.rlim_cur.min(1 << 16)).unwrap_or(1 << 16);
        for descriptor in first..=last.min(most) {
            libc::close(descriptor.cast_signed());
        }
    }
}
