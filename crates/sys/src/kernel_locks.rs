// SPDX-License-Identifier: MIT OR Apache-2.0
//! The locks of files, as the kernel lists them in `/proc/locks`, which everybody may read.
//!
//! In: a path. Out: which process holds the lock of that file, without taking it: a try to lock the
//! file would disturb a process that is about to do so. Locks of another PID namespace aren't
//! listed.
//!
//! Reading the list takes 10 to 17 ms (see [`crate::leases`]), so nothing on a fast path reads it.
//!
//! One read(2) of the list is exact, and holds at most a page of it: `seq_read_iter()` fills a
//! buffer of a page under the locks of `locks_start()`. The next read begins at a *count* of
//! entries. So an entry is skipped when one before it has gone away meanwhile, and the list seems
//! to end when many have. A list of a page or more is therefore read again before it is taken as
//! proof that nobody holds a lock.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{major, minor};

/// Bytes asked for at a time: more than a page of any architecture, which is the most that comes.
const READ_BYTES: usize = 128 << 10;
/// The smallest page of any architecture.
const PAGE_BYTES: usize = 4096;
/// More than any line has: some 110 bytes, and a column more for each lock that it waits behind.
const LINE_BYTES_MAX: usize = 512;
/// How often a list of several reads is read before a lock that isn't in it counts as free.
const LONG_LIST_READS: usize = 10;

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

/// The text of `/proc/locks`.
pub(crate) struct LockList {
    pub text: String,
    /// It fits into one read, so no entry is missing.
    pub is_exact: bool,
}

impl LockList {
    /// # Errors
    /// When there is no such list, or it isn't text.
    pub fn read() -> io::Result<Self> {
        let mut list = File::open("/proc/locks")?;
        let mut bytes = vec![0; READ_BYTES];
        let mut length = 0;
        let mut reads = 0;
        loop {
            bytes.resize(length + READ_BYTES, 0);
            match list.read(&mut bytes[length..])? {
                0 => break,
                read => length += read,
            }
            reads += 1;
        }
        bytes.truncate(length);
        let text = String::from_utf8(bytes).map_err(io::Error::other)?;
        // With less room than that, a line may be left for the next read.
        let is_exact = reads <= 1 && length <= PAGE_BYTES - LINE_BYTES_MAX;
        Ok(Self { text, is_exact })
    }
}

/// The process that holds the exclusive flock(2) lock of this file; `None` where none does.
///
/// A holder is missed only where other locks went away during each of [`LONG_LIST_READS`] readings
/// of a long list.
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
    for _ in 0..LONG_LIST_READS {
        let list = LockList::read()?;
        let found = holder(&list.text, file);
        if found.is_some() || list.is_exact {
            return Ok(found);
        }
    }
    Ok(None)
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
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

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

    /// Locks that come and go shift the list under its reader: one reading of a list of two pages
    /// missed the holder in 105 of 82,803 lookups.
    #[test]
    fn a_holder_is_found_while_other_locks_come_and_go() {
        let directory = tempfile::tempdir().unwrap();
        let lock = |name: String| crate::save::try_lock(&directory.path().join(name)).unwrap();
        let path = directory.path().join("looked up");
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    // 130 lines of some 50 bytes are two reads.
                    drop((0..130).map(|i| lock(format!("{i}"))).collect::<Vec<_>>());
                }
            });
            let _held = lock("looked up".to_owned());
            let missed = (0..3000)
                .filter(|_| lock_holder(&path).unwrap().is_none())
                .count();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(missed, 0);
        });
    }
}
