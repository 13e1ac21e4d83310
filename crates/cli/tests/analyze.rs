// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread analyze`: the stall and its absence, the document, the picture, bad input, and live.

mod common;

use std::fs;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use common::{World, assert_fails_in_one_line, is_root, stderr, stdout};
use serde_json::Value;

fn sample(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/blktrace");
    path.join(name).display().to_string()
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(output)))
}

#[test]
fn the_document_names_the_stall_and_its_absence() {
    let world = World::new();
    let stalled = sample("plug-stalled.blkparse");
    let stalled = document(&world.output(&["analyze", &stalled, "--json"]));
    assert_eq!(stalled["schema"], "foreread.analyze/1");
    assert_eq!(stalled["reads"]["held_by_plug"]["held_ns"], 468_845);
    assert_eq!(stalled["reads"]["legs"]["Q2D"]["latency_ns_max"], 472_095);
    let worst = &stalled["worst"][0];
    assert_eq!(worst["plug"]["released_by"]["what"], "merge");
    assert_eq!(worst["plug"]["released_by"]["sector"], 174_904);
    assert_eq!(worst["bios"][1]["joined"], "back");
    let unplugged = sample("plug-unplugged.blkparse");
    let unplugged = document(&world.output(&["analyze", &unplugged, "--json"]));
    assert_eq!(unplugged["reads"]["held_back"]["requests"], 0);
    assert_eq!(unplugged["reads"]["legs"]["Q2D"]["latency_ns_max"], 3_812);
}

#[test]
fn a_threshold_decides_what_counts() {
    let world = World::new();
    let stalled = sample("plug-stalled.blkparse");
    let held = |over: &str| {
        let how = ["analyze", &stalled, "--json", "--held-back-over", over];
        document(&world.output(&how))["reads"]["held_back"]["requests"].clone()
    };
    assert_eq!([held("468us"), held("469us")], [1, 0]);
}

#[test]
fn the_picture_shows_the_hold() {
    let world = World::new();
    let stalled = sample("plug-stalled.blkparse");
    let output = world.output(&["analyze", &stalled, "--svg", "a.svg", "--worst", "0"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!stdout(&output).contains("The worst"));
    let svg = fs::read_to_string(world.path("a.svg")).expect("a picture");
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    // In the legend, and one bar.
    for class in ["waits", "held", "served"] {
        assert_eq!(
            svg.matches(&format!("class=\"{class} fill-")).count(),
            2,
            "{class}"
        );
    }
    assert!(svg.contains("device 8,208: 1 requests") && svg.contains("readahead's merge"));
}

#[test]
fn standard_input_is_read_too() {
    let world = World::new();
    let mut command = world.foreread(&["analyze", "-"]);
    let file = fs::File::open(sample("plug-stalled.blkparse")).expect("the sample");
    let output = command.stdin(Stdio::from(file)).output().expect("it runs");
    assert!(
        stdout(&output).starts_with("standard input: 9 events"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn bad_lines_are_named_and_make_the_answer_partial() {
    let world = World::new();
    let good = fs::read_to_string(sample("plug-stalled.blkparse")).expect("the sample");
    let bad = format!("8,208 oops \u{1b}[2J\n{good}").replace("0.028624535", "0.0286");
    fs::write(world.path("bad.txt"), bad).expect("a file");
    let output = world.output(&["analyze", "bad.txt"]);
    assert_eq!(output.status.code(), Some(64));
    let told = stderr(&output);
    assert!(told.contains("bad.txt:1: the processor"), "{told}");
    assert!(told.contains("bad.txt:8: the time"), "{told}");
    assert!(!told.contains('\u{1b}'));
    assert!(stdout(&output).contains("2 lines could not be read"));
    // Many are not told one by one.
    fs::write(
        world.path("many.txt"),
        good.clone() + &"8,208 oops\n".repeat(1000),
    )
    .expect("a file");
    let told = stderr(&world.output(&["analyze", "many.txt"]));
    assert_eq!(told.lines().count(), 6, "{told}");
    assert!(told.contains("995 more lines"), "{told}");
}

#[test]
fn what_is_no_trace_is_refused_in_one_line() {
    let world = World::new();
    fs::write(world.path("empty"), "").expect("a file");
    fs::write(world.path("binary"), b"\x07tae\0\0\0\0").expect("a file");
    fs::write(world.path("other"), "Q 8 0 0.1 dd\n".repeat(100)).expect("a file");
    for (name, why) in [
        ("empty", "it is empty"),
        ("binary", "blkparse -i"),
        ("other", "without -f"),
        ("/dev/null/x", "cannot read"),
        (".", "Is a directory"),
    ] {
        let output = world.output(&["analyze", name]);
        assert_fails_in_one_line(&output, name);
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
    let stalled = sample("plug-stalled.blkparse");
    let output = world.output(&["analyze", &stalled, "--device", "no-such"]);
    assert_fails_in_one_line(&output, "a device that isn't there");
    let output = world.output(&["analyze", "--live", "empty", "--for", "1ms"]);
    assert_fails_in_one_line(&output, "a file");
    assert!(
        stderr(&output).contains("not a block device"),
        "{}",
        stderr(&output)
    );
}

/// A device to watch, on which nothing else reads.
fn testbed() -> Option<foreread_testbed::Testbed> {
    if !is_root() {
        return None;
    }
    if let Err(lacking) = foreread_testbed::Testbed::available() {
        println!("skipped: {lacking}");
        return None;
    }
    let parameters = foreread_model::DiskParameters::preset("cloud").expect("a preset");
    let config = foreread_testbed::TestbedConfig::new(parameters, 64 << 20);
    Some(foreread_testbed::Testbed::start(config).expect("a disk"))
}

/// BPF may be refused to root, too.
fn is_refused(output: &Output) -> bool {
    let refused = stderr(output).contains("refused the BPF");
    if refused {
        println!("skipped: {}", stderr(output).trim_end());
    }
    refused
}

#[test]
fn what_is_saved_live_gives_the_same_again() {
    let Some(testbed) = testbed() else { return };
    let world = World::new();
    testbed.reset_counters();
    let device = testbed.device().display().to_string();
    let read = format!("if={device}");
    let output = world.output(&[
        "analyze",
        "--live",
        &device,
        "-o",
        "saved.txt",
        "--json",
        "--",
        "dd",
        &read,
        "of=/dev/null",
        "bs=16K",
        "count=23",
        "iflag=direct",
        "status=none",
    ]);
    if is_refused(&output) {
        return;
    }
    assert!(output.status.success(), "{}", stderr(&output));
    let live = document(&output);
    let counters = testbed.counters();
    let requests = counters.requests - counters.write_requests;
    assert_eq!(live["reads"]["requests"], requests, "{live:#}");
    assert!(requests >= 23);
    assert_eq!(live["lost_events"], 0);
    let saved = document(&world.output(&["analyze", "saved.txt", "--json"]));
    for part in [
        "reads",
        "others",
        "devices",
        "processes",
        "worst",
        "events",
        "plugs",
        "last_ns",
    ] {
        assert_eq!(live[part], saved[part], "{part}");
    }
}

#[test]
fn the_commands_own_status_is_passed_on() {
    let Some(testbed) = testbed() else { return };
    let device = testbed.device().display().to_string();
    let world = World::new();
    let output = world.output(&["analyze", "--live", &device, "--", "sh", "-c", "exit 7"]);
    if is_refused(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    let output = world.output(&["analyze", "--live", &device, "--", "no-such-command-here"]);
    assert_eq!(output.status.code(), Some(127));
}
