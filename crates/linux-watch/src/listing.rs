// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists directories. Does not leave their file system, and follows no link.
//!
//! Directories are closed before the next step, so they do not keep the file system busy. File
//! systems that may never answer are asked by a helper process.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use foreread_core::Device;
use foreread_linux_helper::{Asker, Superblock, has_failed, is_enabled};
use foreread_prefetch::helper::{HelperLimits, ListedEntry, Reply, Request};
use foreread_sys::mounts::{MountTable, Mounts};
use foreread_sys::paths::leaving_access_time;
use foreread_watch::order::Entry;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat2, statat};

use super::beat::Beat;

/// Maximum number of entries of one directory.
const ENTRIES_MAX: usize = 1 << 17;

/// The file system that a path leads to, if it must be asked by a helper process.
pub(super) fn far(mounts: &Mounts, path: &[u8]) -> Option<Superblock> {
    let point = mounts.points().get(mounts.mount_of(path)?)?;
    let is_far = is_enabled() && (!mounts.is_local(path) || has_failed(point.device()));
    is_far.then(|| Superblock::from(point))
}

/// Lists directories for one planner.
#[derive(Default)]
pub(super) struct Lists {
    mount_table: RefCell<MountTable>,
    askers: RefCell<HashMap<Device, Asker>>,
    beat: Beat,
}

/// The directory from which others are reached.
pub(super) enum Opened<'a> {
    /// It is asked directly.
    Near(&'a Beat, Top),
    /// A helper asks it.
    Far(&'a Lists, Superblock, &'a Path),
}

impl Lists {
    /// Shows by `beat` whether it goes on.
    pub fn new(beat: Beat) -> Self {
        Self {
            beat,
            ..Self::default()
        }
    }

    /// The mounts now.
    pub fn mounts(&self) -> Option<Arc<Mounts>> {
        self.mount_table.borrow_mut().current().ok()
    }

    /// Whether a path is asked for directly.
    pub fn is_near(&self, path: &Path) -> bool {
        let path = path.as_os_str().as_bytes();
        self.mounts()
            .is_none_or(|mounts| far(&mounts, path).is_none())
    }

    /// Makes a call that asks a local file system.
    pub fn near<T>(&self, call: impl FnOnce() -> T) -> T {
        self.beat.during(call)
    }

    /// Opens the directory from which others are reached.
    pub fn open<'a>(&'a self, top: &'a Path) -> io::Result<Opened<'a>> {
        let far = self
            .mounts()
            .and_then(|mounts| far(&mounts, top.as_os_str().as_bytes()));
        match far {
            Some(superblock) => Ok(Opened::Far(self, superblock, top)),
            None => {
                let opened = self.beat.during(|| Top::open(top))?;
                Ok(Opened::Near(&self.beat, opened))
            }
        }
    }
}

