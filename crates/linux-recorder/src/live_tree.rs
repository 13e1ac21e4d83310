// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of this machine.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::thread;

use foreread_core::Device;
use foreread_linux_helper::{Asker, Superblock, has_failed, is_enabled};
use foreread_prefetch::helper::{FileState, HelperLimits, Reply, Request};
use foreread_profile::{Profile, Program, Source};
use foreread_recorder::{FileStatus, FileTree, LookupError, Recording, Unresolved, interpreter};
use foreread_sys::cache::{cached_pages, has_cachestat, missing_by_map};
use foreread_sys::handle;
use foreread_sys::leases;
use foreread_sys::mounts::Mounts;
use foreread_sys::paths::leaving_access_time;
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, Stat, lstat, openat, readlink};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

/// Asks the kernel about files of local file systems, and helpers about those of others. The
/// command has ended then, and somebody waits for us: a file system that does not answer soon is
/// left out.
pub(super) struct LiveTree<'a> {
    mounts: &'a Mounts,
    /// Whether some mount isn't local.
    has_foreign: bool,
    askers: RefCell<HashMap<Device, Asker>>,
}

impl<'a> LiveTree<'a> {
    /// The files that these mounts show.
    pub fn new(mounts: &'a Mounts) -> Self {
        Self {
            mounts,
            has_foreign: is_enabled() && mounts.has_foreign(),
            askers: RefCell::default(),
        }
    }

    /// Whether a path may be asked for directly.
    pub fn is_near(&self, path: &[u8]) -> bool {
        !self.has_foreign
            || self.superblock_of(path).is_none_or(|superblock| {
                self.mounts.is_local(path) && !has_failed(superblock.device)
            })
    }

    fn superblock_of(&self, path: &[u8]) -> Option<Superblock> {
        let point = self.mounts.points().get(self.mounts.mount_of(path)?)?;
        Some(Superblock::from(point))
    }

    /// The answer of a helper; `None` if there is none in time.
    pub fn ask(&self, path: &[u8], request: &Request) -> Option<Reply> {
        let superblock = self.superblock_of(path)?;
        let mut askers = self.askers.borrow_mut();
        let asker = askers
            .entry(superblock.device)
            .or_insert_with(|| Asker::new(superblock, HelperLimits::BRIEF));
        asker.ask(request, &|| false).ok()
    }
}

impl FileTree for LiveTree<'_> {
    fn status(&self, path: &[u8]) -> Result<FileStatus, LookupError> {
        if self.is_near(path) {
            return status(path);
        }
        match self.ask(path, &Request::Status(path.to_vec())) {
            Some(Reply::Status(state)) => Ok(FileStatus {
                inode: state.inode,
                mode: state.mode,
                size_bytes: state.size_bytes,
                mtime_ns: state.mtime_ns,
                ctime_s: state.ctime_s,
                is_deleted: state.is_deleted,
            }),
            Some(Reply::Failed(number)) if number == Errno::NOENT.raw_os_error() => {
                Err(LookupError::Absent)
            }
            _ => Err(LookupError::Refused),
        }
    }

    fn link_target(&self, path: &[u8]) -> Option<Vec<u8>> {
        if self.is_near(path) {
            return link_target(path);
        }
        match self.ask(path, &Request::LinkTarget(path.to_vec()))? {
            Reply::Path(target) => target,
            _ => None,
        }
    }

    fn generation(&self, path: &[u8]) -> Option<u32> {
        if self.is_near(path) {
            return handle::generation(path);
        }
        match self.ask(path, &Request::Generation(path.to_vec()))? {
            Reply::Generation(generation) => generation,
            _ => None,
        }
    }

    fn entries(&self, directory: &[u8], max: usize) -> Vec<(u64, Vec<u8>)> {
        if !self.is_near(directory) {
            // No names of its files are dropped by what happens to the root file system.
            return Vec::new();
        }
        entries_of(directory, max)
    }

    fn interpreter(&self, path: &[u8]) -> Option<Vec<u8>> {
        if self.is_near(path) {
            return interpreter_of(path);
        }
        match self.ask(path, &Request::Interpreter(path.to_vec()))? {
            Reply::Path(interpreter) => interpreter,
            _ => None,
        }
    }

    fn now_s(&self) -> i64 {
        clock_gettime(ClockId::Realtime).tv_sec
    }
}

