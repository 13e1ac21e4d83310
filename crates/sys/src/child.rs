// SPDX-License-Identifier: MIT OR Apache-2.0
//! Supervises a command that this process wraps: its start, its signals, its end.
//!
//! The command runs exactly once and is never abandoned: a [`Running`] that is dropped, by an error
//! or a panic, waits for the end of its command first.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use thiserror::Error;

use crate::last_resort::{self, Now};
use crate::signals::{self, Held, LOOK_EVERY};
use crate::spawning::{self, NotStarted, Prepared};
use crate::user::User;

/// Why the command wasn't started.
#[derive(Debug, Error)]
pub enum SpawnError {
    /// Exit code 127, as shells have it.
    #[error("{0}: command not found")]
    NotFound(String),
    /// Exit code 126, as shells have it.
    #[error("{0}: {1}")]
    NotExecutable(String, io::Error),
    /// A signal came before the command was started. It ends this process, too.
    #[error("{0} was not started: signal {1} came before")]
    Signalled(String, i32),
    /// A process beside this one could not be made. The command may [take its place](exec).
    #[error("no process could be made for {0}: {1}")]
    NoProcess(String, io::Error),
}

impl SpawnError {
    /// The exit code that a shell would give.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound(_) => 127,
            Self::NotExecutable(..) | Self::NoProcess(..) => 126,
            Self::Signalled(_, signal) => u8::try_from(128 + signal).unwrap_or(255),
        }
    }

    /// The signal that has come.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        match self {
            Self::Signalled(_, signal) => Some(*signal),
            _ => None,
        }
    }

    /// Why exec failed. The search through `PATH` reports "permission denied" also when only a
    /// directory of it is closed to us; to shells that's a name not found.
    fn of_exec(name: String, error: io::Error) -> Self {
        let is_missing = match error.kind() {
            io::ErrorKind::NotFound => true,
            io::ErrorKind::PermissionDenied => !is_in_path(name.as_ref()),
            _ => false,
        };
        match is_missing {
            true => Self::NotFound(name),
            false => Self::NotExecutable(name, error),
        }
    }
}

/// Exit code 1.
const UNKNOWN_STATUS: i32 = 1 << 8;

/// A running command.
pub struct Running {
    pid: i32,
    /// `None` where the kernel gives none: before Linux 5.3, by a seccomp filter, or for want of
    /// descriptors. SIGCHLD tells of the end, too.
    pidfd: Option<OwnedFd>,
    held: &'static Held,
    status: Option<ExitStatus>,
    /// Bytes that earlier children of this process had disks read.
    read_before_bytes: Option<u64>,
    read_bytes: Option<u64>,
}

/// Prepares this process for a command that it will wrap. To be called before the first thread.
///
/// From now on signals are held back for the command. When this process fails beyond repair, the
/// command runs all the same: in its place if it wasn't started, else to its end. With
/// `is_optional` false a command that wasn't started is not started then.
pub fn guard(arguments: &[OsString], is_optional: bool) {
    signals::hold();
    let command = Prepared::new(arguments).ok();
    last_resort::arm(command.filter(|_| is_optional));
}

/// From now on commands get this user's rights and home. To be called before [`guard`].
///
/// # Errors
/// When it was called before.
pub fn run_as(user: &User) -> io::Result<()> {
    spawning::run_as(user)
}

/// Starts a command with our terminal, directory and environment, and with the signal mask and the
/// ignored signals that this process was started with.
///
/// Signals to this process alone are passed on by [`Running::wait`]. Those to its whole group, such
/// as a terminal's, reach the command by themselves.
///
/// # Errors
/// [`SpawnError`] when there is no such command, it can't be executed, a signal came before, or no
/// process could be made for it.
pub fn spawn(arguments: &[OsString]) -> Result<Running, SpawnError> {
    let held = signals::hold();
    let prepared = prepared(arguments)?;
    let (signal, kept) = held.before_start();
    if let Some(signal) = signal {
        return Err(SpawnError::Signalled(prepared.name(), signal));
    }
    let read_before_bytes = children_read_bytes();
    let pending = Held::pending();
    let started = prepared.start(last_resort::starting());
    last_resort::is_now(&match started {
        Ok(pid) => Now::Running(pid),
        Err(NotStarted::NoProcess(_)) => Now::NotStarted,
        Err(NotStarted::NotExecuted(_)) => Now::Refused,
    });
    let pid = match started {
        Ok(pid) => pid,
        Err(NotStarted::NoProcess(error)) => {
            return Err(SpawnError::NoProcess(prepared.name(), error));
        }
        Err(NotStarted::NotExecuted(error)) => {
            return Err(SpawnError::of_exec(prepared.name(), error));
        }
    };
    held.pass_on_after_start(&kept, &pending, pid);
    crate::start_pages::read_rest();
    let pidfd = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    Ok(Running {
        pid,
        pidfd,
        held,
        status: None,
        read_before_bytes,
        read_bytes: None,
    })
}

/// Executes a command in the place of this process. Returns why that failed.
#[must_use]
pub fn exec(arguments: &[OsString]) -> SpawnError {
    let prepared = match prepared(arguments) {
        Ok(prepared) => prepared,
        Err(error) => return error,
    };
    crate::start_pages::read_rest();
    signals::hold().dismiss_witness();
    SpawnError::of_exec(prepared.name(), prepared.exec())
}

