// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paths of opened files, read while they are open.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;

use foreread_profile::Uses;
use foreread_sys::generation::generation_of;
use rustix::fs::fstat;

/// What a path led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) path: Vec<u8>,
    pub(crate) inode: u64,
    pub(crate) generation: u32,
    /// Type and permissions.
    pub(crate) mode: u16,
    /// When it was first opened.
    pub(crate) mtime_ns: i64,
    /// None when the program only inherited it.
    pub(crate) uses: Uses,
    /// About when it was first opened, by `CLOCK_MONOTONIC`.
    pub(crate) need_ns: u64,
}

/// More names than a profile can use; 100 bytes or so each.
const NAMES_MAX: usize = 1 << 19;

/// All names seen, each path once.
#[derive(Debug, Default)]
pub(crate) struct Names {
    by_path: HashMap<Vec<u8>, Name>,
    lost: u64,
    /// Opens in the batch at hand.
    batch: u64,
    batch_end_ns: u64,
}

pub(crate) const S_IFMT: u32 = 0o170_000;
pub(crate) const S_IFREG: u32 = 0o100_000;
pub(crate) const S_IFDIR: u32 = 0o040_000;

impl Names {
    /// With the files that a child inherits open, such as its standard input: no event tells them.
    pub(crate) fn with_inherited() -> Self {
        let mut names = Self::default();
        for entry in fs::read_dir("/proc/self/fd")
            .into_iter()
            .flatten()
            .flatten()
        {
            let link = entry.path();
            let (Ok(path), Ok(metadata)) = (fs::read_link(&link), fs::metadata(&link)) else {
                continue;
            };
            let path = path.into_os_string().into_vec();
            if metadata.is_file() && metadata.nlink() > 0 && path.starts_with(b"/") {
                names.insert(Name {
                    path,
                    inode: metadata.ino(),
                    generation: 0,
                    mode: (metadata.mode() & 0xffff) as u16,
                    mtime_ns: stamp(metadata.mtime(), metadata.mtime_nsec()),
                    uses: Uses(0),
                    need_ns: u64::MAX,
                });
            }
        }
        names
    }

    /// Notes a file or directory that a process of the program opened within `span_ns`. Events
    /// carry no time; those of one span are in order, so each is taken for later than the one
    /// before.
    pub(crate) fn note(&mut self, fd: BorrowedFd<'_>, executed: bool, span_ns: (u64, u64)) {
        let Ok(stat) = fstat(fd) else {
            self.lost += 1;
            return;
        };
        if stat.st_nlink == 0 {
            // Deleted: no later run will find it.
            return;
        }
        let kind = stat.st_mode & S_IFMT;
        let uses = match kind {
            S_IFREG if executed => Uses::OPENED.union(Uses::EXECUTED),
            S_IFREG => Uses::OPENED,
            // Nearly all directories are opened to be listed, and that can't be seen: it would need
            // an event for each read of each file.
            S_IFDIR => Uses::OPENED.union(Uses::LISTED),
            _ => return,
        };
        let Ok(path) = fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())) else {
            self.lost += 1;
            return;
        };
        let path = path.into_os_string().into_vec();
        if !path.starts_with(b"/") {
            self.lost += 1;
            return;
        }
        let need_ns = self.time_in(span_ns);
        let known = self.by_path.get_mut(&path);
        match known.filter(|name| name.inode == stat.st_ino) {
            Some(name) => {
                name.uses = name.uses.union(uses);
                name.need_ns = name.need_ns.min(need_ns);
            }
            None => self.insert(Name {
                path,
                inode: stat.st_ino,
                generation: generation_of(fd),
                mode: (stat.st_mode & 0xffff) as u16,
                mtime_ns: stamp(
                    stat.st_mtime,
                    i64::try_from(stat.st_mtime_nsec).unwrap_or(0),
                ),
                uses,
                need_ns,
            }),
        }
    }

    /// The n-th open of a span at its start plus n microseconds: in order, and within the span.
    fn time_in(&mut self, (from_ns, to_ns): (u64, u64)) -> u64 {
        if self.batch_end_ns != to_ns {
            self.batch_end_ns = to_ns;
            self.batch = 0;
        }
        self.batch += 1;
        from_ns.saturating_add(self.batch * 1000).min(to_ns)
    }

    fn insert(&mut self, name: Name) {
        if self.by_path.len() >= NAMES_MAX {
            self.lost += 1;
            return;
        }
        self.by_path.insert(name.path.clone(), name);
    }

    /// Opened files whose path couldn't be had or kept.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// All names, those only inherited included.
    pub(crate) fn into_all(self) -> impl Iterator<Item = Name> {
        self.by_path.into_values()
    }

    /// The names that the program opened.
    pub(crate) fn into_used(self) -> impl Iterator<Item = Name> {
        self.into_all().filter(|name| name.uses != Uses(0))
    }
}

fn stamp(seconds: i64, nanoseconds: i64) -> i64 {
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_path_is_noted_once_and_in_order() {
        let mut names = Names::default();
        let mut first = tempfile::NamedTempFile::new().expect("a file");
        first.write_all(b"x").expect("write");
        let second = tempfile::NamedTempFile::new().expect("a file");
        names.note(first.as_file().as_fd(), false, (5_000, 1_000_000));
        names.note(second.as_file().as_fd(), true, (5_000, 1_000_000));
        names.note(first.as_file().as_fd(), true, (1_000_000, 2_000_000));
        let mut all: Vec<Name> = names.into_used().collect();
        all.sort_by_key(|name| name.need_ns);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].need_ns, all[1].need_ns), (6_000, 7_000));
        assert!(all[0].uses.contains(Uses::EXECUTED));
        assert!(
            all[0]
                .path
                .ends_with(first.path().file_name().expect("name").as_encoded_bytes())
        );
    }

    #[test]
    fn a_deleted_file_has_no_name() {
        let mut names = Names::default();
        let file = tempfile::tempfile().expect("a file");
        names.note(file.as_fd(), false, (0, 10));
        assert_eq!(names.lost(), 0);
        assert_eq!(names.into_all().count(), 0);
    }
}
