// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of a plan on real file systems of a modelled disk. Needs root and a loop device; prints
//! `skipped:` where they are missing.
// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use foreread_layout::{Obstacle, Run};
use foreread_linux_layout::{OnFileSystem, find};
use foreread_model::DiskParameters;
use foreread_prefetch::plan::{PlanBuilder, ReadPlan};
use foreread_profile::{Identity, NodeKind, Uses};
use foreread_sys::fiemap::runs;
use foreread_sys::mounts::mounts_of_self;
use foreread_testbed::{FileSystem, Testbed, TestbedConfig};

const MIB: u64 = 1 << 20;

/// A plan that wants these pages of these files: first page and number of pages.
fn plan(files: &[(&Path, u64, u64)]) -> ReadPlan {
    let mut builder = PlanBuilder::new();
    for (need_ns, (path, start_page, pages)) in (0..).zip(files) {
        let inode = fs::metadata(path).map_or(1 << 40, |metadata| metadata.ino());
        let identity = Identity {
            inode,
            ..Identity::default()
        };
        let path = path.as_os_str().as_bytes();
        builder
            .add(path, NodeKind::File, identity, Uses::READ, need_ns)
            .unwrap();
        builder.pages(*start_page, *pages, need_ns);
    }
    builder.finish()
}

/// What is on the modelled disk, of what is found.
fn on_disk(plan: &ReadPlan, root: &Path) -> OnFileSystem {
    let found = find(plan, &mounts_of_self().unwrap());
    let mut ours = found.into_iter().filter(|one| one.mount_point == root);
    ours.next().unwrap()
}

/// The runs of a file as the file system tells them when it is asked.
fn told(path: &Path) -> Vec<Run> {
    let told = runs(File::open(path).unwrap(), 0, u64::MAX, 1000).unwrap();
    let run = |run: foreread_sys::fiemap::Run| Run {
        offset_bytes: run.offset_bytes,
        place_bytes: run.place_bytes,
        length_bytes: run.length_bytes,
    };
    told.into_iter().map(run).collect()
}

/// A file with a hole of 4 MiB between two parts of 1 MiB.
fn with_hole(path: &Path) {
    let mut file = File::create(path).unwrap();
    for offset_bytes in [0, 5 * MIB] {
        file.seek(SeekFrom::Start(offset_bytes)).unwrap();
        file.write_all(&vec![b'x'; MIB as usize]).unwrap();
    }
    file.sync_all().unwrap();
}

fn on(file_system: FileSystem, check: impl FnOnce(&Path)) {
    if let Err(lacking) = Testbed::available() {
        println!("skipped: {lacking}");
        return;
    }
    let disk = DiskParameters::preset("instant").unwrap();
    let testbed = Testbed::start(TestbedConfig::new(disk, 512 * MIB)).unwrap();
    if let Err(lacking) = file_system.available() {
        println!("skipped: {lacking}");
        return;
    }
    testbed.make_file_system(file_system, &[]).unwrap();
    let root = testbed.mount(file_system, "noatime").unwrap();
    check(&root);
}

/// Runs, holes, wanted pages and free space of a file system.
fn is_found(root: &Path, fs_type: &[u8]) -> OnFileSystem {
    let (holed, gone) = (root.join("holed"), root.join("gone"));
    with_hole(&holed);
    let plan = plan(&[(&holed, 0, 10), (&gone, 0, 1)]);
    let found = on_disk(&plan, root);
    assert_eq!(found.fs_type, fs_type);
    assert_eq!((found.files.len(), found.gone_files), (1, 1));
    assert_eq!(found.disk_bytes, 512 * MIB);
    let file = &found.files[0];
    assert_eq!(file.runs, told(&holed));
    let length: u64 = file.runs.iter().map(|run| run.length_bytes).sum();
    assert_eq!((length, file.size_bytes), (2 * MIB, 6 * MIB));
    assert_eq!(file.wanted_bytes(), 10 * 4096);
    assert_eq!(file.obstacle, None);
    let free = found.free.as_ref().unwrap();
    let stat = rustix::fs::statvfs(root).unwrap();
    let free_bytes = stat.f_bfree * stat.f_frsize;
    // XFS keeps some of it back for metadata, and doesn't count that as free: 7 % of this disk.
    let off = free.bytes().abs_diff(free_bytes);
    assert!(off < free_bytes / 10, "{} {free_bytes}", free.bytes());
    let is_used = |place: u64| {
        let mut runs = free.runs().iter();
        !runs.any(|run| run.offset_bytes <= place && place < run.end_bytes())
    };
    assert!(file.runs.iter().all(|run| is_used(run.place_bytes)));
    found
}

#[test]
fn on_ext4_runs_are_those_of_fiemap_and_metadata_is_known() {
    on(FileSystem::Ext4, |root| {
        let found = is_found(root, b"ext4");
        assert_eq!(found.block_bytes, 4096);
        let metadata = found.metadata.unwrap();
        let extents = metadata.iter().flatten();
        assert!(extents.clone().count() > 0);
        assert!(
            extents
                .clone()
                .all(|extent| extent.end_bytes() <= 512 * MIB)
        );
    });
}

#[test]
fn on_xfs_each_file_is_asked() {
    on(FileSystem::Xfs, |root| {
        let found = is_found(root, b"xfs");
        assert_eq!(found.metadata, None);
    });
}

#[test]
fn what_speaks_against_a_move_is_seen() {
    on(FileSystem::Ext4, |root| {
        let path = root.join("immutable");
        fs::write(&path, vec![b'x'; 10_000]).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        let set = |flag: &str| {
            let done = Command::new("chattr").arg(flag).arg(&path).status();
            assert!(done.unwrap().success());
        };
        set("+i");
        let plan = plan(&[(&path, 0, 3)]);
        let found = on_disk(&plan, root);
        set("-i");
        assert_eq!(found.files[0].obstacle, Some(Obstacle::Immutable));
        assert_eq!(on_disk(&plan, root).files[0].obstacle, None);
    });
}
