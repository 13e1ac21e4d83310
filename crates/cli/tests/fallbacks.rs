// SPDX-License-Identifier: MIT OR Apache-2.0
//! Without BPF a run still says what its replay fetched and what the command read itself, and what
//! can't be known is null. That BPF was refused is remembered.

mod common;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use common::{World, drop_pages, is_root, read, stderr};
use foreread_profile::benefit::{is_cold, wall_without_ns};
use foreread_testbed::race;
use serde_json::{Value, json};

const FILES: usize = 300;
const FILE_PAGES: u64 = 5;

/// Whether a recorder works here; says so when not.
fn works(world: &World, name: &str) -> bool {
    let output = world.output(&["doctor", "--json"]);
    let doctor: Value = serde_json::from_slice(&output.stdout).expect("one document");
    let title = format!("{name} recorder");
    let checks = doctor["checks"].as_array().expect("checks");
    let check = checks.iter().find(|check| check["name"] == title);
    let check = check.unwrap_or_else(|| panic!("{title}: {doctor:#}"));
    if check["status"] != "ok" {
        println!("skipped: {title}: {}", check["found"]);
    }
    check["status"] == "ok"
}

/// Takes files out of the page cache, as far as they are on a disk.
fn evict(top: &Path) {
    for entry in fs::read_dir(top).expect("a directory").flatten() {
        if entry.path().is_dir() {
            evict(&entry.path());
            continue;
        }
        drop_pages(&entry.path());
    }
}

