// SPDX-License-Identifier: MIT OR Apache-2.0
//! A fanotify group: told of each open on every file system with a disk or a server behind it.

use std::collections::HashSet;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::getpid;
use thiserror::Error;

use crate::mounts::{MountPoint, Mounts};

/// Why fanotify can't record here.
#[derive(Debug, Error)]
pub enum FanotifyError {
    /// The kernel refuses.
    #[error(
        "the kernel refused to report opened files ({step}): {reason}; fanotify needs root \
         (CAP_SYS_ADMIN) and a kernel with CONFIG_FANOTIFY"
    )]
    Refused {
        /// The step that was attempted.
        step: &'static str,
        /// The kernel's error.
        reason: io::Error,
    },
    /// Nothing to watch.
    #[error("can't read /proc/self/mountinfo: {0}; mount /proc to record what programs read")]
    NoMounts(io::Error),
}

/// An event, valid while it is handled; its descriptor is closed then.
pub struct Opened<'a> {
    /// The file, opened for reading.
    pub fd: BorrowedFd<'a>,
    /// The process that opened it.
    pub pid: i32,
    /// Whether it is being executed.
    pub executed: bool,
}

/// Tells of opens for as long as it lives.
pub struct Group {
    fd: Arc<OwnedFd>,
    own_pid: i32,
    tells_errors: bool,
    unwatched: usize,
    lost: u64,
}

/// Time limit of a start for marks on remote file systems, whose server may be dead.
const REMOTE_LIMIT: Duration = Duration::from_millis(500);

/// Events in one read. Each is a descriptor of ours until it has been handled, and a process may
/// have 1,024.
const EVENTS_PER_READ: usize = 128;

/// `struct fanotify_event_metadata`.
const EVENT_BYTES: usize = 24;

impl Group {
    /// Watches every file system that has a disk or a server behind it.
    ///
    /// # Errors
    /// [`FanotifyError`] when the kernel refuses, or when no file system can be watched.
    pub fn watch(mounts: &Mounts) -> Result<Self, FanotifyError> {
        let (fd, tells_errors) = init()?;
        let mut group = Self {
            fd: Arc::new(fd),
            tells_errors,
            own_pid: getpid().as_raw_pid(),
            unwatched: 0,
            lost: 0,
        };
        let mut devices = HashSet::new();
        let points = mounts.points().iter().filter(|point| !point.is_virtual());
        // A file system is marked once, wherever else it may be mounted.
        let fresh = points.filter(|point| devices.insert((point.major, point.minor)));
        let (remote, local): (Vec<_>, Vec<_>) = fresh.partition(|point| is_remote(point));
        let mut watched = 0;
        let mut last_error = None;
        for point in local {
            match mark(group.fd.as_fd(), &point.mount_point) {
                Ok(()) => watched += 1,
                Err(error) => {
                    group.unwatched += 1;
                    last_error = Some(error);
                }
            }
        }
        watched += group.mark_remote(&remote);
        match last_error {
            Some(reason) if watched == 0 => Err(FanotifyError::Refused {
                step: "watching a file system",
                reason,
            }),
            _ => Ok(group),
        }
    }

    /// Marks file systems whose server may not answer, in a thread that may be left behind.
    fn mark_remote(&mut self, points: &[&MountPoint]) -> usize {
        if points.is_empty() {
            return 0;
        }
        let paths: Vec<Vec<u8>> = points.iter().map(|p| p.mount_point.clone()).collect();
        let (sender, receiver) = mpsc::channel();
        let fd = Arc::clone(&self.fd);
        std::thread::spawn(move || {
            for path in paths {
                let _ = sender.send(mark(fd.as_fd(), &path).is_ok());
            }
        });
        let mut answers = Vec::new();
        while let Ok(answer) = receiver.recv_timeout(REMOTE_LIMIT) {
            answers.push(answer);
        }
        let watched = answers.iter().filter(|ok| **ok).count();
        self.unwatched += points.len() - watched;
        watched
    }

    /// File systems that could not be watched.
    #[must_use]
    pub fn unwatched(&self) -> usize {
        self.unwatched
    }

