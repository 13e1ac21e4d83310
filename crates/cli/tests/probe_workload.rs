// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread probe TARGET -- COMMAND`: a command at several readahead sizes, on a modelled disk.

mod common;

use std::fs;
use std::path::Path;

use common::{World, assert_fails_in_one_line, can_record, stdout};
use foreread_model::DiskParameters;
use foreread_testbed::{FileSystem, Testbed, TestbedConfig};
use serde_json::Value;

/// A mounted file system with a file of 32 MiB on a fast disk.
fn testbed() -> Option<Testbed> {
    if let Err(lacking) = Testbed::available() {
        println!("skipped: {lacking}");
        return None;
    }
    let disk = DiskParameters::preset("nvme").expect("a preset");
    let testbed = Testbed::start(TestbedConfig::new(disk, 256 << 20)).expect("a testbed");
    testbed
        .make_file_system(FileSystem::Ext4, &[])
        .expect("a file system");
    let directory = testbed.mount(FileSystem::Ext4, "").expect("mounted");
    fs::write(directory.join("file"), vec![b'x'; 32 << 20]).expect("a file");
    testbed.drop_caches().expect("written out");
    Some(testbed)
}

fn mount_point(testbed: &Testbed) -> String {
    let name = testbed.device().to_str().expect("text").to_owned();
    let mounts = fs::read_to_string("/proc/thread-self/mounts").expect("mounts");
    let line = mounts.lines().find(|line| line.starts_with(&name));
    let point = line.and_then(|line| line.split(' ').nth(1));
    point.expect("it is mounted").to_owned()
}

fn read_ahead_kib(testbed: &Testbed) -> String {
    let name = testbed.device().file_name().expect("a name");
    let path = Path::new("/sys/block")
        .join(name)
        .join("queue/read_ahead_kb");
    fs::read_to_string(path)
        .expect("a setting")
        .trim()
        .to_owned()
}

#[test]
fn short_reads_here_and_there_use_less_of_larger_windows() {
    if !can_record() {
        return;
    }
    let Some(testbed) = testbed() else { return };
    let world = World::new();
    let at = mount_point(&testbed);
    // Sixty times 16 KiB and the page behind: the beginning of a stream that ends there.
    let script = format!(
        "for i in $(seq 1 60); do dd if={at}/file of=/dev/null bs=4k skip=$((i * 130)) count=5 \
         status=none; done"
    );
    let words = [
        "probe",
        &at,
        "--sizes",
        "32K,2M",
        "--max-time",
        "100ms",
        "--json",
        "--",
    ];
    let output = world.output(&[&words[..], &["sh", "-c", &script]].concat());
    assert!(output.status.success(), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    let ratio = |kib: u64| {
        let sizes = document["sizes"].as_array().expect("a list");
        let size = sizes.iter().find(|size| size["read_ahead_kib"] == kib);
        size.and_then(|size| size["hit_ratio"].as_f64())
            .unwrap_or_else(|| panic!("{kib} KiB in {document:#}"))
    };
    assert!(ratio(32) > ratio(2048), "{document:#}");
    assert_eq!(document["read_ahead_kib_before"], 128);
    assert_eq!(read_ahead_kib(&testbed), "128");
}

#[test]
fn people_get_a_table_and_their_setting_back() {
    if !can_record() {
        return;
    }
    let Some(testbed) = testbed() else { return };
    let world = World::new();
    let at = mount_point(&testbed);
    let file = format!("{at}/file");
    let words = [
        "probe",
        &at,
        "--sizes",
        "64K",
        "--max-time",
        "100ms",
        "--",
        "cat",
        &file,
    ];
    let output = world.output(&words);
    assert!(output.status.success(), "{output:?}");
    let said = stdout(&output);
    assert!(
        said.contains("64 KiB") && said.contains("as it is"),
        "{said}"
    );
    assert_eq!(read_ahead_kib(&testbed), "128");
}

#[test]
fn what_can_not_be_run_is_said_in_one_line() {
    if !can_record() {
        return;
    }
    let Some(testbed) = testbed() else { return };
    let world = World::new();
    let at = mount_point(&testbed);
    let output = world.output(&["probe", &at, "--", "no-such-command"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(read_ahead_kib(&testbed), "128");
    let nowhere = world.output(&["probe", "/no/such/place", "--", "true"]);
    assert_fails_in_one_line(&nowhere, "no such place");
    let memory = world.output(&["probe", "/proc", "--", "true"]);
    assert_fails_in_one_line(&memory, "/proc");
}
