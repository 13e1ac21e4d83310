// SPDX-License-Identifier: MIT OR Apache-2.0
//! A modelled disk with a tree on it, and what tests ask of it.

use std::cell::Cell;
use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use foreread_linux_prefetcher::{Executor, Options, Report};
use foreread_model::DiskParameters;
use foreread_prefetch::plan::ReadPlan;
use foreread_profile::{PAGE_BYTES, Profile};
use foreread_sys::cache;
use foreread_testbed::workload::files_below;
use foreread_testbed::{FileSystem, Testbed, TestbedConfig};

/// Dropping caches concerns the whole machine: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Longer than any replay here takes, on any machine: what is still not done then is blocked.
const BLOCKED_AFTER: Duration = Duration::from_secs(120);

pub struct Bed {
    pub testbed: Testbed,
    pub root: PathBuf,
    file_system: FileSystem,
    evictions: Cell<Evictions>,
    disturbed: Cell<bool>,
    _alone: MutexGuard<'static, ()>,
}

/// A disk that needs no time, with a file system mounted; `None` and a printed reason where this
/// machine can't have one.
pub fn bed(file_system: FileSystem, mkfs: &[&str]) -> Option<Bed> {
    let lacking = Testbed::available().and_then(|()| file_system.available());
    if let Err(lacking) = lacking {
        println!("skipped: {lacking}");
        return None;
    }
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let instant = DiskParameters::preset("instant").unwrap();
    let testbed = Testbed::start(TestbedConfig::new(instant, 512 << 20)).unwrap();
    testbed.make_file_system(file_system, mkfs).unwrap();
    let root = testbed.mount(file_system, "noatime").unwrap();
    Some(Bed {
        testbed,
        root,
        file_system,
        evictions: Cell::default(),
        disturbed: Cell::new(false),
        _alone: alone,
    })
}

impl Bed {
    /// Forgets all that is cached, even what a file system that was just written to keeps.
    pub fn remount(&self, options: &str) {
        self.testbed.remount(self.file_system, options).unwrap();
    }

    pub fn drop_caches(&self) {
        let before = Evictions::now();
        let disturbed = before != self.evictions.get();
        self.testbed.drop_caches().unwrap();
        let after = Evictions::now();
        self.evictions.set(after);
        // Two passes of ours, each counted twice.
        if disturbed || after.drops != before.drops + 4 {
            self.disturbed.set(true);
        }
    }

    /// Runs a scenario again that failed while another process evicted pages from the page cache of
    /// this machine, which no test can prevent.
    pub fn undisturbed(&self, scenario: impl Fn()) {
        for _ in 0..50 {
            self.evictions.set(Evictions::now());
            self.disturbed.set(false);
            match catch_unwind(AssertUnwindSafe(&scenario)) {
                Ok(()) => return,
                Err(panic) => {
                    // The kernel counts a drop when it is done with it.
                    sleep(Duration::from_secs(2));
                    let evicted = Evictions::now() != self.evictions.get();
                    if !self.disturbed.get() && !evicted && self.reclaimed_pages() == 0 {
                        resume_unwind(panic);
                    }
                }
            }
        }
        panic!("others keep emptying the page cache of this machine");
    }

    /// Pages of the files here that the kernel reclaimed, and that were not read since. DAMON's
    /// reclaim is in no count of vmstat.
    fn reclaimed_pages(&self) -> u64 {
        let files = files_below(&self.root).unwrap();
        let pages = files.iter().map(|path| {
            let file = File::open(path).unwrap();
            let pages = file.metadata().unwrap().len().div_ceil(PAGE_BYTES);
            // Kernels without cachestat(2) don't tell.
            cache::reclaimed_pages(&file, 0, pages).unwrap_or(0)
        });
        pages.sum()
    }

    /// Sets parameters of the disk, as `key=value`.
    pub fn disk(&self, preset: &str, assignments: &[&str]) {
        let mut disk = DiskParameters::preset(preset).unwrap();
        for assignment in assignments {
            disk.set_assignment(assignment).unwrap();
        }
        self.testbed.set_parameters(disk).unwrap();
    }

    /// Bytes read from the device meanwhile.
    pub fn bytes_read(&self, work: impl FnOnce()) -> u64 {
        self.testbed.reset_counters();
        work();
        self.testbed.counters().bytes
    }
}

/// Counts the pages that left the page cache of this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Evictions {
    /// Caches dropped: page cache and slabs count each.
    drops: u64,
    /// File pages reclaimed for want of memory.
    reclaimed: u64,
    /// Reclaimed file pages that were read again.
    refaulted: u64,
}

impl Evictions {
    fn now() -> Self {
        let vmstat = fs::read_to_string("/proc/vmstat").unwrap();
        let number = |name: &str| -> u64 {
            let line = vmstat.lines().find_map(|line| line.strip_prefix(name));
            line.map_or(0, |number| number.trim().parse().unwrap())
        };
        Self {
            drops: number("drop_pagecache ") + number("drop_slab "),
            reclaimed: number("pgsteal_file "),
            refaulted: number("workingset_refault_file "),
        }
    }
}

/// Replays to the end; a replay that blocks fails.
pub fn replay(profile: &Profile, options: &Options) -> Report {
    let replay = Executor::default().start(Arc::new(ReadPlan::from(profile)), options);
    wait_for(|| replay.is_finished(), "the replay to end");
    let (report, _) = replay.join();
    assert_eq!(
        report.planned_pages,
        report.cached_pages
            + report.asked_pages
            + report.over_budget_pages
            + report.skipped_pages
            + report.overtaken_pages,
        "pages that nobody accounts for: {report:?}"
    );
    assert!(report.arrived_pages <= report.asked_pages, "{report:?}");
    assert_eq!(report.stopped_for_memory, 0, "{report:?}");
    report
}

pub fn wait_for(mut done: impl FnMut() -> bool, what: &str) {
    let started = Instant::now();
    while !done() {
        assert!(
            started.elapsed() < BLOCKED_AFTER,
            "waited in vain for {what}"
        );
        sleep(Duration::from_millis(2));
    }
}

/// Ways of reading: by the layout of the device where it is ext4, by looking, and without io_uring.
pub fn ways() -> [(&'static str, Options); 3] {
    let looking = Options {
        no_raw: true,
        ..Options::default()
    };
    let threads = Options {
        no_ring: true,
        ..Options::default()
    };
    [
        ("raw", Options::default()),
        ("looking", looking),
        ("in threads", threads),
    ]
}
