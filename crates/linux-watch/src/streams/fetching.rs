// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fetches the windows that the policy asks for, with a few threads.
//!
//! `readahead(2)` queues reads and returns, so a thread is done with a piece long before the
//! device. The call silently stops at a limit, so each piece is at most that large. [`FetchQueue`]
//! decides the order and the time. A file is open only while a piece is queued, so that nothing
//! keeps its file system busy.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use foreread_profile::PAGE_BYTES;
use foreread_sys::cache::cached_pages;
use foreread_sys::leases;
use foreread_sys::paths::leaving_access_time;
use foreread_sys::read_ahead::readahead;
use foreread_watch::fetch_queue::{FetchQueue, Next, Piece};
use foreread_watch::stream::{Ask, FetchedRange, calls};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;

use super::load::Load;

/// Number of threads that fetch. They queue reads, which takes processor time, and wait for extents
/// and for room in the queue of the device.
const THREADS: usize = 4;

/// A file by a path at which it can be opened.
#[derive(Debug)]
pub(super) struct Reached {
    /// Its path in our mount namespace.
    pub path: Vec<u8>,
    /// Its inode number.
    pub inode: u64,
    /// Maximum that one call reads of it.
    pub call_pages_max: u64,
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

/// The threads that fetch. They end when this is dropped.
pub(super) struct Fetchers {
    waiting: Arc<Waiting>,
    threads: Vec<JoinHandle<()>>,
}

impl Fetchers {
    /// Starts the threads. They send their results to `fetched`.
    pub fn start(load: &Arc<Load>, fetched: &Sender<Fetched>) -> Self {
        let waiting = Arc::new(Waiting::default());
        let threads = (0..THREADS).filter_map(|_| {
            let waiting = Arc::clone(&waiting);
            let (load, fetched) = (Arc::clone(load), fetched.clone());
            let thread = thread::Builder::new().name("fetch".into());
            // With fewer threads fetching is slower.
            let run = move || run(&waiting, &load, &fetched);
            thread.spawn(run).ok()
        });
        let threads = threads.collect();
        Self { waiting, threads }
    }

    /// Queues a window.
    pub fn fetch(&self, reached: Arc<Reached>, ask: Ask) {
        lock(&self.waiting.jobs).queue.push(reached, ask);
        self.waiting.changed.notify_one();
    }

    /// Windows that were dropped before a thread fetched them.
    pub fn forgotten(&self) -> u64 {
        lock(&self.waiting.jobs).queue.forgotten()
    }
}

impl Drop for Fetchers {
    fn drop(&mut self) {
        lock(&self.waiting.jobs).is_closed = true;
        self.waiting.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has printed its panic.
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(waiting: &Waiting, load: &Load, fetched: &Sender<Fetched>) {
    while let Some(Piece { mut window, ranges }) = next(waiting, load) {
        let read = fetch(&window.reached, &ranges, window.is_down());
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
fn fetch(reached: &Reached, ranges: &[(u64, u64)], is_down: bool) -> io::Result<Vec<FetchedRange>> {
    let file = open(reached)?;
    let mut fetched = Vec::with_capacity(ranges.len());
    for &(start_page, pages) in ranges {
        let cached = cached_pages(&file, start_page, pages).unwrap_or(0);
        fetched.push(FetchedRange {
            start_page,
            pages,
            read_pages: pages - cached.min(pages),
        });
        if cached < pages {
            let range = (start_page, pages);
            read(&file, calls(range, reached.call_pages_max, is_down));
        }
    }
    Ok(fetched)
}

fn read(file: &OwnedFd, calls: impl Iterator<Item = (u64, u64)>) {
    for (start_page, pages) in calls {
        let offset_bytes = start_page.saturating_mul(PAGE_BYTES);
        // The program that reads the page gets the error.
        if readahead(file, offset_bytes, pages.saturating_mul(PAGE_BYTES)).is_err() {
            return;
        }
    }
}

fn open(reached: &Reached) -> io::Result<OwnedFd> {
    let path = Path::new(OsStr::from_bytes(&reached.path));
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let open = |flags| openat2(rustix::fs::CWD, path, flags, Mode::empty(), resolve);
    // Checked first: opening anything but a regular file may have side effects.
    let stat = fstat(open(OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW)?)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile
        || stat.st_ino != reached.inode
    {
        return Err(Errno::STALE.into());
    }
    if leases::would_break(&stat) {
        return Err(Errno::AGAIN.into());
    }
    let file = leaving_access_time(flags, open)?;
    match fstat(&file)?.st_ino == reached.inode {
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
        let fetchers = Fetchers::start(&Arc::new(Load::default()), &sender);
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
        let fetch = |at: &Path, inode| fetch(&reached(at, inode), &[(0, 1)], false);
        assert!(fetch(&at, inode).is_ok());
        assert!(fetch(&at, inode + 1).is_err());
        assert!(fetch(&at.with_file_name("gone"), inode).is_err());
        let link = at.with_file_name("link");
        std::os::unix::fs::symlink(&at, &link).unwrap();
        assert!(fetch(&link, inode).is_err());
    }
}
