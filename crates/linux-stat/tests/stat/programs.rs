// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the accounts of random programs with a reference count. The reference counts pages as
//! fetched, used and dropped by residency and page tables after each step, without BPF.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use foreread_accounting::{Counts, Ledger};
use foreread_linux_check::{By as Sight, Files, Kernel};
use foreread_linux_stat::Accounting;
use foreread_sim::check::{DESCRIPTORS, FILE_BYTES, Machine, Program, Run, Seen, Step, generate};
use foreread_testbed::FileSystem;

use crate::bed::{
    Bed, PAGE_BYTES, Watched, cached_pages, of_file, on_bed, on_disk, settled, start_by_file,
};

/// On each of three file systems: 1,000 and some more. `FOREREAD_STAT_PROGRAMS` asks for another
/// number, where a processor is emulated.
fn programs() -> u64 {
    let asked = std::env::var("FOREREAD_STAT_PROGRAMS").ok();
    asked.map_or(340, |text| text.parse().expect("a number of programs"))
}

/// The state of one program's file, from residency and the page table.
struct Reference {
    ledger: Ledger<u64>,
    cached: BTreeSet<u64>,
    mapped: BTreeSet<u64>,
    /// Position of each descriptor, in bytes.
    positions: [Option<u64>; DESCRIPTORS],
    file_bytes: u64,
}

/// Whether a step used pages that weren't there before it.
struct Missed {
    /// Whether the first page that it used was missing: it was waited for.
    first: bool,
    /// Whether any page was missing. Those behind the first may have been read ahead in time.
    any: bool,
}

fn pages(runs: &[Run]) -> BTreeSet<u64> {
    runs.iter()
        .flat_map(|(first, pages)| *first..first + pages)
        .collect()
}

impl Reference {
    fn new(program: &Program) -> Self {
        Self {
            ledger: Ledger::default(),
            cached: BTreeSet::new(),
            mapped: BTreeSet::new(),
            positions: [None; DESCRIPTORS],
            file_bytes: program.file_bytes(),
        }
    }

    /// Bytes that a read is for; moves the descriptor where that is how it reads.
    fn read(&mut self, step: &Step) -> Option<(u64, u64)> {
        match *step {
            Step::Open { descriptor } => {
                self.positions[descriptor] = Some(0);
                None
            }
            Step::Seek {
                descriptor,
                offset_bytes,
            } => {
                let position = self.positions[descriptor].as_mut()?;
                *position = offset_bytes;
                None
            }
            Step::Read {
                descriptor,
                offset_bytes,
                bytes,
            } => self.positions[descriptor].map(|_| (offset_bytes, bytes)),
            Step::ReadOn { descriptor, bytes } => {
                let position = self.positions[descriptor].as_mut()?;
                let from = *position;
                *position = (from + bytes).min(self.file_bytes).max(from);
                Some((from, bytes))
            }
            _ => None,
        }
    }

    /// Takes a step.
    fn step(&mut self, step: &Step, seen: &Seen) -> Missed {
        let (cached, mapped) = (pages(&seen.cached), pages(&seen.mapped));
        let read = self.read(step);
        let mut come_to: BTreeSet<u64> = mapped.difference(&self.mapped).copied().collect();
        if let Some((from, bytes)) = read {
            let end = (from + bytes).min(self.file_bytes);
            if from < end {
                come_to.extend(from / PAGE_BYTES..end.div_ceil(PAGE_BYTES));
            }
        }
        let first = match *step {
            Step::Touch { page } => mapped.contains(&page).then_some(page),
            _ => come_to.first().copied(),
        };
        for page in cached.difference(&self.cached) {
            self.ledger.fetch(*page);
            self.ledger.arrive(page);
        }
        let missed = Missed {
            first: first.is_some_and(|page| !self.cached.contains(&page)),
            any: come_to.iter().any(|page| !self.cached.contains(page)),
        };
        for page in &come_to {
            self.ledger.use_page(page);
        }
        for page in self.cached.difference(&cached) {
            self.ledger.drop_page(page);
        }
        (self.cached, self.mapped) = (cached, mapped);
        missed
    }
}

/// Number of times that the machine's page cache was dropped, and number of reclaimed pages.
/// Residency doesn't show a page that leaves and arrives again within one step.
fn disturbances() -> Vec<String> {
    let text = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let is_one =
        |line: &&str| line.starts_with("drop_pagecache ") || line.starts_with("pgsteal_file");
    text.lines().filter(is_one).map(str::to_owned).collect()
}

/// Whether there was any since, or pages of the file are gone. The kernel counts what it has
/// dropped when all of it is gone.
fn is_disturbed(before: &[String], file: &Watched, seen: &Seen) -> bool {
    let were = pages(&seen.cached).len() as u64;
    (0..100).any(|_| {
        thread::sleep(Duration::from_millis(10));
        let are = cached_pages(&file.file, FILE_BYTES[FILE_BYTES.len() - 1] / PAGE_BYTES);
        are < were || before != disturbances()
    })
}

