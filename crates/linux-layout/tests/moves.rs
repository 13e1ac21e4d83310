// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moves of files on a real ext4 on a modelled disk, to chosen places and back. Needs root and a
//! loop device; prints `skipped:` where they are missing.
// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use common::{
    BLOCK, Counter, MIB, Volume, bytes_of, device_of, gather, identify, largest, places, with_files,
};
use foreread_layout::{PassFile, Step};
use foreread_linux_layout::{Moved, Skipped, movable};
use foreread_model::DiskParameters;
use foreread_testbed::{FileSystem, Testbed, TestbedConfig};

/// An ext4 with 240 files, between which others were removed.
fn disk() -> Option<(Volume, Vec<PathBuf>)> {
    disk_of("instant", 1024 * MIB)
}

fn disk_of(preset: &str, capacity_bytes: u64) -> Option<(Volume, Vec<PathBuf>)> {
    if let Err(lacking) = Testbed::available() {
        println!("skipped: {lacking}");
        return None;
    }
    let parameters = DiskParameters::preset(preset).unwrap();
    let testbed = Testbed::start(TestbedConfig::new(parameters, capacity_bytes)).unwrap();
    let volume = Volume::on(testbed);
    let make = || with_files(&volume.root, 600);
    let files = volume.testbed.instantly(make);
    Some((volume, files))
}

/// What a move must leave alone.
fn kept(path: &Path) -> (Vec<u8>, [i64; 6], u64) {
    let metadata = fs::metadata(path).unwrap();
    let times = [
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec(),
        metadata.atime(),
        metadata.atime_nsec(),
    ];
    (fs::read(path).unwrap(), times, metadata.blocks())
}

#[test]
fn files_go_to_chosen_places_and_back_to_theirs() {
    if let Some((disk, files)) = disk() {
        files_go_there_and_back(&disk, &files);
    }
}

/// With 16 block groups and more, the kernel looks for free space by lists of groups, and on a disk
/// with a head in the neighbours of the goal first.
#[test]
fn the_same_on_a_disk_with_a_head_and_many_block_groups() {
    if let Some((disk, files)) = disk_of("hdd", 6 << 30) {
        disk.testbed
            .instantly(|| files_go_there_and_back(&disk, &files));
    }
}

fn files_go_there_and_back(disk: &Volume, files: &[PathBuf]) {
    let before: Vec<_> = files.iter().map(|path| kept(path)).collect();
    let places_before: Vec<_> = files.iter().map(|path| places(path)).collect();
    let passes: Vec<PassFile> = files.iter().map(|path| identify(path)).collect();
    let free_before = disk.free_blocks();
    let steps = gather(files, 0);
    let to_bytes = largest(&disk.free(), bytes_of(&steps));
    let steps = gather(files, to_bytes);
    let mut counter = Counter::default();
    let moved = disk.run(&passes, &steps, &mut counter);
    let bytes = bytes_of(&steps);
    assert_eq!(
        moved,
        Moved {
            bytes,
            ..Moved::default()
        }
    );
    assert_eq!(counter.bytes, bytes);
    let mut at = to_bytes;
    for path in files {
        for (_, place_bytes, length_bytes) in places(path) {
            assert_eq!(place_bytes, at, "{}", path.display());
            at += length_bytes;
        }
    }
    let after: Vec<_> = files.iter().map(|path| kept(path)).collect();
    assert!(before == after);
    disk.assert_free_blocks(free_before);

    // Again, there is nothing to do.
    let again = disk.run(&passes, &steps, &mut Counter::default());
    let there = Moved {
        there_bytes: bytes,
        ..Moved::default()
    };
    assert_eq!(again, there);

    // And back, block by block.
    let back: Vec<Step> = steps.iter().map(|step| step.back()).collect();
    let moved = disk.run(&passes, &back, &mut Counter::default());
    assert_eq!(
        moved,
        Moved {
            bytes,
            ..Moved::default()
        }
    );
    let places_after: Vec<_> = files.iter().map(|path| places(path)).collect();
    assert_eq!(places_after, places_before);
    let after: Vec<_> = files.iter().map(|path| kept(path)).collect();
    assert!(before == after);
    disk.assert_free_blocks(free_before);
}

