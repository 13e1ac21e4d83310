// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fetches the windows that the policy asks for, with a few threads.
//!
//! File systems that may never answer have threads of their own, each with a helper process. A
//! thread that hangs on a local device is replaced by another one.
//!
//! `readahead(2)` queues reads and returns, so a thread is done with a piece long before the
//! device. The call silently stops at a limit, so each piece is at most that large. [`FetchQueue`]
//! decides the order and the time. A file is open only while a piece is queued, so that nothing
//! keeps its file system busy.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use foreread_core::Device;
use foreread_linux_helper::{Asker, Superblock, local_failed};
use foreread_prefetch::helper::{AheadRange, HelperLimits, Reply, Request};
use foreread_profile::PAGE_BYTES;
use foreread_sys::cache::cached_pages;
use foreread_sys::mounts::mounts_of_self;
use foreread_sys::paths::leaving_access_time;
use foreread_sys::read_ahead::readahead;
use foreread_watch::fetch_queue::{FetchQueue, Next, Piece};
use foreread_watch::stream::{Ask, FetchedRange, calls};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;

use super::super::beat::{self, Beat};
use super::load::Load;

/// Number of threads that fetch. They queue reads, which takes processor time, and wait for extents
/// and for room in the queue of the device.
const THREADS: usize = 4;

/// Threads that may hang on local devices and are replaced. Each of them is in memory for ever.
const REPLACED_MAX: usize = 16;
/// File systems with threads of their own.
const FAR_MAX: usize = 16;

/// A file by a path at which it can be opened.
#[derive(Debug)]
pub(super) struct Reached {
    /// Its path in our mount namespace.
    pub path: Vec<u8>,
    /// Its inode number.
    pub inode: u64,
    /// Maximum that one call reads of it.
    pub call_pages_max: u64,
    /// Its file system, if that must be asked by a helper process.
    pub far: Option<Superblock>,
}

impl Reached {
    /// Its file system, as it is mounted now.
    fn superblock(&self) -> Option<Superblock> {
        let mounts = mounts_of_self().ok()?;
        let point = mounts.points().get(mounts.mount_of(&self.path)?)?;
        Some(Superblock::from(point))
    }
}

/// The result of windows of one file that were fetched together.
#[derive(Clone, Debug)]
pub(super) struct Fetched {
    pub asks: Vec<Ask>,
    /// Ranges that were fetched.
    pub ranges: Vec<FetchedRange>,
}

impl Fetched {
    /// Pages that were not cached.
    pub fn read_pages(&self) -> u64 {
        self.ranges.iter().map(|range| range.read_pages).sum()
    }
}

#[derive(Default)]
struct Waiting {
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

#[derive(Default)]
struct Jobs {
    queue: FetchQueue<Arc<Reached>>,
    /// Whether a thread waits for room on a disk; one such thread is enough.
    is_timed: bool,
    is_closed: bool,
}

/// Threads with one queue, for all local file systems or for one that may never answer.
struct Group {
    waiting: Arc<Waiting>,
    threads: Vec<(JoinHandle<()>, Arc<Busy>)>,
    far: Option<Superblock>,
    /// Threads that were replaced.
    replaced: usize,
}

/// The file that a thread asks for now.
#[derive(Default)]
struct Busy {
    beat: Beat,
    file: Mutex<Option<Arc<Reached>>>,
}

impl Group {
    fn start(far: Option<Superblock>, load: &Arc<Load>, fetched: &Sender<Fetched>) -> Self {
        let mut group = Self {
            waiting: Arc::default(),
            threads: Vec::new(),
            far,
            replaced: 0,
        };
        for _ in 0..THREADS {
            group.add(load, fetched);
        }
        group
    }

    fn add(&mut self, load: &Arc<Load>, fetched: &Sender<Fetched>) {
        let busy = Arc::new(Busy::default());
        let mut fetcher = Fetcher {
            waiting: Arc::clone(&self.waiting),
            asker: (self.far.clone()).map(|far| Asker::new(far, HelperLimits::FOREIGN)),
            busy: Arc::clone(&busy),
        };
        let (load, fetched) = (Arc::clone(load), fetched.clone());
        let thread = thread::Builder::new().name("fetch".into());
        // With fewer threads fetching is slower.
        if let Ok(thread) = thread.spawn(move || fetcher.run(&load, &fetched)) {
            self.threads.push((thread, busy));
        }
    }

