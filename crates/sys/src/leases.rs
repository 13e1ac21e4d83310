// SPDX-License-Identifier: MIT OR Apache-2.0
//! Write leases: files that a server (Samba, NFS) lets a client change in the client's own memory.
//!
//! Whoever opens such a file, also with `O_NONBLOCK`, makes the kernel break the lease: the client
//! has to write back and gives up its cache. That is right for a program that needs the file, and
//! wrong for reading ahead. Input: a file. Output: whether somebody holds a write lease on it, from
//! `/proc/locks`.
//!
//! The kernel has no open that leaves a lease alone and can read. So a lease that is taken within
//! [`REFRESH_EVERY`] before the open is broken all the same. A lease of another process namespace,
//! outside of a container, is not in `/proc/locks`. One in a long list is missed while other locks
//! go away, as [`crate::kernel_locks`] says, until the next reading.
//!
//! Reading the list is dear: `locks_start()` takes a per-CPU semaphore for writing, which waits for
//! an RCU grace period (10 to 17 ms were measured on Linux 6.18), and all who lock a file wait
//! meanwhile. So it is read seldom, and never while a command waits to be started.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{Stat, major, minor};

use crate::kernel_locks::{ListedFile, ListedLock, LockList};

/// Age at which the list is read again.
const REFRESH_EVERY: Duration = Duration::from_secs(5);

/// Of `<fcntl.h>`; the same number on all architectures that Linux has today.
const F_SETSIG: libc::c_int = 10;

/// The leased files at a time.
struct Leases {
    files: HashSet<ListedFile>,
    read_at: Instant,
}

static KNOWN: Mutex<Option<Leases>> = Mutex::new(None);

/// Whether reading this file would break a write lease.
#[must_use]
pub fn would_break(stat: &Stat) -> bool {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let is_valid = |leases: &Leases| leases.read_at.elapsed() < REFRESH_EVERY;
    let leases = known.take().filter(is_valid).unwrap_or_else(Leases::read);
    known.insert(leases).has(stat)
}

impl Leases {
    fn read() -> Self {
        let read_at = Instant::now();
        // A kernel without the list has nothing to go by.
        let list = LockList::read().map_or_else(|_| String::new(), |list| list.text);
        Self {
            files: list.lines().filter_map(write_lease).collect(),
            read_at,
        }
    }

    fn has(&self, stat: &Stat) -> bool {
        let file = ListedFile {
            major: major(stat.st_dev),
            minor: minor(stat.st_dev),
            inode: stat.st_ino,
        };
        // Files of btrfs and overlay have another device than their superblock.
        let is_same = |leased: &ListedFile| leased.major == 0 && leased.inode == file.inode;
        match file.major {
            0 => self.files.iter().any(is_same),
            _ => self.files.contains(&file),
        }
    }
}

/// Whether somebody has this file open for writing, or mapped so that it may be written.
///
/// A read lease is only granted on a file that nobody writes (`check_conflicting_open()` of
/// `fs/locks.c`); it is given back at once. `file` must be open for reading only. Needs to own the
/// file, or `CAP_LEASE`.
///
/// # Errors
/// Where the file system has no leases, or doesn't give us one for another reason.
pub fn has_writers(file: impl AsFd) -> io::Result<bool> {
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: plain system calls on a descriptor that is open.
    unsafe {
        // Who opens the file for writing before the lease is given back makes the kernel send a
        // signal. SIGIO, which it would be, ends a process; this one is ignored.
        if libc::fcntl(fd, F_SETSIG, libc::SIGURG) != 0 {
            return Err(io::Error::last_os_error());
        }
        if libc::fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK) == 0 {
            libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK);
            return Ok(false);
        }
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::EAGAIN) => Ok(true),
        error => Err(error),
    }
}

/// The file of a line of `/proc/locks`, if that is about a write lease, also one that is being
/// broken: `1: LEASE  ACTIVE    WRITE 1234 08:01:5678 0 EOF`. Delegations are leases of NFS.
fn write_lease(line: &str) -> Option<ListedFile> {
    let lock = ListedLock::parse(line)?;
    let is_lease = ["LEASE", "DELEG"].contains(&lock.kind) && lock.mode == "WRITE";
    is_lease.then_some(lock.file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn only_write_leases_count() {
        let leased =
            |line: &str| write_lease(line).map(|file| (file.major, file.minor, file.inode));
        let lines = "1: LEASE  ACTIVE    WRITE 1234 fd:0a:5678 0 EOF\n\
            2: LEASE  BREAKING  READ  1234 08:01:5679 0 EOF\n\
            3: FLOCK  ADVISORY  WRITE 7901 fe:00:6340629 0 EOF\n\
            4: -> LEASE  ACTIVE    WRITE 1\n\
            5: DELEG  ACTIVE    WRITE 9 00:2b:7 0 EOF\n\n";
        let all: Vec<_> = lines.lines().filter_map(leased).collect();
        assert_eq!(all, [(0xfd, 0x0a, 5678), (0, 0x2b, 7)]);
    }

    #[test]
    fn a_lease_is_seen_and_its_end_as_well() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let stat = |file: &File| rustix::fs::fstat(file).expect("its numbers");
        let other = tempfile::tempfile().expect("a file");
        // SAFETY: a plain system call on a descriptor that is open.
        let lease = |kind: i32| unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) };
        if lease(libc::F_WRLCK) != 0 || LockList::read().is_err() {
            println!("skipped: no leases here");
            return;
        }
        // Locks of other processes that go away may hide it from one reading.
        let is_seen = |_| Leases::read().has(&stat(file.as_file()));
        assert!((0..20).any(is_seen));
        assert!(!Leases::read().has(&stat(&other)));
        assert_eq!(lease(libc::F_UNLCK), 0);
        let begun = Instant::now();
        let is_still_there = || Leases::read().has(&stat(file.as_file()));
        while is_still_there() && begun.elapsed() < Duration::from_secs(60) {}
        assert!(!is_still_there());
    }

    #[test]
    fn a_writer_is_seen_and_its_end_as_well() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let reader = File::open(file.path()).expect("it opens");
        match has_writers(&reader) {
            Err(error) => println!("skipped: no leases here: {error}"),
            Ok(is_written) => {
                assert!(is_written);
                let path = file.into_temp_path();
                assert!(!has_writers(&reader).expect("an answer"));
                let writer = File::options().append(true).open(&path).expect("it opens");
                assert!(has_writers(&reader).expect("an answer"));
                drop(writer);
                assert!(!has_writers(&reader).expect("an answer"));
            }
        }
    }
}
