// SPDX-License-Identifier: MIT OR Apache-2.0
//! The demo: what it refuses, what it says without root, and a small one in full.

mod common;

use std::fs;
use std::process::Command;

use common::{World, binary_for_all, can_record, is_root, stderr, stdout};
use serde_json::Value;

/// The user that owns nothing.
const NOBODY: &str = "65534";

#[test]
fn wrong_arguments_are_refused_with_what_would_be_right() {
    let world = World::new();
    let picture = "/no/such/directory/picture.svg";
    for (arguments, right) in [
        (["--device", "floppy"], "nvme"),
        (["--programs", "emacs"], "python"),
        (["--set", "latency=1ms"], "latency_ns"),
        (["--set", "latency_ns"], "key=value"),
        (["--set", "latency_ns=soon"], "ms or s"),
        (["--file-count", "0"], "1..=100000"),
        (["--svg", picture], picture),
    ] {
        let output = world.output(&["demo", arguments[0], arguments[1]]);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(right), "{arguments:?}: {text}");
        assert!(output.stdout.is_empty(), "{}", stdout(&output));
    }
}

#[test]
fn without_root_it_says_what_it_would_have_shown() {
    let world = World::new();
    let binary = binary_for_all(&world);
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
        command.arg(&binary);
        command
    } else {
        Command::new(&binary)
    };
    let output = command
        .args(["demo", "--json", "--device", "usb"])
        .output()
        .expect("it starts");
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    let first = text.lines().next().unwrap_or_default();
    assert!(
        first.contains("needs root") && first.contains("sudo foreread demo"),
        "{text}"
    );
    assert!(
        text.contains("8,000 files") && text.contains("25 MB/s"),
        "{text}"
    );
    assert!(output.stdout.is_empty(), "{}", stdout(&output));
}

/// Requests that the disk served, of the first start of that kind.
fn requests(program: &Value, kind: &str) -> u64 {
    let requests = &program[kind][0]["requests"];
    requests
        .as_u64()
        .unwrap_or_else(|| panic!("{kind}: {program:#}"))
}

#[test]
fn a_small_demo_asks_the_disk_less_often_with_replay() {
    if !is_root() || !can_record() {
        return;
    }
    if let Err(lacking) = foreread_testbed::Testbed::available() {
        println!("skipped: {lacking}");
        return;
    }
    let world = World::new();
    let svg = world.path("picture.svg");
    let output = world
        .foreread(&["demo", "--file-count", "200", "--device", "hdd", "--json"])
        .args(["--programs", "grep", "--set", "latency_ns=0.2ms", "--svg"])
        .arg(&svg)
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    // Nothing but results when nobody watches.
    assert_eq!(stderr(&output), "");
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!(document["schema"], "foreread.demo/1");
    assert_eq!(document["device"]["latency_ns"], 200_000);
    assert_eq!(document["tree"]["files"], 200);
    let grep = &document["programs"][0];
    assert_eq!(grep["name"], "grep");
    let (kernel, second) = (
        requests(grep, "kernel_alone"),
        requests(grep, "second_runs"),
    );
    // Here one window holds all, sorted by place: about 30 requests instead of 217. Without a head
    // to move, windows are small to stay ahead of the program, and few requests merge.
    assert!(second < kernel / 2, "{second} requests instead of {kernel}");
    // The replay brings what the program needs, and hardly more.
    let (needed, read) = (
        grep["needed_bytes"].as_u64().expect("a number"),
        grep["second_runs"][0]["bytes"].as_u64().expect("a number"),
    );
    assert!(read <= needed * 3 / 2, "{read} bytes read, {needed} needed");
    assert!(grep["limit_ns"].as_u64() > Some(0));
    let picture = fs::read_to_string(svg).expect("a picture");
    assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
    assert!(picture.contains(&format!("{} requests", foreread_core::grouped(kernel))));
}
