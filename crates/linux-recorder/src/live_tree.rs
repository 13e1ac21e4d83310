// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of this machine.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;

use foreread_profile::{Profile, Program, Source};
use foreread_recorder::{FileStatus, FileTree, LookupError, Recording, Unresolved, interpreter};
use foreread_sys::handle;
use foreread_sys::mounts::Mounts;
use rustix::fs::{Stat, lstat, readlink};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

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

    fn link_target(&self, path: &[u8]) -> Option<Vec<u8>> {
        Some(readlink(path, Vec::new()).ok()?.into_bytes())
    }

    fn generation(&self, path: &[u8]) -> Option<u32> {
        handle::generation(path)
    }

    fn interpreter(&self, path: &[u8]) -> Option<Vec<u8>> {
        let file = File::open(OsStr::from_bytes(path)).ok()?;
        interpreter(|at, buffer| file.read_exact_at(buffer, at).ok())
    }

    fn now_s(&self) -> i64 {
        clock_gettime(ClockId::Realtime).tv_sec
    }
}

/// Makes a profile of a recording, by the files of this machine; with `known`, the profile that the
/// program has already, of the parts that are new against it.
#[must_use]
pub fn resolve(
    recording: &Recording,
    mounts: &Mounts,
    program: Program,
    source: Source,
    known: Option<&Profile>,
) -> (Profile, Unresolved) {
    foreread_recorder::resolve(recording, mounts, program, source, known, &LiveTree)
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
