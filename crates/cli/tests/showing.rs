// SPDX-License-Identifier: MIT OR Apache-2.0
//! `show`, `merge` and `doctor` on good input.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use common::{World, can_record, golden, is_root, large_profile, read, stderr, stdout};
use foreread_profile::{ProfileBuilder, Program, Source};
use serde_json::Value;

fn text(path: &Path) -> &str {
    path.to_str().expect("a path that is text")
}

fn document(output: &std::process::Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("one document")
}

#[test]
fn foreign_names_are_escaped() {
    let world = World::new();
    let output = world.output(&["show", "--files", text(&golden())]);
    let shown = stdout(&output);
    assert!(
        shown.contains(r"command      grep -r $'n\xf6thing\n' ''"),
        "{shown}"
    );
    assert!(
        shown.contains(r"file      /srv/data/two\xff.bin [0-5 20 21-24]"),
        "{shown}"
    );
    let evil = Program {
        executable: b"/bin/\x1b]0;title\x07".to_vec(),
        arguments: vec![b"a\r".to_vec(), "\u{202e}txt.exe".into()],
        directory: b"/a\\b\nreplay       on: trust me".to_vec(),
        ..Program::default()
    };
    let mut builder = ProfileBuilder::new(evil, Source::default());
    builder.node(b"/evil\x1b[2J\n\xff").expect("a path");
    common::write(&world.path("evil.frp"), &builder.finish());
    for how in [
        &["show", "--files", "evil.frp"][..],
        &["show", "--json", "--files", "evil.frp"],
    ] {
        let shown = stdout(&world.output(how));
        let raw = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!shown.contains(raw), "{shown}");
        assert!(!shown.contains("\nreplay       on: trust me"), "{shown}");
        assert!(
            shown.contains("evil") && shown.contains("x1b[2J"),
            "{shown}"
        );
    }
    let nodes = document(&world.output(&["show", "--json", "--files", "evil.frp"]));
    assert_eq!(nodes["nodes"][1]["path"], r"/evil\x1b[2J\n\xff");
    assert_eq!(
        nodes["program"]["directory"],
        r"/a\\b\nreplay       on: trust me"
    );
}

#[test]
fn files_are_listed_by_need_with_their_ranges() {
    let world = World::new();
    let shown = document(&world.output(&["show", "--json", "--files", text(&golden())]));
    let nodes = shown["nodes"].as_array().expect("nodes");
    assert_eq!(nodes.len(), 10);
    let needs: Vec<u64> = nodes
        .iter()
        .filter_map(|node| node["need_ns"].as_u64())
        .collect();
    assert!(needs.len() == nodes.len() && needs.is_sorted(), "{needs:?}");
    let grep = nodes
        .iter()
        .find(|node| node["path"] == "/usr/bin/grep")
        .expect("grep");
    let ranges = grep["ranges"].as_array().expect("ranges");
    assert_eq!(ranges.len(), 3);
    assert_eq!(ranges[1]["start_page"], 20);
    assert_eq!(ranges[1]["need_ns"], 900_000_000u64);
    assert_eq!(shown["pages"], 37);
}

#[test]
fn the_store_is_listed_and_its_names_can_be_shown() {
    let world = World::new();
    common::write(&world.state().join("grep-1.frp"), &read(&golden()));
    fs::write(world.state().join(".lock"), "").expect("a file that is no profile");
    fs::write(world.state().join("cut-2.frp"), "FRPROFIL").expect("a damaged one");
    let output = world.output(&["show"]);
    let shown = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        shown.contains("grep-1 ") && shown.contains("2 profiles"),
        "{shown}"
    );
    assert!(
        shown.contains("unreadable: ") && !shown.contains(".lock"),
        "{shown}"
    );
    let listed = document(&world.output(&["show", "--json"]));
    assert_eq!(listed["schema"], "foreread.profiles/1");
    assert_eq!(listed["profiles"][1]["name"], "grep-1.frp");
    assert_eq!(listed["profiles"][1]["pages"], 37);
    assert!(listed["profiles"][0]["error"].is_string());
    let by_name = world.output(&["show", "grep-1.frp"]);
    assert!(
        stdout(&by_name).contains("37 pages"),
        "{}",
        stderr(&by_name)
    );
}

