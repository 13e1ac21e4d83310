// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the requests at the disk: few and large ones, in the order of their places.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use foreread_linux_prefetcher::Options;
use foreread_prefetch::plan::ReadPlan;
use foreread_prefetch::stages::stages;
use foreread_profile::{NodeId, PAGE_BYTES, Profile};
use foreread_sys::fiemap;
use foreread_testbed::workload::files_below;
use foreread_testbed::{FileSystem, TraceEntry};

use super::bed::{Bed, bed, replay, ways};
use super::tree;

const FILES: u32 = 600;

fn made() -> Option<(Bed, Profile)> {
    let bed = bed(FileSystem::Ext4, &[])?;
    let top = bed.root.join("tree");
    tree::make(&top, FILES);
    let needs = tree::everything(&top);
    // Needed in an order that has nothing to do with places.
    let mixed = (0..needs.len())
        .map(|at| needs[at * 89 % needs.len()].clone())
        .collect();
    let profile = tree::profile(&bed.root, &top, &mixed);
    bed.remount("noatime");
    Some((bed, profile))
}

/// Starts of the blocks of all files on the device, with their ends.
fn places(top: &Path) -> BTreeMap<u64, u64> {
    let runs = |path: &Path| {
        let file = File::open(path).unwrap();
        fiemap::runs(&file, 0, 1 << 30, 1000).unwrap()
    };
    let all = files_below(top)
        .unwrap()
        .into_iter()
        .flat_map(|path| runs(&path));
    all.map(|run| (run.place_bytes, run.place_bytes + run.length_bytes))
        .collect()
}

/// The requests for data, in the order in which the disk got them.
fn of_data(trace: &[TraceEntry], places: &BTreeMap<u64, u64>) -> Vec<TraceEntry> {
    let holds = |at: u64| {
        places
            .range(..=at)
            .next_back()
            .is_some_and(|(_, end)| at < *end)
    };
    let mut data: Vec<TraceEntry> = trace
        .iter()
        .copied()
        .filter(|e| holds(e.offset_bytes))
        .collect();
    data.sort_by_key(|entry| entry.arrived_ns);
    data
}

#[test]
fn neighbours_merge_and_the_head_goes_one_way() {
    let Some((bed, profile)) = made() else { return };
    let places = places(&bed.root.join("tree"));
    bed.disk("hdd", &[]);
    for (way, options) in ways().into_iter().filter(|(_, options)| !options.no_ring) {
        bed.undisturbed(|| {
            bed.drop_caches();
            bed.testbed.trace_start();
            let report = replay(&profile, &options);
            let trace = bed.testbed.trace_stop();
            let data = of_data(&trace, &places);
            assert_eq!(
                report.arrived_pages, report.asked_pages,
                "{way}: {report:?}"
            );
            let bytes: u64 = data.iter().map(|entry| entry.length_bytes).sum();
            assert!(
                bytes >= report.asked_pages * PAGE_BYTES,
                "{way}: {bytes} of {report:?}"
            );
            println!(
                "{way}: {} requests for data, {} in all, {report:?}",
                data.len(),
                trace.len()
            );
            // All is one window here. Several threads make the requests of one batch reach the disk
            // at about the same time. So only a step back over more than a batch is one of the
            // replay.
            let batch_bytes = 16 << 20;
            let back =
                |pair: &[TraceEntry]| pair[1].offset_bytes + batch_bytes < pair[0].offset_bytes;
            assert_eq!(
                data.windows(2).filter(|pair| back(pair)).count(),
                0,
                "{way}"
            );
            let small_steps = data
                .windows(2)
                .filter(|p| p[1].offset_bytes < p[0].offset_bytes);
            let small_steps = small_steps.count();
            assert!(
                small_steps * 4 < data.len(),
                "{way}: {small_steps} of {}",
                data.len()
            );
            // Files lie together: requests are fewer by far.
            assert!(
                data.len() * 4 < FILES as usize,
                "{way}: {} requests",
                data.len()
            );
        });
    }
}

#[test]
fn requests_are_fewer_than_files_on_every_disk() {
    let Some((bed, profile)) = made() else { return };
    let places = places(&bed.root.join("tree"));
    for disk in ["hdd", "usb", "cloud", "nvme"] {
        for (way, options) in ways() {
            bed.disk(disk, &[]);
            bed.undisturbed(|| {
                bed.drop_caches();
                bed.testbed.trace_start();
                let started = Instant::now();
                let report = replay(&profile, &options);
                let elapsed = started.elapsed();
                let trace = bed.testbed.trace_stop();
                let data = of_data(&trace, &places).len();
                println!(
                    "{disk} {way}: {data} + {} requests, {elapsed:.1?}",
                    trace.len() - data
                );
                assert_eq!(
                    report.arrived_pages, report.asked_pages,
                    "{way}: {report:?}"
                );
                // Threads merge only what waits in the device's queue.
                let least = if options.no_ring { 1 } else { 4 };
                assert!(
                    data * least <= FILES as usize + 20,
                    "{disk} {way}: {data} requests"
                );
            });
        }
    }
}

