// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of a real block device, seen live, against the counters of the modelled disk behind it.
//! Needs root, BPF and a modelled disk; prints `skipped:` where they are missing.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use foreread_blocktrace::{Action, Analysis, Event, Leg, Options, Release, Report};
use foreread_linux_blocks::{BlockWatcher, DiskError, Steps, find};
use foreread_model::DiskParameters;
use foreread_testbed::{Testbed, TestbedConfig};

/// A prime number of reads, of 64 KiB each: nothing is counted right by accident.
const READS: u64 = 23;
const READ_BYTES: u64 = 64 << 10;

/// A modelled disk and a watcher of it, if both can be had here.
fn watched(device: &str) -> Option<(Testbed, BlockWatcher)> {
    if let Err(lacking) = Testbed::available() {
        println!("skipped: {lacking}");
        return None;
    }
    let parameters = DiskParameters::preset(device).expect("a preset");
    let testbed = Testbed::start(TestbedConfig::new(parameters, 64 << 20)).expect("a disk");
    let disk = find(testbed.device()).expect("it has requests");
    match BlockWatcher::start(&[disk]) {
        Ok(watcher) => Some((testbed, watcher)),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

fn dd(device: &Path, count: u64, more: &[&str]) {
    let status = Command::new("dd")
        .arg(format!("if={}", device.display()))
        .args([
            "of=/dev/null",
            &format!("bs={READ_BYTES}"),
            &format!("count={count}"),
        ])
        .args(more)
        .stderr(Stdio::null())
        .status();
    assert!(status.expect("dd").success());
}

fn report(events: Vec<Event>) -> Report {
    let mut analysis = Analysis::new(Options {
        kept: usize::MAX,
        ..Options::default()
    });
    for event in events {
        analysis.event(event);
    }
    analysis.finish()
}

/// From now on both count the same requests. The kernel may still read for whoever has opened the
/// device before: such a request is the disk's from its arrival, and the watcher's from its end. So
/// it is begun again if one has arrived before the disk's counters were reset, and ends only now.
fn count_from_now(testbed: &Testbed, watcher: &BlockWatcher) {
    for _ in 0..100 {
        testbed.wait_until_idle().expect("it is idle");
        testbed.reset_counters();
        watcher.drain();
        testbed.wait_until_idle().expect("it is idle");
        if watcher.drain().is_empty() && testbed.counters().requests == 0 {
            return;
        }
    }
    panic!("somebody reads all the time");
}

/// All events until each request that was issued is done. Who reads ahead doesn't wait for the last
/// ones: they may have been issued, and not have come to the modelled disk yet.
fn events_to_the_end(watcher: &BlockWatcher) -> Vec<Event> {
    const LOOKS_MAX: usize = 6000;
    let mut events = Vec::new();
    for _ in 0..LOOKS_MAX {
        events.extend(watcher.drain());
        let counted =
            |wanted: fn(&Action) -> bool| events.iter().filter(|e| wanted(&e.action)).count();
        let begun = counted(|action| matches!(action, Action::Issued));
        let done =
            counted(|action| matches!(action, Action::Completed { .. } | Action::Requeued { .. }));
        if begun == done {
            return events;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("a request is under way for a minute");
}

#[test]
fn as_many_requests_are_seen_as_the_disk_counted() {
    let Some((testbed, watcher)) = watched("nvme") else {
        return;
    };
    count_from_now(&testbed, &watcher);
    dd(testbed.device(), READS, &["iflag=direct"]);
    let report = report(events_to_the_end(&watcher));
    let counters = testbed.counters();
    assert_eq!(watcher.lost(), 0);
    // Opening the device may read its partition table.
    let direct = report
        .kept
        .iter()
        .filter(|r| r.bytes() == READ_BYTES && r.rwbs.is_read());
    assert!(
        direct.clone().count() as u64 >= READS,
        "{}",
        report.kept.len()
    );
    assert_eq!(
        report.reads.requests,
        counters.requests - counters.write_requests
    );
    assert_eq!(report.reads.bytes, counters.bytes - counters.write_bytes);
    for request in direct {
        let bio = request.asker().expect("a bio");
        assert_eq!(&*bio.process, "dd");
        for leg in [Leg::QueueToGet, Leg::QueueToIssue, Leg::IssueToComplete] {
            assert!(
                request.leg_ns(leg).is_some(),
                "{} of {request:?}",
                leg.name()
            );
        }
        // The device takes its time.
        assert!(
            request.leg_ns(Leg::IssueToComplete) > Some(90_000),
            "{request:?}"
        );
    }
    assert_eq!(report.counts.unseen_merges, 0);
}

#[test]
fn readahead_is_seen_in_its_plug_and_merged() {
    let Some((testbed, watcher)) = watched("cloud") else {
        return;
    };
    testbed.set_read_ahead_kib(512).expect("a larger window");
    count_from_now(&testbed, &watcher);
    dd(testbed.device(), 64, &[]);
    let events = events_to_the_end(&watcher);
    let counted = |wanted: fn(&Action) -> bool| events.iter().filter(|e| wanted(&e.action)).count();
    let plugs = counted(|action| matches!(action, Action::Plugged));
    let unplugs =
        counted(|a| matches!(a, Action::Unplugged { .. } | Action::TimerUnplugged { .. }));
    assert!(plugs > 0 && plugs == unplugs, "{plugs} {unplugs}");
    let report = report(events);
    let counters = testbed.counters();
    assert_eq!(
        report.reads.requests,
        counters.requests - counters.write_requests
    );
    let readahead = report
        .kept
        .iter()
        .filter(|request| request.rwbs.is_readahead());
    let released: Vec<&Release> = readahead
        .filter_map(|request| Some(&request.plug.as_ref()?.release))
        .collect();
    assert!(!released.is_empty());
    let own = |r: &&&Release| matches!(r, Release::Owner | Release::Sleep | Release::Full { .. });
    assert_eq!(
        released.iter().filter(own).count(),
        released.len(),
        "{released:?}"
    );
}

#[test]
fn what_finds_no_room_is_counted() {
    let Some((testbed, whole)) = watched("nvme") else {
        return;
    };
    let disk = find(testbed.device()).expect("it has requests");
    // Room for 40 events.
    let watcher = BlockWatcher::start_with(&[disk], Steps::All, 4096).expect("a second one");
    whole.drain();
    dd(testbed.device(), READS, &["iflag=direct"]);
    let (all, some) = (whole.drain().len() as u64, watcher.drain().len() as u64);
    assert!(some > 0 && some < all, "{some} of {all}");
    assert_eq!(some + watcher.lost(), all);
    assert_eq!(whole.lost(), 0);
}

#[test]
fn what_has_no_requests_is_refused_by_name() {
    let gone = find(Path::new("/dev/no-such-disk")).expect_err("there is none");
    assert!(gone.to_string().contains("/dev/no-such-disk"), "{gone}");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file");
    fs::write(&file, "x").expect("a file");
    assert!(matches!(find(&file), Err(DiskError::NotBlock(_))));
}
