// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread try`: a command with cold files, alone and with a replay.

mod common;

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use common::{World, assert_fails_in_one_line, can_record, stderr, stdout};
use serde_json::Value;

#[test]
fn a_command_is_measured_in_turn_and_judged() {
    if !can_record() {
        return;
    }
    let world = World::new();
    let tree = world.tree(20, 5000);
    let tree = tree.to_str().expect("text");
    let ran = world.path("ran");
    let script = format!("echo x >>{}; cat {tree}/*/*; echo y >&2", ran.display());
    let words = ["try", "--runs", "3", "--json", "--", "sh", "-c", &script];
    let output = world.output(&words);
    assert!(
        matches!(output.status.code(), Some(0 | 1)),
        "{}",
        stderr(&output)
    );
    assert_eq!(stderr(&output), "");
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!(document["schema"], "foreread.try/1");
    let rounds = document["rounds"].as_array().expect("a list");
    assert_eq!(rounds.len(), 3);
    for round in rounds {
        assert!(round["alone_ns"].as_u64() > Some(0), "{document}");
        assert!(round["with_ns"].as_u64() > Some(0), "{document}");
    }
    // Recorded once, and twice a round.
    assert_eq!(fs::read_to_string(&ran).expect("a file").lines().count(), 7);
    // Nothing is kept.
    assert_eq!(world.profiles().len(), 0);
    let said = stdout(&world.output(&["try", "--runs", "3", "--", "true"]));
    assert!(
        said.contains("alone") && said.contains("with a replay"),
        "{said}"
    );
    assert!(said.contains("orth it"), "{said}");
}

#[test]
fn a_command_that_fails_is_not_tried_again_and_again() {
    if !can_record() {
        return;
    }
    let world = World::new();
    let words = ["sh", "-c", "echo x >>ran; exit 3"];
    let output = world.output(&[&["try", "--"][..], &words].concat());
    assert_fails_in_one_line(&output, "a failing command");
    assert!(
        stderr(&output).contains("--ignore-failure"),
        "{}",
        stderr(&output)
    );
    let ran = fs::read_to_string(world.path("ran")).expect("a file");
    assert_eq!(ran.lines().count(), 1);
    let ignoring = [&["try", "-i", "--runs", "3", "--"][..], &words].concat();
    let output = world.output(&ignoring);
    assert!(
        matches!(output.status.code(), Some(0 | 1)),
        "{}",
        stderr(&output)
    );
    let missing = world.output(&["try", "--", "no-such-command-here"]);
    assert_eq!(missing.status.code(), Some(2), "{}", stderr(&missing));
    for wrong in [
        &["try"][..],
        &["try", "true"],
        &["try", "--runs", "2", "--", "true"],
    ] {
        assert_eq!(world.output(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

/// Starts `try` in a process group of its own. Sends SIGINT to the group, as a terminal does, when
/// the command was started so many times. Returns the output of `try`, and the number of starts.
fn interrupted_at_start(start: usize) -> (std::process::Output, usize) {
    let world = World::new();
    let ran = world.path("ran");
    let script = format!("echo x >>{}; sleep 0.5", ran.display());
    let child = world
        .foreread(&["try", "--runs", "20", "--json", "--", "sh", "-c", &script])
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("foreread starts");
    let starts = || fs::read_to_string(&ran).map_or(0, |text| text.lines().count());
    common::service::until("the command is started", || starts() >= start);
    let group = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process_group(group, rustix::process::Signal::INT).expect("a signal");
    let output = child.wait_with_output().expect("it ends");
    (output, starts())
}

#[test]
fn ctrl_c_ends_it_with_what_was_measured() {
    if !can_record() {
        return;
    }
    // Recorded once, then two starts a round: the second round has begun.
    let (output, starts) = interrupted_at_start(4);
    assert_eq!(output.status.code(), Some(64), "{}", stderr(&output));
    assert!(starts < 41, "it went on");
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    let rounds = document["rounds"].as_array().expect("a list");
    assert!(!rounds.is_empty() && rounds.len() < 20, "{document}");

    let (output, _) = interrupted_at_start(1);
    assert_eq!(output.status.code(), Some(64), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
    assert_eq!(
        stderr(&output),
        "foreread: interrupted before one round was measured\n"
    );
}

#[test]
fn a_command_that_makes_its_output_is_recorded_once() {
    if !can_record() {
        return;
    }
    let world = World::new();
    let tree = world.tree(20, 5000);
    let words = ["tar", "-cf", "new.tar", tree.to_str().expect("text")];
    let mode = |options: &[&str]| {
        let begin = [&["run", "--json", "--output", "report.json"], options].concat();
        let output = world.output(&[&begin[..], &["--"], &words].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        let report = fs::read(world.path("report.json")).expect("a report");
        let report: Value = serde_json::from_slice(&report).expect("one document");
        report["mode"].as_str().expect("a mode").to_owned()
    };
    assert_eq!(mode(&["--fresh"]), "recorded");
    assert_ne!(mode(&[]), "recorded", "with its output");
    fs::remove_file(world.path("new.tar")).expect("an archive");
    assert_ne!(mode(&[]), "recorded", "without its output");
}
