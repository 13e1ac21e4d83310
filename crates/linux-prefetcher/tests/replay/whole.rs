// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages in the plan are in memory afterwards, no other pages of these files are, and the program
//! reads nothing any more.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use foreread_linux_prefetcher::{Options, Report};
use foreread_profile::PAGE_BYTES;
use foreread_testbed::FileSystem;

use super::bed::{Bed, bed, replay, ways};
use super::tree;

/// Pages of the hole in the tree, for which there is nothing to read.
const HOLE_PAGES: u64 = 398;

fn without_hole(needs: tree::Needs) -> tree::Needs {
    let end = HOLE_PAGES + 4;
    let outside = |(path, ranges): (std::path::PathBuf, Vec<(u64, u64)>)| {
        if !path.ends_with("special/hole") || ranges.is_empty() {
            return (path, ranges);
        }
        (path, vec![(0, 2), (end - 2, 2)])
    };
    needs.into_iter().map(outside).collect()
}

/// Replays, and checks that exactly the needs are met; returns the report and the bytes that using
/// the tree still reads.
fn brings_exactly(bed: &Bed, top: &Path, needs: &tree::Needs, options: &Options) -> (Report, u64) {
    let profile = tree::profile(&bed.root, top, needs);
    let present = without_hole(needs.clone());
    bed.drop_caches();
    let report = replay(&profile, options);
    assert_eq!(report.arrived_pages, report.asked_pages, "{report:?}");
    let stale = report.gone_files + report.replaced_files + report.shrunk_files;
    assert_eq!(
        stale + report.changed_files + report.unreadable_files,
        0,
        "{report:?}"
    );
    let still_read = bed.bytes_read(|| tree::use_tree(top, &present));
    tree::assert_exactly(top, &present);
    (report, still_read)
}

fn made(file_system: FileSystem, mkfs: &[&str]) -> Option<Bed> {
    let bed = bed(file_system, mkfs)?;
    tree::make(&bed.root.join("tree"), 300);
    bed.remount("noatime");
    Some(bed)
}

#[test]
fn ext4_exactly_and_nothing_is_read_after() {
    let Some(bed) = made(FileSystem::Ext4, &[]) else {
        return;
    };
    let top = bed.root.join("tree");
    for needs in [tree::everything(&top), tree::something(&top)] {
        for (way, options) in ways() {
            bed.undisturbed(|| {
                let (report, still_read) = brings_exactly(&bed, &top, &needs, &options);
                let raw = u64::from(!options.no_raw);
                assert_eq!(report.raw_file_systems, raw, "{way}: {report:?}");
                assert_eq!(report.looked_file_systems, 1 - raw, "{way}: {report:?}");
                assert_eq!(report.looked_at > 0, options.no_raw, "{way}: {report:?}");
                assert_eq!(
                    report.metadata_bytes > 0,
                    !options.no_raw,
                    "{way}: {report:?}"
                );
                assert_eq!(still_read, 0, "{way}: the program still had to read");
            });
        }
    }
}

#[test]
fn small_blocks_and_no_extents_are_no_other() {
    for mkfs in [
        &["-b", "1024"][..],
        &["-O", "^extents,^64bit,^metadata_csum"],
        &["-O", "inline_data"],
    ] {
        let Some(bed) = made(FileSystem::Ext4, mkfs) else {
            return;
        };
        let top = bed.root.join("tree");
        let needs = tree::everything(&top);
        for (way, options) in ways() {
            bed.undisturbed(|| {
                let profile = tree::profile(&bed.root, &top, &needs);
                bed.drop_caches();
                let report = replay(&profile, &options);
                assert_eq!(
                    report.arrived_pages, report.asked_pages,
                    "{way}: {report:?}"
                );
                let still_read = bed.bytes_read(|| tree::use_tree(&top, &needs));
                assert_eq!(
                    still_read, 0,
                    "{mkfs:?} {way}: the program still had to read"
                );
            });
        }
    }
}