#[test]
fn no_page_is_asked_for_twice() {
    let Some((bed, profile)) = made() else { return };
    let places = places(&bed.root.join("tree"));
    for (way, options) in ways() {
        bed.undisturbed(|| {
            bed.drop_caches();
            bed.testbed.trace_start();
            let report = replay(&profile, &options);
            let mut data = of_data(&bed.testbed.trace_stop(), &places);
            data.sort_by_key(|entry| entry.offset_bytes);
            let twice = data
                .windows(2)
                .filter(|pair| pair[0].offset_bytes + pair[0].length_bytes > pair[1].offset_bytes);
            assert_eq!(twice.count(), 0, "{way}");
            let bytes: u64 = data.iter().map(|entry| entry.length_bytes).sum();
            assert_eq!(bytes, report.asked_pages * PAGE_BYTES, "{way}: {report:?}");
        });
    }
}

#[test]
fn metadata_is_read_before_data_and_in_order() {
    let Some((bed, profile)) = made() else { return };
    let places = places(&bed.root.join("tree"));
    bed.undisturbed(|| {
        bed.drop_caches();
        bed.testbed.trace_start();
        let report = replay(&profile, &Options::default());
        let mut trace = bed.testbed.trace_stop();
        trace.sort_by_key(|entry| entry.arrived_ns);
        let data = of_data(&trace, &places);
        let first_data = data.first().unwrap().arrived_ns;
        let metadata = trace.iter().filter(|entry| entry.arrived_ns < first_data);
        let before: u64 = metadata.map(|entry| entry.length_bytes).sum();
        let after: u64 = trace.iter().map(|entry| entry.length_bytes).sum::<u64>()
            - data.iter().map(|entry| entry.length_bytes).sum::<u64>()
            - before;
        // The superblock is in memory as long as it's mounted.
        let expected = report.metadata_bytes - PAGE_BYTES;
        assert!(before >= expected, "{before} before data: {report:?}");
        assert_eq!(after, 0, "metadata that data had to wait for: {report:?}");
    });
}

/// A boot goes on while it is replayed. It waits for what it needs first, so no file of a later
/// stage may be read before, whichever way the metadata comes.
#[test]
fn stages_are_read_one_after_the_other() {
    const FIRST_ITEMS: usize = 64;
    let Some((bed, profile)) = made() else { return };
    let plan = ReadPlan::from(&profile);
    let root = bed.root.as_os_str().as_bytes();
    let mut nodes: Vec<NodeId> = plan.iter().map(|(id, _)| id).collect();
    nodes.retain(|id| profile.path(*id).starts_with(root));
    let stages = stages(&plan, &nodes, FIRST_ITEMS);
    assert!(stages.len() > 2, "{} stages", stages.len());
    let mut stage_of_inode: BTreeMap<u64, usize> = BTreeMap::new();
    for (stage, number) in stages.iter().zip(0..) {
        for id in &stage.nodes {
            if stage.ranges(&plan, *id).next().is_some() {
                let inode = plan.node(*id).unwrap().identity.inode;
                stage_of_inode.insert(inode, number);
            }
        }
    }
    let mut stage_of_place: BTreeMap<u64, usize> = BTreeMap::new();
    for path in files_below(&bed.root.join("tree")).unwrap() {
        let file = File::open(path).unwrap();
        let inode = file.metadata().unwrap().ino();
        let runs = fiemap::runs(&file, 0, 1 << 30, 1000).unwrap();
        let stage = stage_of_inode.get(&inode).copied().unwrap_or(usize::MAX);
        stage_of_place.extend(runs.iter().map(|run| (run.place_bytes, stage)));
    }
    let places = places(&bed.root.join("tree"));
    bed.disk("hdd", &[]);
    for (way, options) in ways() {
        let options = Options {
            first_stage_items: Some(FIRST_ITEMS),
            ..options
        };
        bed.undisturbed(|| {
            bed.drop_caches();
            bed.testbed.trace_start();
            let report = replay(&profile, &options);
            let trace = bed.testbed.trace_stop();
            // Those that were skipped are the hole.
            let read_pages = report.planned_pages - report.skipped_pages;
            assert_eq!(report.arrived_pages, read_pages, "{way}: {report:?}");
            let requests = of_data(&trace, &places);
            let stage = |entry: &TraceEntry| {
                let run = stage_of_place.range(..=entry.offset_bytes).next_back();
                *run.unwrap().1
            };
            let found: Vec<usize> = requests.iter().map(stage).collect();
            assert_eq!(found.last(), Some(&(stages.len() - 1)), "{way}");
            assert!(found.is_sorted(), "{way}: {found:?}");
        });
    }
}
