// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread advise`: its document, what it finds under which name, many devices, broken ones, and
//! this machine's own.

mod common;

use std::fs;
use std::path::Path;

use common::machine::everything;
use common::{World, assert_fails_in_one_line, stderr, stdout};
use foreread_device::{Identity, Measured, MeasuredBook};
use foreread_testbed::fake_sysfs::{FakeDisk, Tree};
use foreread_testbed::{Testbed, TestbedConfig};
use serde_json::Value;

fn advise(world: &World, top: &Path, more: &[&str]) -> std::process::Output {
    let top = top.to_str().expect("text");
    world.output(&[&["advise", "--root", top], more].concat())
}

fn document(output: &std::process::Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    serde_json::from_str(&stdout(output)).expect("one document")
}

fn device<'a>(document: &'a Value, name: &str) -> &'a Value {
    let devices = document["devices"].as_array().expect("devices");
    let found = devices.iter().find(|device| device["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {document:#}"))
}

#[test]
fn the_document_says_everything_with_its_unit() {
    let world = World::new();
    let tree = everything(&world.path("machine")).expect("a machine");
    let output = advise(&world, tree.top(), &["--json"]);
    let document = document(&output);
    assert_eq!(document["schema"], "foreread.advice/1");
    assert_eq!(document["use"], "mixed");
    assert_eq!(document["devices_left_out"], 1);
    let sda = device(&document, "sda");
    assert_eq!(sda["advised_kib"], 1024);
    assert_eq!(sda["advised_bytes"], 1 << 20);
    assert_eq!(sda["advised_sectors"], 2048);
    assert_eq!(sda["advised_pages"], 256);
    assert_eq!(sda["source"], "udev");
    assert_eq!(sda["conflicts"][0]["kib"], 2560);
    assert_eq!(sda["conflicts"][0]["is_certain"], true);
    let vda = device(&document, "vda");
    assert_eq!(vda["conflicts"][0]["is_least"], true);
    assert_eq!(vda["source"], "twice-largest-request");
    let stick = device(&document, "sdb");
    assert_eq!(
        (&stick["advised_kib"], &stick["bound_by"]),
        (&0.into(), &"capacity-cap".into())
    );
    let broken = device(&document, "sdd");
    assert!(broken["read_ahead_kib"].is_null());
    assert_eq!(
        broken["not_seen"][0],
        "queue/read_ahead_kb: `lots` is no number"
    );
    assert_eq!(broken["advised_kib"], 512);
    assert!(device(&document, "dm-2")["capacity_bytes"].is_null());
    assert_eq!(device(&document, "dm-2")["advised_kib"], 512);
    assert_eq!(device(&document, "server:/export")["advised_kib"], 15_360);
    assert_eq!(device(&document, "/dev/sde")["source"], "file-system");
}

#[test]
fn a_device_has_many_names_and_is_shown_once() {
    let world = World::new();
    let tree = everything(&world.path("machine")).expect("a machine");
    let names = [
        "sda",
        "/dev/sda1",
        "8:1",
        "/home",
        "/dev/mapper/home",
        "dm-1",
        "/mnt/nfs",
    ];
    let output = advise(&world, tree.top(), &[&["--json"][..], &names].concat());
    let document = document(&output);
    let found: Vec<&str> = document["devices"]
        .as_array()
        .expect("devices")
        .iter()
        .filter_map(|device| device["name"].as_str())
        .collect();
    assert_eq!(found, ["sda", "dm-1", "server:/export"]);
}

