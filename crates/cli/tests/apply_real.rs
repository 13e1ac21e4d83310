// SPDX-License-Identifier: MIT OR Apache-2.0
//! `apply`, `status` and `rollback` on a real kernel, with a modelled disk.

mod common;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use common::{World, stdout};
use foreread_model::DiskParameters;
use foreread_testbed::{FileSystem, Testbed, TestbedConfig};
use rustix::fs::{Advice, fadvise};
use serde_json::Value;

/// A disk of that size, as fast as can be; says so where there can be none.
fn testbed(capacity_bytes: u64) -> Option<Testbed> {
    if let Err(lacking) = Testbed::available() {
        println!("skipped: {lacking}");
        return None;
    }
    let parameters = DiskParameters::preset("instant").expect("a preset");
    Some(Testbed::start(TestbedConfig::new(parameters, capacity_bytes)).expect("a testbed"))
}

fn name(testbed: &Testbed) -> &str {
    let name = testbed.device().file_name().expect("a name");
    name.to_str().expect("text")
}

fn read_ahead_kib(testbed: &Testbed) -> u64 {
    let queue = Path::new("/sys/block").join(name(testbed)).join("queue");
    let text = fs::read_to_string(queue.join("read_ahead_kb")).expect("a setting");
    text.trim().parse().expect("a number")
}

#[test]
fn a_real_device_is_set_and_set_back() {
    let Some(testbed) = testbed(64 << 20) else {
        return;
    };
    let world = World::new();
    let device = testbed.device().to_str().expect("text");
    let applied = world.output(&["apply", device, "--read-ahead", "1M"]);
    assert!(applied.status.success(), "{applied:?}");
    assert_eq!(read_ahead_kib(&testbed), 1024);
    let said = stdout(&applied);
    assert!(
        said.contains(&format!("foreread rollback {}", name(&testbed))),
        "{said}"
    );
    let undone = world.output(&["rollback", name(&testbed)]);
    assert!(undone.status.success(), "{undone:?}");
    assert_eq!(read_ahead_kib(&testbed), 128);
}

#[test]
fn who_has_files_open_is_told() {
    let Some(testbed) = testbed(64 << 20) else {
        return;
    };
    testbed
        .make_file_system(FileSystem::Ext4, &[])
        .expect("a file system");
    let directory = testbed.mount(FileSystem::Ext4, "noatime").expect("mounted");
    let file = File::create(directory.join("file")).expect("a file");
    let world = World::new();
    let applied = world.output(&["apply", name(&testbed), "--read-ahead", "1M", "--json"]);
    let document: Value = serde_json::from_slice(&applied.stdout).expect("a document");
    let processes = document["open_files"]["processes"]
        .as_array()
        .expect("a list");
    let own = processes
        .iter()
        .find(|process| process["pid"] == std::process::id());
    let own = own.unwrap_or_else(|| panic!("this process in {document}"));
    assert!(own["descriptors"].as_u64() >= Some(1), "{document}");
    drop(file);
    assert!(world.output(&["rollback", "--all"]).status.success());
}

#[test]
fn a_device_that_has_gone_is_gone() {
    let Some(testbed) = testbed(64 << 20) else {
        return;
    };
    let world = World::new();
    let device = name(&testbed).to_owned();
    let applied = world.output(&["apply", &device, "--read-ahead", "1M"]);
    assert!(applied.status.success(), "{applied:?}");
    drop(testbed);
    let status = world.output(&["status", "--json"]);
    assert_eq!(status.status.code(), Some(1), "{status:?}");
    let document: Value = serde_json::from_slice(&status.stdout).expect("a document");
    assert_eq!(document["applied"][0]["state"], "gone", "{document}");
    let undone = world.output(&["rollback", "--all"]);
    assert!(undone.status.success(), "{undone:?}");
}

/// The device of "limit readahead size for small devices", Message-ID
/// <20100301052651.857984880@intel.com>, and the label probe that it was slow at.
#[test]
fn a_label_probe_of_a_small_device_reads_little_more_than_it_asks_for() {
    let Some(testbed) = testbed(505_000) else {
        return;
    };
    let world = World::new();
    let before = label_probe_bytes(&testbed);
    let applied = world.output(&["apply", "--udev", name(&testbed)]);
    assert_eq!(
        stdout(&applied),
        "FOREREAD_READ_AHEAD_KB=0\n",
        "{applied:?}"
    );
    let after = label_probe_bytes(&testbed);
    assert!(after <= 24 << 10, "{after} bytes, {before} before");
    assert!(before > after, "{before} bytes before, {after} after");
    assert!(world.output(&["rollback", "--all"]).status.success());
    assert_eq!(label_probe_bytes(&testbed), before);
}

/// Bytes that the device is asked for by 1,024 bytes at 0 and 16,384 at 1,536.
fn label_probe_bytes(testbed: &Testbed) -> u64 {
    let device = OpenOptions::new()
        .read(true)
        .open(testbed.device())
        .expect("the device");
    fadvise(&device, 0, None, Advice::DontNeed).expect("its pages are dropped");
    testbed.reset_counters();
    for (offset_bytes, length) in [(0, 1024), (1536, 16_384)] {
        device
            .read_exact_at(&mut vec![0; length], offset_bytes)
            .expect("it can be read");
    }
    testbed.wait_until_idle().expect("sysfs tells");
    testbed.counters().bytes
}
