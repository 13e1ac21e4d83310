// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time that `foreread watch` says it saved, compared with what was saved: the same program on
//! the same cold tree, with the kernel alone and with a `watch` that was started before.
//!
//! `FOREREAD_SAVED=all cargo test -p foreread --test watch_saved estimate -- --nocapture
//! --test-threads=1` measures
//! more disks and programs, for the table of docs/watch.md.

mod common;

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::service::Service;
use common::watched::{FILES, can_watch, count, disk, grep_words, lines, make_cold, text};
use common::{World, stdout};
use foreread_testbed::workload::small_files;
use foreread_testbed::{Testbed, race};
use serde_json::Value;

/// A tree on a modelled disk; `None` where that can't be had, and says so.
fn tree(world: &World, preset: &str, files: usize) -> Option<(Testbed, std::path::PathBuf)> {
    let bytes = files as u64 * 10_000;
    let (testbed, root) = disk(world, preset, (128 << 20).max(2 * bytes))?;
    let tree = root.join("tree");
    testbed
        .instantly(|| small_files(&tree, files, bytes, 1))
        .expect("files");
    Some((testbed, tree))
}

fn timed(words: &[&str]) -> Duration {
    let began = Instant::now();
    let mut command = Command::new(words[0]);
    let command = command.args(&words[1..]).stdout(Stdio::null());
    // grep finds nothing.
    assert!(command.status().expect("it starts").code().is_some());
    began.elapsed()
}

/// Time that a program takes on a cold tree.
fn cold(testbed: &Testbed, words: &[&str]) -> Duration {
    make_cold(testbed);
    timed(words)
}

fn signed(document: &Value, name: &str) -> i64 {
    let number = document[name].as_i64();
    number.unwrap_or_else(|| panic!("{name}: {document}"))
}

/// The report of a program.
fn program<'a>(document: &'a Value, name: &str) -> &'a Value {
    let programs = document["programs"].as_array().expect("programs");
    let of = programs.iter().find(|one| one["program"] == name);
    of.unwrap_or_else(|| panic!("{name}: {document}"))
}

/// What the estimate and the stopwatch say of one program on one disk.
fn compared(world: &World, testbed: &Testbed, preset: &str, words: &[&str]) -> (f64, f64, Value) {
    let alone = cold(testbed, words);
    let service = Service::start(world, &["--json"]);
    let with = cold(testbed, words);
    let output = service.end();
    assert_eq!(output.status.code(), Some(0));
    let document: Value = serde_json::from_str(&stdout(&output)).expect("a document");
    let saved = program(&document, words[0])["saved"].clone();
    let seconds = |name: &str| signed(&saved, name) as f64 / 1e9;
    let measured = alone.as_secs_f64() - with.as_secs_f64();
    println!(
        "{preset}, {}: {:.2} s alone, {:.2} s with; measured {measured:.2} s, estimated {:.2} s \
         ({:.2} to {:.2}), ratio {:.2}",
        words[0],
        alone.as_secs_f64(),
        with.as_secs_f64(),
        seconds("saved_ns"),
        seconds("saved_low_ns"),
        seconds("saved_high_ns"),
        seconds("saved_ns") / measured,
    );
    (measured, seconds("saved_ns"), document)
}

#[test]
fn the_estimate_is_near_what_a_stopwatch_says() {
    let is_for_table = env::var_os("FOREREAD_SAVED").is_some();
    let (presets, files): (&[&str], usize) = match is_for_table {
        true => (&["hdd", "cloud", "usb", "nvme"], 1000),
        false => (&["hdd", "cloud"], FILES),
    };
    for preset in presets {
        race(|| {
            let world = World::new();
            let Some((testbed, tree)) = tree(&world, preset, files) else {
                return;
            };
            let (archive, copy) = (world.path("archive"), world.path("copy"));
            let programs: [&[&str]; 3] = [
                &grep_words(&tree),
                &["tar", "cf", text(&archive), "-C", text(&tree), "."],
                &["cp", "-r", text(&tree), text(&copy)],
            ];
            let count = if is_for_table { programs.len() } else { 1 };
            for words in &programs[..count] {
                let (measured, estimated, document) = compared(&world, &testbed, preset, words);
                if is_for_table {
                    continue;
                }
                // From few misses: docs/watch.md says how far off it is.
                let ratio = estimated / measured;
                assert!(measured > 0.0, "it saved nothing: {document}");
                assert!((0.1..5.0).contains(&ratio), "{ratio}: {document}");
            }
        });
    }
}

/// A program that reads a large file: its name, its script, and the number of its steps.
type Reading = (&'static str, &'static str, u64);

const FORWARD: Reading = (
    "forward",
    "for at in range(0, steps):
    os.pread(fd, 65536, at * 65536)",
    4096,
);
const BACKWARD: Reading = (
    "backward",
    "for at in range(steps - 1, -1, -1):
    os.pread(fd, 65536, at * 65536)",
    768,
);
const STRIDED: Reading = (
    "one page of sixteen",
    "for at in range(0, steps):
    os.pread(fd, 4096, at * 65536)",
    1024,
);
const MAPPED: Reading = (
    "mapped, forward",
    "with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as file:
    for at in range(0, steps * 65536, 4096):
        file[at]",
    4096,
);
const MAPPED_BACKWARD: Reading = (
    "mapped, backward",
    "with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as file:
    for at in range(steps * 65536 - 4096, -1, -4096):
        file[at]",
    1024,
);

