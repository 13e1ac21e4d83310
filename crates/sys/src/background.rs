// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work that nobody waits for, in a process of its own.

use std::io;

use crate::signals;

/// Does work in a process of its own that outlives this one; returns at once.
///
/// That process has a session of its own, the signal mask that this one was started with, and none
/// of its descriptors: whoever reads our output, waits for a lock that we inherited or counts the
/// tokens of a jobserver must not wait for the work. So it can tell nobody of an error.
///
/// # Errors
/// When no process can be made; then the work wasn't done.
pub fn in_background(work: impl FnOnce()) -> io::Result<()> {
    // SAFETY: fork copies the calling thread only. Threads of ours that are gone in the copy may
    // have held locks: glibc and musl make memory allocation usable again after fork, and our other
    // threads use neither standard streams nor any lock that `work` takes. The copy never returns
    // from here.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            signals::hold().restore();
            // SAFETY: plain system calls. No descriptor is used after this that was open before.
            unsafe {
                libc::setsid();
                let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
                for standard in 0..3 {
                    libc::dup2(null, standard);
                }
                close_from(3);
            }
            work();
            // SAFETY: ends the copy without running what the original will run at its own end.
            unsafe { libc::_exit(0) }
        }
        _ => Ok(()),
    }
}

/// Closes all descriptors from this one on.
///
/// # Safety
/// Nobody may use them afterwards.
unsafe fn close_from(first: libc::c_uint) {
    // SAFETY: plain system calls on numbers; see above.
    unsafe {
        if libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) == 0 {
            return;
        }
        // Before Linux 5.9.
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        let last = i32::try_from(limit.rlim_cur.min(1 << 16)).unwrap_or(1 << 16);
        for descriptor in first.cast_signed()..last {
            libc::close(descriptor);
        }
    }
}