fn prepared(arguments: &[OsString]) -> Result<Prepared, SpawnError> {
    Prepared::new(arguments).map_err(|error| {
        let name = arguments.first().map(|name| name.to_string_lossy());
        SpawnError::of_exec(name.unwrap_or_default().into_owned(), error)
    })
}

/// How the command that was [guarded](guard) ended; `None` when it has not been started.
#[must_use]
pub fn status_of_guarded() -> Option<ExitStatus> {
    match last_resort::now() {
        Now::Ended(status) => Some(ExitStatus::from_raw(status)),
        _ => None,
    }
}

/// Whether a command name means a file that is there.
fn is_in_path(program: &OsStr) -> bool {
    if program.as_bytes().contains(&b'/') {
        return true;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).exists())
}

impl Running {
    /// Process number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.pid.cast_unsigned()
    }

    /// Readable when the command may have ended; `None` where the kernel gives no such descriptor.
    #[must_use]
    pub fn ended_fd(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd).or(self.held.as_fd())
    }

    /// Waits for the end of the command, at most `limit`. Meanwhile it passes signals on, and stops
    /// this process when the command is stopped. A call that the kernel refuses is made again.
    pub fn wait(&mut self, limit: Option<Duration>) -> Option<ExitStatus> {
        if self.status.is_some() {
            return self.status;
        }
        let pidfd = self.pidfd.as_ref().map(AsFd::as_fd);
        // SIGCHLD alone is no proof: it may have come, and been taken, before the command was
        // known.
        let limit = match (pidfd, self.held.as_fd()) {
            (Some(_), Some(_)) => limit,
            _ => Some(limit.map_or(LOOK_EVERY, |limit| limit.min(LOOK_EVERY))),
        };
        let mut came = self.held.wait(pidfd, limit);
        while let Some(signal) = came {
            self.held.pass_on(signal, self.pid);
            came = self.held.next();
        }
        self.look();
        self.status
    }

    /// Looks whether the command has ended, or was stopped.
    fn look(&mut self) {
        let mut status = 0;
        let flags = libc::WNOHANG | libc::WUNTRACED;
        // SAFETY: the kernel fills a number that lives through the call.
        let waited = unsafe { libc::waitpid(self.pid, &raw mut status, flags) };
        if waited < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD) {
            // Somebody else has waited for it; nothing tells how it ended.
            status = UNKNOWN_STATUS;
        } else if waited != self.pid {
            return;
        } else if libc::WIFSTOPPED(status) {
            self.held.stop_as(libc::WSTOPSIG(status), self.pid);
            return;
        }
        self.status = Some(ExitStatus::from_raw(status));
        last_resort::is_now(&Now::Ended(status));
        let read_bytes = children_read_bytes().zip(self.read_before_bytes);
        self.read_bytes = read_bytes.map(|(after, before)| after.saturating_sub(before));
    }

    /// Waits for the end of the command, however long that takes.
    pub fn wait_to_end(&mut self) -> ExitStatus {
        self.wait_with(None, || {})
    }

    /// The same, and calls `meanwhile` after each wait of at most this long.
    pub fn wait_with(
        &mut self,
        every: Option<Duration>,
        mut meanwhile: impl FnMut(),
    ) -> ExitStatus {
        loop {
            if let Some(status) = self.wait(every) {
                return status;
            }
            meanwhile();
        }
    }

    /// Bytes that the command, and all of its processes that were waited for, had disks read. Known
    /// once it has ended, and only to kernels that account for it. Metadata that they had to wait
    /// for counts; data that other processes brought in for them doesn't.
    #[must_use]
    pub fn read_bytes(&self) -> Option<u64> {
        self.read_bytes
    }
}

/// No command is abandoned.
impl Drop for Running {
    fn drop(&mut self) {
        self.wait_to_end();
    }
}

/// Bytes that disks were made to read by children of this process that have been waited for.
fn children_read_bytes() -> Option<u64> {
    /// Unit of `ru_inblock`, whatever the disk.
    const BLOCK_BYTES: u64 = 512;
    // A kernel without accounting says 0, and has no such file.
    if !std::path::Path::new("/proc/self/io").exists() {
        return None;
    }
    // SAFETY: the kernel fills a struct that lives through the call; all of its bits are numbers.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        match libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) {
            0 => usage,
            _ => return None,
        }
    };
    u64::try_from(usage.ru_inblock)
        .ok()?
        .checked_mul(BLOCK_BYTES)
}

/// Ends this process as the command ended: same exit code, or same signal.
pub fn end_as(status: ExitStatus) -> ! {
    if let Some(signal) = status.signal() {
        end_by(signal);
    }
    end();
    std::process::exit(status.code().unwrap_or(1));
}

/// Ends this process by a signal.
pub fn end_by(signal: i32) -> ! {
    end();
    signals::end_by(signal)
}

/// To be called when this process is about to end.
pub fn end() {
    signals::hold().dismiss_witness();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(script: &str) -> Running {
        spawn(&["sh", "-c", script].map(OsString::from)).unwrap()
    }

    #[test]
    fn a_command_is_waited_for_without_a_descriptor_of_its_process() {
        let mut running = running("exit 7");
        running.pidfd = None;
        assert_eq!(running.wait_to_end().code(), Some(7));
        assert_eq!(running.wait(None).unwrap().code(), Some(7));
    }

    #[test]
    fn a_command_is_waited_for_by_whoever_drops_it() {
        let directory = tempfile::tempdir().unwrap();
        let done = directory.path().join("done");
        drop(running(&format!("sleep 0.1; : > {}", done.display())));
        assert!(done.exists());
    }
}
