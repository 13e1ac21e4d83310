// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles of programs that read something else by now: a changed script, and a program that is
//! told by a file what to read.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use common::{World, can_record, is_root};
use foreread_testbed::{FileSystem, Testbed, TestbedConfig, race};
use serde_json::Value;

const FILES: usize = 60;
const FILE_BYTES: usize = 40_000;

/// A slow stick with files in two directories, and scripts that read them.
struct Stick {
    testbed: Testbed,
    top: PathBuf,
    world: World,
}

impl Stick {
    fn new() -> Option<Self> {
        if !is_root() || !can_record() {
            return None;
        }
        if let Err(lacking) = Testbed::available() {
            println!("skipped: {lacking}");
            return None;
        }
        let parameters = foreread_model::DiskParameters::preset("usb").expect("a known disk");
        let testbed = Testbed::start(TestbedConfig::new(parameters, 64 << 20)).expect("a disk");
        let top = testbed.instantly(|| {
            testbed
                .make_file_system(FileSystem::Ext4, &[])
                .expect("a file system");
            let top = testbed.mount(FileSystem::Ext4, "noatime").expect("a mount");
            for directory in ["old", "new"] {
                fs::create_dir(top.join(directory)).expect("a directory");
                for file in 0..FILES {
                    let path = top.join(directory).join(format!("file-{file:02}"));
                    fs::write(path, vec![b'x'; FILE_BYTES]).expect("a file");
                }
            }
            testbed
                .remount(FileSystem::Ext4, "noatime")
                .expect("a mount")
        });
        let world = World::new();
        Some(Self {
            testbed,
            top,
            world,
        })
    }

    /// Runs a command under `foreread run` from a cold disk; its report.
    fn run(&self, words: &[&str]) -> Value {
        // Reads of the last replay that nobody needed any more may still arrive, and would stay.
        self.testbed.wait_until_idle().expect("an idle disk");
        self.testbed.drop_caches().expect("cold caches");
        // The disk of the machine isn't what is tested.
        for words in [&["true"][..], &["cat", "/dev/null"]] {
            let _ = Command::new(words[0]).args(&words[1..]).status();
        }
        let before = self.stored();
        let json = self.world.path("report.json");
        let json_name = json.to_str().expect("a plain path");
        let mut command = self
            .world
            .foreread(&["run", "-q", "--json", "-o", json_name, "--"]);
        let output = command.args(words).output().expect("foreread starts");
        assert!(output.status.success(), "{}", common::stderr(&output));
        self.wait_for_another_than(before.as_deref());
        serde_json::from_slice(&fs::read(json).expect("a report")).expect("a document")
    }

    /// The stored profile as bytes; none before there is one.
    fn stored(&self) -> Option<Vec<u8>> {
        self.world
            .profiles()
            .first()
            .map(|path| fs::read(path).expect("a profile"))
    }