#[test]
fn what_is_stopped_goes_on_later() {
    let Some((disk, files)) = disk() else { return };
    let passes: Vec<PassFile> = files.iter().map(|path| identify(path)).collect();
    let steps = gather(&files, 0);
    let bytes = bytes_of(&steps);
    let steps = gather(&files, largest(&disk.free(), bytes));
    let mut stopping = Counter {
        stop_at_bytes: Some(1),
        ..Counter::default()
    };
    let first = disk.run(&passes, &steps, &mut stopping);
    assert!(
        first.is_stopped && first.bytes > 0 && first.bytes < bytes,
        "{first:?}"
    );
    let second = disk.run(&passes, &steps, &mut Counter::default());
    let rest = Moved {
        bytes: bytes - first.bytes,
        there_bytes: first.bytes,
        ..Moved::default()
    };
    assert_eq!(second, rest);
}

#[test]
fn what_cannot_be_moved_now_is_left_alone_with_the_reason() {
    let Some((disk, all)) = disk() else { return };
    let (files, other) = (&all[..8], &all[20]);
    let passes: Vec<PassFile> = files.iter().map(|path| identify(path)).collect();
    let steps = gather(files, 0);
    let to_bytes = largest(&disk.free(), bytes_of(&steps));
    let mut steps = gather(files, to_bytes);
    let writer = File::options().append(true).open(&files[0]).unwrap();
    fs::remove_file(&files[1]).unwrap();
    let set = |flag: &str| {
        let done = Command::new("chattr").arg(flag).arg(&files[2]).status();
        assert!(done.unwrap().success());
    };
    set("+i");
    // Somebody has written this one anew: its blocks are elsewhere.
    let content = fs::read(&files[3]).unwrap();
    fs::remove_file(&files[3]).unwrap();
    fs::write(&files[3], &content).unwrap();
    let passes: Vec<PassFile> = passes
        .into_iter()
        .enumerate()
        .map(|(number, file)| {
            if number == 3 {
                identify(&files[3])
            } else {
                file
            }
        })
        .collect();
    File::open(&files[3]).unwrap().sync_all().unwrap();
    sleep(Duration::from_millis(150));
    // The place of this one is taken.
    for step in &mut steps {
        if step.file == 4 {
            step.to_bytes = places(other)[0].1;
            step.length_bytes = BLOCK;
        }
    }
    let moved = disk.run(&passes, &steps, &mut Counter::default());
    set("-i");
    drop(writer);
    let why = |file: usize| {
        let mut of_file = moved.skipped.iter().filter(|skipped| skipped.0 == file);
        of_file.next().map(|(_, _, why)| why.to_string())
    };
    let said = |text: &str| Some(text.to_owned());
    assert_eq!(why(0), said("somebody writes it"));
    assert_eq!(why(1), said("the file is gone"));
    assert_eq!(why(2), said("it is immutable or append-only"));
    assert_eq!(why(3), said("it was changed since the plan"));
    assert_eq!(why(4), Some(Skipped::Taken.to_string()));
    assert_eq!((why(5), why(6), why(7)), (None, None, None));
    let skipped: u64 = moved.skipped.iter().map(|(_, bytes, _)| bytes).sum();
    assert_eq!(moved.bytes + skipped, bytes_of(&steps));
    assert!(moved.bytes > 0);
}