/// The mounts that are local or answer now. Others would hold up whoever touches them.
pub(super) fn answering(mounts: &Mounts) -> Mounts {
    if !is_enabled() || !mounts.has_foreign() {
        return mounts.clone();
    }
    let far = mounts.points().iter();
    let far = far.filter(|point| !point.is_virtual() && !mounts.is_local(&point.mount_point));
    let mut far: Vec<Superblock> = far.map(Superblock::from).collect();
    far.dedup_by_key(|superblock| superblock.device);
    let dead: Vec<Device> = thread::scope(|scope| {
        // All at once: the command waits.
        let asked: Vec<_> = far
            .into_iter()
            .map(|superblock| {
                let request = Request::Status(superblock.mount_point.clone());
                scope.spawn(move || {
                    let mut asker = Asker::new(superblock, HelperLimits::BRIEF);
                    let answer = asker.ask(&request, &|| false);
                    answer.is_err().then_some(asker.superblock().device)
                })
            })
            .collect();
        let dead = asked.into_iter().filter_map(|asked| asked.join().ok());
        dead.flatten().collect()
    });
    mounts.only(|point| !dead.contains(&point.device()))
}

fn status(path: &[u8]) -> Result<FileStatus, LookupError> {
    match lstat(path) {
        Ok(stat) => Ok(status_of(&stat)),
        Err(Errno::NOENT) => Err(LookupError::Absent),
        Err(_) => Err(LookupError::Refused),
    }
}

fn link_target(path: &[u8]) -> Option<Vec<u8>> {
    Some(readlink(path, Vec::new()).ok()?.into_bytes())
}

fn entries_of(directory: &[u8], max: usize) -> Vec<(u64, Vec<u8>)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(CWD, directory, flags, Mode::empty());
    let entries = opened.and_then(Dir::new);
    let entries = entries.into_iter().flatten().flatten();
    entries
        .take(max)
        .map(|entry| (entry.ino(), entry.file_name().to_bytes().to_vec()))
        .collect()
}

fn interpreter_of(path: &[u8]) -> Option<Vec<u8>> {
    let file = File::open(OsStr::from_bytes(path)).ok()?;
    interpreter(|at, buffer| file.read_exact_at(buffer, at).ok())
}

/// Answers what a helper process is asked about single files.
#[must_use]
pub fn answer_helper_request(request: &Request) -> Option<Reply> {
    Some(match request {
        Request::Status(path) => match status(path) {
            Ok(status) => Reply::Status(FileState {
                inode: status.inode,
                mode: status.mode,
                size_bytes: status.size_bytes,
                mtime_ns: status.mtime_ns,
                ctime_s: status.ctime_s,
                is_deleted: status.is_deleted,
            }),
            Err(LookupError::Absent) => Reply::Failed(Errno::NOENT.raw_os_error()),
            Err(LookupError::Refused) => Reply::Failed(Errno::ACCESS.raw_os_error()),
        },
        Request::LinkTarget(path) => Reply::Path(link_target(path)),
        Request::Generation(path) => Reply::Generation(handle::generation(path)),
        Request::Interpreter(path) => Reply::Path(interpreter_of(path)),
        Request::Cached { path, ranges } => cached(path, ranges),
        _ => return None,
    })
}

/// How many pages of each range are cached.
fn cached(path: &[u8], ranges: &[(u64, u64)]) -> Reply {
    let is_file = lstat(path).is_ok_and(|stat| {
        let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        is_regular && !leases::would_break(&stat)
    });
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = match is_file {
        true => leaving_access_time(flags, |flags| openat(CWD, path, flags, Mode::empty())),
        false => Err(Errno::NXIO),
    };
    let file = match opened {
        Ok(file) => file,
        Err(error) => return Reply::Failed(error.raw_os_error()),
    };
    let has_cachestat = has_cachestat();
    let cached = ranges.iter().map(|&(start_page, pages)| {
        let counted = has_cachestat.then(|| cached_pages(&file, start_page, pages).ok());
        counted.flatten().filter(|cached| *cached > 0).or_else(|| {
            let mut missing = Vec::new();
            missing_by_map(&file, start_page, pages, &mut missing).ok()?;
            let missing = missing.iter().map(|(_, pages)| pages).sum();
            Some(pages.saturating_sub(missing))
        })
    });
    // All or nothing: what can't be told is no number.
    match cached.collect() {
        Some(pages) => Reply::Pages(pages),
        None => Reply::Failed(Errno::ACCESS.raw_os_error()),
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
    let tree = LiveTree::new(mounts);
    foreread_recorder::resolve(recording, mounts, program, source, known, &tree)
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
