// SPDX-License-Identifier: MIT OR Apache-2.0
//! A disk that needs no time, files on it, and accounts of what this process reads of them.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use foreread_accounting::{By, Change, Counts, Kind};
use foreread_bpf::BpfError;
use foreread_linux_stat::{Accounting, Following, Snapshot, StatError};
use foreread_model::DiskParameters;
use foreread_sys::cache;
use foreread_testbed::{FileSystem, Testbed, TestbedConfig};
use rustix::fs::{Advice, fadvise};
use rustix::mm::{Advice as MapAdvice, MapFlags, ProtFlags, madvise, mmap, munmap};

pub const PAGE_BYTES: u64 = 4096;
/// Number of files, and number of pages of each: a prime, so that no result is right by chance.
pub const FILES: u64 = 23;
pub const PAGES: u64 = 23;

/// Told apart by file and by process.
pub const BY: By = By {
    device: true,
    process: true,
    file: true,
    cgroup: false,
    kind: true,
};

/// Starts accounts; `None`, with a word on why, where the kernel can't have them.
pub fn start(following: Following) -> Option<Accounting> {
    match Accounting::start(following) {
        Ok(accounting) => Some(accounting),
        Err(StatError::Unbalanced) => panic!("counters contradict each other"),
        Err(error) => {
            let is_lack = matches!(
                error,
                StatError::Bpf(
                    BpfError::NoRights
                        | BpfError::LockedDown(_)
                        | BpfError::Filtered
                        | BpfError::NoTypes(_)
                )
            );
            assert!(is_lack, "{error}");
            println!("skipped: {error}");
            None
        }
    }
}

/// Room for 2 GiB read in large pieces, or 8,192 small files. A snapshot walks through all places
/// of the table, taken or not: of the usual 262,144 that takes 5 ms.
const CHUNKS_MAX: u32 = 8_192;

/// The same, told apart by file and by process.
pub fn start_by_file() -> Option<Accounting> {
    start(Following {
        by: BY,
        chunks_max: CHUNKS_MAX,
        ..Following::default()
    })
}

/// A directory on a disk of its own, and the accounts of this process's reads there.
pub struct Bed {
    pub directory: PathBuf,
    pub testbed: Testbed,
}

/// Runs something on a file system of a disk that needs no time.
pub fn on_bed(file_system: FileSystem, run: impl FnOnce(&Bed)) {
    on_disk("nvme", file_system, |bed| {
        bed.testbed.instantly(|| run(bed))
    });
}

/// One at a time: files on disks that were made alike have the same inode numbers, and are read by
/// the same process.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs something on a file system of a modelled disk.
pub fn on_disk(disk: &str, file_system: FileSystem, run: impl FnOnce(&Bed)) {
    if let Err(lacking) = Testbed::available().and_then(|()| file_system.available()) {
        println!("skipped: {lacking}");
        return;
    }
    // A test that failed has said so.
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let parameters = DiskParameters::preset(disk).expect("a preset");
    let testbed = Testbed::start(TestbedConfig::new(parameters, 512 << 20)).expect("a disk");
    testbed.make_file_system(file_system, &[]).expect("mkfs");
    let directory = testbed.mount(file_system, "noatime").expect("a mount");
    testbed.set_read_ahead_kib(128).expect("a setting");
    let bed = Bed { directory, testbed };
    run(&bed);
    bed.testbed.unmount().expect("an unmount");
}

impl Bed {
    /// 23 files of 23 pages, none of which is cached.
    pub fn files(&self) -> Vec<Watched> {
        (0..FILES).map(|number| self.file(number, PAGES)).collect()
    }

    /// A file of `pages` pages, none of which is cached.
    pub fn file(&self, number: u64, pages: u64) -> Watched {
        let path = self.directory.join(format!("file-{number}"));
        let text: Vec<u8> = (0..pages * PAGE_BYTES).map(|at| (at % 251) as u8).collect();
        fs::write(&path, text).expect("a file");
        File::open(&path)
            .and_then(|file| file.sync_all())
            .expect("a sync");
        let watched = Watched::open(&path);
        watched.make_cold(pages);
        watched
    }
}

/// An open file, and its number.
pub struct Watched {
    pub path: PathBuf,
    pub file: File,
    pub inode: u64,
}

impl Watched {
    pub fn open(path: &Path) -> Self {
        let file = File::open(path).expect("a file");
        let inode = file.metadata().expect("metadata").ino();
        let path = path.to_owned();
        Self { path, file, inode }
    }