#[test]
fn a_program_finds_the_profile_that_run_made() {
    if !can_record() {
        return;
    }
    let world = World::new();
    let ran = world.output(&["run", "--", "cat", "/etc/passwd"]);
    assert!(ran.status.success(), "{}", stderr(&ran));
    let stored = fs::read_dir(world.state()).expect("a store").flatten();
    let mut stored = stored.map(|entry| entry.file_name().into_string().expect("text"));
    let name = stored.find(|name| name.ends_with(".frp"));
    let name = name.expect("a stored profile");
    let stem = name.trim_end_matches(".frp");
    for named in [&["--", "cat", "/etc/passwd"][..], &[&*name], &[stem]] {
        let output = world.output(&[&["show"], named].concat());
        let shown = stdout(&output);
        assert!(
            shown.contains("command      cat /etc/passwd"),
            "{shown}{}",
            stderr(&output)
        );
        assert!(
            shown.contains("/etc/passwd") && shown.contains("by BPF"),
            "{shown}"
        );
        assert!(
            shown.contains("replay       on: nothing was replayed yet"),
            "{shown}"
        );
    }
    for named in [&["--", "cat", "/etc/passwd"][..], &[stem]] {
        let replayed = world.output(&[&["replay", "--json"], named].concat());
        assert!(replayed.status.success(), "{}", stderr(&replayed));
    }
    let other = world.output(&["show", "--", "cat", "/etc/group"]);
    common::assert_fails_in_one_line(&other, "another file is another program");
}

#[test]
fn a_merge_holds_what_each_holds() {
    let world = World::new();
    let [one, two] = [large_profile(300, 0), large_profile(300, 1 << 40)];
    common::write(&world.path("one"), &one);
    common::write(&world.path("two"), &two);
    let golden = golden();
    let output = world.output(&["merge", "-o", "out", "one", "two", text(&golden)]);
    assert!(
        output.status.success() && output.stdout.is_empty(),
        "{}",
        stderr(&output)
    );
    assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    assert!(stderr(&output).contains("603 files"), "{}", stderr(&output));
    let merged = read(&world.path("out"));
    for part in [&one, &two, &read(&golden)] {
        assert!(
            part.files()
                .all(|(id, _)| merged.find(&part.path(id)).is_some())
        );
    }
    assert_eq!(
        merged.total_pages(),
        one.total_pages() + two.total_pages() + 37
    );
    let mode = fs::metadata(world.path("out"))
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(
        mode & 0o777,
        0o600,
        "what programs read is nobody else's business"
    );
    // Onto one of its own inputs.
    let output = world.output(&["merge", "--json", "-o", "one", "one", "two"]);
    let done = document(&output);
    assert_eq!(
        (&done["schema"], &done["files"]),
        (&"foreread.merge/1".into(), &600.into())
    );
    assert_eq!(read(&world.path("one")).files().count(), 600);
}

#[test]
fn doctor_says_how_each_file_system_is_read_and_leaves_nothing() {
    let world = World::new();
    let place = world.path("not/yet");
    let doctor = |json: &[&str]| {
        let mut command = world.foreread(&[&["doctor"], json].concat());
        command
            .env("FOREREAD_STATE_DIR", &place)
            .output()
            .expect("starts")
    };
    let output = doctor(&["--json"]);
    let found = document(&output);
    assert_eq!(found["schema"], "foreread.doctor/1");
    let checks = found["checks"].as_array().expect("checks");
    let status = |name: &str| {
        checks
            .iter()
            .find(|check| check["name"] == name)
            .map(|check| check["status"].clone())
    };
    for name in [
        "privileges",
        "kernel",
        "BTF",
        "BPF recorder",
        "tracefs recorder",
        "fanotify recorder",
        "io_uring",
        "cachestat",
        "openat2",
        "PSI",
        "memory",
        "profiles",
        "testbed",
    ] {
        assert!(status(name).is_some(), "{name}: {found:#}");
    }
    let lacking: Vec<&Value> = checks
        .iter()
        .filter(|check| check["status"] == "lacking")
        .collect();
    assert!(
        lacking.iter().all(|check| check["remedy"].is_string()),
        "{found:#}"
    );
    assert_eq!(output.status.code(), Some(i32::from(!lacking.is_empty())));
    assert_eq!(found["works_fully"], lacking.is_empty());
    assert_eq!(status("profiles"), Some("ok".into()));
    let shown = doctor(&[]);
    assert_eq!(shown.status.code(), output.status.code());
    assert_eq!(
        stdout(&shown)
            .lines()
            .last()
            .map(|l| l.contains("recorder")),
        Some(true)
    );
    assert!(!world.path("not").exists(), "doctor made the directory");
}

#[test]
fn doctor_leaves_no_trace_instance() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let mut command = world.foreread(&["doctor"]);
    let mut child = command.stdout(Stdio::null()).spawn().expect("starts");
    let pid = child.id();
    child.wait().expect("ends");
    // Those of other processes are none of its business.
    let instances = fs::read_dir("/sys/kernel/tracing/instances");
    let names = instances
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name());
    let own = format!("foreread-{pid}-");
    let left: Vec<_> = names
        .filter(|name| name.to_string_lossy().starts_with(&own))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
