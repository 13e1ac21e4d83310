// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of this machine.

use foreread_recorder::{FileStatus, FileTree, LookupError};
use rustix::fs::{Stat, lstat};
use rustix::io::Errno;

/// Asks the kernel.
pub(super) struct LiveTree;

impl FileTree for LiveTree {
    fn status(&self, path: &[u8]) -> Result<FileStatus, LookupError> {
        match lstat(path) {
            Ok(stat) => Ok(status_of(&stat)),
            Err(Errno::NOENT) => Err(LookupError::Absent),
            Err(_) => Err(LookupError::Refused),
        }
    }
}

/// The status of a file as the recorder has it.
pub(super) fn status_of(stat: &Stat) -> FileStatus {
    let nanoseconds = i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
    FileStatus {
        inode: stat.st_ino,
        mode: stat.st_mode,
        size_bytes: u64::try_from(stat.st_size).unwrap_or(0),
        mtime_ns: stat
            .st_mtime
            .saturating_mul(1_000_000_000)
            .saturating_add(nanoseconds),
        ctime_s: stat.st_ctime,
        is_deleted: stat.st_nlink == 0,
    }
}
