// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process that goes beside this boot: one at a time, known by the lock of a file below `/run`.
//!
//! With hooks in the initramfs that process is started there, before systemd. When the unit starts,
//! it finds the process, takes it into its control group, and waits for its end.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use foreread_sys::interrupt::{Interrupt, Told};
use foreread_sys::save::{Lock, try_lock};
use rustix::process::{Pid, Signal, getpid, kill_process};

/// How often the unit looks whether the process has ended.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// After so long it is left to systemd's own limit.
const ENDS_WITHIN: Duration = Duration::from_secs(4);

/// Who goes beside this boot.
pub enum Server {
    /// This process does. The lock is kept until its end.
    This(Lock),
    /// Another one does.
    Other(Other),
}

/// What a process leaves in the file of the lock when it ends in order.
const ENDED: &str = "ended";

/// Notes that this process, which has the lock, ends in order.
///
/// # Errors
/// As the kernel says.
pub fn note_end(lock: &Lock) -> io::Result<()> {
    lock.note(ENDED)
}

/// How a wait for another process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The process ended in order.
    Ended,
    /// It ended and had no time to say so.
    Killed,
    /// It was told to end, and has not so far.
    GivenUp,
}

/// A process that was there before.
pub struct Other {
    lock: PathBuf,
    /// Unknown between its start and its first line.
    pid: Option<Pid>,
}

impl Server {
    /// Finds out, and becomes it if there is none.
    ///
    /// # Errors
    /// When the file of the lock can't be made.
    pub fn find(lock: &Path) -> io::Result<Self> {
        if let Some(taken) = try_lock(lock)? {
            taken.note(&getpid().as_raw_nonzero().to_string())?;
            return Ok(Self::This(taken));
        }
        let text = fs::read_to_string(lock)?;
        let pid = text.trim().parse().ok().and_then(Pid::from_raw);
        Ok(Self::Other(Other {
            lock: lock.to_owned(),
            pid,
        }))
    }
}

impl Other {
    /// Its number, if it is known.
    pub fn pid(&self) -> Option<i32> {
        self.pid.map(|pid| pid.as_raw_nonzero().get())
    }

    /// Takes it into the control group of this process, so that it has the limits of the unit, and
    /// is counted there.
    ///
    /// # Errors
    /// As the kernel says; there may be no unified hierarchy.
    pub fn adopt(&self) -> io::Result<()> {
        let Some(pid) = self.pid() else {
            return Ok(());
        };
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let path = own.lines().find_map(|line| line.strip_prefix("0::/"));
        let path = path.ok_or_else(|| io::Error::other("no unified hierarchy"))?;
        let group = Path::new("/sys/fs/cgroup").join(path);
        fs::write(group.join("cgroup.procs"), pid.to_string())
    }

    /// Waits until it has ended. Passes on a request to end.
    pub fn wait(&self, interrupt: &Interrupt) -> Wait {
        let mut told: Option<Instant> = None;
        while told.is_none_or(|told| told.elapsed() < ENDS_WITHIN) {
            // An error other than "taken" leaves nothing to wait for.
            if !matches!(try_lock(&self.lock), Ok(None)) {
                return self.end();
            }
            if interrupt.wait(LOOK_EVERY).unwrap_or(false)
                && matches!(interrupt.take(), Ok(Some(Told::End)))
                && let Some(pid) = self.pid
            {
                // It holds the lock, so the number is its own. It may end at this moment.
                let _ = kill_process(pid, Signal::TERM);
                told.get_or_insert_with(Instant::now);
            }
        }
        Wait::GivenUp
    }

    fn end(&self) -> Wait {
        match fs::read_to_string(&self.lock) {
            Ok(text) if text != ENDED => Wait::Killed,
            _ => Wait::Ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_server_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let Ok(Server::This(lock)) = Server::find(&path) else {
            panic!("it is free");
        };
        let Ok(Server::Other(other)) = Server::find(&path) else {
            panic!("it is taken");
        };
        assert_eq!(other.pid(), i32::try_from(std::process::id()).ok());
        note_end(&lock).unwrap();
        drop(lock);
        let interrupt = Interrupt::hold().unwrap();
        assert_eq!(other.wait(&interrupt), Wait::Ended);
        let Ok(Server::This(killed)) = Server::find(&path) else {
            panic!("it is free");
        };
        drop(killed);
        assert_eq!(other.wait(&interrupt), Wait::Killed);
        assert!(Server::find(&directory.path().join("none/lock")).is_err());
    }

    #[test]
    fn a_number_that_is_not_written_yet_is_unknown() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let lock = try_lock(&path).unwrap().unwrap();
        let Ok(Server::Other(other)) = Server::find(&path) else {
            panic!("it is taken");
        };
        assert_eq!(other.pid(), None);
        other.adopt().unwrap();
        drop(lock);
    }
}
