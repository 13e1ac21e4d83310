// SPDX-License-Identifier: MIT OR Apache-2.0
//! For any bytes in a profile file, the profile is shown, or one clear line and exit 2 follow.

mod common;

use std::fs;
use std::path::Path;

use common::{World, assert_fails_in_one_line, golden, stderr, stdout};

/// Every verb that reads a profile; `P` stands for it.
const READERS: [&[&str]; 4] = [
    &["show", "P"],
    &["show", "--json", "--files", "P"],
    &["replay", "P"],
    &["merge", "-o", "out", "P", "P"],
];

fn assert_refused(world: &World, profile: &Path, what: &str) {
    let profile = profile.to_str().expect("a path that is text");
    for reader in READERS {
        let arguments: Vec<&str> = reader
            .iter()
            .map(|word| if *word == "P" { profile } else { word })
            .collect();
        let what = format!("{} of {what}", arguments[0]);
        assert_fails_in_one_line(&world.output(&arguments), &what);
        assert!(!world.path("out").exists(), "{what}");
    }
}

#[test]
fn a_cut_profile_is_refused() {
    let world = World::new();
    let whole = fs::read(golden()).expect("the golden profile");
    let path = world.path("cut.frp");
    for length in [0, 1, 7, 8, 31, 32, 33, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..length]).expect("a file");
        assert_refused(&world, &path, &format!("{length} of {} bytes", whole.len()));
    }
}

#[test]
fn a_flipped_bit_is_found_anywhere() {
    let world = World::new();
    let whole = fs::read(golden()).expect("the golden profile");
    let path = world.path("flipped.frp");
    for at in (0..whole.len()).step_by(whole.len() / 40 + 1) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        fs::write(&path, flipped).expect("a file");
        let output = world.output(&["show", path.to_str().expect("text")]);
        assert_fails_in_one_line(&output, &format!("bit {} of byte {at}", at % 8));
    }
}

#[test]
fn what_is_no_profile_is_refused() {
    let world = World::new();
    let junk = world.path("junk");
    fs::write(&junk, "#!/bin/sh\necho no profile\n").expect("a file");
    fs::create_dir(world.path("directory")).expect("a directory");
    let fifo = world.path("fifo");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0)
        .expect("a FIFO");
    let large = fs::File::create(world.path("large")).expect("a file");
    large.set_len(1 << 40).expect("a file with a hole of 1 TiB");
    for name in ["junk", "directory", "missing", "fifo", "large"] {
        assert_refused(&world, &world.path(name), name);
    }
    assert_refused(&world, Path::new("/dev/zero"), "/dev/zero");
}

#[test]
fn the_corpus_of_the_fuzzer_is_survived() {
    let world = World::new();
    let corpus = golden().with_file_name("corpus");
    let mut refused = 0;
    for entry in fs::read_dir(corpus).expect("the corpus").flatten() {
        let path = entry.path();
        let output = world.output(&["show", "--files", path.to_str().expect("text")]);
        if output.status.success() {
            let text = stdout(&output);
            assert!(
                !text.chars().any(|c| c.is_control() && c != '\n'),
                "{}",
                path.display()
            );
        } else {
            assert_fails_in_one_line(&output, &path.display().to_string());
            refused += 1;
        }
    }
    assert!(refused > 10, "{refused} were refused: is this the corpus?");
}

#[test]
fn a_merge_that_fails_leaves_its_output_alone() {
    let world = World::new();
    let (golden, out) = (golden(), world.path("out"));
    let bad = world.path("bad");
    fs::write(&bad, "bad").expect("a file");
    fs::write(&out, "precious").expect("a file");
    let text = |path: &Path| path.to_str().expect("text").to_owned();
    let (golden, bad, to) = (text(&golden), text(&bad), text(&out));
    let output = world.output(&["merge", "-o", &to, &golden, &bad]);
    assert_fails_in_one_line(&output, "merge");
    assert_eq!(fs::read(&out).expect("still there"), b"precious");
    let output = world.output(&["merge", "-o", "/proc/none/out", &golden, &golden]);
    assert_fails_in_one_line(&output, "merge into nowhere");
}

#[test]
fn names_in_errors_and_lists_are_safe() {
    let world = World::new();
    fs::write(world.state().join("evil\x1b[2J.frp"), "evil").expect("a file");
    let output = world.output(&["show"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("unreadable"));
    assert!(!stdout(&output).contains('\x1b'), "{}", stdout(&output));
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let world = World::new();
    let large = world.path("large.frp");
    common::write(&large, &common::large_profile(20_000, 0));
    for how in [&["show", "--files"][..], &["show", "--files", "--json"]] {
        let mut command = world.foreread(how);
        command.arg(&large).stdout(std::process::Stdio::piped());
        let mut child = command
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("ends");
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{}",
            stderr(&output)
        );
    }
}

#[test]
fn a_full_disk_under_stdout_is_an_error() {
    let world = World::new();
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("/dev/full");
    let golden = golden();
    let mut command = world.foreread(&["show", golden.to_str().expect("text")]);
    let output = command.stdout(full).output().expect("starts");
    assert_fails_in_one_line(&output, "show to a full disk");
}

#[test]
fn a_log_of_watch_that_is_cut_or_changed_is_told_so() {
    let world = World::new();
    let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/logs/photos.jsonl");
    let whole = fs::read_to_string(whole).expect("the log");
    let lines: Vec<&str> = whole.lines().collect();
    let explain = |text: &str| {
        let log = world.path("log");
        fs::write(&log, text).expect("a file");
        world.output(&["explain", "1234", "--log", log.to_str().expect("text")])
    };
    // The last line is still being written.
    let output = explain(&whole[..whole.len() - 5]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let decide = lines.iter().position(|line| line.contains("decide"));
    let decide = decide.expect("a decision");
    let lacking = [&lines[..decide], &lines[decide + 1..]].concat();
    let output = explain(&lacking.join("\n"));
    assert_eq!(output.status.code(), Some(64), "{}", stderr(&output));
    assert!(stderr(&output).contains("lost"), "{}", stderr(&output));
    for (at, line) in lines.iter().enumerate() {
        for wrong in [
            line.replace("\"process\":", "\"process\":-"),
            line.replace("watch.log/1", "watch.log/2"),
            line[..line.len() / 2].to_owned(),
        ] {
            let mut all = lines.clone();
            all[at] = &wrong;
            let text = format!("{}\n", all.join("\n"));
            assert_fails_in_one_line(&explain(&text), &format!("line {}", at + 1));
        }
    }
}