/// Counts of one file since the beginning of its program: fetched, used, wasted, resident and
/// unused; and separately the number used late.
fn counted(accounting: &mut Accounting, inode: u64, base: &Counts) -> ([u64; 4], u64) {
    let snapshot = settled(accounting, inode);
    let all: Counts = of_file(&snapshot, inode)
        .iter()
        .map(|(_, counts)| *counts)
        .sum();
    let change = all.since(base);
    assert!(change.balances());
    let four = [
        change.fetched,
        change.used_on_time + change.used_late,
        change.wasted,
        change.resident_unused.unsigned_abs(),
    ];
    (four, change.used_late)
}

/// The result of a run of a program.
enum Shown {
    /// All counts are right.
    Right,
    /// No result: something else dropped pages meanwhile.
    Nothing,
    /// A count differs, or something else dropped pages unseen.
    Otherwise(String),
}

/// Runs a program and holds each step against the reference.
fn run(
    kernel: &mut Kernel<'_>,
    accounting: &mut Accounting,
    files: &[Watched],
    program: &Program,
) -> Shown {
    kernel.begin(program).expect("it begins");
    let file = &files[program.file];
    let inode = file.inode;
    let snapshot = accounting.snapshot().expect("a snapshot");
    let base: Counts = of_file(&snapshot, inode)
        .iter()
        .map(|(_, counts)| *counts)
        .sum();
    assert_eq!(base.held(), 0, "nothing of the file is cached");
    let mut reference = Reference::new(program);
    let mut late = 0;
    let before = disturbances();
    for (number, step) in program.steps.iter().enumerate() {
        let seen = kernel.step(step).expect("it runs");
        if seen.is_unsure {
            // Something else dropped pages: what they were when it did is not known.
            return Shown::Nothing;
        }
        let missed = reference.step(step, &seen);
        let counts = reference.ledger.counts();
        let expected = [
            counts.counters().fetched,
            counts.used(),
            counts.counters().wasted,
            counts.resident_unused(),
        ];
        let (four, late_now) = counted(accounting, inode, &base);
        let of = format!("program {}, step {number} ({step})", program.number);
        if four != expected && is_disturbed(&before, file, &seen) {
            println!("{of}: proves nothing, something else dropped pages");
            return Shown::Nothing;
        }
        if four != expected {
            let what = "fetched, used, wasted, unused";
            return Shown::Otherwise(format!(
                "{of}: {what}: {four:?}, not {expected:?}: {seen:?}"
            ));
        }
        let is_late = late_now > late;
        assert!(is_late || !missed.first, "{of}: what was missing is late");
        assert!(!is_late || missed.any, "{of}: what was there is on time");
        late = late_now;
    }
    Shown::Right
}

/// Whether a program has shown that all is counted right. A program with a different count is run
/// again, with care: the same program makes the same mistake. A process that dropped pages, which
/// vmstat reports only when it is done with all of the machine, has gone by then. Without
/// cachestat(2), a step may also have been looked at before all its pages had arrived.
fn is_proved(
    kernel: &mut Kernel<'_>,
    accounting: &mut Accounting,
    files: &[Watched],
    program: &Program,
) -> bool {
    const RUNS_MAX: usize = 3;
    let mut otherwise = Vec::new();
    while otherwise.len() < RUNS_MAX {
        kernel.take_care(!otherwise.is_empty());
        match run(kernel, accounting, files, program) {
            Shown::Right => return true,
            Shown::Nothing => return false,
            Shown::Otherwise(how) => {
                println!("{how}");
                otherwise.push(how);
            }
        }
    }
    panic!("{RUNS_MAX} times otherwise: {otherwise:#?}");
}

fn opened(directory: &Path) -> Vec<Watched> {
    let entries = fs::read_dir(directory).expect("a directory").flatten();
    let own = entries.map(|entry| entry.path()).find(|path| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy()
            .starts_with(".foreread-check-kernel-")
    });
    let own = own.expect("the directory of the files");
    let numbers = 0..FILE_BYTES.len();
    numbers
        .map(|number| Watched::open(&own.join(format!("file-{number}"))))
        .collect()
}

fn check(bed: &Bed, programs: u64) {
    let files = Files::make(&bed.directory).expect("files");
    let opened = opened(&bed.directory);
    let set = |kib| {
        bed.testbed
            .set_read_ahead_kib(kib)
            .map_err(io::Error::other)
    };
    let Some(mut accounting) = start_by_file() else {
        return;
    };
    let mut kernel = Kernel::new(files, Some(&set), Sight::Residency).expect("a machine");
    let mut proved = 0;
    for number in 0..programs {
        let program = generate(23, number);
        proved += u64::from(is_proved(&mut kernel, &mut accounting, &opened, &program));
    }
    println!("{proved} of {programs} programs were not disturbed");
    assert!(proved * 2 > programs);
}

#[test]
fn on_ext4_random_programs_come_out_as_residency_says() {
    on_bed(FileSystem::Ext4, |bed| check(bed, programs()));
}

#[test]
fn on_xfs_random_programs_come_out_as_residency_says() {
    on_bed(FileSystem::Xfs, |bed| check(bed, programs()));
}

#[test]
fn on_btrfs_random_programs_come_out_as_residency_says() {
    on_bed(FileSystem::Btrfs, |bed| check(bed, programs()));
}

/// Where every miss sleeps, and folios are met on their way.
#[test]
fn on_a_slow_disk_they_do_too() {
    for file_system in FileSystem::ALL {
        on_disk("cloud", file_system, |bed| check(bed, 12));
    }
}
