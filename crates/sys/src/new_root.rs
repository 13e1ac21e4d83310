// SPDX-License-Identifier: MIT OR Apache-2.0
//! The root file system of a boot that is still in its initramfs.
//!
//! An initramfs mounts the root file system at a directory, such as `/root` or `/sysroot`. At its
//! end it moves `/proc`, `/sys`, `/dev` and `/run` there, moves that mount over `/`, and starts
//! init. A process of the initramfs lives on, but its root directory is the emptied initramfs. One
//! that has made the mount its root before goes on as if it had been started by init: its root is
//! that mount, wherever it is moved.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Access, AtFlags, Mode, OFlags, accessat, open, statat};
use rustix::process::{chroot, fchdir};

/// The mounted root file system.
#[derive(Debug)]
pub struct NewRoot {
    directory: OwnedFd,
}

impl NewRoot {
    /// The file system mounted at `path`.
    ///
    /// # Errors
    /// When there is no such directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            directory: open(path, flags, Mode::empty())?,
        })
    }

    /// Makes it the working directory of this process, with all its threads. It may be
    /// moved over `/` at any time. The path that it was mounted at leads nowhere then. Relative
    /// paths lead into it before and after.
    ///
    /// # Errors
    /// The kernel's.
    pub fn make_working_directory(&self) -> io::Result<()> {
        Ok(fchdir(&self.directory)?)
    }

    /// Whether all four have been moved there. Some move `/proc` last, and systemd `/run`.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let device = |name: &str| {
            let found = statat(self.directory.as_fd(), name, AtFlags::empty());
            found.map(|found| found.st_dev)
        };
        // The root file system has a directory of this name, too.
        let is_run_mounted = match (device("."), device("run")) {
            (Ok(root), Ok(run)) => root != run,
            _ => false,
        };
        let names = ["proc/self", "sys/kernel", "dev/null"];
        let is_there = |name: &str| {
            accessat(
                self.directory.as_fd(),
                name,
                Access::EXISTS,
                AtFlags::empty(),
            )
            .is_ok()
        };
        is_run_mounted && names.into_iter().all(is_there)
    }

    /// Makes it the root directory of this process, with all its threads.
    ///
    /// # Errors
    /// When the kernel refuses; it needs CAP_SYS_CHROOT.
    pub fn enter(self) -> io::Result<()> {
        fchdir(self.directory)?;
        Ok(chroot(".")?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn it_is_complete_with_its_last_mount() {
        let directory = tempfile::tempdir().unwrap();
        let root = NewRoot::open(directory.path()).unwrap();
        let run = directory.path().join("run");
        for name in ["dev/null", "sys/kernel", "proc/self"] {
            assert!(!root.is_complete(), "{name}");
            fs::create_dir_all(directory.path().join(name)).unwrap();
        }
        fs::create_dir(&run).unwrap();
        assert!(!root.is_complete(), "that of the root file system");
        fs::remove_dir(&run).unwrap();
        // Another file system is there.
        symlink("/proc", &run).unwrap();
        assert!(root.is_complete());
        assert!(NewRoot::open(&directory.path().join("none")).is_err());
    }
}
