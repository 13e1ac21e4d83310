// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace instance of our own, so that no other tracer is disturbed.
//!
//! The kernel has no instances that end with their maker. If this process is killed, a process that
//! it started before removes the instance. If that is killed as well (by whoever kills a whole
//! cgroup), the next start of a recorder does so.
//!
//! All is reached from a descriptor of tracefs. Where it isn't mounted, it is mounted nowhere: the
//! mount exists only as long as the descriptor.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::Duration;

use foreread_sys::background::{self, EndNotice};
use foreread_sys::process_stat::start_ticks;
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, fstatfs, ftruncate, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use rustix::process::getpid;

/// Beginning of the names of our instances.
const PREFIX: &str = "foreread-";

/// Instances made by this process.
static MADE: AtomicU32 = AtomicU32::new(0);

/// Tracefs, or a directory in it.
pub(super) struct Tracefs {
    fd: OwnedFd,
}

impl Tracefs {
    pub(super) fn open() -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        for path in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"] {
            let Ok(fd) = openat(CWD, path, flags, Mode::empty()) else {
                continue;
            };
            let is_tracefs =
                fstatfs(&fd).is_ok_and(|found| found.f_type as u64 == libc::TRACEFS_MAGIC as u64);
            if is_tracefs {
                return Ok(Self { fd });
            }
        }
        Self::unmounted()
    }

    /// Tracefs by a mount that no path leads to.
    pub(super) fn unmounted() -> io::Result<Self> {
        let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(context.as_fd())?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let fd = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
        Ok(Self { fd })
    }

    pub(super) fn at(&self, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
        Ok(openat(
            &self.fd,
            path,
            flags | OFlags::CLOEXEC,
            Mode::empty(),
        )?)
    }

    /// Reads a file in as few reads as can be: some, such as `header_page`, give their beginning to
    /// a small read and then say that they have ended.
    pub(super) fn read(&self, path: &str) -> io::Result<String> {
        let fd = self.at(path, OFlags::RDONLY)?;
        let mut bytes = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        loop {
            match rustix::io::read(&fd, &mut buffer)? {
                0 => break,
                length => bytes.extend_from_slice(&buffer[..length]),
            }
        }
        String::from_utf8(bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
    }

    pub(super) fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let fd = self.at(path, OFlags::WRONLY)?;
        rustix::io::write(&fd, text.as_bytes())?;
        Ok(())
    }

    /// As `write`, in place of what was there: for lists, to which a write adds.
    pub(super) fn replace(&self, path: &str, text: &str) -> io::Result<()> {
        let fd = self.at(path, OFlags::WRONLY | OFlags::TRUNC)?;
        let _ = ftruncate(&fd, 0);
        rustix::io::write(&fd, text.as_bytes())?;
        Ok(())
    }

    pub(super) fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let fd = self.at(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in Dir::new(fd)? {
            if let Ok(name) = entry?.file_name().to_str()
                && !matches!(name, "." | "..")
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }
}

/// How long a killed process may take to let go of its instance, with the program that it had just
/// started.
const ABANDONED_TRIES: u32 = 2000;

/// A child forked by another thread holds our descriptors until it calls exec, and an instance with
/// an open file can't be removed. What isn't removed here, the next start removes.
const REMOVE_TRIES: u32 = 40;
const REMOVE_PAUSE: Duration = Duration::from_millis(5);

/// A directory in `instances`, removed when dropped.
pub(super) struct Instance {
    root: Tracefs,
    files: Tracefs,
    name: String,
    /// After `files` and its buffers are closed, the other process looks once more. `None` where it
    /// couldn't be made.
    _at_end: Option<EndNotice>,
}

