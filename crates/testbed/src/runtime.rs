// SPDX-License-Identifier: MIT OR Apache-2.0
//! The directory of a running testbed, and the removal of the remains of a killed one.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::error::TestbedError;
use crate::server::now_ns;
use crate::{loop_device, sys};

/// Marks the processes a testbed starts, and theirs: they inherit it.
pub(crate) const ENVIRONMENT_MARK: &str = "FOREREAD_TESTBED";

const DIRECTORY: &str = "foreread-testbed";
const STATE: &str = "state";
static NEXT: AtomicU32 = AtomicU32::new(0);

/// One testbed's directory. The lock on its state file says that the owner lives; the kernel drops
/// the lock with the owner, however it ends.
#[derive(Debug)]
pub(crate) struct Home {
    id: String,
    path: PathBuf,
    _lock: File,
}

impl Home {
    /// Makes one under `parent` (by default under `/run`), after removing those of dead owners.
    pub(crate) fn create(parent: Option<&Path>) -> Result<Self, TestbedError> {
        let parent = parent.map_or_else(default_parent, Path::to_owned);
        fs::create_dir_all(&parent)
            .map_err(TestbedError::system(format!("create {}", parent.display())))?;
        // Between its creation and its locking, no other process may take a home as abandoned.
        let gate = lock_file(&parent.join("lock"), FlockOperation::LockExclusive)
            .map_err(TestbedError::system(format!("lock {}", parent.display())))?;
        clean_up(&parent);
        let home = Self::create_locked(&parent).map_err(TestbedError::system(format!(
            "create a directory in {}",
            parent.display()
        )))?;
        drop(gate);
        Ok(home)
    }

    fn create_locked(parent: &Path) -> io::Result<Self> {
        let pid = std::process::id();
        // The time keeps names apart when a process number comes round again.
        let id = format!(
            "{pid}-{}-{:x}",
            NEXT.fetch_add(1, Ordering::Relaxed),
            now_ns()
        );
        let path = parent.join(&id);
        for directory in [path.clone(), path.join("fuse"), path.join("mnt")] {
            fs::create_dir(directory)?;
        }
        let state = path.join(STATE);
        fs::write(
            &state,
            format!("owner={pid}\nbacking_file={}\n", file_name(&id)),
        )?;
        let lock = lock_file(&state, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self {
            id,
            path,
            _lock: lock,
        })
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the served file is mounted.
    pub(crate) fn fuse(&self) -> PathBuf {
        self.path.join("fuse")
    }

    /// The name of the served file, by which the loop device over it is known.
    pub(crate) fn file_name(&self) -> String {
        file_name(&self.id)
    }

    /// Removes the directory; nothing may be mounted in it any more.
    pub(crate) fn remove(&self) {
        remove_home(&self.path);
    }
}

fn file_name(id: &str) -> String {
    format!("foreread-{id}.disk")
}

fn default_parent() -> PathBuf {
    let run = Path::new("/run");
    let base = if rustix::fs::access(run, rustix::fs::Access::WRITE_OK).is_ok() {
        run.to_owned()
    } else {
        std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from)
    };
    base.join(DIRECTORY)
}

fn lock_file(path: &Path, operation: FlockOperation) -> io::Result<File> {
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    flock(&file, operation)?;
    Ok(file)
}

/// Removes the remains of dead owners under `parent`. Remains that cannot be removed are left for
/// the next time: they must not keep a new testbed from starting.
fn clean_up(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for home in entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
    {
        let lock = lock_of_dead_owner(&home.join(STATE));
        if let (Some(_lock), Some(id)) = (lock, home.file_name().and_then(|name| name.to_str())) {
            clean_up_home(&home, id);
        }
    }
}

/// The lock on a home's state file, or `None` while its owner lives.
fn lock_of_dead_owner(state: &Path) -> Option<File> {
    for _ in 0..100 {
        if let Ok(lock) = lock_file(state, FlockOperation::NonBlockingLockExclusive) {
            return Some(lock);
        }
        if owner(state).is_none_or(|pid| Path::new(&format!("/proc/{pid}")).exists()) {
            return None;
        }
        // The owner is dead, but was killed while it started a program: its copy, not that program
        // yet, still holds the lock.
        thread::sleep(Duration::from_millis(20));
    }
    None
}

fn owner(state: &Path) -> Option<u32> {
    fs::read_to_string(state)
        .ok()?
        .lines()
        .find_map(|line| line.strip_prefix("owner=")?.parse().ok())
}

fn clean_up_home(home: &Path, id: &str) {
    kill_marked(id);
    unmount_below(home);
    let backing = file_name(id);
    // The kernel frees the device by itself when its last user is gone; that may take a moment.
    for attempt in 0..100 {
        let left: Vec<PathBuf> = loop_device::bound_devices()
            .into_iter()
            .filter(|(_, name)| *name == backing)
            .map(|(device, _)| device)
            .collect();
        if left.is_empty() {
            break;
        }
        if attempt % 20 == 10 {
            for device in left {
                // Freed since it was listed, or in use: the next look tells.
                let _ = File::open(device).and_then(|file| sys::loop_clear(&file));
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
    remove_home(home);
}

/// Kills the processes that a dead testbed started and that outlived it.
fn kill_marked(id: &str) {
    let mark = format!("{ENVIRONMENT_MARK}={id}");
    let is_marked = |pid: i32| {
        fs::read(format!("/proc/{pid}/environ")).is_ok_and(|text| {
            text.split(|byte| *byte == 0)
                .any(|entry| entry == mark.as_bytes())
        })
    };
    let Ok(entries) = fs::read_dir("/proc") else {
        return;
    };
    for entry in entries.flatten() {
        let Some(number) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<i32>().ok())
        else {
            continue;
        };
        if !is_marked(number) || u32::try_from(number) == Ok(std::process::id()) {
            continue;
        }
        let Some(handle) =
            Pid::from_raw(number).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
        else {
            continue;
        };
        // The number may have passed to another process before the handle held it.
        if is_marked(number) {
            // Gone by itself.
            let _ = pidfd_send_signal(&handle, Signal::KILL);
        }
    }
}

/// Unmounts, in this namespace, whatever is mounted at or below `directory`.
fn unmount_below(directory: &Path) {
    let Ok(mounts) = fs::read_to_string("/proc/thread-self/mountinfo") else {
        return;
    };
    let prefix = directory.to_string_lossy();
    let mut points: Vec<&str> = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .filter(|point| Path::new(point).starts_with(&*prefix))
        .collect();
    points.reverse();
    for point in points {
        // Another may have done it; remaining mounts are met again at the next start.
        let _ = unmount(point, UnmountFlags::FORCE | UnmountFlags::DETACH);
    }
}

/// Removes a home without descending into anything: a mount that is still there keeps it.
fn remove_home(home: &Path) {
    let Ok(entries) = fs::read_dir(home) else {
        return;
    };
    let is_state = |path: &PathBuf| path.file_name().is_some_and(|name| name == STATE);
    let paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    // The state file last: as long as it is there, the next start finds the home.
    for path in paths.iter().filter(|path| !is_state(path)) {
        if fs::remove_dir(path).is_err() && fs::remove_file(path).is_err() {
            return;
        }
    }
    // Nothing to do about a directory that cannot be removed; it is empty.
    let _ = fs::remove_file(home.join(STATE)).and_then(|()| fs::remove_dir(home));
}
