// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ctrl-C as an event: for what ends when the user says so, and then still has something to tell.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};

/// Interval at which a child is looked at where the kernel gives no descriptor for it.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The signal mask that this process was started with; it is set when signals are first held.
static INHERITED_MASK: OnceLock<libc::sigset_t> = OnceLock::new();

/// A request by signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// To end: SIGINT or SIGTERM.
    End,
    /// SIGHUP: a terminal was closed, or a service is to read its configuration again.
    HangUp,
}

/// A signal that has come.
#[derive(Clone, Copy, Debug)]
struct Received {
    number: libc::c_int,
    /// By Ctrl-C or a hang-up, so that the whole process group of the foreground got it.
    is_from_terminal: bool,
}

/// Holds back SIGINT, SIGTERM and SIGHUP (a terminal that is closed), for this thread and those
/// that it starts.
#[derive(Debug)]
pub struct Interrupt {
    fd: OwnedFd,
}

/// How a child ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// As the kernel says.
    pub status: ExitStatus,
    /// Whether a signal that is held came before its end.
    pub is_told: bool,
}

/// Gives a command the signal mask that this process was started with. A child inherits the mask of
/// its parent, so without this a command that is started while signals are held gets no Ctrl-C.
pub fn restore_mask(command: &mut Command) {
    let Some(inherited) = INHERITED_MASK.get() else {
        return;
    };
    // SAFETY: pthread_sigmask is async-signal-safe, and the set is initialised.
    unsafe {
        command.pre_exec(|| {
            // It fails for a wrong request only.
            libc::pthread_sigmask(libc::SIG_SETMASK, inherited, std::ptr::null_mut());
            Ok(())
        });
    }
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
            let mut before: libc::sigset_t = std::mem::zeroed();
            let refused = libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
            if refused != 0 {
                return Err(io::Error::from_raw_os_error(refused));
            }
            INHERITED_MASK.get_or_init(|| before);
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
        Ok(self.next()?.map(|signal| match signal.number {
            libc::SIGHUP => Told::HangUp,
            _ => Told::End,
        }))
    }

    fn next(&self) -> io::Result<Option<Received>> {
        let mut bytes = [0u8; size_of::<libc::signalfd_siginfo>()];
        match rustix::io::read(&self.fd, &mut bytes) {
            Ok(_) => {}
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        // SAFETY: the kernel has filled it, and each bit pattern is a value of it.
        let info: libc::signalfd_siginfo =
            unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) };
        Ok(Some(Received {
            number: libc::c_int::try_from(info.ssi_signo).unwrap_or(libc::SIGTERM),
            is_from_terminal: info.ssi_code == libc::SI_KERNEL,
        }))
    }

    /// Waits for the end of a child that was started with [`restore_mask`]. What comes meanwhile is
    /// passed on to it, unless it came from the terminal, which sends it to the child, too.
    ///
    /// # Errors
    /// When the kernel refuses to wait.
    pub fn wait_for(&self, child: &mut Child) -> io::Result<Ended> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        // Without it (before Linux 5.3, or under a filter of system calls) the child is polled.
        let end = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let mut is_told = false;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Ended {
                    status,
                    is_told: is_told || self.next()?.is_some(),
                });
            }
            let mut fds = vec![PollFd::from_borrowed_fd(self.fd.as_fd(), PollFlags::IN)];
            fds.extend(end.as_ref().map(|end| PollFd::new(end, PollFlags::IN)));
            let look = timespec(LOOK_EVERY);
            match poll(&mut fds, end.is_none().then_some(&look)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            while let Some(signal) = self.next()? {
                is_told = true;
                if let (Some(pid), false) = (pid, signal.is_from_terminal)
                    && let Some(number) = Signal::from_named_raw(signal.number)
                {
                    // It may have ended by itself.
                    let _ = rustix::process::kill_process(pid, number);
                }
            }
        }
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

    #[test]
    fn a_child_gets_what_comes_while_it_is_waited_for() {
        let interrupt = Interrupt::hold().unwrap();
        let mut command = Command::new("sleep");
        restore_mask(command.arg("1000"));
        let mut child = command.spawn().unwrap();
        // SAFETY: a signal to this thread alone, where it is held back.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGTERM) };
        let ended = interrupt.wait_for(&mut child).unwrap();
        assert!(ended.is_told);
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&ended.status),
            Some(libc::SIGTERM)
        );
        let mut child = Command::new("true").spawn().unwrap();
        let ended = interrupt.wait_for(&mut child).unwrap();
        assert!(ended.status.success() && !ended.is_told);
    }
}
