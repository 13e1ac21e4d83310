// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file server that stops answering, for tests: whoever asks it then hangs in the kernel.
//!
//! It serves [`HangingServer::FILES`] files, a directory with one more and a link, over FUSE, in a
//! mount namespace of its own. Nothing is remembered by the kernel, so that each access asks.
//! Whatever happens to the test, the connection is ended when the server is dropped: then all that
//! hung goes on with an error.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEntry, ReplyOpen, ReplyStatfs,
    Request, Session, SessionACL,
};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::error::TestbedError;
use crate::namespace::MountNamespace;

/// A call that the server can leave without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Looking a name up.
    Lookup,
    /// Asking for attributes.
    Getattr,
    /// Opening a file.
    Open,
    /// Reading from a file.
    Read,
    /// Opening a directory.
    Opendir,
    /// Listing a directory.
    Readdir,
    /// Reading a link.
    Readlink,
    /// Asking for the state of the file system.
    Statfs,
}

impl Operation {
    /// Each of them.
    pub const ALL: [Self; 8] = [
        Self::Lookup,
        Self::Getattr,
        Self::Open,
        Self::Read,
        Self::Opendir,
        Self::Readdir,
        Self::Readlink,
        Self::Statfs,
    ];
}

#[derive(Default)]
struct Shared {
    hanging: Mutex<Vec<Operation>>,
    /// Calls that were left without an answer.
    unanswered: AtomicUsize,
    bytes_read: AtomicU64,
}

impl Shared {
    /// Whether to answer a call. A reply that is forgotten is never sent.
    fn answers<R>(&self, operation: Operation, reply: R) -> Option<R> {
        let hanging = self.hanging.lock().unwrap_or_else(PoisonError::into_inner);
        if !hanging.contains(&operation) {
            return Some(reply);
        }
        self.unanswered.fetch_add(1, Ordering::Relaxed);
        std::mem::forget(reply);
        None
    }
}

/// See the [module](self).
pub struct HangingServer {
    shared: Arc<Shared>,
    namespace: MountNamespace,
    point: PathBuf,
    /// Ends the connection when something is written to it.
    abort: PathBuf,
    control: PathBuf,
}

impl HangingServer {
    /// Number of files, named by their numbers.
    pub const FILES: u64 = 200;
    /// Pages of each, of 4 KiB.
    pub const FILE_PAGES: u64 = 16;

    /// Mounts it in this directory, and moves the calling thread into its mount namespace.
    ///
    /// # Errors
    /// When FUSE can't be mounted.
    pub fn start(directory: &Path) -> Result<Self, TestbedError> {
        let namespace = MountNamespace::make_private()?;
        let (point, control) = (directory.join("served"), directory.join("control"));
        let failed = TestbedError::system("mount a server's file system");
        let start = || -> io::Result<(Arc<Shared>, PathBuf)> {
            fs::create_dir_all(&point)?;
            fs::create_dir_all(&control)?;
            let fuse = OpenOptions::new()
                .read(true)
                .write(true)
                .open("/dev/fuse")?;
            mount_fuse(&fuse, &point)?;
            mount("fusectl", &control, "fusectl", MountFlags::empty(), None)?;
            let shared = Arc::new(Shared::default());
            let server = Server {
                shared: Arc::clone(&shared),
            };
            let session =
                Session::from_fd(server, fuse.into(), SessionACL::All, Config::default())?;
            // It ends with the connection.
            thread::Builder::new()
                .name("hanging-server".into())
                .spawn(move || session.run())?;
            let device = fs::metadata(&point)?.dev();
            let number = rustix::fs::minor(device);
            Ok((shared, control.join(format!("{number}/abort"))))
        };
        let (shared, abort) = start().map_err(failed)?;
        Ok(Self {
            shared,
            namespace,
            point,
            abort,
            control,
        })
    }

    /// Where it is mounted.
    #[must_use]
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// Leaves these calls without an answer from now on.
    pub fn hang(&self, operations: &[Operation]) {
        let mut hanging = self
            .shared
            .hanging
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *hanging = operations.to_vec();
    }

    /// Calls that were left without an answer so far.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        self.shared.unanswered.load(Ordering::Relaxed)
    }

    /// Bytes that were read so far.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.shared.bytes_read.load(Ordering::Relaxed)
    }

    /// Dies: all calls fail from now on, also those that hang.
    pub fn die(&self) {
        let abort = || fs::write(&self.abort, "1");
        // It has died already, otherwise.
        let _ = self.namespace.run(abort);
    }
}