    /// Drops its pages until they are gone: a folio that somebody holds just then stays.
    fn make_cold(&self, pages: u64) {
        let started = Instant::now();
        self.forget();
        while cached_pages(&self.file, pages) > 0 {
            let waited = started.elapsed();
            assert!(waited < IN_FLIGHT_MAX, "its pages stay for {waited:?}");
            thread::yield_now();
            self.forget();
        }
    }

    /// Drops all its pages.
    pub fn forget(&self) {
        fadvise(&self.file, 0, None, Advice::DontNeed).expect("advice");
    }
}

/// Counts of a file's pages, by the kind that brought them in: this process only.
pub fn of_file(snapshot: &Snapshot, inode: u64) -> Vec<(Kind, Counts)> {
    let mut found = Vec::new();
    for (subject, counts) in &snapshot.accounts {
        let is_ours = subject.process.is_none_or(|p| p.id == std::process::id());
        let is_it = subject.file.is_some_and(|file| file.inode == inode);
        if is_ours && is_it {
            found.push((subject.kind.unwrap_or_default(), *counts));
        }
    }
    found.sort_by_key(|(kind, _)| *kind);
    found
}

/// All of it together.
pub fn sum(of: &[(Kind, Counts)]) -> Change {
    let sum: Counts = of.iter().map(|(_, counts)| *counts).sum();
    let change = sum.since(&Counts::default());
    assert!(change.balances(), "{change:?}");
    change
}

/// Time limit for a page in flight, or for one that has to go. The slowest modelled disk needs
/// milliseconds, on an emulated processor a tenth of a second.
const IN_FLIGHT_MAX: Duration = Duration::from_secs(20);

/// Waits until no page of the file is in flight.
pub fn settled(accounting: &mut Accounting, inode: u64) -> Snapshot {
    let started = Instant::now();
    loop {
        let snapshot = accounting.snapshot().expect("a snapshot");
        let of = of_file(&snapshot, inode);
        if sum(&of).in_flight == 0 {
            return snapshot;
        }
        let waited = started.elapsed();
        assert!(waited < IN_FLIGHT_MAX, "in flight for {waited:?}: {of:?}");
        thread::yield_now();
    }
}

/// Pages: fetched, used on time, used late, wasted, resident and unused.
pub fn five(change: &Change) -> [u64; 5] {
    assert_eq!(change.in_flight, 0);
    [
        change.fetched,
        change.used_on_time,
        change.used_late,
        change.wasted,
        change.resident_unused.unsigned_abs(),
    ]
}

/// A mapping of a file, to be touched.
pub struct Mapped {
    address: *mut u8,
    bytes: usize,
}

impl Mapped {
    pub fn new(file: &File, pages: u64, advice: Advice) -> Self {
        let bytes = (pages * PAGE_BYTES) as usize;
        let null = std::ptr::null_mut();
        // SAFETY: a new mapping; no other code has its memory.
        let address =
            unsafe { mmap(null, bytes, ProtFlags::READ, MapFlags::SHARED, file, 0) }.expect("mmap");
        let advice = match advice {
            Advice::Random => MapAdvice::Random,
            _ => MapAdvice::Normal,
        };
        // SAFETY: the mapping is there, and this advice changes nothing of what is read.
        unsafe { madvise(address, bytes, advice) }.expect("advice");
        let address = address.cast();
        Self { address, bytes }
    }

    pub fn touch(&self, page: u64) {
        let at = (page * PAGE_BYTES) as usize;
        assert!(at < self.bytes);
        // SAFETY: the page is mapped for reading, and within the file, which is not truncated.
        unsafe { self.address.add(at).read_volatile() };
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's alone, and ends with it.
        let _ = unsafe { munmap(self.address.cast(), self.bytes) };
    }
}

/// Number of cached pages among the first `pages` of a file, on each kernel.
pub fn cached_pages(file: &File, pages: u64) -> u64 {
    cached_pages_from(file, 0, pages)
}

/// Whether a page of a file is cached.
pub fn is_cached(file: &File, page: u64) -> bool {
    cached_pages_from(file, page, 1) == 1
}

fn cached_pages_from(file: &File, first: u64, pages: u64) -> u64 {
    if let Ok(cached) = cache::cached_pages(file, first, pages) {
        return cached;
    }
    let mut missing = Vec::new();
    cache::missing_by_map(file, first, pages, &mut missing).expect("a map");
    pages - missing.iter().map(|(_, length)| length).sum::<u64>()
}