#[test]
fn holes_and_preallocated_space_stay() {
    let Some((disk, _)) = disk() else { return };
    let path = disk.root.join("holed");
    let mut file = File::create(&path).unwrap();
    file.write_all(&vec![b'a'; 5 * BLOCK as usize]).unwrap();
    file.seek(SeekFrom::Start(20 * BLOCK)).unwrap();
    file.write_all(&vec![b'b'; 100_001]).unwrap();
    rustix::fs::fallocate(
        &file,
        rustix::fs::FallocateFlags::KEEP_SIZE,
        200 * BLOCK,
        50 * BLOCK,
    )
    .unwrap();
    file.sync_all().unwrap();
    drop(file);
    sleep(Duration::from_millis(150));
    let before = kept(&path);
    let files = [path.clone()];
    let steps = gather(&files, 0);
    assert!(steps.len() >= 2);
    let steps = gather(&files, largest(&disk.free(), bytes_of(&steps)));
    // A reader has it open and mapped meanwhile.
    let mut reader = File::open(&path).unwrap();
    let moved = disk.run(&[identify(&path)], &steps, &mut Counter::default());
    assert_eq!(moved.bytes, bytes_of(&steps), "{moved:?}");
    let after = kept(&path);
    assert!(before == after, "{:?} {:?}", before.1, after.1);
    let mut read = Vec::new();
    reader.read_to_end(&mut read).unwrap();
    assert!(read == before.0);
    let offsets: Vec<u64> = places(&path).iter().map(|place| place.0 / BLOCK).collect();
    assert_eq!(offsets, [0, 20]);
}

/// What is said of an ext4 made and mounted like this.
fn refusal(make: &[&str], mount: &str, prepare: impl FnOnce(&Path)) -> Option<String> {
    let parameters = DiskParameters::preset("instant").unwrap();
    let testbed = Testbed::start(TestbedConfig::new(parameters, 512 * MIB)).unwrap();
    testbed.make_file_system(FileSystem::Ext4, make).unwrap();
    let root = match testbed.mount(FileSystem::Ext4, mount) {
        Ok(root) => root,
        Err(error) => {
            println!("skipped: {make:?} {mount}: {error}");
            return None;
        }
    };
    prepare(&root);
    let found = movable(b"ext4", device_of(&root), &root);
    Some(found.map_or_else(|refusal| refusal.to_string(), |_| "movable".to_owned()))
}

#[test]
fn file_systems_that_must_not_be_touched_are_refused_in_words() {
    if let Err(lacking) = Testbed::available() {
        println!("skipped: {lacking}");
        return;
    }
    let nothing = |_: &Path| {};
    let is = |make: &[&str], mount: &str, part: &str| {
        if let Some(said) = refusal(make, mount, nothing) {
            assert!(said.contains(part), "{make:?} {mount}: {said}");
        }
    };
    is(&[], "", "movable");
    is(&["-O", "bigalloc"], "", "bigalloc");
    is(&["-b", "1024"], "", "not the size of a page");
    is(&[], "ro", "read-only");
    is(&[], "data=journal", "data=journal");
    let fast_commit = refusal(&["-O", "fast_commit"], "", nothing);
    let is_mended = fast_commit.as_deref() == Some("movable");
    if let Some(said) = fast_commit.filter(|_| !is_mended) {
        assert!(said.contains("fast_commit"), "{said}");
    }
    let nearly_full = refusal(&["-m", "0"], "", |root| {
        let file = File::create(root.join("large")).unwrap();
        let none = rustix::fs::FallocateFlags::empty();
        rustix::fs::fallocate(&file, none, 0, 400 * MIB).unwrap();
    });
    assert!(nearly_full.unwrap().contains("nearly full"));
}

#[test]
fn a_file_system_with_errors_is_refused() {
    if let Err(lacking) = Testbed::available() {
        println!("skipped: {lacking}");
        return;
    }
    let parameters = DiskParameters::preset("instant").unwrap();
    let testbed = Testbed::start(TestbedConfig::new(parameters, 512 * MIB)).unwrap();
    testbed.make_file_system(FileSystem::Ext4, &[]).unwrap();
    let set = Command::new("debugfs")
        .args(["-w", "-R", "set_super_value error_count 3"])
        .arg(testbed.device())
        .output()
        .unwrap();
    assert!(set.status.success(), "{set:?}");
    let root = testbed.mount(FileSystem::Ext4, "").unwrap();
    let said = movable(b"ext4", device_of(&root), &root).unwrap_err();
    assert!(said.to_string().contains("e2fsck"), "{said}");
}
