// SPDX-License-Identifier: MIT OR Apache-2.0
//! The locks of files, as the kernel lists them in `/proc/locks`, which everybody may read.
//!
//! In: a path. Out: which process holds the lock of that file, without taking it: a try to lock the
//! file would disturb a process that is about to do so. Locks of another PID namespace aren't
//! listed.
//!
//! Reading the list takes 10 to 17 ms (see [`crate::leases`]), so nothing on a fast path reads it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{major, minor};

/// A file as the kernel lists it: by the device of its superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ListedFile {
    pub major: u32,
    pub minor: u32,
    pub inode: u64,
}

/// A line: `1: LEASE  ACTIVE    WRITE 1234 08:01:5678 0 EOF`.
pub(crate) struct ListedLock<'a> {
    /// `POSIX`, `FLOCK`, `LEASE`, `DELEG`.
    pub kind: &'a str,
    /// `READ`, `WRITE` or `UNLCK`.
    pub mode: &'a str,
    pub process: u32,
    pub file: ListedFile,
}

impl<'a> ListedLock<'a> {
    /// `None` for other lines, and for a process that still waits for the lock: there `->` stands
    /// before the kind.
    pub fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (kind, _state, mode) = (words.next()?, words.next()?, words.next()?);
        let process = words.next()?.parse().ok()?;
        let mut numbers = words.next()?.split(':');
        Some(Self {
            kind,
            mode,
            process,
            file: ListedFile {
                major: u32::from_str_radix(numbers.next()?, 16).ok()?,
                minor: u32::from_str_radix(numbers.next()?, 16).ok()?,
                inode: numbers.next()?.parse().ok()?,
            },
        })
    }
}

/// The process that holds the exclusive flock(2) lock of this file; `None` where none does.
///
/// # Errors
/// When the file isn't there, or the list can't be read.
pub fn lock_holder(path: &Path) -> io::Result<Option<u32>> {
    let metadata = fs::metadata(path)?;
    let file = ListedFile {
        major: major(metadata.dev()),
        minor: minor(metadata.dev()),
        inode: metadata.ino(),
    };
    Ok(holder(&fs::read_to_string("/proc/locks")?, file))
}

fn holder(list: &str, file: ListedFile) -> Option<u32> {
    let mut locks = list.lines().filter_map(ListedLock::parse);
    let is_it = |lock: &ListedLock<'_>| {
        lock.kind == "FLOCK" && lock.mode == "WRITE" && lock.file == file && lock.process != 0
    };
    locks.find(is_it).map(|lock| lock.process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_holds_the_whole_lock_is_found() {
        let list = "1: POSIX  ADVISORY  WRITE 7 fe:00:9 0 EOF\n\
            2: FLOCK  ADVISORY  READ 8 fe:00:9 0 EOF\n\
            3: FLOCK  ADVISORY  WRITE 812 fe:0a:9 0 EOF\n\
            3: -> FLOCK  ADVISORY  WRITE 813 fe:0a:8 0 EOF\n\
            4: FLOCK  ADVISORY  WRITE 0 fe:00:10 0 EOF\nnothing\n\n";
        let of = |minor, inode| {
            let major = 0xfe;
            holder(
                list,
                ListedFile {
                    major,
                    minor,
                    inode,
                },
            )
        };
        assert_eq!(of(0x0a, 9), Some(812));
        assert_eq!([of(0x0a, 8), of(0, 9), of(0, 10)], [None; 3]);
    }

    #[test]
    fn a_lock_of_this_process_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        assert!(lock_holder(&path).is_err());
        let lock = crate::save::try_lock(&path).unwrap();
        assert_eq!(lock_holder(&path).unwrap(), Some(std::process::id()));
        drop(lock);
        assert_eq!(lock_holder(&path).unwrap(), None);
    }
}
