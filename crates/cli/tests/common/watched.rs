// SPDX-License-Identifier: MIT OR Apache-2.0
//! A directory tree on a modelled disk, on which `foreread watch` is tested.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use foreread_model::DiskParameters;
use foreread_testbed::workload::{ABSENT_PATTERN, small_files};
use foreread_testbed::{FileSystem, Testbed, TestbedConfig};
use serde_json::Value;

use super::{World, is_root, stderr, stdout};

/// Files in the tree.
pub const FILES: usize = 600;
/// Slow enough that misses are the time, fast enough for a test.
const DISK: &str = "cloud";

/// Whether the machine can be watched; says why not.
pub fn can_watch(world: &World) -> bool {
    world.can(&["watch", "--", "true"]) && is_root()
}

/// A modelled disk with an ext4, and where that is mounted; `None` where that can't be had or
/// nothing can be watched, and says so.
pub fn disk(world: &World, preset: &str, bytes: u64) -> Option<(Testbed, PathBuf)> {
    disk_with(world, preset, bytes, FileSystem::Ext4)
}

/// The same with another file system.
pub fn disk_with(
    world: &World,
    preset: &str,
    bytes: u64,
    file_system: FileSystem,
) -> Option<(Testbed, PathBuf)> {
    if !is_root() {
        return None;
    }
    if let Err(lacking) = Testbed::available().and_then(|()| file_system.available()) {
        println!("skipped: {lacking}");
        return None;
    }
    if !can_watch(world) {
        return None;
    }
    let disk = DiskParameters::preset(preset).expect("a disk");
    let testbed = Testbed::start(TestbedConfig::new(disk, bytes)).expect("a disk");
    testbed
        .make_file_system(file_system, &[])
        .expect("a file system");
    let root = testbed.mount(file_system, "noatime").expect("it mounts");
    Some((testbed, root))
}

/// From now on each request of the disk takes so long, such as `2s`.
pub fn slow_down(testbed: &Testbed, latency: &str) {
    let mut slow = DiskParameters::preset("cloud").expect("a disk");
    slow.set("latency_ns", latency).expect("a latency");
    testbed.set_parameters(slow).expect("it is set");
}

/// From now on no request of the disk takes any time.
pub fn speed_up(testbed: &Testbed) {
    let instant = DiskParameters::preset("instant").expect("a disk");
    testbed.set_parameters(instant).expect("it is set");
}

/// Mounts the file system again, which drops its pages and inodes from memory. Fails while a
/// process has a file of it open.
pub fn mount_again(testbed: &Testbed) {
    mount_again_with(testbed, FileSystem::Ext4);
}

fn mount_again_with(testbed: &Testbed, file_system: FileSystem) {
    let mounted = testbed.remount(file_system, "noatime");
    mounted.expect("it mounts again");
}

/// The same, and nothing else is in memory either.
pub fn make_cold(testbed: &Testbed) {
    make_cold_with(testbed, FileSystem::Ext4);
}

/// The same with another file system.
pub fn make_cold_with(testbed: &Testbed, file_system: FileSystem) {
    mount_again_with(testbed, file_system);
    testbed.drop_caches().expect("a cold cache");
}

/// Files of a tree, each once, in no order, which is the same each time.
pub fn shuffled_files(tree: &Path) -> Vec<String> {
    let found = Command::new("find").arg(tree).args(["-type", "f"]).output();
    let found = stdout(&found.expect("find runs"));
    let mut files: Vec<String> = found.lines().map(str::to_owned).collect();
    // Where it is mounted differs from time to time.
    let below = tree.as_os_str().len();
    files.sort_by_key(|file| crc32fast::hash(&file.as_bytes()[below..]));
    files
}

/// A tree of files on a disk, none of which is in memory; `None` where that can't be had or
/// nothing can be watched, and says so.
pub fn cold_tree(world: &World) -> Option<(Testbed, PathBuf)> {
    let (testbed, root) = disk(world, DISK, 128 << 20)?;
    let tree = root.join("tree");
    testbed
        .instantly(|| small_files(&tree, FILES, 6_000_000, 1))
        .expect("files");
    make_cold(&testbed);
    Some((testbed, tree))
}

/// The words of a program that reads a whole tree, and finds nothing.
pub fn grep_words(tree: &Path) -> [&str; 4] {
    ["grep", "-rq", ABSENT_PATTERN, text(tree)]
}

/// The program itself.
pub fn grep(tree: &Path) -> Command {
    let [program, arguments @ ..] = grep_words(tree);
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// The documents at the end and of the log, of a command under `watch` with these options.
pub fn watched(world: &World, options: &[&str], command: &[&str]) -> (Value, Vec<Value>) {
    let log = world.path("log");
    let output = world
        .foreread(&["watch", "--json", "--log"])
        .arg(&log)
        .args(options)
        .arg("--")
        .args(command)
        .output()
        .expect("it starts");
    let text = stderr(&output);
    let said = text.lines().last().unwrap_or_default();
    let document = serde_json::from_str(said).unwrap_or_else(|error| panic!("{error}: {text}"));
    (document, lines(&log))
}

pub fn lines(log: &Path) -> Vec<Value> {
    let text = fs::read_to_string(log).expect("a log");
    let line = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    text.lines().map(line).collect()
}

pub fn count(document: &Value, name: &str) -> u64 {
    let number = document[name].as_u64();
    number.unwrap_or_else(|| panic!("{name}: {document}"))
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}
