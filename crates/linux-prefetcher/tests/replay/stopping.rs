// SPDX-License-Identifier: MIT OR Apache-2.0
//! A replay that is stopped or dropped does not delay its caller, and leaves nothing behind.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foreread_linux_prefetcher::{Executor, Options};
use foreread_prefetch::plan::ReadPlan;
use foreread_profile::Profile;
use foreread_testbed::FileSystem;

use super::bed::{Bed, bed, replay, wait_for, ways};
use super::tree;

/// Long against everything else here, short enough to wait for.
const SLOW_MS: u64 = 3000;

/// Threads of replays, of this process.
pub fn threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    let ours = ["fetch\n", "fetch-device\n", "fetch-look\n", "fetch-read\n"];
    names.filter(|name| ours.contains(&name.as_str())).count()
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn slow(bed: &Bed) {
    let latency = format!("latency_ns={SLOW_MS}ms");
    bed.disk("cloud", &[&latency, "rate_requests_per_s=0"]);
}

fn made() -> Option<(Bed, Profile)> {
    let bed = bed(FileSystem::Ext4, &[])?;
    let top = bed.root.join("tree");
    tree::make(&top, 200);
    let profile = tree::profile(&bed.root, &top, &tree::everything(&top));
    bed.remount("noatime");
    Some((bed, profile))
}

/// Metadata is in memory, data isn't: the next replay reads data first.
fn with_metadata(bed: &Bed, profile: &Profile, options: &Options) {
    bed.drop_caches();
    let mut only_metadata = profile.clone();
    for node in &mut only_metadata.nodes {
        node.range_count = 0;
    }
    only_metadata.ranges.clear();
    assert_eq!(replay(&only_metadata, options).asked_pages, 0);
}

/// Waits until no further request reaches the disk. Requests from before a stop may still be in
/// flight when the last thread has ended: the block layer and the loop device hold them.
fn comes_to_rest(bed: &Bed) {
    let requests = || bed.testbed.counters().requests;
    let mut seen = requests();
    wait_for(
        || {
            std::thread::sleep(Duration::from_millis(50));
            let before = std::mem::replace(&mut seen, requests());
            before == seen
        },
        "the disk to come to rest",
    );
}

#[test]
fn a_stop_does_not_wait_for_the_disk_and_leaves_nothing() {
    let Some((bed, profile)) = made() else { return };
    let profile = Arc::new(profile);
    for (way, options) in ways() {
        for data in [false, true] {
            if data {
                with_metadata(&bed, &profile, &options);
            } else {
                bed.drop_caches();
            }
            wait_for(|| threads() == 0, "earlier threads to end");
            let before = descriptors();
            bed.testbed.reset_counters();
            slow(&bed);
            let replay = Executor::default().start(Arc::new(ReadPlan::from(&*profile)), &options);
            wait_for(
                || bed.testbed.counters().requests > 0,
                "the disk to be asked",
            );
            let stopped = Instant::now();
            replay.stop();
            let (report, _) = replay.join();
            let waited = stopped.elapsed();
            assert!(
                waited < Duration::from_millis(SLOW_MS / 2),
                "{way}: {waited:?}"
            );
            assert!(
                report.arrived_pages < report.planned_pages,
                "{way}: {report:?}"
            );
            // A thread that still waits for the disk does so by itself.
            assert!(threads() > 0, "{way}: the disk is done already");
            bed.disk("instant", &[]);
            wait_for(|| threads() == 0, "the threads to end");
            assert_eq!(descriptors(), before, "{way}: descriptors before and after");
            comes_to_rest(&bed);
            assert!(
                bed.testbed.counters().bytes < profile.total_pages() * 4096,
                "{way}: it goes on: {:?}",
                bed.testbed.counters()
            );
            // Nothing that wasn't come to is taken for gone.
            assert_eq!(
                report.gone_files + report.replaced_files,
                0,
                "{way}: {report:?}"
            );
        }
    }
}

#[test]
fn a_replay_that_nobody_holds_ends() {
    let Some((bed, profile)) = made() else { return };
    let profile = Arc::new(profile);
    with_metadata(&bed, &profile, &Options::default());
    wait_for(|| threads() == 0, "earlier threads to end");
    let before = descriptors();
    bed.testbed.reset_counters();
    slow(&bed);
    let replay =
        Executor::default().start(Arc::new(ReadPlan::from(&*profile)), &Options::default());
    wait_for(
        || bed.testbed.counters().requests > 0,
        "the disk to be asked",
    );
    drop(replay);
    bed.disk("instant", &[]);
    wait_for(|| threads() == 0, "the threads to end");
    assert_eq!(descriptors(), before);
    assert!(bed.testbed.counters().bytes < profile.total_pages() * 4096);
}

#[test]
fn data_that_is_held_comes_all_the_same() {
    let Some((bed, profile)) = made() else { return };
    let profile = Arc::new(profile);
    let options = Options {
        hold_data: true,
        ..Options::default()
    };
    bed.undisturbed(|| {
        for release in [true, false] {
            bed.drop_caches();
            let replay = Executor::default().start(Arc::new(ReadPlan::from(&*profile)), &options);
            if release {
                replay.release();
            }
            // The watching thread may have died: that must not hold the replay up for ever.
            wait_for(|| replay.is_finished(), "the replay to end");
            let (report, _) = replay.join();
            assert_eq!(
                report.arrived_pages + report.skipped_pages,
                report.planned_pages
            );
        }
        bed.drop_caches();
        let replay = Executor::default().start(Arc::new(ReadPlan::from(&*profile)), &options);
        replay.stop();
        let (report, _) = replay.join();
        assert_eq!(report.asked_pages, 0, "{report:?}");
    });
}

/// Everything is there already, as if the program had been faster. What isn't is still read.
#[test]
fn an_overtaken_replay_ends_and_one_that_is_not_goes_on() {
    let Some((bed, profile)) = made() else { return };
    let options = Options {
        stops_when_overtaken: true,
        ..Options::default()
    };
    bed.undisturbed(|| {
        bed.drop_caches();
        replay(&profile, &Options::default());
        let report = replay(&profile, &options);
        assert!(report.overtaken_pages > 0, "{report:?}");
        assert_eq!(report.asked_pages, 0, "{report:?}");
        let come_to = report.cached_pages + report.skipped_pages;
        assert_eq!(come_to + report.overtaken_pages, report.planned_pages);
    });
    bed.undisturbed(|| {
        // The last tenth in the order of reading isn't there.
        bed.drop_caches();
        let mut most = profile.clone();
        for node in most.nodes.iter_mut().rev().take(20) {
            node.range_count = 0;
        }
        replay(&most, &Options::default());
        let report = replay(&profile, &options);
        assert!(report.arrived_pages > 0, "{report:?}");
    });
}

#[test]
fn a_finished_replay_leaves_nothing() {
    let Some((bed, profile)) = made() else { return };
    for (way, options) in ways() {
        wait_for(|| threads() == 0, "earlier threads to end");
        let before = descriptors();
        for _ in 0..3 {
            bed.drop_caches();
            let report = replay(&profile, &options);
            assert!(report.arrived_pages > 0, "{way}: {report:?}");
        }
        wait_for(|| threads() == 0, "the threads to end");
        assert_eq!(descriptors(), before, "{way}");
    }
}
