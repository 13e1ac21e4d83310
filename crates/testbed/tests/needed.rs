// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the bytes that a program needs from the device, and of the limit that follows.

use std::fs;

use foreread_model::DiskParameters;
use foreread_testbed::needed::needed;
use foreread_testbed::{FileSystem, workload};

mod common;
use common::testbed_or_skip;

#[test]
fn a_grep_needs_each_block_of_each_file_and_hardly_more() {
    let Some(testbed) = testbed_or_skip("hdd", 128 << 20) else {
        return;
    };
    testbed.make_file_system(FileSystem::Ext4, &[]).unwrap();
    let directory = testbed.mount(FileSystem::Ext4, "noatime").unwrap();
    let tree = directory.join("tree");
    testbed
        .instantly(|| workload::small_files(&tree, 300, 6_000_000, 1))
        .unwrap();
    testbed.remount(FileSystem::Ext4, "noatime").unwrap();
    let before = (
        testbed.parameters(),
        fs::read_to_string(read_ahead(&testbed)).unwrap(),
    );

    let mut grep = testbed.command("grep");
    grep.args(["-rq", workload::ABSENT_PATTERN]).arg(&tree);
    let found = needed(&testbed, &mut grep).unwrap();
    assert_eq!(
        found.status.code(),
        Some(1),
        "the pattern occurs, or grep failed"
    );
    let blocks_bytes: u64 = sizes(&tree)
        .iter()
        .map(|bytes| bytes.next_multiple_of(4096))
        .sum();
    assert!(
        found.bytes >= blocks_bytes,
        "{} of {blocks_bytes}",
        found.bytes
    );
    // Directories, inodes, and the extent blocks of large files.
    assert!(
        found.bytes < blocks_bytes + (1 << 20),
        "{} for {blocks_bytes}",
        found.bytes
    );
    let after = (
        testbed.parameters(),
        fs::read_to_string(read_ahead(&testbed)).unwrap(),
    );
    assert_eq!(after, before);

    let usb = DiskParameters::preset("usb").unwrap();
    let limit_ns = found.limit_ns(&usb, &testbed);
    assert!(
        limit_ns > found.bytes * 40,
        "faster than 25 MB/s: {limit_ns} ns"
    );
}

fn read_ahead(testbed: &foreread_testbed::Testbed) -> String {
    let name = testbed
        .device()
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    format!("/sys/block/{name}/queue/read_ahead_kb")
}

fn sizes(directory: &std::path::Path) -> Vec<u64> {
    let mut sizes = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sizes.extend(self::sizes(&path));
        } else {
            sizes.push(fs::metadata(path).map_or(0, |metadata| metadata.len()));
        }
    }
    sizes
}
