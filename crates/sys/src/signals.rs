// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signals of a process that wraps a command: they are for the command.
//!
//! [`hold`] blocks them before the first thread is started, since a thread inherits the mask of the
//! one that starts it: a signal that one thread doesn't block ends the whole process, and its
//! command is abandoned. A command gets the mask and the ignored signals that this process was
//! started with.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use crate::interrupt::timespec;

/// Signals that are passed on to the command, and end a process by default.
const ENDING: [i32; 7] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
];
/// Others that are passed on. The kernel sends SIGXFSZ to whoever writes beyond a limit of file
/// sizes (`ulimit -f`). Held back, it leaves the write an error, and the command is not abandoned.
const HARMLESS: [i32; 3] = [libc::SIGWINCH, libc::SIGCONT, libc::SIGXFSZ];

/// Whether SIGPIPE was ignored when this process was started. Rust ignores it before `main`.
static IGNORED_PIPES: AtomicBool = AtomicBool::new(false);

/// The runtime of the language calls this before its own `main`, which ignores SIGPIPE.
#[used]
// SAFETY: the section holds pointers to functions of this kind.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = note_ignored_pipes;

extern "C" fn note_ignored_pipes() {
    IGNORED_PIPES.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: asks only; the kernel fills a struct that lives through the call.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        let asked = libc::sigaction(signal, std::ptr::null(), &raw mut action);
        asked == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Signals that are held back.
pub struct Held {
    /// Readable when one has come; `None` where the kernel gives no such descriptor.
    fd: Option<OwnedFd>,
    set: libc::sigset_t,
    inherited: libc::sigset_t,
    /// Whether the end of children was ignored. Then none could be waited for.
    ignored_children: bool,
}

/// A signal that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Came {
    signal: i32,
    /// Whether the kernel sent it, as it does for the keys of a terminal.
    is_by_kernel: bool,
}

impl Came {
    /// Sends the signal on to the command. The keys of a terminal send it to the whole foreground
    /// group, to which the command belongs, too.
    pub fn pass_on(self, pid: u32) {
        if self.is_by_kernel || self.signal == libc::SIGCHLD {
            return;
        }
        if let Ok(pid) = i32::try_from(pid) {
            // SAFETY: a plain system call; the child hasn't been waited for, so the number is
            // still its own.
            unsafe { libc::kill(pid, self.signal) };
        }
    }
}

/// Holds the signals back, from the first call on. That must come before the first thread.
pub fn hold() -> &'static Held {
    static HELD: OnceLock<Held> = OnceLock::new();
    HELD.get_or_init(Held::hold)
}

impl Held {
    fn hold() -> Self {
        // SAFETY: the sets are initialised by sigemptyset before use; signalfd returns a new
        // descriptor that nobody else owns. The calls fail for wrong requests only, but for
        // signalfd, without which signals are waited for by sigtimedwait.
        unsafe {
            let mut set: libc::sigset_t = zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in ENDING.into_iter().chain(HARMLESS).chain([libc::SIGCHLD]) {
                libc::sigaddset(&raw mut set, signal);
            }
            let ignored_children = is_ignored(libc::SIGCHLD);
            if ignored_children {
                libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            }
            let mut inherited: libc::sigset_t = zeroed();
            libc::sigemptyset(&raw mut inherited);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut inherited);
            let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            Self {
                fd: (fd >= 0).then(|| OwnedFd::from_raw_fd(fd)),
                set,
                inherited,
                ignored_children,
            }
        }
    }

    /// Gives a forked process the mask and the ignored signals that this one was started with. It
    /// is async-signal-safe and allocates nothing.
    pub fn restore(&self) {
        // SAFETY: plain system calls; the set is initialised.
        unsafe {
            if self.ignored_children {
                libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            }
            if IGNORED_PIPES.load(Ordering::Relaxed) {
                libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            }
            let old = std::ptr::null_mut();
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.inherited, old);
        }
    }

    /// Readable when a signal has come; `None` where the kernel gives no such descriptor.
    #[must_use]
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// A signal that has come so far and would have ended this process.
    #[must_use]
    pub fn ended_by(&self) -> Option<i32> {
        let came = std::iter::from_fn(|| self.next());
        let mut ending = came.filter(|came| ENDING.contains(&came.signal));
        ending
            .find(|came| !is_ignored(came.signal))
            .map(|came| came.signal)
    }

    /// The next signal that has come, if any; doesn't wait.
    #[must_use]
    pub fn next(&self) -> Option<Came> {
        match &self.fd {
            Some(fd) => read(fd),
            None => self.wait_without_fd(Some(Duration::ZERO)),
        }
    }

    /// Waits for a signal, for `also` to be readable, or for at most `limit`. Returns the signal.
    ///
    /// # Errors
    /// When the kernel refuses to wait.
    pub fn wait(
        &self,
        also: Option<BorrowedFd<'_>>,
        limit: Option<Duration>,
    ) -> io::Result<Option<Came>> {
        let Some(fd) = &self.fd else {
            return Ok(self.wait_without_fd(limit));
        };
        let fds = [Some(fd.as_fd()), also].into_iter().flatten();
        let fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let timeout = limit.map(timespec);
        match poll(&mut fds.collect::<Vec<_>>(), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(read(fd)),
            Err(error) => Err(error.into()),
        }
    }

    fn wait_without_fd(&self, limit: Option<Duration>) -> Option<Came> {
        let seconds = |limit: Duration| libc::time_t::try_from(limit.as_secs());
        let timeout = limit.map(|limit| libc::timespec {
            tv_sec: seconds(limit).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(limit.subsec_nanos().cast_signed()),
        });
        // SAFETY: the structs live through the call, and the set is initialised.
        unsafe {
            let mut info: libc::siginfo_t = zeroed();
            let timeout = timeout
                .as_ref()
                .map_or(std::ptr::null(), |of| &raw const *of);
            let signal = libc::sigtimedwait(&raw const self.set, &raw mut info, timeout);
            (signal > 0).then_some(Came {
                signal,
                is_by_kernel: info.si_code == libc::SI_KERNEL,
            })
        }
    }
}

fn read(fd: &OwnedFd) -> Option<Came> {
    let mut bytes = [0u8; size_of::<libc::signalfd_siginfo>()];
    let count = rustix::io::read(fd, &mut bytes).ok()?;
    let word = |at: usize| {
        let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
        word.map_or(0, i32::from_ne_bytes)
    };
    // The number comes first, the sender's code third.
    (count == bytes.len()).then(|| Came {
        signal: word(0),
        is_by_kernel: word(8) == libc::SI_KERNEL,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_told_with_and_without_a_descriptor() {
        for has_fd in [true, false] {
            let mut held = Held::hold();
            if !has_fd {
                held.fd = None;
            }
            assert_eq!(
                held.wait(None, Some(Duration::from_millis(1))).unwrap(),
                None
            );
            // SAFETY: a signal to this thread alone, where it is held back.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR1) };
            let came = held.wait(None, None).unwrap().unwrap();
            assert_eq!((came.signal, came.is_by_kernel), (libc::SIGUSR1, false));
            assert_eq!(held.next(), None);
            // SAFETY: as above.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGWINCH) };
            // SAFETY: as above.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGTERM) };
            assert_eq!(held.ended_by(), Some(libc::SIGTERM));
            assert_eq!(held.ended_by(), None);
        }
    }
}
