// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the policy asks for, brought in by a few threads.
//!
//! `readahead(2)` queues reads and returns, so that a thread is through with a window long before
//! the device is. It stops silently at what it reads in one call at most, so that is what it is
//! given. A file is open for no longer than that: nothing keeps its file system busy.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use foreread_profile::PAGE_BYTES;
use foreread_watch::Device;
use foreread_watch::stream::{Ask, calls, merged};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;

use crate::cache::cached_pages;
use crate::paths::leaving_access_time;
use crate::read_ahead::readahead;

/// Threads that fetch. They queue reads, which takes a processor, and wait for extents and for room
/// in the queue of the device.
const THREADS: usize = 4;
/// Windows that wait for a thread; of more the oldest are forgotten, whose readers have passed by.
const WAITING_MAX: usize = 1024;
/// Windows of one file that are fetched together.
const TOGETHER_MAX: usize = 64;
/// A disk to which a request costs as much as so many pages moves a head: 230 to 350 were measured
/// of disks that do, 33 to 190 of others. What is asked of it is queued one window after the other:
/// two that were queued by turns took twice as long.
const SEEKS_PAGES_MIN: u32 = 200;

/// Where a file can be reached.
#[derive(Debug)]
pub(super) struct Reached {
    /// Its path, as ours.
    pub path: Vec<u8>,
    /// Its inode number.
    pub inode: u64,
    /// The most that one call reads of it.
    pub call_pages_max: u64,
}

/// Pages to fetch.
#[derive(Debug)]
pub(super) struct Job {
    pub reached: Arc<Reached>,
    pub ask: Ask,
}

/// What became of some of one file, that were fetched together.
#[derive(Clone, Debug)]
pub(super) struct Fetched {
    pub asks: Vec<Ask>,
    /// Pages that were not cached.
    pub read_pages: u64,
}

#[derive(Default)]
struct Waiting {
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

#[derive(Default)]
struct Jobs {
    queue: VecDeque<Job>,
    /// File systems of which a window is being queued that is to be queued alone.
    busy: Vec<Device>,
    is_closed: bool,
    forgotten: u64,
}

/// The threads. They end when this is dropped.
pub(super) struct Fetchers {
    waiting: Arc<Waiting>,
    threads: Vec<JoinHandle<()>>,
}

impl Fetchers {
    /// Each says what it has fetched by `fetched`.
    pub fn start(fetched: &Sender<Fetched>) -> Self {
        let waiting = Arc::new(Waiting::default());
        let threads = (0..THREADS).filter_map(|_| {
            let (waiting, fetched) = (Arc::clone(&waiting), fetched.clone());
            let thread = thread::Builder::new().name("fetch".into());
            // With fewer it is slower.
            thread.spawn(move || run(&waiting, &fetched)).ok()
        });
        let threads = threads.collect();
        Self { waiting, threads }
    }

    /// To be fetched when its turn comes.
    pub fn fetch(&self, job: Job) {
        let mut jobs = lock(&self.waiting.jobs);
        if jobs.queue.len() >= WAITING_MAX {
            jobs.queue.pop_front();
            jobs.forgotten += 1;
        }
        jobs.queue.push_back(job);
        drop(jobs);
        self.waiting.changed.notify_one();
    }

