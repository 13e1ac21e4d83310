// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists directories. Does not leave their file system, and follows no link.
//!
//! Directories are closed before the next step, so they do not keep the file system busy.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use foreread_sys::paths::leaving_access_time;
use foreread_watch::order::Entry;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat2, statat};

/// Maximum number of entries of one directory.
const ENTRIES_MAX: usize = 1 << 17;

/// The directory from which others are reached.
pub(super) struct Top(OwnedFd);

impl Top {
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let top = openat2(rustix::fs::CWD, path, flags, Mode::empty(), resolve)?;
        Ok(Self(top))
    }

    /// The inode number and the entries of a directory below it. `below` starts with a slash, or is
    /// empty for the top itself.
    pub fn list(&self, below: &[u8]) -> io::Result<(u64, Vec<Entry>)> {
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
                entries.push(Entry {
                    name: name.to_bytes().to_vec(),
                    inode: entry.ino(),
                    is_directory: kind == FileType::Directory,
                });
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
        let (_, entries) = top.list(b"").unwrap();
        assert_eq!(entries.len(), 1);
        assert!(entries[0].is_directory && entries[0].name == b"sub");
        let (inode, entries) = top.list(b"/sub").unwrap();
        assert!(!entries[0].is_directory && entries[0].name == b"file");
        assert_ne!(inode, entries[0].inode);
        for wrong in [&b"/link"[..], b"/gone", b"/sub/file", b"/.."] {
            assert!(top.list(wrong).is_err(), "{wrong:?}");
        }
        assert!(Top::open(&at.join("link")).is_err());
    }
}