    /// Events that didn't fit in the queue (at least that many) or came without a descriptor.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Hands on all that has come, but for what this process opened.
    pub fn read(&mut self, mut take: impl FnMut(Opened<'_>)) {
        let mut buffer = [0u8; EVENTS_PER_READ * EVENT_BYTES];
        // When a file can't be opened for us, older kernels say so only at the first event of a
        // read and else drop it silently.
        let at_once = if self.tells_errors {
            EVENTS_PER_READ
        } else {
            1
        };
        let buffer = &mut buffer[..at_once * EVENT_BYTES];
        loop {
            match rustix::io::read(&*self.fd, &mut *buffer) {
                Ok(0) => return,
                // Nothing there; or, on kernels without FAN_REPORT_FD_ERROR, a file whose lease
                // would have had to be broken, with more behind it.
                Err(Errno::AGAIN) if self.has_more() => {}
                Err(Errno::AGAIN) => return,
                Ok(length) => self.hand_on(&buffer[..length], &mut take),
                Err(Errno::INTR) => {}
                // The event whose file couldn't be opened is gone; the next read gives the next.
                Err(
                    Errno::NFILE
                    | Errno::MFILE
                    | Errno::NOENT
                    | Errno::STALE
                    | Errno::ACCESS
                    | Errno::PERM
                    | Errno::TXTBSY
                    | Errno::NXIO
                    | Errno::IO
                    | Errno::NOMEM,
                ) => self.lost += 1,
                Err(_) => {
                    self.lost += 1;
                    return;
                }
            }
        }
    }

    fn has_more(&self) -> bool {
        let mut fds = [PollFd::new(&*self.fd, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    fn hand_on(&mut self, mut rest: &[u8], take: &mut impl FnMut(Opened<'_>)) {
        while let Some(event) = Event::parse(rest) {
            rest = rest.get(event.length..).unwrap_or_default();
            if event.mask & libc::FAN_Q_OVERFLOW != 0 || event.fd < 0 {
                self.lost += 1;
                continue;
            }
            // SAFETY: the kernel made this descriptor for this event, and no other code owns it. It
            // is closed at the end of this turn.
            let fd = unsafe { OwnedFd::from_raw_fd(event.fd) };
            if event.pid != self.own_pid {
                take(Opened {
                    fd: fd.as_fd(),
                    pid: event.pid,
                    executed: event.mask & libc::FAN_OPEN_EXEC != 0,
                });
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if Arc::strong_count(&self.fd) > 1 {
            // The thread left behind keeps the group open; without marks nothing is queued for it.
            for scope in [libc::FAN_MARK_FILESYSTEM, libc::FAN_MARK_MOUNT] {
                // SAFETY: plain system call; a flush takes no path.
                unsafe {
                    libc::fanotify_mark(
                        self.fd.as_raw_fd(),
                        libc::FAN_MARK_FLUSH | scope,
                        0,
                        libc::AT_FDCWD,
                        c"/".as_ptr(),
                    );
                }
            }
        }
    }
}

struct Event {
    length: usize,
    mask: u64,
    fd: i32,
    pid: i32,
}

impl Event {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let length = word(0)? as usize;
        let mask = u64::from_ne_bytes(bytes.get(8..16)?.try_into().ok()?);
        let (fd, pid) = (word(16)? as i32, word(20)? as i32);
        (length >= EVENT_BYTES).then_some(Self {
            length,
            mask,
            fd,
            pid,
        })
    }
}

/// Linux 6.13: an event without a descriptor says so.
const FAN_REPORT_FD_ERROR: u32 = 0x2000;

/// A group, and whether its events tell of files that couldn't be opened.
fn init() -> Result<(OwnedFd, bool), FanotifyError> {
    let flags = libc::FAN_CLASS_NOTIF | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK;
    // O_NONBLOCK: an open that would break a lease must not wait for the holder. O_NOATIME: looking
    // must leave no trace. FIFOs and devices need no care: fanotify gives descriptors of regular
    // files and directories only.
    let event_flags =
        libc::O_RDONLY | libc::O_CLOEXEC | libc::O_LARGEFILE | libc::O_NOATIME | libc::O_NONBLOCK;
    let open = |extra: u32| {
        // SAFETY: plain system call; the descriptor is new, and no other code owns it.
        let fd = unsafe { libc::fanotify_init(flags | extra, event_flags as libc::c_uint) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    };
    let unlimited = libc::FAN_UNLIMITED_QUEUE;
    open(unlimited | FAN_REPORT_FD_ERROR)
        .map(|fd| (fd, true))
        .or_else(|_| Ok((open(unlimited).or_else(|_| open(0))?, false)))
        .map_err(|reason| FanotifyError::Refused {
            step: "starting",
            reason,
        })
}

/// Marks a file system; a mere mount where the kernel (before 4.20) knows no better.
fn mark(group: BorrowedFd<'_>, path: &[u8]) -> io::Result<()> {
    let path = CString::new(path)?;
    let opens = libc::FAN_OPEN | libc::FAN_ONDIR;
    let ways = [
        (libc::FAN_MARK_FILESYSTEM, opens | libc::FAN_OPEN_EXEC),
        (libc::FAN_MARK_FILESYSTEM, opens),
        (libc::FAN_MARK_MOUNT, opens),
    ];
    let mut result = Ok(());
    for (scope, mask) in ways {
        // SAFETY: plain system call; the path is a C string.
        let done = unsafe {
            libc::fanotify_mark(
                group.as_raw_fd(),
                libc::FAN_MARK_ADD | scope,
                mask,
                libc::AT_FDCWD,
                path.as_ptr(),
            )
        };
        if done == 0 {
            return Ok(());
        }
        result = Err(io::Error::last_os_error());
    }
    result
}

/// Whether a look at it may wait for a server.
fn is_remote(point: &MountPoint) -> bool {
    const REMOTE: [&[u8]; 8] = [
        b"nfs",
        b"nfs4",
        b"cifs",
        b"smb3",
        b"ceph",
        b"9p",
        b"afs",
        b"glusterfs",
    ];
    REMOTE.contains(&point.fs_type.as_slice()) || point.fs_type.starts_with(b"fuse")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_and_a_short_one_is_not() {
        let mut bytes = Vec::new();
        bytes.extend(24u32.to_ne_bytes());
        bytes.extend([3, 0, 24, 0]);
        bytes.extend((libc::FAN_OPEN | libc::FAN_OPEN_EXEC).to_ne_bytes());
        bytes.extend(11i32.to_ne_bytes());
        bytes.extend(4321i32.to_ne_bytes());
        let event = Event::parse(&bytes).expect("an event");
        assert_eq!((event.length, event.fd, event.pid), (24, 11, 4321));
        assert!(event.mask & libc::FAN_OPEN_EXEC != 0);
        assert!(Event::parse(&bytes[..23]).is_none());
        bytes[0] = 8;
        assert!(Event::parse(&bytes).is_none(), "would never advance");
    }
}