#[test]
fn xfs_and_btrfs_exactly() {
    for file_system in [FileSystem::Xfs, FileSystem::Btrfs] {
        let Some(bed) = made(file_system, &[]) else {
            continue;
        };
        let top = bed.root.join("tree");
        for needs in [tree::everything(&top), tree::something(&top)] {
            bed.undisturbed(|| {
                let profile = tree::profile(&bed.root, &top, &needs);
                bed.drop_caches();
                let report = replay(&profile, &Options::default());
                assert_eq!(
                    (report.raw_file_systems, report.looked_file_systems),
                    (0, 1)
                );
                assert_eq!(report.arrived_pages, report.asked_pages, "{report:?}");
                let stale = report.gone_files + report.replaced_files + report.shrunk_files;
                assert_eq!(stale + report.unreadable_files, 0, "{report:?}");
                let still_read = bed.bytes_read(|| tree::use_tree(&top, &needs));
                let planned = report.planned_pages * PAGE_BYTES;
                let name = file_system.name();
                assert!(
                    still_read * 100 <= planned,
                    "{name}: {still_read} of {planned}"
                );
            });
        }
    }
}

#[test]
fn overlays_are_read_by_their_layers_and_through_themselves() {
    let Some(bed) = made(FileSystem::Ext4, &[]) else {
        return;
    };
    let merged = bed.testbed.overlay(&[&bed.root]).unwrap();
    let (top, lower) = (merged.join("tree"), bed.root.join("tree"));
    let needs = tree::something(&top);
    let in_lower: tree::Needs = needs
        .iter()
        .map(|(path, ranges)| {
            let inside = path.strip_prefix(&top).unwrap();
            (lower.join(inside), ranges.clone())
        })
        .collect();
    bed.undisturbed(|| {
        let profile = tree::profile(&merged, &top, &needs);
        bed.drop_caches();
        let report = replay(&profile, &Options::default());
        assert_eq!(
            (report.raw_file_systems, report.looked_file_systems),
            (0, 1)
        );
        assert_eq!(report.arrived_pages, report.asked_pages, "{report:?}");
        let stale = report.gone_files + report.replaced_files + report.unreadable_files;
        assert_eq!(stale, 0, "{report:?}");
        let present = without_hole(needs.clone());
        let still_read = bed.bytes_read(|| tree::use_tree(&top, &present));
        assert_eq!(still_read, 0, "the program still had to read");
        tree::assert_exactly(&lower, &without_hole(in_lower.clone()));
        // All of it is there now, and the overlay can tell.
        let again = replay(&profile, &Options::default());
        assert_eq!(again.asked_pages, 0, "{again:?}");
        assert_eq!(again.cached_pages, report.asked_pages, "{again:?}");
    });
}

#[test]
fn only_what_is_missing_is_read() {
    let Some(bed) = made(FileSystem::Ext4, &[]) else {
        return;
    };
    let top = bed.root.join("tree");
    let needs: tree::Needs = vec![(top.join("special/large"), vec![(0, 700)])];
    let profile = tree::profile(&bed.root, &top, &needs);
    for (way, options) in ways() {
        bed.undisturbed(|| {
            bed.drop_caches();
            // Metadata is there, so that what is read is data.
            let everything_else = replay(&tree::profile(&bed.root, &top, &vec![]), &options);
            assert_eq!(everything_else.asked_pages, 0);
            let file = File::open(&needs[0].0).unwrap();
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
            for (start, pages) in [(3, 1), (64, 200), (600, 1)] {
                let mut buffer = vec![0; pages * PAGE_BYTES as usize];
                file.read_exact_at(&mut buffer, start * PAGE_BYTES).unwrap();
            }
            bed.testbed.reset_counters();
            let report = replay(&profile, &options);
            let read = bed.testbed.counters().bytes;
            assert_eq!(read, (700 - 202) * PAGE_BYTES, "{way}: {report:?}");
            // Pieces of up to 16 pages are asked for whole; the kernel knows what it has.
            assert!(report.cached_pages >= 200 - 32, "{way}: {report:?}");
            tree::assert_exactly(&top, &{
                let mut all = tree::everything(&top);
                for (path, ranges) in &mut all {
                    if *path != needs[0].0 {
                        ranges.clear();
                    } else {
                        *ranges = vec![(0, 700)];
                    }
                }
                all
            });
            // Once more: nothing is left to do.
            let again = replay(&profile, &options);
            assert_eq!((again.cached_pages, again.asked_pages), (700, 0), "{way}");
        });
    }
}
