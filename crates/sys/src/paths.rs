// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opening what a profile or a plan names, and nothing else.
//!
//! Its paths hold no symlinks. Each open tells the kernel to follow none, so a link that was put
//! there since leads nowhere. Nothing is opened for writing. Nothing is opened that could block or
//! have side effects: a file is checked first, and only a regular one is opened.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use foreread_profile::{NodeId, PathTree};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, fcntl_setfl, openat, openat2, statat,
};
use rustix::io::Errno;
use rustix::process::{Uid, geteuid};

use crate::leases;

/// Directories kept open at once: their children open by name, without walking the path. With the
/// reads under way this stays below the 1024 descriptors that a process may have by default.
const DIRECTORIES_MAX: usize = 256;

/// Opens without setting the access time, where we may: only the owner and root can.
pub fn leaving_access_time<T>(
    flags: OFlags,
    open: impl Fn(OFlags) -> rustix::io::Result<T>,
) -> rustix::io::Result<T> {
    match open(flags | OFlags::NOATIME) {
        // Root of a user namespace, or a file system that knows better, too.
        Err(Errno::PERM) => open(flags),
        other => other,
    }
}

/// Lets reads of a file wait that was opened with these flags, `O_NONBLOCK` among them. io_uring
/// takes the flag for an order not to wait for the device, and reads nothing from those devices
/// that make it wait.
pub fn may_wait(file: impl AsFd, opened_with: OFlags) -> rustix::io::Result<()> {
    // The kernel looks at those flags only that can be changed, which `O_NOATIME` is one of.
    fcntl_setfl(file, opened_with & !OFlags::NONBLOCK)
}

/// Opens nodes of one tree of paths.
pub struct Opener<'a> {
    tree: &'a dyn PathTree,
    directories: HashMap<NodeId, OwnedFd>,
    directories_max: usize,
    path: Vec<u8>,
    user: Uid,
}

impl<'a> Opener<'a> {
    /// Nothing is open yet.
    #[must_use]
    pub fn new(tree: &'a dyn PathTree) -> Self {
        Self {
            tree,
            directories: HashMap::new(),
            directories_max: DIRECTORIES_MAX,
            path: Vec::new(),
            user: geteuid(),
        }
    }

    /// The same, with at most `directories_max` directories kept open.
    #[must_use]
    pub fn keeping(mut self, directories_max: usize) -> Self {
        self.directories_max = directories_max;
        self
    }

    /// Opens a regular file for reading, or anything only to look at it (`O_PATH`).
    ///
    /// # Errors
    /// The kernel's error. `ELOOP` or `ENOTDIR` if something else is in the place of a directory or
    /// file of the tree. `ENXIO` for anything but a regular file, which is left alone. `EAGAIN` for
    /// a file with a write lease, which opening would break.
    pub fn open(&mut self, id: NodeId, only_look: bool) -> io::Result<OwnedFd> {
        match self.try_open(id, only_look) {
            // The directories can be had again.
            Err(Errno::MFILE | Errno::NFILE) if !self.directories.is_empty() => {
                self.directories.clear();
                Ok(self.try_open(id, only_look)?)
            }
            other => Ok(other?),
        }
    }

    fn try_open(&mut self, id: NodeId, only_look: bool) -> rustix::io::Result<OwnedFd> {
        let Some(parent) = self.tree.parent(id) else {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            return openat(rustix::fs::CWD, "/", flags, Mode::empty());
        };
        if !self.directories.contains_key(&parent) {
            if self.directories.len() >= self.directories_max {
                self.directories.clear();
            }
            let directory = self.walk(parent)?;
            self.directories.insert(parent, directory);
        }
        let directory = &self.directories[&parent];
        let name = self.tree.name(id);
        let safe = OFlags::CLOEXEC | OFlags::NOFOLLOW;
        if only_look {
            return openat(directory, name, safe | OFlags::PATH, Mode::empty());
        }
        let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Symlink => return Err(Errno::LOOP),
            // Opening wakes the writer of a FIFO, rewinds a tape, starts a watchdog.
            _ => return Err(Errno::NXIO),
        }
        if leases::would_break(&stat) {
            return Err(Errno::AGAIN);
        }
        // Should it become a FIFO between the two calls, it still won't block.
        let flags = safe | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let open = |flags| {
            let file = openat(directory, name, flags, Mode::empty())?;
            may_wait(&file, flags)?;
            Ok(file)
        };
        match self.user.is_root() || self.user.as_raw() == stat.st_uid {
            true => leaving_access_time(flags, open),
            // It would be refused.
            false => open(flags),
        }
    }

    fn walk(&mut self, id: NodeId) -> rustix::io::Result<OwnedFd> {
        self.path.clear();
        self.tree.path_into(id, &mut self.path);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match openat2(
            rustix::fs::CWD,
            self.path.as_slice(),
            flags,
            Mode::empty(),
            resolve,
        ) {
            Err(Errno::NOSYS | Errno::PERM) => self.walk_by_name(flags),
            other => other,
        }
    }

    /// Before Linux 5.6, or where a filter hides openat2 (some say `EPERM`): name by name.
    fn walk_by_name(&self, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let mut at = openat(rustix::fs::CWD, "/", flags, Mode::empty())?;
        for name in self
            .path
            .split(|&b| b == b'/')
            .filter(|name| !name.is_empty())
        {
            at = openat(at.as_fd(), name, flags, Mode::empty())?;
        }
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;

    use foreread_profile::{Identity, NodeKind, ProfileBuilder, Source};
    use rustix::fs::fcntl_getfl;

    use super::*;

    #[test]
    fn reads_of_opened_files_may_wait_and_leave_access_times() -> io::Result<()> {
        let scratch = tempfile::NamedTempFile::new()?;
        let path = scratch.path().canonicalize()?;
        let mut builder = ProfileBuilder::new(Default::default(), Source::default());
        let id = builder.node(path.as_os_str().as_bytes());
        let id = id.map_err(|error| io::Error::other(format!("{error:?}")))?;
        builder.set_kind(id, NodeKind::File);
        let inode = File::open(&path)?.metadata()?.ino();
        builder.set_identity(
            id,
            Identity {
                inode,
                ..Identity::default()
            },
        );
        builder.pages(id, 0, 1, 0);
        let profile = builder.finish();
        let id = profile.find(path.as_os_str().as_bytes());
        let id = id.ok_or_else(|| io::Error::other("not in the profile"))?;
        let file = Opener::new(&profile).open(id, false)?;
        let flags = fcntl_getfl(&file)?;
        assert!(!flags.contains(OFlags::NONBLOCK), "{flags:?}");
        assert!(flags.contains(OFlags::NOATIME), "{flags:?}");
        Ok(())
    }
}