    /// Windows that nobody came to fetch.
    pub fn forgotten(&self) -> u64 {
        lock(&self.waiting.jobs).forgotten
    }
}

impl Drop for Fetchers {
    fn drop(&mut self) {
        lock(&self.waiting.jobs).is_closed = true;
        self.waiting.changed.notify_all();
        for thread in self.threads.drain(..) {
            // What it panicked of it has said itself.
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(waiting: &Waiting, fetched: &Sender<Fetched>) {
    while let Some((reached, asks)) = next(waiting) {
        let alone = asks.first().and_then(alone);
        let done = fetch(&reached, asks);
        if let Some(device) = alone {
            lock(&waiting.jobs).busy.retain(|busy| *busy != device);
            waiting.changed.notify_all();
        }
        // What can't be opened is gone, or none of our business.
        if let Ok(done) = done
            && fetched.send(done).is_err()
        {
            return;
        }
    }
}

/// What is next, and what else of its file waits.
fn next(waiting: &Waiting) -> Option<(Arc<Reached>, Vec<Ask>)> {
    let mut jobs = lock(&waiting.jobs);
    loop {
        if jobs.is_closed {
            return None;
        }
        if let Some(next) = jobs.take() {
            return Some(next);
        }
        jobs = waiting
            .changed
            .wait(jobs)
            .unwrap_or_else(PoisonError::into_inner);
    }
}

impl Jobs {
    fn take(&mut self) -> Option<(Arc<Reached>, Vec<Ask>)> {
        let busy = &self.busy;
        let is_free = |job: &Job| alone(&job.ask).is_none_or(|device| !busy.contains(&device));
        let at = self.queue.iter().position(is_free)?;
        let first = self.queue.remove(at)?;
        self.busy.extend(alone(&first.ask));
        let mut asks = vec![first.ask];
        self.queue.retain(|job| {
            let is_other = job.ask.file != first.ask.file || asks.len() == TOGETHER_MAX;
            if !is_other {
                asks.push(job.ask);
            }
            is_other
        });
        Some((first.reached, asks))
    }
}

/// The file system whose disk is asked for one window at a time.
fn alone(ask: &Ask) -> Option<Device> {
    (ask.even_pages >= SEEKS_PAGES_MIN).then_some(ask.file.device)
}

fn fetch(reached: &Reached, asks: Vec<Ask>) -> io::Result<Fetched> {
    let file = open(reached)?;
    let mut read_pages = 0;
    let mut ranges = merged(&asks);
    let is_down = asks.iter().all(|ask| ask.is_down);
    if is_down {
        ranges.reverse();
    }
    for range in ranges {
        let (start_page, pages) = range;
        let cached = cached_pages(&file, start_page, pages).unwrap_or(0);
        read_pages += pages - cached.min(pages);
        if cached < pages {
            read(&file, calls(range, reached.call_pages_max, is_down));
        }
    }
    Ok(Fetched { asks, read_pages })
}

fn read(file: &OwnedFd, calls: impl Iterator<Item = (u64, u64)>) {
    for (start_page, pages) in calls {
        let offset_bytes = start_page.saturating_mul(PAGE_BYTES);
        // Whoever reads the page is told what is wrong with it.
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
    // Looked at first: opening something else may act.
    let stat = fstat(open(OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW)?)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile
        || stat.st_ino != reached.inode
    {
        return Err(Errno::STALE.into());
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

    use foreread_watch::stream::FileKey;

    use super::*;

    fn job(path: &Path, inode: u64, pages: u64) -> Job {
        Job {
            reached: Arc::new(Reached {
                path: path.as_os_str().as_bytes().to_vec(),
                inode,
                call_pages_max: 4,
            }),
            ask: Ask {
                process: 1,
                thread: 1,
                file: FileKey {
                    inode,
                    device: Device::default(),
                    generation: 0,
                },
                even_pages: 32,
                start_page: 0,
                pages,
                step_pages: 0,
                repeats: 0,
                is_down: false,
            },
        }
    }

    #[test]
    fn what_was_just_written_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().canonicalize().unwrap().join("file");
        fs::write(&at, vec![1; 10 * 4096]).unwrap();
        let inode = at.metadata().unwrap().ino();
        let (sender, fetched) = channel();
        let fetchers = Fetchers::start(&sender);
        fetchers.fetch(job(&at, inode, 10));
        let done = fetched.recv().unwrap();
        assert_eq!((done.asks[0].all_pages(), done.read_pages), (10, 0));
    }

    #[test]
    fn what_stands_there_instead_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().canonicalize().unwrap().join("file");
        fs::write(&at, "x").unwrap();
        let inode = at.metadata().unwrap().ino();
        let fetch = |at: &Path, inode| {
            let job = job(at, inode, 1);
            fetch(&job.reached, vec![job.ask])
        };
        assert!(fetch(&at, inode).is_ok());
        assert!(fetch(&at, inode + 1).is_err());
        assert!(fetch(&at.with_file_name("gone"), inode).is_err());
        let link = at.with_file_name("link");
        std::os::unix::fs::symlink(&at, &link).unwrap();
        assert!(fetch(&link, inode).is_err());
    }
}
