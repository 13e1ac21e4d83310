// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ctrl-C as an event: for what ends when the user says so, and then still has something to tell.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A request by signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// To end: SIGINT or SIGTERM.
    End,
    /// SIGHUP: a terminal was closed, or a service is to read its configuration again.
    HangUp,
}

/// Holds back SIGINT, SIGTERM and SIGHUP (a terminal that is closed), for this thread and those
/// that it starts.
#[derive(Debug)]
pub struct Interrupt {
    fd: OwnedFd,
}

/// A duration as poll(2) has it.
pub fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

/// Leaves all signals to the other threads, for this one and those that it starts.
pub fn leave_to_others() {
    // SAFETY: the set is initialised by sigfillset before use.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut set);
        // It fails for a wrong request only.
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}

impl Interrupt {
    /// From now on they don't end this process.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn hold() -> io::Result<Self> {
        // SAFETY: the set is initialised by sigemptyset before use; signalfd returns a new
        // descriptor that no other code owns.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGINT);
            libc::sigaddset(&raw mut set, libc::SIGTERM);
            libc::sigaddset(&raw mut set, libc::SIGHUP);
            let refused =
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            if refused != 0 {
                return Err(io::Error::from_raw_os_error(refused));
            }
            let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Self {
                fd: OwnedFd::from_raw_fd(fd),
            })
        }
    }

    /// Readable when one of them has come.
    #[must_use]
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The next one that has come, if any; doesn't wait.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn take(&self) -> io::Result<Option<Told>> {
        let mut bytes = [0u8; size_of::<libc::signalfd_siginfo>()];
        match rustix::io::read(&self.fd, &mut bytes) {
            Ok(_) => {}
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        // The number of the signal comes first.
        let number = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        Ok(Some(match i32::try_from(number) {
            Ok(libc::SIGHUP) => Told::HangUp,
            _ => Told::End,
        }))
    }

    /// Waits for at most `limit`, or until one of the signals comes. Returns whether one has come.
    ///
    /// # Errors
    /// When the kernel refuses to wait.
    pub fn wait(&self, limit: Duration) -> io::Result<bool> {
        let timeout = timespec(limit);
        let mut fds = [PollFd::from_borrowed_fd(self.fd.as_fd(), PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_is_told_apart() {
        let send = |signal| {
            // SAFETY: a signal to this thread alone, where it is held back.
            unsafe { libc::pthread_kill(libc::pthread_self(), signal) };
        };
        let interrupt = Interrupt::hold().unwrap();
        assert_eq!(interrupt.take().unwrap(), None);
        send(libc::SIGHUP);
        assert!(interrupt.wait(Duration::ZERO).unwrap());
        assert_eq!(interrupt.take().unwrap(), Some(Told::HangUp));
        send(libc::SIGTERM);
        assert_eq!(interrupt.take().unwrap(), Some(Told::End));
        assert!(!interrupt.wait(Duration::ZERO).unwrap());
    }
}