/// The words of a program that reads a file.
fn reader(file: &Path, (_, script, steps): Reading) -> Vec<String> {
    let script = format!(
        "import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
steps = int(sys.argv[2])
{script}"
    );
    let file = text(file).to_owned();
    vec![
        "python3".into(),
        "-c".into(),
        script,
        file,
        steps.to_string(),
    ]
}

#[test]
fn the_estimate_of_streams_is_near_what_a_stopwatch_says() {
    let is_for_table = env::var_os("FOREREAD_SAVED").is_some();
    let all = [FORWARD, BACKWARD, STRIDED, MAPPED, MAPPED_BACKWARD];
    let rows: Vec<(&str, &[Reading])> = match is_for_table {
        true => ["hdd", "cloud", "nfs", "nvme"]
            .map(|preset| (preset, &all[..]))
            .to_vec(),
        false => vec![("cloud", &[BACKWARD]), ("nfs", &[FORWARD])],
    };
    for (preset, programs) in rows {
        race(|| {
            let world = World::new();
            let Some((testbed, root)) = disk(&world, preset, 512 << 20) else {
                return;
            };
            let file = root.join("large");
            testbed
                .instantly(|| std::fs::write(&file, vec![1u8; 256 << 20]))
                .expect("a file");
            for program in programs {
                let words = reader(&file, *program);
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                print!("{}: ", program.0);
                let (measured, estimated, document) = compared(&world, &testbed, preset, &words);
                let python = self::program(&document, "python3");
                assert!(count(python, "large_file_pages") > 100, "{document}");
                if is_for_table {
                    continue;
                }
                let ratio = estimated / measured;
                assert!(measured > 0.0, "it saved nothing: {document}");
                assert!((0.2..5.0).contains(&ratio), "{ratio}: {document}");
            }
        });
    }
}

#[test]
fn an_estimate_says_how_it_was_found_and_explain_tells_of_it() {
    race(|| {
        let world = World::new();
        let Some((testbed, tree)) = tree(&world, "cloud", FILES) else {
            return;
        };
        make_cold(&testbed);
        let log = world.path("log");
        let output = world
            .foreread(&["watch", "--log"])
            .arg(&log)
            .arg("--")
            .args(grep_words(&tree))
            .output()
            .expect("it starts");
        let said = String::from_utf8(output.stderr).expect("text");
        let all = lines(&log);
        let of_kind = |what: &str| all.iter().filter(|line| line["what"] == what).count();
        let saved = all.iter().rfind(|line| line["what"] == "saved");
        let saved = saved.unwrap_or_else(|| panic!("{said} {all:#?}"));
        assert!(of_kind("saved") > of_kind("ended"), "{all:#?}");
        assert_eq!(saved["source"], "program");
        assert!(count(saved, "intervals") >= 3, "{saved}");
        let (low, high) = (
            signed(saved, "saved_low_ns"),
            signed(saved, "saved_high_ns"),
        );
        let best = signed(saved, "saved_ns");
        assert!(low <= best && best <= high && best > 0, "{saved}");
        // It is the files by their cost without help, less the time that they took.
        let alone = count(saved, "alone_ns") * count(saved, "aided_files");
        let least = alone as i64 - count(saved, "took_ns") as i64;
        assert!(best >= least && best <= alone as i64, "{saved}");
        assert!(said.contains(" saved ("), "{said}");
        assert!(said.contains("  grep ("), "{said}");

        let process = saved["process"].to_string();
        let told = world.output(&["explain", &process, "--log", text(&log)]);
        let told = stdout(&told);
        assert!(told.contains("without help each took"), "{told}");
        let told = world.output(&["explain", &process, "--json", "--log", text(&log)]);
        let told: Value = serde_json::from_str(&stdout(&told)).expect("a document");
        let walks = told["walks"].as_array().expect("walks");
        assert!(
            walks
                .iter()
                .any(|walk| walk["saved"]["saved_ns"] == saved["saved_ns"]),
            "{told}"
        );
    });
}

#[test]
fn where_nothing_was_used_nothing_is_said_to_be_saved() {
    let world = World::new();
    if !can_watch(&world) {
        return;
    }
    let directory = world.path("small");
    std::fs::create_dir(&directory).expect("a directory");
    for number in 0..50 {
        std::fs::write(directory.join(number.to_string()), "x").expect("a file");
    }
    let words = ["grep", "-rq", "absent", text(Path::new(&directory))];
    for options in [&["--json"][..], &["--json", "--dry-run"]] {
        let output = world
            .foreread(&["watch"])
            .args(options)
            .arg("--")
            .args(words)
            .output()
            .expect("it starts");
        let said = String::from_utf8(output.stderr).expect("text");
        let last = said.lines().last().expect("a line");
        let document: Value = serde_json::from_str(last).expect("a document");
        assert_eq!(document["saved"]["estimated"], 0, "{document}");
        assert_eq!(document["saved"]["saved_ns"], 0, "{document}");
        assert_eq!(document["programs"], serde_json::json!([]), "{document}");
    }
}
