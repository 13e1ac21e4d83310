// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paths of opened files, read while they are open.

use std::collections::HashMap;

use foreread_profile::{NodeKind, Uses};

use crate::file_tree::FileStatus;

/// A file or directory, by a path that led to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Absolute path.
    pub path: Vec<u8>,
    /// Inode number.
    pub inode: u64,
    /// Inode generation; 0 when not known.
    pub generation: u32,
    /// Type and permissions.
    pub mode: u16,
    /// When its data had changed, as of the first open.
    pub mtime_ns: i64,
    /// None when the program only inherited it.
    pub uses: Uses,
    /// About when it was first opened, by `CLOCK_MONOTONIC`.
    pub need_ns: u64,
}

impl Name {
    /// Whether its mode is that of a regular file.
    #[must_use]
    pub const fn is_file(&self) -> bool {
        self.mode & 0o170_000 == 0o100_000
    }
}

/// A file that is open; the machine is asked about it.
pub trait OpenFile {
    /// Its status; `None` when that can't be had.
    fn status(&self) -> Option<FileStatus>;

    /// Its path; `None` when that can't be had.
    fn path(&self) -> Option<Vec<u8>>;

    /// Its generation; 0 where the file system has none.
    fn generation(&self) -> u32;
}

/// More names than a profile can use; 100 bytes or so each.
const NAMES_MAX: usize = 1 << 19;

/// All names seen, each path once.
#[derive(Debug, Default)]
pub struct Names {
    by_path: HashMap<Vec<u8>, Name>,
    lost: u64,
    /// Opens in the batch at hand.
    batch: u64,
    batch_end_ns: u64,
}

impl Names {
    /// Notes a file that the program inherits open: no event tells of it.
    pub fn inherit(&mut self, path: Vec<u8>, status: &FileStatus) {
        let is_file = status.kind() == Some(NodeKind::File) && !status.is_deleted;
        if is_file && path.starts_with(b"/") {
            self.insert(name_of(path, status, 0, Uses(0), u64::MAX));
        }
    }

    /// Notes a file or directory that a process of the program opened within `span_ns`. Events
    /// carry no time; those of one span are in order, so each is taken for later than the one
    /// before.
    pub fn note(&mut self, file: &impl OpenFile, executed: bool, span_ns: (u64, u64)) {
        let Some(status) = file.status() else {
            self.lost += 1;
            return;
        };
        if status.is_deleted {
            // No later run will find it.
            return;
        }
        let uses = match status.kind() {
            Some(NodeKind::File) if executed => Uses::OPENED.union(Uses::EXECUTED),
            Some(NodeKind::File) => Uses::OPENED,
            // Nearly all directories are opened to be listed, and that can't be seen: it would need
            // an event for each read of each file.
            Some(NodeKind::Directory) => Uses::OPENED.union(Uses::LISTED),
            _ => return,
        };
        let Some(path) = file.path().filter(|path| path.starts_with(b"/")) else {
            self.lost += 1;
            return;
        };
        let need_ns = self.time_in(span_ns);
        let known = self.by_path.get_mut(&path);
        match known.filter(|name| name.inode == status.inode) {
            Some(name) => {
                name.uses = name.uses.union(uses);
                name.need_ns = name.need_ns.min(need_ns);
            }
            None => self.insert(name_of(path, &status, file.generation(), uses, need_ns)),
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
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// All names, those only inherited included.
    pub fn into_all(self) -> impl Iterator<Item = Name> {
        self.by_path.into_values()
    }

    /// The names that the program opened.
    pub fn into_used(self) -> impl Iterator<Item = Name> {
        self.into_all().filter(|name| name.uses != Uses(0))
    }
}

fn name_of(path: Vec<u8>, status: &FileStatus, generation: u32, uses: Uses, need_ns: u64) -> Name {
    Name {
        path,
        inode: status.inode,
        generation,
        mode: status.inode_mode(),
        mtime_ns: status.mtime_ns,
        uses,
        need_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with a name that is open.
    struct Open(&'static [u8], FileStatus);

    impl OpenFile for Open {
        fn status(&self) -> Option<FileStatus> {
            Some(self.1)
        }

        fn path(&self) -> Option<Vec<u8>> {
            Some(self.0.to_vec())
        }

        fn generation(&self) -> u32 {
            7
        }
    }

    fn file(path: &'static [u8], inode: u64) -> Open {
        let status = FileStatus {
            inode,
            mode: 0o100_644,
            ..FileStatus::default()
        };
        Open(path, status)
    }

    #[test]
    fn a_path_is_noted_once_and_in_order() {
        let mut names = Names::default();
        let (first, second) = (file(b"/first", 1), file(b"/second", 2));
        names.note(&first, false, (5_000, 1_000_000));
        names.note(&second, true, (5_000, 1_000_000));
        names.note(&first, true, (1_000_000, 2_000_000));
        let mut all: Vec<Name> = names.into_used().collect();
        all.sort_by_key(|name| name.need_ns);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].need_ns, all[1].need_ns), (6_000, 7_000));
        assert!(all[0].uses.contains(Uses::EXECUTED));
        assert_eq!((all[0].path.as_slice(), all[0].generation), (first.0, 7));
    }

    #[test]
    fn a_deleted_file_has_no_name() {
        let mut names = Names::default();
        let mut deleted = file(b"/gone (deleted)", 1);
        deleted.1.is_deleted = true;
        names.note(&deleted, false, (0, 10));
        names.inherit(deleted.0.to_vec(), &deleted.1);
        assert_eq!(names.lost(), 0);
        assert_eq!(names.into_all().count(), 0);
    }

    #[test]
    fn a_path_that_leads_nowhere_is_lost() {
        let mut names = Names::default();
        names.note(&file(b"socket:[5]", 1), false, (0, 10));
        assert_eq!(names.lost(), 1);
    }

    #[test]
    fn inherited_files_count_when_they_are_opened() {
        let mut names = Names::default();
        let (used, unused) = (file(b"/used", 1), file(b"/unused", 2));
        names.inherit(used.0.to_vec(), &used.1);
        names.inherit(unused.0.to_vec(), &unused.1);
        names.note(&used, false, (0, 10_000));
        assert_eq!(
            names.into_used().map(|name| name.path).collect::<Vec<_>>(),
            [used.0]
        );
    }
}
