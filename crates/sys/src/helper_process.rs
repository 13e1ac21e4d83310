// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process of this executable that works for the process that started it, and that nobody waits
//! for: it may hang in the kernel for ever.
//!
//! It is started by exec, since a copy of a process with threads may hold locks of threads that it
//! doesn't have. It is no child of its asker: nothing has to wait for it, and what it reads isn't
//! counted as read by children. It has one descriptor of its asker's, a socket, a session of its
//! own, and the capabilities of the thread that started it.

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::FileType;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// The first argument of a helper process. Not for people.
const VERB: &str = "helper-process";

/// Starts one; returns our end of its socket.
///
/// # Errors
/// When no process can be made.
pub fn start() -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    let rights = capabilities(None).map_or(0, |own| own.effective.bits());
    // The link leads to the executable even when another one was installed in its place.
    let mut child = Command::new("/proc/self/exe")
        .arg0("foreread")
        .arg(VERB)
        .arg(format!("{rights:x}"))
        .env_clear()
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    // It starts the helper and ends, and touches no file system before. Where the end of children
    // is ignored, there is none to be had.
    let _ = child.wait();
    Ok(ours)
}

/// The socket to the asker, if this process was started to be a helper. Must be called before any
/// thread is started, and before anything is opened.
#[must_use]
pub fn become_helper() -> Option<UnixStream> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != VERB {
        return None;
    }
    // Somebody may have typed it.
    let input = rustix::fs::fstat(io::stdin()).ok()?;
    if FileType::from_raw_mode(input.st_mode) != FileType::Socket {
        return None;
    }
    let rights = arguments.next()?;
    let rights = u64::from_str_radix(rights.to_str()?, 16).ok()?;
    // SAFETY: this process has one thread. Plain system calls; descriptor 0 is the socket, which
    // nothing else owns.
    let socket = unsafe {
        // The one that is waited for ends. The other one is nobody's child.
        if libc::fork() != 0 {
            libc::_exit(0);
        }
        libc::setsid();
        libc::chdir(c"/".as_ptr());
        libc::prctl(libc::PR_SET_NAME, c"foreread-helper".as_ptr());
        for signal in 1..libc::SIGSYS {
            if signal != libc::SIGPIPE {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        let socket = libc::fcntl(0, libc::F_DUPFD_CLOEXEC, 3);
        libc::dup2(1, 0);
        if socket < 0 {
            libc::_exit(1);
        }
        crate::descriptors::close_all_but(&[socket]);
        OwnedFd::from_raw_fd(socket)
    };
    keep_only(rights).ok()?;
    Some(UnixStream::from(socket))
}

fn keep_only(rights: u64) -> io::Result<()> {
    let rights = CapabilitySet::from_bits_retain(rights);
    let own = capabilities(None)?;
    let left = CapabilitySets {
        effective: own.permitted & rights,
        permitted: own.permitted & rights,
        inheritable: CapabilitySet::empty(),
    };
    Ok(set_capabilities(None, left)?)
}

/// Starts a thread that ends this process as soon as the other side of the socket is gone. Threads
/// that hang in the kernel don't keep it from that; only their own end is late.
///
/// # Errors
/// When there is no thread to be had.
pub fn end_with(asker: &UnixStream) -> io::Result<()> {
    let asker = asker.try_clone()?;
    let wait = move || {
        let mut fds = [PollFd::from_borrowed_fd(asker.as_fd(), PollFlags::RDHUP)];
        while !matches!(poll(&mut fds, None), Ok(ready) if ready > 0) {}
        // SAFETY: ends the process without running what other threads may still use.
        unsafe { libc::_exit(0) }
    };
    let thread = std::thread::Builder::new().stack_size(64 * 1024);
    thread.spawn(wait)?;
    Ok(())
}