impl Opened<'_> {
    /// The entries of a directory; see [`Top::list`].
    pub fn list(
        &self,
        below: &[u8],
        is_stopped: &dyn Fn() -> bool,
        fits: &mut dyn FnMut(&Entry) -> bool,
    ) -> io::Result<Vec<Entry>> {
        let (lists, superblock, top) = match self {
            Self::Near(beat, top) => return Ok(beat.during(|| top.list(below, fits))?.1),
            Self::Far(lists, superblock, top) => (lists, superblock, top),
        };
        let mut askers = lists.askers.borrow_mut();
        let asker = askers
            .entry(superblock.device)
            .or_insert_with(|| Asker::new(superblock.clone(), HelperLimits::FOREIGN));
        let request = Request::List {
            top: top.as_os_str().as_bytes().to_vec(),
            below: below.to_vec(),
        };
        match asker.ask(&request, is_stopped) {
            Ok(Reply::Listed { entries, .. }) => {
                let entries: Vec<Entry> = entries.into_iter().map(entry).collect();
                match entries.iter().all(fits) {
                    true => Ok(entries),
                    false => Err(io::ErrorKind::OutOfMemory.into()),
                }
            }
            Ok(Reply::Failed(number)) => Err(io::Error::from_raw_os_error(number)),
            Ok(_) | Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

fn entry(listed: ListedEntry) -> Entry {
    Entry {
        name: listed.name,
        inode: listed.inode,
        is_directory: listed.is_directory,
    }
}

/// Lists a directory, in a helper process.
pub(super) fn answer(top: &[u8], below: &[u8]) -> Reply {
    let listed =
        Top::open(Path::new(OsStr::from_bytes(top))).and_then(|top| top.list(below, |_| true));
    match listed {
        Ok((inode, entries)) => {
            let listed = entries.into_iter().map(|entry| ListedEntry {
                name: entry.name,
                inode: entry.inode,
                is_directory: entry.is_directory,
            });
            Reply::Listed {
                inode,
                entries: listed.collect(),
            }
        }
        Err(error) => Reply::Failed(error.raw_os_error().unwrap_or(libc::EIO)),
    }
}

/// A directory that is open.
pub(super) struct Top(OwnedFd);

impl Top {
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let top = openat2(rustix::fs::CWD, path, flags, Mode::empty(), resolve)?;
        Ok(Self(top))
    }

    /// The inode number and the entries of a directory below it. `below` starts with a slash, or is
    /// empty for the top itself. Fails once `fits` is false of an entry.
    pub fn list(
        &self,
        below: &[u8],
        mut fits: impl FnMut(&Entry) -> bool,
    ) -> io::Result<(u64, Vec<Entry>)> {
        let directory = self.open_below(below)?;
        let inode = fstat(&directory)?.st_ino;
        let mut entries = Vec::new();
        for entry in Dir::read_from(&directory)?.take(ENTRIES_MAX) {
            let entry = entry?;
            let name = entry.file_name();
            if name.to_bytes() == b"." || name.to_bytes() == b".." {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems do not report the type.
                FileType::Unknown => match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(_) => continue,
                },
                kind => kind,
            };
            if matches!(kind, FileType::RegularFile | FileType::Directory) {
                let entry = Entry {
                    name: name.to_bytes().to_vec(),
                    inode: entry.ino(),
                    is_directory: kind == FileType::Directory,
                };
                if !fits(&entry) {
                    return Err(io::ErrorKind::OutOfMemory.into());
                }
                entries.push(entry);
            }
        }
        Ok((inode, entries))
    }

    fn open_below(&self, below: &[u8]) -> rustix::io::Result<OwnedFd> {
        let path = below.strip_prefix(b"/").unwrap_or(b".");
        let path = Path::new(OsStr::from_bytes(path));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let resolve = ResolveFlags::NO_SYMLINKS
            | ResolveFlags::NO_MAGICLINKS
            | ResolveFlags::NO_XDEV
            | ResolveFlags::BENEATH;
        let open = |flags| openat2(self.0.as_fd(), path, flags, Mode::empty(), resolve);
        leaving_access_time(flags, open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_and_directories_are_listed_and_links_are_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().canonicalize().unwrap();
        fs::create_dir(at.join("sub")).unwrap();
        fs::write(at.join("sub/file"), "x").unwrap();
        std::os::unix::fs::symlink("sub", at.join("link")).unwrap();
        let top = Top::open(&at).unwrap();
        let (_, entries) = top.list(b"", |_| true).unwrap();
        assert_eq!(entries.len(), 1);
        assert!(entries[0].is_directory && entries[0].name == b"sub");
        let (inode, entries) = top.list(b"/sub", |_| true).unwrap();
        assert!(!entries[0].is_directory && entries[0].name == b"file");
        assert_ne!(inode, entries[0].inode);
        for wrong in [&b"/link"[..], b"/gone", b"/sub/file", b"/.."] {
            assert!(top.list(wrong, |_| true).is_err(), "{wrong:?}");
        }
        assert!(top.list(b"", |_| false).is_err());
        assert!(Top::open(&at.join("link")).is_err());
    }
}