impl Instance {
    /// Makes an instance, and removes those whose maker was killed.
    pub(super) fn create(root: Tracefs) -> io::Result<Self> {
        remove_stale(&root);
        let mut at_end = remove_at_end(&root);
        let pid = getpid().as_raw_pid();
        let ticks = start_ticks(pid)
            .ok_or_else(|| io::Error::new(ErrorKind::NotFound, "/proc isn't mounted"))?;
        loop {
            let count = MADE.fetch_add(1, Ordering::Relaxed);
            let name = format!("{PREFIX}{pid}-{ticks}-{count}");
            let path = format!("instances/{name}");
            match mkdirat(&root.fd, &path, Mode::RWXU) {
                Ok(()) => {}
                // A process of the same number in another PID namespace has taken the name.
                Err(Errno::EXIST) => continue,
                Err(error) => return Err(error.into()),
            }
            // Before anything is traced.
            if let Some(notice) = &mut at_end {
                let _ = notice.tell(path.as_bytes());
            }
            let directory = root.at(&path, OFlags::RDONLY | OFlags::DIRECTORY);
            return match directory {
                Ok(fd) => Ok(Self {
                    root,
                    files: Tracefs { fd },
                    name,
                    _at_end: at_end,
                }),
                Err(error) => {
                    let _ = unlinkat(&root.fd, &path, AtFlags::REMOVEDIR);
                    Err(error)
                }
            };
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn files(&self) -> &Tracefs {
        &self.files
    }

    /// The description of ring buffer pages: of the instance where it has its own (since 6.8 page
    /// sizes may differ), else the common one.
    pub(super) fn header_page(&self) -> io::Result<String> {
        self.files
            .read("events/header_page")
            .or_else(|_| self.root.read("events/header_page"))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.files.write("tracing_on", "0");
        remove(
            &self.root,
            &format!("instances/{}", self.name),
            REMOVE_TRIES,
        );
    }
}

/// Removes an instance, once nobody has one of its files open.
fn remove(root: &Tracefs, path: &str, tries: u32) {
    for _ in 0..tries {
        if unlinkat(&root.fd, path, AtFlags::REMOVEDIR) != Err(Errno::BUSY) {
            return;
        }
        sleep(REMOVE_PAUSE);
    }
}

/// Starts the process that removes the instance, whose path it is told, when this one has ended.
fn remove_at_end(root: &Tracefs) -> Option<EndNotice> {
    let at_end = |path: &[u8]| {
        let Ok(path) = std::str::from_utf8(path) else {
            return;
        };
        // Mostly it has been removed by then.
        let _ = root.write(&format!("{path}/tracing_on"), "0");
        remove(root, path, ABANDONED_TRIES);
    };
    // Where it can't be made, the next start of a recorder removes what is left.
    background::at_our_end(c"trace-remover", &[root.fd.as_fd()], at_end).ok()
}

/// Removes instances of processes that were killed, whatever recorder this process uses.
pub(crate) fn remove_abandoned() {
    if let Ok(root) = Tracefs::open() {
        remove_stale(&root);
    }
}

/// Removes instances whose process is gone. One that is in use all the same, by a process of
/// another namespace, stays: the kernel refuses while one of its files is open.
fn remove_stale(root: &Tracefs) {
    for name in root.list("instances").unwrap_or_default() {
        if is_stale(&name) {
            let path = format!("instances/{name}");
            let _ = unlinkat(&root.fd, &path, AtFlags::REMOVEDIR);
        }
    }
}

/// Whether the process that `foreread-PID-TICKS-COUNT` is named after is no more.
fn is_stale(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(PREFIX) else {
        return false;
    };
    let mut numbers = rest.split('-');
    let pid = numbers.next().and_then(|pid| pid.parse::<i32>().ok());
    let ticks = numbers.next().and_then(|ticks| ticks.parse::<u64>().ok());
    match (pid, ticks) {
        (Some(pid), Some(ticks)) => start_ticks(pid) != Some(ticks),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_kind_whose_process_is_gone_is_stale() {
        let pid = std::process::id() as i32;
        let ticks = start_ticks(pid).expect("start of this process");
        assert!(!is_stale(&format!("foreread-{pid}-{ticks}-0")));
        assert!(
            is_stale(&format!("foreread-{pid}-{}-0", ticks + 1)),
            "a reused number"
        );
        assert!(is_stale("foreread-2147483647-1-0"));
        assert!(!is_stale("foreread-mine"));
        assert!(!is_stale("other-2147483647-1-0"));
    }

    #[test]
    fn tracefs_can_be_had_without_being_mounted() {
        let mounts = || std::fs::read("/proc/self/mounts").expect("mounts");
        let before = mounts();
        let Ok(root) = Tracefs::unmounted() else {
            println!("skipped: tracefs can't be mounted here");
            return;
        };
        let instance = Instance::create(root).expect("an instance");
        let name = instance.name().to_owned();
        instance
            .files()
            .write("trace_clock", "mono")
            .expect("write");
        let clock = instance.files().read("trace_clock").expect("read");
        assert!(clock.contains("[mono]"), "{clock}");
        assert_eq!(mounts(), before, "no mount to be seen");
        drop(instance);
        let root = Tracefs::unmounted().expect("again");
        assert!(!root.list("instances").expect("list").contains(&name));
    }
}
