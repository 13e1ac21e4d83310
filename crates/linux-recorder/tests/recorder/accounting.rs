// SPDX-License-Identifier: MIT OR Apache-2.0
//! Use of the pages that a replay fetched: on time, or waited for. This process plays the replay:
//! pages that it reads into memory count as fetched.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use foreread_linux_recorder::{BpfRecorder, Counts, Watch};
use foreread_model::DiskParameters;
use foreread_testbed::FileSystem;

use crate::setting::{Disk, make, or_skip, run};

/// A recorder that takes what this process reads for the replay's.
fn recorder() -> BpfRecorder {
    let mut recorder = BpfRecorder::load(Watch::Refresh).unwrap();
    recorder.attach().unwrap();
    recorder.count_own_reads(true);
    recorder
}

/// Files of one page each on a disk that makes everybody wait, nothing of them in memory.
fn slow_files(count: usize, bytes: u64) -> Result<(Disk, Vec<PathBuf>), String> {
    let disk = Disk::new(FileSystem::Ext4, &[])?;
    let files = (0..count)
        .map(|n| make(&disk.join(n.to_string()), bytes))
        .collect();
    disk.forget("noatime");
    disk.testbed
        .set_parameters(DiskParameters::preset("usb").unwrap())
        .unwrap();
    Ok((disk, files))
}

fn counts(recorder: BpfRecorder) -> Counts {
    recorder.finish().counts
}

/// Fetches some files and then uses some, of one page or more each, until nobody else has dropped
/// the caches in between: what is missed says so.
fn fetch_and_use(
    (disk, files): &(Disk, Vec<PathBuf>),
    fetched: &[usize],
    used: &[usize],
    missed_pages: u64,
) -> Counts {
    let mut last = Counts::default();
    for _ in 0..3 {
        disk.forget("noatime");
        let recorder = recorder();
        for n in fetched {
            fs::read(&files[*n]).unwrap();
        }
        run(
            &recorder,
            Command::new("cat").args(used.iter().map(|n| &files[*n])),
        );
        last = counts(recorder);
        if last.missed_pages == missed_pages {
            break;
        }
    }
    last
}

#[test]
fn pages_fetched_before_they_are_needed_are_used_on_time() {
    let place = or_skip!(slow_files(20, 40_000));
    let all: Vec<usize> = (0..20).collect();
    let counts = fetch_and_use(&place, &all, &all, 0);
    assert_eq!(counts.fetched_pages, 200, "{counts:?}");
    assert_eq!(counts.used_pages, 200, "{counts:?}");
    assert_eq!(counts.late_pages, 0, "{counts:?}");
    assert!(counts.fetched_metadata_pages > 0, "{counts:?}");
}

/// Every other file is fetched. The waits are for the rest, and none of what was fetched is late.
#[test]
fn a_wait_for_what_was_not_fetched_makes_nothing_late() {
    let place = or_skip!(slow_files(200, 4096));
    let all: Vec<usize> = (0..200).collect();
    let even: Vec<usize> = (0..200).step_by(2).collect();
    let counts = fetch_and_use(&place, &even, &all, 100);
    assert_eq!(counts.used_pages, 100, "{counts:?}");
    assert_eq!(counts.missed_pages, 100, "{counts:?}");
    assert!(counts.stalls >= 50, "{counts:?}");
    assert_eq!(counts.late_pages, 0, "{counts:?}");
}

#[test]
fn what_nobody_uses_stays_unused() {
    let place = or_skip!(slow_files(4, 40_000));
    let counts = fetch_and_use(&place, &[0, 1, 2, 3], &[1], 0);
    assert_eq!(
        (counts.fetched_pages, counts.used_pages),
        (40, 10),
        "{counts:?}"
    );
}

fn assert_late(counts: &Counts, what: &str) {
    println!("{what}: {counts:?}");
    assert!(counts.late_pages > 0, "{what}: {counts:?}");
    assert!(counts.late_pages <= counts.stalls, "{what}: {counts:?}");
    assert!(counts.late_pages <= counts.used_pages, "{what}: {counts:?}");
    assert!(
        counts.used_pages <= counts.fetched_pages,
        "{what}: {counts:?}"
    );
    assert!(counts.stall_ns > 0, "{what}: {counts:?}");
}

/// The program goes through a file in which the replay isn't far ahead: it catches up, and waits.
#[test]
fn pages_that_the_program_waits_for_are_used_late() {
    let (disk, files) = or_skip!(slow_files(1, 8 << 20));
    let file = files[0].to_str().unwrap();
    let list: Vec<String> = (0..2048).map(|page: u64| page.to_string()).collect();
    let list = list.join(",");
    let ways: [&[&str]; 2] = [&["read", file], &["map", file, "private", &list]];
    for way in ways {
        disk.forget("noatime");
        let recorder = recorder();
        thread::scope(|scope| {
            scope.spawn(|| fs::read(file).unwrap());
            let behind = ["sleep-ms", "100"];
            run(&recorder, &mut disk.probe(&[&behind, way].concat()));
        });
        assert_late(&counts(recorder), way[0]);
    }
}