/// A cold run of `cat` over all files; its document and its line. It begins late, so that the
/// replay is ahead of it on any disk.
fn run(world: &World, recorder: &str, top: &Path) -> (Value, String) {
    evict(top);
    let script = "sleep 1; cat tree/*/* > /dev/null";
    let arguments = ["run", "--recorder", recorder, "--json", "-o", "run.json"];
    let arguments = [&arguments[..], &["--", "sh", "-c", script]].concat();
    let output = world.output(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let document = fs::read(world.path("run.json")).expect("a document");
    let document = serde_json::from_slice(&document).expect("JSON");
    (document, stderr(&output))
}

fn number(value: &Value) -> u64 {
    let number = value.as_u64();
    number.unwrap_or_else(|| panic!("no number: {value}"))
}

fn accounts(recorder: &str, sees_accesses: bool) {
    let world = World::new();
    if !is_root() || !works(&world, recorder) {
        return;
    }
    let top = world.tree(FILES, FILE_PAGES as usize * 4096);
    let data_pages = FILES as u64 * FILE_PAGES;
    let (first, line) = run(&world, recorder, &top);
    assert_eq!(first["mode"], "recorded", "{line}");
    assert_eq!(first["recorder"], recorder, "{line}");
    if number(&first["command_read_bytes"]) < data_pages * 4096 / 2 {
        println!("skipped: files here stay cached, or aren't on a disk");
        return;
    }
    assert_eq!(first["stall_ns"], Value::Null);
    assert_eq!(first["accounting"], Value::Null, "nothing was replayed");
    assert!(line.contains(" read from disks)"), "{line}");

    // Replayed alone: nobody sees what is used, but what arrived is known.
    let (second, line) = run(&world, recorder, &top);
    assert_eq!(second["mode"], "replayed", "{line}");
    let account = &second["accounting"];
    let fetched = number(&account["fetched_pages"]);
    assert!(fetched >= data_pages * 9 / 10, "{line}: {second:#}");
    assert_eq!(fetched, number(&second["replay"]["arrived_pages"]));
    for unknown in ["used_pages", "used_late_pages", "wasted_pages"] {
        assert_eq!(account[unknown], Value::Null, "{unknown}: {second:#}");
    }
    assert!(number(&account["gone_pages"]) <= fetched);
    let missed_bytes = number(&second["command_read_bytes"]);
    assert!(missed_bytes < data_pages * 4096 / 2, "{second:#}");
    assert!(!line.contains("replayed 0 bytes"), "{line}");
    assert!(line.contains("read by the command itself"), "{line}");
    // The benefit can be judged: both runs count as cold.
    let profile = read(&world.profiles()[0]);
    assert!(profile.runs.iter().all(is_cold), "{:?}", profile.runs);
    assert!(wall_without_ns(&profile.runs).is_some());
    assert!(second["saved_ns"].is_i64(), "{second:#}");

    // Much that is new: it is read by the command, and the next run is recorded again.
    fs::write(top.join("00/new"), vec![b'x'; 2 << 20]).expect("a file");
    let (third, line) = run(&world, recorder, &top);
    assert_eq!(third["mode"], "replayed", "{line}");
    assert!(number(&third["missed_pages"]) >= 512, "{third:#}");
    let (fourth, line) = run(&world, recorder, &top);
    assert_eq!(fourth["mode"], "replayed-recorded", "{line}");
    let account = &fourth["accounting"];
    if sees_accesses && account["used_pages"] != Value::Null {
        let [fetched, used, wasted, unused] = [
            "fetched_pages",
            "used_pages",
            "wasted_pages",
            "resident_unused_pages",
        ]
        .map(|name| number(&account[name]));
        assert_eq!(fetched, used + wasted + unused, "{account:#}");
        assert!(used >= fetched * 9 / 10, "{account:#}");
        assert!(line.contains(" % used"), "{line}");
    } else {
        assert!(!line.contains("used"), "{line}");
    }
    // The new file is in the profile now.
    let new = read(&world.profiles()[0]);
    let path = top.join("00/new").canonicalize().expect("a path");
    let id = new.find(path.as_os_str().as_encoded_bytes());
    let pages = id.map(|id| new.ranges(id).iter().map(|range| range.pages).sum::<u64>());
    assert_eq!(pages, Some(512), "{line}");
}

#[test]
fn tracefs_runs_account_for_what_was_fetched() {
    // A command that overtakes its replay, on busy processors, is recorded the next time.
    race(|| accounts("tracefs", true));
}

#[test]
fn fanotify_runs_account_for_what_was_fetched() {
    race(|| accounts("fanotify", false));
}

/// The note that `run` would have written if BPF had been refused here and now.
fn refusal() -> Value {
    let text = |path: &str| fs::read_to_string(path).expect(path);
    let program = fs::metadata(env!("CARGO_BIN_EXE_foreread")).expect("the binary");
    let status = text("/proc/self/status");
    let rights: Vec<&str> = status
        .lines()
        .filter(|line| line.starts_with("CapEff:") || line.starts_with("Seccomp:"))
        .collect();
    json!({
        "schema": "foreread.recorder/1",
        "circumstances": {
            "boot": text("/proc/sys/kernel/random/boot_id").trim(),
            "program": [program.dev(), program.ino(), program.size()],
            "program_changed_ns": [program.mtime(), program.mtime_nsec()],
            "user": rustix::process::geteuid().as_raw(),
            "rights": rights,
        },
        "bpf_refused_because": ["no BPF today"],
    })
}

#[test]
fn a_refusal_of_bpf_is_remembered_for_this_boot_only() {
    let world = World::new();
    if !is_root() || !works(&world, "tracefs") {
        return;
    }
    let remembered = world.state().join("recorder.json");
    let run = |document: &Value| -> (Value, String) {
        fs::write(&remembered, document.to_string()).expect("it is remembered");
        let arguments = ["run", "--fresh", "--json", "-o", "run.json", "--", "true"];
        let output = world.output(&arguments);
        assert!(output.status.success(), "{}", stderr(&output));
        let document = fs::read(world.path("run.json")).expect("a document");
        let document = serde_json::from_slice(&document).expect("JSON");
        (document, stderr(&output))
    };
    let (document, line) = run(&refusal());
    assert_eq!(document["recorder"], "tracefs", "{document:#}");
    assert_eq!(document["recorder_refusals"], json!(["no BPF today"]));
    assert!(line.contains("; recorded by tracefs ("), "{line}");
    assert!(line.ends_with("): no BPF today\n"), "{line}");
    let mut of_another_boot = refusal();
    of_another_boot["circumstances"]["boot"] = json!("another");
    let (document, line) = run(&of_another_boot);
    assert_ne!(document["recorder_refusals"], json!(["no BPF today"]));
    assert!(!line.contains("no BPF today"), "{line}");
}

/// Root without any rights: sudo is no remedy then.
fn without_rights(world: &World, arguments: &[&str]) -> Option<std::process::Output> {
    let output = Command::new("setpriv")
        .args(["--inh-caps=-all", "--bounding-set=-all"])
        .arg(env!("CARGO_BIN_EXE_foreread"))
        .args(arguments)
        .env("FOREREAD_STATE_DIR", world.state())
        .current_dir(world.path(""))
        .output();
    let output = output
        .ok()
        .filter(|output| output.status.code() != Some(127));
    if output.is_none() {
        println!("skipped: setpriv can't take rights away here");
    }
    output
}

#[test]
fn root_is_not_told_to_use_sudo() {
    let world = World::new();
    if !is_root() {
        return;
    }
    for arguments in [
        &["record", "--trace", "out.frt", "--", "true"][..],
        &["record", "-o", "out.frp", "--", "true"],
    ] {
        let Some(output) = without_rights(&world, arguments) else {
            return;
        };
        let line = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(!line.contains("sudo"), "{line}");
        assert!(line.contains("foreread doctor says"), "{line}");
        assert_eq!(line.trim_end().lines().count(), 1, "{line}");
    }
    // The command runs all the same, and that nothing works is remembered with its reason.
    let output = without_rights(&world, &["run", "--", "true"]).expect("it worked before");
    assert!(output.status.success(), "{}", stderr(&output));
    let remembered = fs::read(world.state().join("recorder.json")).expect("it is remembered");
    let remembered: Value = serde_json::from_slice(&remembered).expect("JSON");
    let reason = remembered["bpf_refused_because"][0].as_str();
    assert!(
        reason.is_some_and(|reason| reason.contains("BPF")),
        "{remembered:#}"
    );
}

#[test]
fn an_unknown_recorder_is_refused_with_those_that_there_are() {
    let world = World::new();
    for verb in [&["run"][..], &["record", "-o", "out.frp"]] {
        let arguments = [verb, &["--recorder", "ebpf", "--", "true"]].concat();
        let output = world.output(&arguments);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        for known in ["'ebpf'", "auto", "bpf", "tracefs", "fanotify"] {
            assert!(text.contains(known), "{text}");
        }
        assert!(!world.path("out.frp").exists());
    }
}