impl Drop for HangingServer {
    fn drop(&mut self) {
        self.die();
        let _ = self.namespace.run(|| {
            let _ = unmount(&self.control, UnmountFlags::DETACH);
            let _ = unmount(&self.point, UnmountFlags::DETACH);
        });
    }
}

fn mount_fuse(fuse: &File, point: &Path) -> io::Result<()> {
    let data = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,allow_other",
        fuse.as_raw_fd()
    );
    let data = std::ffi::CString::new(data)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("hanging", point, "fuse.hanging", flags, data.as_c_str())?;
    Ok(())
}

struct Server {
    shared: Arc<Shared>,
}

const ROOT: u64 = 1;
const FIRST_FILE: u64 = 2;
const DIRECTORY: u64 = 1000;
const INNER_FILE: u64 = 1001;
const LINK: u64 = 1002;
const TARGET: &[u8] = b"0";
const PAGE_BYTES: u64 = 4096;

fn kind(inode: u64) -> FileType {
    match inode {
        ROOT | DIRECTORY => FileType::Directory,
        LINK => FileType::Symlink,
        _ => FileType::RegularFile,
    }
}

fn attributes(inode: u64) -> FileAttr {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let kind = kind(inode);
    FileAttr {
        ino: INodeNo(inode),
        size: match kind {
            FileType::RegularFile => HangingServer::FILE_PAGES * PAGE_BYTES,
            FileType::Symlink => TARGET.len() as u64,
            _ => 0,
        },
        blocks: 0,
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind,
        perm: if kind == FileType::Directory {
            0o755
        } else {
            0o644
        },
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// Names in a directory, with their inode numbers.
fn names(directory: u64) -> Vec<(String, u64)> {
    match directory {
        ROOT => {
            let files = (0..HangingServer::FILES).map(|at| (at.to_string(), FIRST_FILE + at));
            let others = [("directory", DIRECTORY), ("link", LINK)];
            let others = others.map(|(name, inode)| (name.to_owned(), inode));
            files.chain(others).collect()
        }
        _ => vec![("inner".to_owned(), INNER_FILE)],
    }
}

impl Filesystem for Server {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let Some(reply) = self.shared.answers(Operation::Lookup, reply) else {
            return;
        };
        let found = names(parent.0)
            .into_iter()
            .find(|(known, _)| name == known.as_str());
        match found {
            Some((_, inode)) => reply.entry(&Duration::ZERO, &attributes(inode), Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        if let Some(reply) = self.shared.answers(Operation::Getattr, reply) {
            reply.attr(&Duration::ZERO, &attributes(inode.0));
        }
    }

    fn readlink(&self, _: &Request, _: INodeNo, reply: ReplyData) {
        if let Some(reply) = self.shared.answers(Operation::Readlink, reply) {
            reply.data(TARGET);
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if let Some(reply) = self.shared.answers(Operation::Open, reply) {
            reply.opened(FileHandle(0), FopenFlags::empty());
        }
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if let Some(reply) = self.shared.answers(Operation::Opendir, reply) {
            reply.opened(FileHandle(0), FopenFlags::empty());
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset_bytes: u64,
        length_bytes: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some(reply) = self.shared.answers(Operation::Read, reply) else {
            return;
        };
        let left = (HangingServer::FILE_PAGES * PAGE_BYTES).saturating_sub(offset_bytes);
        let length = left.min(length_bytes.into());
        self.shared.bytes_read.fetch_add(length, Ordering::Relaxed);
        reply.data(&vec![7; usize::try_from(length).unwrap_or(0)]);
    }

    fn readdir(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        let Some(mut reply) = self.shared.answers(Operation::Readdir, reply) else {
            return;
        };
        let entries = names(inode.0).into_iter().zip(1..);
        for ((name, inode), at) in entries.filter(|(_, at)| *at > offset) {
            if reply.add(INodeNo(inode), at, kind(inode), name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        if let Some(reply) = self.shared.answers(Operation::Statfs, reply) {
            reply.statfs(0, 0, 0, 0, 0, 4096, 255, 4096);
        }
    }
}