    /// Replaces threads that hang, and has helpers ask their file systems from now on.
    fn replace_hanging(&mut self, load: &Arc<Load>, fetched: &Sender<Fetched>) {
        let hanging = self
            .threads
            .extract_if(.., |(_, busy)| busy.beat.hangs_for(HelperLimits::LOCAL));
        let hanging: Vec<_> = hanging.collect();
        for (_, busy) in hanging {
            let file = lock(&busy.file).take();
            if let Some(superblock) = file.and_then(|file| file.superblock()) {
                local_failed(&superblock);
            }
            self.replaced += 1;
            if self.replaced <= REPLACED_MAX {
                self.add(load, fetched);
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        lock(&self.waiting.jobs).is_closed = true;
        self.waiting.changed.notify_all();
        let threads = std::mem::take(&mut self.threads);
        beat::join(threads.into_iter().map(|(thread, _)| thread));
    }
}

/// The threads that fetch. They end when this is dropped.
pub(super) struct Fetchers {
    near: Group,
    far: HashMap<Device, Group>,
    load: Arc<Load>,
    fetched: Sender<Fetched>,
}

impl Fetchers {
    /// Starts the threads. They send their results to `fetched`.
    pub fn start(load: &Arc<Load>, fetched: &Sender<Fetched>) -> Self {
        Self {
            near: Group::start(None, load, fetched),
            far: HashMap::new(),
            load: Arc::clone(load),
            fetched: fetched.clone(),
        }
    }

    /// Queues a window.
    pub fn fetch(&mut self, reached: Arc<Reached>, ask: Ask) {
        self.near.replace_hanging(&self.load, &self.fetched);
        let group = match &reached.far {
            None => &self.near,
            Some(superblock) => {
                if self.far.len() >= FAR_MAX && !self.far.contains_key(&superblock.device) {
                    self.far.clear();
                }
                self.far.entry(superblock.device).or_insert_with(|| {
                    Group::start(Some(superblock.clone()), &self.load, &self.fetched)
                })
            }
        };
        lock(&group.waiting.jobs).queue.push(reached, ask);
        group.waiting.changed.notify_one();
    }

    /// Windows that were dropped before a thread fetched them.
    pub fn forgotten(&self) -> u64 {
        let groups = self.far.values().chain([&self.near]);
        groups
            .map(|group| lock(&group.waiting.jobs).queue.forgotten())
            .sum()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What one thread has.
struct Fetcher {
    waiting: Arc<Waiting>,
    /// Asks a file system that may never answer.
    asker: Option<Asker>,
    busy: Arc<Busy>,
}

impl Fetcher {
    fn run(&mut self, load: &Load, fetched: &Sender<Fetched>) {
        let waiting = Arc::clone(&self.waiting);
        while let Some(Piece { mut window, ranges }) = next(&waiting, load) {
            let read = self.fetch(&window.reached, &ranges, window.is_down());
            let mut jobs = lock(&waiting.jobs);
            let done = match read {
                Ok(fetched) => {
                    window.fetched.extend(fetched);
                    jobs.queue.back(window)
                }
                // A file that can't be opened is gone, or not accessible.
                Err(_) => {
                    jobs.queue.give_up(&window);
                    None
                }
            };
            drop(jobs);
            waiting.changed.notify_one();
            let done = done.map(|window| Fetched {
                asks: window.asks,
                ranges: window.fetched,
            });
            if done.is_some_and(|done| fetched.send(done).is_err()) {
                return;
            }
        }
    }

    /// Reads the pages of these ranges that are not cached.
    fn fetch(
        &mut self,
        reached: &Arc<Reached>,
        ranges: &[(u64, u64)],
        is_down: bool,
    ) -> io::Result<Vec<FetchedRange>> {
        let calls = |range| calls(range, reached.call_pages_max, is_down).collect();
        let ranges = ranges.iter().map(|&(start_page, pages)| AheadRange {
            start_page,
            pages,
            calls: calls((start_page, pages)),
        });
        let ranges: Vec<AheadRange> = ranges.collect();
        let Some(asker) = &mut self.asker else {
            *lock(&self.busy.file) = Some(Arc::clone(reached));
            return self
                .busy
                .beat
                .during(|| fetch(&reached.path, reached.inode, &ranges));
        };
        let request = Request::ReadAhead {
            path: reached.path.clone(),
            inode: reached.inode,
            ranges: ranges.clone(),
        };
        let is_closed = || lock(&self.waiting.jobs).is_closed;
        match asker.ask(&request, &is_closed) {
            Ok(Reply::Pages(read_pages)) => {
                let read = ranges.iter().zip(read_pages);
                let fetched = read.map(|(range, read_pages)| FetchedRange {
                    start_page: range.start_page,
                    pages: range.pages,
                    read_pages: read_pages.min(range.pages),
                });
                Ok(fetched.collect())
            }
            Ok(Reply::Failed(number)) => Err(io::Error::from_raw_os_error(number)),
            Ok(_) | Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// Has pages of a file read, in a helper process.
pub(in super::super) fn answer(path: &[u8], inode: u64, ranges: &[AheadRange]) -> Reply {
    match fetch(path, inode, ranges) {
        Ok(fetched) => Reply::Pages(fetched.iter().map(|range| range.read_pages).collect()),
        Err(error) => Reply::Failed(error.raw_os_error().unwrap_or(libc::EIO)),
    }
}

/// The next piece, and its window.
fn next(waiting: &Waiting, load: &Load) -> Option<Piece<Arc<Reached>>> {
    let mut jobs = lock(&waiting.jobs);
    loop {
        if jobs.is_closed {
            return None;
        }
        let limit = match jobs.queue.next(Instant::now(), |disk| load.of_disk(disk)) {
            Next::Piece(piece) => {
                drop(jobs);
                // Another thread checks whether there is more to do.
                waiting.changed.notify_one();
                return Some(piece);
            }
            Next::Wait(limit) if !jobs.is_timed => limit,
            Next::Wait(_) | Next::Nothing => {
                jobs = waiting
                    .changed
                    .wait(jobs)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            }
        };
        jobs.is_timed = true;
        (jobs, _) = waiting
            .changed
            .wait_timeout(jobs, limit)
            .unwrap_or_else(PoisonError::into_inner);
        jobs.is_timed = false;
    }
}

/// Reads the pages of these ranges that are not cached. The file is open only during the call.
fn fetch(path: &[u8], inode: u64, ranges: &[AheadRange]) -> io::Result<Vec<FetchedRange>> {
    let file = open(path, inode)?;
    let mut fetched = Vec::with_capacity(ranges.len());
    for range in ranges {
        let cached = cached_pages(&file, range.start_page, range.pages).unwrap_or(0);
        fetched.push(FetchedRange {
            start_page: range.start_page,
            pages: range.pages,
            read_pages: range.pages - cached.min(range.pages),
        });
        if cached < range.pages {
            read(&file, &range.calls);
        }
    }
    Ok(fetched)
}

fn read(file: &OwnedFd, calls: &[(u64, u64)]) {
    for &(start_page, pages) in calls {
        let offset_bytes = start_page.saturating_mul(PAGE_BYTES);
        // The program that reads the page gets the error.
        if readahead(file, offset_bytes, pages.saturating_mul(PAGE_BYTES)).is_err() {
            return;
        }
    }
}

/// No lease needs to be looked for: the reader has the file open, so only itself could have taken a
/// write lease, and the kernel's part says so (`bpf/lease.h`).
fn open(path: &[u8], inode: u64) -> io::Result<OwnedFd> {
    let path = Path::new(OsStr::from_bytes(path));
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let open = |flags| openat2(rustix::fs::CWD, path, flags, Mode::empty(), resolve);
    // Checked first: opening anything but a regular file may have side effects.
    let stat = fstat(open(OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW)?)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_ino != inode {
        return Err(Errno::STALE.into());
    }
    let file = leaving_access_time(flags, open)?;
    match fstat(&file)?.st_ino == inode {
        true => Ok(file),
        false => Err(Errno::STALE.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::sync::mpsc::channel;

    use super::*;

    fn reached(path: &Path, inode: u64) -> Arc<Reached> {
        Arc::new(Reached {
            path: path.as_os_str().as_bytes().to_vec(),
            inode,
            call_pages_max: 4,
            far: None,
        })
    }

    #[test]
    fn what_was_just_written_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().canonicalize().unwrap().join("file");
        fs::write(&at, vec![1; 10 * 4096]).unwrap();
        let inode = at.metadata().unwrap().ino();
        let ask = Ask {
            pages: 10,
            ..Ask::default()
        };
        let (sender, fetched) = channel();
        let mut fetchers = Fetchers::start(&Arc::new(Load::default()), &sender);
        fetchers.fetch(reached(&at, inode), ask);
        let done = fetched.recv().unwrap();
        assert_eq!((done.asks[0].all_pages(), done.read_pages()), (10, 0));
    }

    #[test]
    fn what_stands_there_instead_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().canonicalize().unwrap().join("file");
        fs::write(&at, "x").unwrap();
        let inode = at.metadata().unwrap().ino();
        let range = AheadRange {
            start_page: 0,
            pages: 1,
            calls: vec![(0, 1)],
        };
        let fetch = |at: &Path, inode| {
            let range = std::slice::from_ref(&range);
            fetch(at.as_os_str().as_bytes(), inode, range)
        };
        assert!(fetch(&at, inode).is_ok());
        assert!(fetch(&at, inode + 1).is_err());
        assert!(fetch(&at.with_file_name("gone"), inode).is_err());
        let link = at.with_file_name("link");
        std::os::unix::fs::symlink(&at, &link).unwrap();
        assert!(fetch(&link, inode).is_err());
    }
}
