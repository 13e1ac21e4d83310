// SPDX-License-Identifier: MIT OR Apache-2.0
//! `watch` among other programs: the one that watches the machine, and who started it.

use std::env;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::{Context, Result};
use foreread_sys::kernel_locks::lock_holder;
use foreread_sys::rights;
use foreread_sys::rights::Capability;
use foreread_sys::save::{self, Lock};
use foreread_sys::service_manager::ServiceManager;

/// How often the service manager hears what it comes to.
const STATUS_EVERY: Duration = Duration::from_secs(10);
/// Capabilities that are kept once the programs are loaded. Attaching a loaded program needs none.
pub const RIGHTS: [Capability; 3] = [
    // To open files and directories of all users.
    Capability::DacReadSearch,
    // To open them with O_NOATIME, so that access times stay.
    Capability::Fowner,
    // To read the open directories of a process (/proc/PID/fd).
    Capability::SysPtrace,
];

/// The lock that the process which watches the machine holds.
const LOCK: &str = "watch.lock";
/// Where the service is found, unless another directory is set.
const SYSTEM_DIRECTORY: &str = "/run/foreread";

/// Another one watches the machine, and this is who.
#[derive(Debug)]
struct AlreadyWatched(String);

impl fmt::Display for AlreadyWatched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "every process is watched already{}; stop that one first (systemctl stop \
             foreread-watch), or watch a part: --pid, --cgroup or -- COMMAND",
            self.0
        )
    }
}

impl std::error::Error for AlreadyWatched {}

/// The exit code for an error at the start, where a service manager shall try again later; `None`
/// for others. One that was killed while it hung in the kernel keeps the lock until it is gone.
pub fn code_to_try_again(error: &anyhow::Error) -> Option<u8> {
    /// `EX_TEMPFAIL` of `sysexits.h`.
    const TRY_AGAIN: u8 = 75;
    let is_service = ServiceManager::of_environment().is_there();
    (is_service && error.is::<AlreadyWatched>()).then_some(TRY_AGAIN)
}

/// Until it is dropped, or this process ends in whatever way.
pub struct Service {
    pub manager: ServiceManager,
    lock: Option<Lock>,
    told_status: Option<Instant>,
}

impl Service {
    /// The only one that watches the machine, where `is_only` is asked for: two would fetch
    /// everything twice.
    pub fn start(is_only: bool) -> Result<Self> {
        Ok(Self {
            manager: ServiceManager::of_environment(),
            lock: if is_only { only(&runtime())? } else { None },
            told_status: None,
        })
    }

    /// Where those ask who want to know what it does; `None` where it isn't the only one.
    pub fn socket_path(&self) -> Option<PathBuf> {
        self.lock.is_some().then(socket_path)
    }

    /// Gives up the rights that were needed to begin.
    pub fn drop_rights() -> Result<()> {
        rights::keep_only(&RIGHTS).context("cannot give up rights")
    }

    /// Says that it goes on, and, from time to time, how. Where parts hang, only the latter: the
    /// manager then starts it anew.
    pub fn goes_on(&mut self, hanging: &[&str], status: impl FnOnce() -> String) {
        if hanging.is_empty() {
            self.manager.alive();
        }
        let status = || match hanging.is_empty() {
            true => status(),
            false => format!("{} hang; {}", hanging.join(" and "), status()),
        };
        let is_due = |told: Instant| told.elapsed() >= STATUS_EVERY;
        if self.manager.is_there() && self.told_status.is_none_or(is_due) {
            self.manager.status(&status());
            self.told_status = Some(Instant::now());
        }
    }
}

/// Where the one that watches the machine is asked.
pub fn socket_path() -> PathBuf {
    runtime().join("watch.sock")
}

/// A process that watches the machine.
pub struct Running {
    pub pid: u32,
    /// When it took the lock, in seconds since 1970.
    pub since_unix_s: u64,
}

/// The process that watches the machine, if one does.
pub fn running() -> Result<Option<Running>> {
    let path = runtime().join(LOCK);
    let holder = match lock_holder(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        holder => holder.with_context(|| format!("cannot look at {}", path.display()))?,
    };
    // It writes its number there as soon as it has the lock.
    let changed = fs::metadata(&path).and_then(|metadata| metadata.modified());
    let since = changed
        .ok()
        .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    Ok(holder.map(|pid| Running {
        pid,
        since_unix_s: since.map_or(0, |since| since.as_secs()),
    }))
}

/// `$FOREREAD_STATE_DIR`, else `/run/foreread`.
fn runtime() -> PathBuf {
    let set = env::var_os("FOREREAD_STATE_DIR").filter(|value| !value.is_empty());
    set.map_or_else(|| PathBuf::from(SYSTEM_DIRECTORY), PathBuf::from)
}

/// Makes the directory, if need be. That of the system has what `status` reads for everybody; that
/// of a user has profiles.
fn create(directory: &Path) -> io::Result<()> {
    match directory == Path::new(SYSTEM_DIRECTORY) {
        true => save::create_directory_for_all(directory),
        false => save::create_directory(directory),
    }
}

fn only(directory: &Path) -> Result<Option<Lock>> {
    let path = directory.join(LOCK);
    let locked = create(directory).and_then(|()| save::try_lock(&path));
    match locked {
        Ok(Some(lock)) => {
            // Only who asks for it would miss the number.
            let _ = lock.note(&format!("{}\n", std::process::id()));
            Ok(Some(lock))
        }
        Ok(None) => {
            let who = fs::read_to_string(&path).unwrap_or_default();
            let who = who.trim().parse::<u32>();
            let who = who.map_or_else(|_| String::new(), |pid| format!(", by process {pid}"));
            Err(AlreadyWatched(who).into())
        }
        // A user who may watch but not write there runs no service, so no lock is needed.
        Err(error) if may_not(&error) => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
    }
}

fn may_not(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_one_is_told_who_the_first_is() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().join("run");
        let first = only(&at).unwrap();
        assert!(first.is_some());
        let Err(said) = only(&at) else {
            panic!("two of them");
        };
        let pid = format!("by process {};", std::process::id());
        assert!(said.to_string().contains(&pid), "{said}");
        drop(first);
        assert!(only(&at).unwrap().is_some());
    }

    #[test]
    fn where_nothing_can_be_locked_that_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(only(&file).is_err());
    }
}
