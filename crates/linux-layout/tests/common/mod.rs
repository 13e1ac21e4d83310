// SPDX-License-Identifier: MIT OR Apache-2.0
//! An ext4 with scattered files on a modelled disk, and passes over it.
// Each test file uses a part of it. Helpers of tests are tests too.
#![allow(dead_code, clippy::unwrap_used)]

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use foreread_core::Device;
use foreread_layout::{FreeSpace, PassFile, Step};
use foreread_linux_layout::{Movable, Moved, Mover, Watcher, movable};
use foreread_sys::fiemap::runs;
use foreread_sys::fsmap::free_extents;
use foreread_sys::generation::generation_of;
use foreread_testbed::{FileSystem, Testbed};
use rustix::fs::{major, minor, stat};

pub const MIB: u64 = 1 << 20;
pub const BLOCK: u64 = 4096;

/// Counts, and stops when it is told to.
#[derive(Default)]
pub struct Counter {
    pub bytes: u64,
    /// Stops when so many bytes are done.
    pub stop_at_bytes: Option<u64>,
}

impl Watcher for Counter {
    fn is_stopped(&mut self) -> bool {
        self.stop_at_bytes.is_some_and(|limit| self.bytes >= limit)
    }

    fn done(&mut self, bytes: u64) {
        self.bytes += bytes;
    }
}

/// An ext4 on a modelled disk.
pub struct Volume {
    pub root: PathBuf,
    pub movable: Movable,
    pub testbed: Testbed,
}

impl Volume {
    /// Makes and mounts it.
    pub fn on(testbed: Testbed) -> Self {
        testbed.make_file_system(FileSystem::Ext4, &[]).unwrap();
        let root = testbed.mount(FileSystem::Ext4, "noatime").unwrap();
        let movable = movable(b"ext4", device_of(&root), &root).unwrap();
        Self {
            root,
            movable,
            testbed,
        }
    }

    pub fn free(&self) -> FreeSpace {
        let free = free_extents(File::open(&self.root).unwrap()).unwrap();
        FreeSpace::new(free, BLOCK)
    }

    /// Free blocks, with those that the kernel has set aside for files that may grow.
    pub fn free_blocks(&self) -> u64 {
        rustix::fs::statvfs(&self.root).unwrap().f_bfree
    }

    /// Waits until so many blocks are free. ext4 frees those of a removed file with the commit of
    /// its journal, and counts them a moment later.
    pub fn assert_free_blocks(&self, expected: u64) {
        let is_so = |_: &u32| {
            rustix::fs::syncfs(File::open(&self.root).unwrap()).unwrap();
            let is_so = self.free_blocks() == expected;
            if !is_so {
                sleep(Duration::from_millis(50));
            }
            is_so
        };
        (0..200).find(is_so);
        assert_eq!(self.free_blocks(), expected, "nothing is held");
    }

    pub fn run(&self, files: &[PassFile], steps: &[Step], watcher: &mut Counter) -> Moved {
        // So slow a device that a portion is a MiB.
        let mover = Mover::of(&self.movable, 4_000_000).unwrap();
        mover.run(files, steps, watcher).unwrap()
    }
}

pub fn device_of(root: &Path) -> Device {
    let device = stat(root).unwrap().st_dev;
    Device {
        major: major(device),
        minor: minor(device),
    }
}

/// Makes so many files of 1 to 40 blocks, and removes three of five again. Returns the others.
pub fn with_files(root: &Path, files: u64) -> Vec<PathBuf> {
    let mut kept = Vec::new();
    let mut removed = Vec::new();
    for number in 0..files {
        let directory = root.join(format!("d{}", number % 12));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join(number.to_string());
        let bytes = (1 + number * 7919 % 40) * BLOCK - number % 4096;
        let content: Vec<u8> = (0..bytes).map(|at| (at * 31 + number * 7) as u8).collect();
        fs::write(&path, content).unwrap();
        match number % 5 {
            0 | 3 => kept.push(path),
            _ => removed.push(path),
        }
    }
    let sync = || rustix::fs::syncfs(File::open(root).unwrap()).unwrap();
    sync();
    for path in removed {
        fs::remove_file(path).unwrap();
    }
    sync();
    // Files that were just written are not moved.
    sleep(Duration::from_millis(150));
    kept
}

pub fn identify(path: &Path) -> PassFile {
    let file = File::open(path).unwrap();
    PassFile {
        inode: file.metadata().unwrap().ino(),
        generation: generation_of(file.as_fd()),
        path: path.display().to_string(),
    }
}

/// Where a file lies: offset, place and length of each run.
pub fn places(path: &Path) -> Vec<(u64, u64, u64)> {
    let runs = runs(File::open(path).unwrap(), 0, u64::MAX, 1000).unwrap();
    let run =
        |run: &foreread_sys::fiemap::Run| (run.offset_bytes, run.place_bytes, run.length_bytes);
    runs.iter().map(run).collect()
}

/// Steps that put these files one after the other, from a place on.
pub fn gather(files: &[PathBuf], mut to_bytes: u64) -> Vec<Step> {
    let mut steps = Vec::new();
    for (number, path) in files.iter().enumerate() {
        for (offset_bytes, from_bytes, length_bytes) in places(path) {
            steps.push(Step {
                file: number,
                offset_bytes,
                length_bytes,
                from_bytes,
                to_bytes,
            });
            to_bytes += length_bytes;
        }
    }
    steps
}

pub fn bytes_of(steps: &[Step]) -> u64 {
    steps.iter().map(|step| step.length_bytes).sum()
}

/// A MiB behind the start of the largest free run.
pub fn largest(free: &FreeSpace, bytes: u64) -> u64 {
    let run = free
        .runs()
        .iter()
        .max_by_key(|run| run.length_bytes)
        .unwrap();
    assert!(run.length_bytes > bytes + MIB);
    run.offset_bytes + MIB
}
