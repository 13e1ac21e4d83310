// SPDX-License-Identifier: MIT OR Apache-2.0
//! Supervises a command that this process wraps: its start, its signals, its end.
//!
//! The command runs exactly once and is never abandoned: a [`Running`] that is dropped, by an error
//! or a panic, waits for the end of its command first.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use thiserror::Error;

use crate::signals::{self, Held};

/// Pause after a failed wait. A wait fails by a defect only; the command must be waited for all the
/// same.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Pause between two looks at a command whose process has no descriptor.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Why the command wasn't started.
#[derive(Debug, Error)]
pub enum SpawnError {
    /// Exit code 127, as shells have it.
    #[error("{0}: command not found")]
    NotFound(String),
    /// Exit code 126, as shells have it.
    #[error("{0}: {1}")]
    NotExecutable(String, io::Error),
    /// A signal came before the command was started. Exit code 128 and its number.
    #[error("{0} was not started: signal {1} came before")]
    Signalled(String, i32),
}

impl SpawnError {
    /// The exit code that a shell would give.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound(_) => 127,
            Self::NotExecutable(..) => 126,
            Self::Signalled(_, signal) => u8::try_from(128 + signal).unwrap_or(255),
        }
    }
}

/// A running command.
pub struct Running {
    child: Child,
    /// `None` where the kernel gives none: before Linux 5.3, by a seccomp filter, or for want of
    /// descriptors. SIGCHLD tells of the end, too.
    pidfd: Option<OwnedFd>,
    held: &'static Held,
    status: Option<ExitStatus>,
    /// Bytes that earlier children of this process had disks read.
    read_before_bytes: Option<u64>,
    read_bytes: Option<u64>,
}

/// Starts a command with our terminal, directory and environment, and with the signal mask and the
/// ignored signals that this process was started with.
///
/// Signals to this process are passed on by [`Running::wait`]. Signals that a terminal sends to the
/// whole foreground group reach the command by themselves, so they are not.
///
/// If no process can be made for want of descriptors, processes or memory, the command takes the
/// place of this process.
///
/// # Errors
/// [`SpawnError`] when there is no such command, it can't be executed, or a signal came before.
pub fn spawn(arguments: &[OsString]) -> Result<Running, SpawnError> {
    let Some((program, rest)) = arguments.split_first() else {
        return Err(SpawnError::NotFound(String::new()));
    };
    let name = program.to_string_lossy().into_owned();
    let held = signals::hold();
    if let Some(signal) = held.ended_by() {
        return Err(SpawnError::Signalled(name, signal));
    }
    let mut command = Command::new(program);
    command.args(rest);
    // SAFETY: the function makes async-signal-safe calls only, and allocates nothing.
    unsafe {
        command.pre_exec(|| {
            held.restore();
            Ok(())
        });
    }
    let read_before_bytes = children_read_bytes();
    let not_started = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => SpawnError::NotFound(name.clone()),
        io::ErrorKind::PermissionDenied if !is_in_path(program) => {
            SpawnError::NotFound(name.clone())
        }
        _ => SpawnError::NotExecutable(name.clone(), error),
    };
    let child = match command.spawn() {
        Ok(child) => child,
        // A process beside ours failed for lack of a resource; exec in our place may still work.
        Err(error) if is_shortage(&error) => {
            crate::start_pages::read_rest();
            return Err(not_started(command.exec()));
        }
        Err(error) => return Err(not_started(error)),
    };
    crate::start_pages::read_rest();
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pidfd = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    Ok(Running {
        child,
        pidfd,
        held,
        status: None,
        read_before_bytes,
        read_bytes: None,
    })
}

/// Whether no process could be made, for want of descriptors, processes or memory.
fn is_shortage(error: &io::Error) -> bool {
    let number = error.raw_os_error().unwrap_or(0);
    [libc::EMFILE, libc::ENFILE, libc::EAGAIN, libc::ENOMEM].contains(&number)
}

/// Whether a command name means a file that is there. The search through `PATH` reports "permission
/// denied" also when only a directory of it is closed to us; to shells that's a name not found.
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
        self.child.id()
    }

    /// Readable when the command may have ended; `None` where the kernel gives no such descriptor.
    #[must_use]
    pub fn ended_fd(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd).or(self.held.as_fd())
    }

    /// Waits for the end of the command, at most `limit`; passes signals on meanwhile.
    ///
    /// # Errors
    /// When the kernel refuses to wait.
    pub fn wait(&mut self, limit: Option<Duration>) -> io::Result<Option<ExitStatus>> {
        if self.status.is_some() {
            return Ok(self.status);
        }
        let pidfd = self.pidfd.as_ref().map(AsFd::as_fd);
        // SIGCHLD is lost if the first thread of this process doesn't hold it back.
        let limit = match pidfd {
            Some(_) => limit,
            None => Some(limit.map_or(LOOK_EVERY, |limit| limit.min(LOOK_EVERY))),
        };
        let mut came = self.held.wait(pidfd, limit)?;
        while let Some(signal) = came {
            signal.pass_on(self.child.id());
            came = self.held.next();
        }
        if let Some(status) = self.child.try_wait()? {
            self.status = Some(status);
            let read_bytes = children_read_bytes().zip(self.read_before_bytes);
            self.read_bytes = read_bytes.map(|(after, before)| after.saturating_sub(before));
        }
        Ok(self.status)
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
            match self.wait(every) {
                Ok(Some(status)) => return status,
                Ok(None) => {}
                Err(_) => thread::sleep(AGAIN_AFTER),
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

/// Ends this process as the program ended: same exit code, or same signal.
pub fn end_as(status: ExitStatus) -> ! {
    if let Some(signal) = status.signal() {
        // SAFETY: plain system calls on this process; a core file of ours would only hide the
        // program's own.
        unsafe {
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
            libc::signal(signal, libc::SIG_DFL);
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, signal);
            libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
            libc::raise(signal);
        }
        std::process::exit(128 + signal);
    }
    std::process::exit(status.code().unwrap_or(1));
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
        assert_eq!(running.wait(None).unwrap().unwrap().code(), Some(7));
    }

    #[test]
    fn a_command_is_waited_for_by_whoever_drops_it() {
        let directory = tempfile::tempdir().unwrap();
        let done = directory.path().join("done");
        drop(running(&format!("sleep 0.1; : > {}", done.display())));
        assert!(done.exists());
    }
}