    /// Waits until another profile is stored than this one: what a replay taught is saved in the
    /// background.
    fn wait_for_another_than(&self, before: Option<&[u8]>) {
        let began = Instant::now();
        while self.stored().as_deref() == before {
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "nothing was saved"
            );
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// How many files of each directory the profile holds with pages.
    fn known(&self) -> (usize, usize) {
        let paths = self.world.profiles();
        assert_eq!(paths.len(), 1, "{paths:?}");
        let profile = common::read(&paths[0]);
        let of = |directory: &str| {
            let top = self
                .top
                .join(directory)
                .into_os_string()
                .into_encoded_bytes();
            let files = profile
                .files()
                .filter(|(id, node)| node.range_count > 0 && profile.path(*id).starts_with(&top));
            files.count()
        };
        (of("old"), of("new"))
    }

    fn script(&self, content: &str) -> String {
        let path = self.world.path("script.sh");
        fs::write(
            &path,
            content.replace("TOP", self.top.to_str().expect("a plain path")),
        )
        .expect("a script");
        path.into_os_string().into_string().expect("a plain path")
    }
}

fn number(report: &Value, pointer: &str) -> u64 {
    let value = report.pointer(pointer).and_then(Value::as_u64);
    value.unwrap_or_else(|| panic!("{pointer} in {report:#}"))
}

const PAGES: u64 = (FILES * FILE_BYTES / 4096) as u64;

#[test]
fn a_script_that_was_changed_altogether_is_recorded_afresh() {
    race(|| {
        let Some(stick) = Stick::new() else {
            return;
        };
        let script = stick.script("cat TOP/old/* >/dev/null\n");
        assert_eq!(stick.run(&["sh", &script])["mode"], "recorded");
        assert_eq!(stick.known(), (FILES, 0));
        let replayed = stick.run(&["sh", &script]);
        assert_eq!(replayed["mode"], "replayed");
        assert!(
            number(&replayed, "/replay/arrived_pages") > 0,
            "{replayed:#}"
        );
        stick.script("cat TOP/new/* >/dev/null\n");
        let changed = stick.run(&["sh", &script]);
        assert_eq!(changed["mode"], "replayed-recorded", "{changed:#}");
        assert_eq!(changed["following"]["proven"], false, "{changed:#}");
        assert!(
            number(&changed, "/replay/arrived_pages") < PAGES / 4,
            "{changed:#}"
        );
        assert_eq!(stick.known(), (0, FILES));
        let after = stick.run(&["sh", &script]);
        assert_eq!(after["mode"], "replayed", "{after:#}");
        assert!(number(&after, "/replay/arrived_pages") > 0, "{after:#}");
    });
}

#[test]
fn a_script_that_was_edited_a_little_keeps_its_profile() {
    race(|| {
        let Some(stick) = Stick::new() else {
            return;
        };
        let script = stick.script("#!/bin/sh\ncat TOP/old/* >/dev/null\n");
        let words = ["sh", script.as_str()];
        assert_eq!(stick.run(&words)["mode"], "recorded");
        stick.script("#!/bin/sh\n# Reads all.\ncat TOP/old/* TOP/new/file-00 >/dev/null\n");
        let edited = stick.run(&words);
        assert_eq!(edited["mode"], "replayed-recorded", "{edited:#}");
        assert_eq!(edited["following"]["proven"], true, "{edited:#}");
        assert_eq!(stick.known(), (FILES, 1));
        // An edit that ends it early loses nothing.
        stick.script("#!/bin/sh\nexit 0\n");
        stick.run(&words);
        assert_eq!(stick.known(), (FILES, 1));
    });
}

/// Whoever watches the program needs a processor now and then while it runs, for a second. Where
/// others take all of them, it may see too little of one run.
#[test]
fn a_program_that_goes_elsewhere_is_left_alone_and_recorded_next() {
    race(|| {
        let Some(stick) = Stick::new() else {
            return;
        };
        let list = stick.world.path("list");
        let say = |directory: &str| {
            let path = |file: usize| stick.top.join(directory).join(format!("file-{file:02}"));
            let line = |file| format!("{}\n", Path::display(&path(file)));
            fs::write(&list, (0..FILES).map(line).collect::<String>()).expect("a list");
        };
        let script = stick.script("while read -r path; do cat \"$path\"; done <list >/dev/null\n");
        say("old");
        assert_eq!(stick.run(&["sh", &script])["mode"], "recorded");
        assert_eq!(stick.known(), (FILES, 0));
        say("new");
        let elsewhere = stick.run(&["sh", &script]);
        assert_eq!(elsewhere["mode"], "replayed");
        let following = &elsewhere["following"];
        assert!(number(following, "/pauses") > 0, "{elsewhere:#}");
        assert_eq!(elsewhere["recorded_next"], true, "{elsewhere:#}");
        let next = stick.run(&["sh", &script]);
        assert_eq!(next["mode"], "replayed-recorded", "{next:#}");
        assert_eq!(stick.known(), (0, FILES));
        assert_eq!(stick.run(&["sh", &script])["mode"], "replayed");
    });
}

#[test]
fn a_run_that_ends_before_its_recorder_says_so() {
    if !is_root() || !can_record() {
        return;
    }
    let world = World::new();
    let tree = world.tree(40, 4096);
    let tree = tree.to_str().expect("a plain path");
    let run = || {
        let output = world.output(&[
            "run",
            "-q",
            "--json",
            "-o",
            "report.json",
            "--",
            "ls",
            "-l",
            tree,
        ]);
        assert!(output.status.success(), "{}", common::stderr(&output));
        let report = fs::read(world.path("report.json")).expect("a report");
        serde_json::from_slice::<Value>(&report).expect("a document")
    };
    assert_eq!(run()["mode"], "recorded");
    for file in walk(Path::new(tree)) {
        common::drop_pages(&file);
    }
    let report = run();
    if report["mode"] == "replayed" && report["recorder"].is_null() {
        let reasons = report["recorder_refusals"].as_array().expect("a list");
        assert!(!reasons.is_empty(), "{report:#}");
    }
}

fn walk(top: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(top).expect("a directory").flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(walk(&path)),
            path => found.push(path),
        }
    }
    found
}
