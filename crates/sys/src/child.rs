// SPDX-License-Identifier: MIT OR Apache-2.0
//! Running the program for which all is done: its terminal, its signals, its end.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use thiserror::Error;

use crate::interrupt::timespec;

/// Why the program couldn't be started.
#[derive(Debug, Error)]
pub enum SpawnError {
    /// Exit code 127, as shells have it.
    #[error("{0}: command not found")]
    NotFound(String),
    /// Exit code 126, as shells have it.
    #[error("{0}: {1}")]
    NotExecutable(String, io::Error),
}

impl SpawnError {
    /// The exit code that a shell would give.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound(_) => 127,
            Self::NotExecutable(..) => 126,
        }
    }
}

/// A running program.
pub struct Running {
    child: Child,
    pidfd: OwnedFd,
    status: Option<ExitStatus>,
    /// Bytes that earlier children of this process had disks read.
    read_before_bytes: Option<u64>,
    read_bytes: Option<u64>,
    signals: Signals,
}

/// Starts a program with our terminal, directory and environment.
///
/// Signals that a terminal sends to the whole foreground group reach the program by themselves, so
/// they are ignored here; those sent to us alone are passed on by [`Running::wait`].
///
/// # Errors
/// [`SpawnError`] when there is no such program, or it can't be executed.
pub fn spawn(arguments: &[OsString]) -> Result<Running, SpawnError> {
    let Some((program, rest)) = arguments.split_first() else {
        return Err(SpawnError::NotFound(String::new()));
    };
    let name = program.to_string_lossy().into_owned();
    let signals = Signals::block().map_err(|e| SpawnError::NotExecutable(name.clone(), e))?;
    let mut command = Command::new(program);
    command.args(rest);
    let inherited = signals.inherited;
    // SAFETY: sigprocmask and signal are async-signal-safe, and the closure allocates nothing.
    unsafe {
        command.pre_exec(move || {
            libc::sigprocmask(
                libc::SIG_SETMASK,
                &raw const inherited,
                std::ptr::null_mut(),
            );
            Ok(())
        });
    }
    let read_before_bytes = children_read_bytes();
    let child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => SpawnError::NotFound(name.clone()),
        io::ErrorKind::PermissionDenied if !is_in_path(program) => {
            SpawnError::NotFound(name.clone())
        }
        _ => SpawnError::NotExecutable(name.clone(), error),
    })?;
    crate::start_pages::read_rest();
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pidfd = pid
        .ok_or_else(|| io::Error::other("no process number"))
        .and_then(|pid| Ok(pidfd_open(pid, PidfdFlags::empty())?))
        .map_err(|e| SpawnError::NotExecutable(name, e))?;
    Ok(Running {
        child,
        pidfd,
        status: None,
        signals,
        read_before_bytes,
        read_bytes: None,
    })
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

    /// Readable when the program has ended.
    #[must_use]
    pub fn ended_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Waits for the end of the program, at most `limit`; passes signals on meanwhile.
    ///
    /// # Errors
    /// When the kernel refuses to wait.
    pub fn wait(&mut self, limit: Option<Duration>) -> io::Result<Option<ExitStatus>> {
        if self.status.is_some() {
            return Ok(self.status);
        }
        let timeout = limit.map(timespec);
        let mut fds = [
            PollFd::new(&self.pidfd, PollFlags::IN),
            PollFd::new(&self.signals.fd, PollFlags::IN),
        ];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        if fds[1].revents().contains(PollFlags::IN) {
            self.signals.pass_on(self.child.id());
        }
        if fds[0].revents().contains(PollFlags::IN) {
            self.status = Some(self.child.wait()?);
            let read_bytes = children_read_bytes().zip(self.read_before_bytes);
            self.read_bytes = read_bytes.map(|(after, before)| after.saturating_sub(before));
        }
        Ok(self.status)
    }

    /// Bytes that the program, and all of its processes that were waited for, had disks read. Known
    /// once it has ended, and only to kernels that account for it. Metadata that they had to wait
    /// for counts; data that other processes brought in for them doesn't.
    #[must_use]
    pub fn read_bytes(&self) -> Option<u64> {
        self.read_bytes
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

/// Does work in a process of its own that outlives this one, with standard input and output closed;
/// returns at once.
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
            // SAFETY: plain system calls. What reads our output must not wait for this work.
            unsafe {
                let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
                libc::dup2(null, 0);
                libc::dup2(null, 1);
            }
            work();
            // SAFETY: ends the copy without running what the original will run at its own end.
            unsafe { libc::_exit(0) }
        }
        _ => Ok(()),
    }
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

/// Signals that are for the program, not for us.
struct Signals {
    fd: OwnedFd,
    inherited: libc::sigset_t,
}

const PASSED_ON: [i32; 9] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
    libc::SIGALRM,
    libc::SIGCONT,
];

impl Signals {
    fn block() -> io::Result<Self> {
        use std::os::fd::FromRawFd;
        // SAFETY: the sets are initialised by sigemptyset before use; signalfd returns a new
        // descriptor that nobody else owns.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in PASSED_ON {
                libc::sigaddset(&raw mut set, signal);
            }
            let mut inherited: libc::sigset_t = std::mem::zeroed();
            if libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut inherited) != 0 {
                return Err(io::Error::last_os_error());
            }
            let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Self {
                fd: OwnedFd::from_raw_fd(fd),
                inherited,
            })
        }
    }

    /// Sends on what was sent to us by a process. What the terminal sent (`SI_KERNEL`) went to the
    /// program as well, since it is in the same process group.
    fn pass_on(&self, pid: u32) {
        let mut bytes = [0u8; size_of::<libc::signalfd_siginfo>()];
        while rustix::io::read(&self.fd, &mut bytes).is_ok_and(|n| n == bytes.len()) {
            let word = |at: usize| {
                bytes
                    .get(at..at + 4)
                    .and_then(|b| b.try_into().ok())
                    .map_or(0, i32::from_ne_bytes)
            };
            let (signal, code) = (word(0), word(8));
            if code == libc::SI_KERNEL {
                continue;
            }
            if let Ok(pid) = i32::try_from(pid) {
                // SAFETY: a plain system call; the child hasn't been waited for, so the number is
                // still its own.
                unsafe { libc::kill(pid, signal) };
            }
        }
    }
}
