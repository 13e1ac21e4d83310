// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of files that are open, read from `/proc/self/fd`.

use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;

use foreread_recorder::{FileStatus, Names, OpenFile};
use foreread_sys::generation::generation_of;
use rustix::fs::{fstat, stat};

use crate::live_tree::status_of;

/// A file that this process has open.
pub(crate) struct LiveFile<'fd>(pub(crate) BorrowedFd<'fd>);

impl OpenFile for LiveFile<'_> {
    fn status(&self) -> Option<FileStatus> {
        Some(status_of(&fstat(self.0).ok()?))
    }

    fn path(&self) -> Option<Vec<u8>> {
        let path = fs::read_link(format!("/proc/self/fd/{}", self.0.as_raw_fd())).ok()?;
        Some(path.into_os_string().into_vec())
    }

    fn generation(&self) -> u32 {
        generation_of(self.0)
    }
}

/// Names with the files that a child inherits open, such as its standard input.
pub(crate) fn inherited_names() -> Names {
    let mut names = Names::default();
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten();
    for entry in entries.flatten() {
        let link = entry.path();
        let (Ok(path), Ok(stat)) = (fs::read_link(&link), stat(&link)) else {
            continue;
        };
        names.inherit(path.into_os_string().into_vec(), &status_of(&stat));
    }
    names
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn an_open_file_has_a_path_until_it_is_deleted() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let open = LiveFile(file.as_file().as_fd());
        let path = file.path().as_os_str().as_encoded_bytes();
        assert!(open.path().expect("a path").ends_with(path));
        assert!(!open.status().expect("a status").is_deleted);
        let file = tempfile::tempfile().expect("a file");
        let open = LiveFile(file.as_fd());
        assert!(open.status().expect("a status").is_deleted);
    }

    #[test]
    fn files_that_are_open_are_inherited() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let path = file.path().as_os_str().as_encoded_bytes();
        let mut names = inherited_names().into_all();
        assert!(names.any(|name| name.path.ends_with(path)));
    }
}