#[test]
fn what_was_measured_is_taken() {
    let world = World::new();
    let tree = everything(&world.path("machine")).expect("a machine");
    let measured = |certain| Measured {
        identity: Identity {
            name: "elsewhere".to_owned(),
            serial: Some("eui.00252590".to_owned()),
            model: Some("Fast Disk 970".to_owned()),
            capacity_bytes: Some(1 << 40),
            ..Identity::default()
        },
        unix_s: 1,
        sweep: Vec::new(),
        plateau_kib: 1024,
        certain,
        request_cost_ns: 1.0,
        bandwidth_bytes_per_s: 1.0,
        latency_ns: None,
        speed_up: None,
    };
    let mut book = MeasuredBook::default();
    book.push(measured(true));
    fs::create_dir_all(world.state().join("devices")).expect("a directory");
    let path = world.state().join("devices/measured.json");
    fs::write(&path, book.to_json().expect("JSON")).expect("a book");
    let output = advise(&world, tree.top(), &["--json", "nvme0n1"]);
    let nvme = &document(&output)["devices"][0];
    assert_eq!(
        (&nvme["advised_kib"], &nvme["bound_by"]),
        (&1024.into(), &"plateau".into())
    );
    assert!(nvme["uncertain_plateau_kib"].is_null());
    // A guess is named and not used.
    let mut book = MeasuredBook::default();
    book.push(measured(false));
    fs::write(&path, book.to_json().expect("JSON")).expect("a book");
    let output = advise(&world, tree.top(), &["--json", "nvme0n1"]);
    let nvme = &document(&output)["devices"][0];
    assert_eq!(
        (&nvme["advised_kib"], &nvme["uncertain_plateau_kib"]),
        (&512.into(), &1024.into())
    );
    let said = stdout(&advise(&world, tree.top(), &["nvme0n1"]));
    assert!(said.contains("1,024 KiB, is not certain"), "{said}");
    let top = tree.top().to_str().expect("text");
    let output = world.output(&["apply", "--dry-run", "nvme0n1", "--root", top]);
    let said = stderr(&output);
    assert!(said.contains("1,024 KiB, is not certain"), "{said}");
    assert!(!stdout(&output).contains("1,024"), "{}", stdout(&output));
    // A broken book is named, and the advice goes on without it.
    fs::write(&path, "{").expect("a broken book");
    let output = advise(&world, tree.top(), &["--json", "nvme0n1"]);
    assert_eq!(document(&output)["devices"][0]["advised_kib"], 512);
    assert!(
        stderr(&output).contains("what probes measured is left out"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_thousand_devices_are_all_advised() {
    let world = World::new();
    let tree = Tree::new(&world.path("machine")).expect("a tree");
    for index in 0..1000 {
        let name = format!("nvme{index}n1");
        let disk = FakeDisk::nvme(&name, &format!("259:{index}"), 1 << 40);
        tree.disk(&disk).expect("a disk");
    }
    let rules: String = (0..1000)
        .map(|n| format!("KERNEL==\"nvme{n}n?\", ATTR{{queue/read_ahead_kb}}=\"{n}\"\n"))
        .collect();
    tree.write("etc/udev/rules.d/1.rules", &rules)
        .expect("rules");
    let output = advise(&world, tree.top(), &["--json"]);
    let document = document(&output);
    assert_eq!(document["devices"].as_array().map(Vec::len), Some(1000));
    let one = device(&document, "nvme77n1");
    assert_eq!(one["conflicts"][0]["place"], "/etc/udev/rules.d/1.rules:78");
}

#[test]
fn nothing_reaches_the_terminal_raw() {
    let world = World::new();
    let tree = Tree::new(&world.path("machine")).expect("a tree");
    let evil = "evil\x1b[2J\u{202e}";
    tree.disk(&FakeDisk::sata("sda", "8:0", 1 << 40).with("device/model", evil))
        .expect("a disk");
    tree.disk(&FakeDisk::loop_device(0, Some("/a\nb\x1b[31m"), 1 << 30))
        .expect("a loop device");
    tree.mount("0:50", "/mnt/\\033[2J", "nfs4", "s:/\\033", "rw")
        .expect("a mount");
    for how in [&[][..], &["--explain"], &["--json"]] {
        let output = advise(&world, tree.top(), how);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let text = stdout(&output) + &stderr(&output);
        let is_raw =
            |c: char| (c.is_control() && c != '\n') || (how != ["--json"] && c == '\u{202e}');
        assert!(!text.chars().any(is_raw), "{how:?}: {text:?}");
    }
}

#[test]
fn wrong_usage_is_said_in_one_line() {
    let world = World::new();
    let tree = everything(&world.path("machine")).expect("a machine");
    for name in ["sdz", "/dev/sda99", "99:99", "", "/proc", "\x1b[2J"] {
        let output = advise(&world, tree.top(), &[name]);
        assert_fails_in_one_line(&output, name);
    }
    assert_fails_in_one_line(&advise(&world, &world.path("none"), &[]), "no directory");
    for wrong in [
        ["--streams", "0"],
        ["--streams", "-1"],
        ["--streams", "many"],
        ["--use", "fast"],
        ["--json", "--explain"],
    ] {
        let output = advise(&world, tree.top(), &wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn a_real_loop_device_has_its_capacity_cap() {
    if let Err(lacking) = Testbed::available() {
        println!("skipped: {lacking}");
        return;
    }
    let disk = foreread_model::DiskParameters::preset("nvme").expect("a preset");
    let testbed = Testbed::start(TestbedConfig::new(disk, 32 << 20)).expect("a disk");
    let path = testbed.device().to_str().expect("text").to_owned();
    let output = World::new().output(&["advise", "--json", &path]);
    let loop_device = &document(&output)["devices"][0];
    assert_eq!(loop_device["capacity_bytes"], 32 << 20);
    assert_eq!(loop_device["transport"], "loop");
    assert_eq!(loop_device["advised_kib"], 16);
    assert_eq!(loop_device["bound_by"], "capacity-cap");
    let number = loop_device["number"].as_str().expect("a number");
    let setting = format!("/sys/class/bdi/{number}/read_ahead_kb");
    let now = fs::read_to_string(setting).expect("its setting");
    assert_eq!(loop_device["read_ahead_kib"].to_string(), now.trim());
}

#[test]
fn this_machine_is_advised_without_rights() {
    let world = World::new();
    let output = world.output(&["advise", "--json"]);
    let document = document(&output);
    for device in document["devices"].as_array().expect("devices") {
        let advised = device["advised_kib"].as_u64();
        assert!(
            advised.is_none_or(|kib| kib >= 4 && kib % 4 == 0),
            "{device:#}"
        );
    }
}
