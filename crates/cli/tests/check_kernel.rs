// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread check-kernel`: its answers, and what wrong usage gets.

mod common;

use common::{World, assert_fails_in_one_line, stderr, stdout};

/// Whether this machine can run it; says why not.
fn runs_here() -> bool {
    let available = foreread_testbed::Testbed::available();
    if let Err(lacking) = &available {
        println!("skipped: {lacking}");
    }
    available.is_ok()
}

/// Another kernel than the modelled one may differ, rightly.
fn is_another_kernel(output: &std::process::Output) -> bool {
    let text = stderr(output);
    let note = text
        .lines()
        .find(|line| line.contains("compared with the model of"));
    if let Some(note) = note {
        println!("skipped: {note}");
    }
    note.is_some()
}

/// BPF may be refused to root, too.
fn is_refused(output: &std::process::Output) -> bool {
    let refused = stderr(output).contains("refused the BPF");
    if refused {
        println!("skipped: {}", stderr(output).trim_end());
    }
    refused
}

#[test]
fn equal_programs_give_0_and_one_document() {
    if !runs_here() {
        return;
    }
    let world = World::new();
    let arguments = [
        "check-kernel",
        "--count",
        "30",
        "--file-system",
        "ext4",
        "--json",
    ];
    let output = world.output(&arguments);
    if is_another_kernel(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let document: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert_eq!(document["schema"], "foreread.check-kernel/1");
    assert_eq!(document["equal"], true);
    assert_eq!(document["places"][0]["name"], "ext4");
    assert_eq!(document["places"][0]["equal_programs"], 30);
    // Unless residency was the way out.
    let place = &document["places"][0];
    assert_eq!(place["by"] == "bpf", place["bpf_refusal"].is_null());
}

#[test]
fn by_residency_the_document_says_what_was_not_seen() {
    if !runs_here() {
        return;
    }
    let world = World::new();
    let arguments = "check-kernel --method residency --count 30 --file-system btrfs --json";
    let words: Vec<&str> = arguments.split(' ').collect();
    let output = world.output(&words);
    if is_another_kernel(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let document: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let place = &document["places"][0];
    assert_eq!(place["by"], "residency");
    assert_eq!(place["equal_programs"], 30);
    assert_eq!(place["not_seen"][0], "marks");
    assert!(place["pages"].as_u64() > Some(1000), "{place}");
    assert!(place["folios"].is_null() && place["bpf_refusal"].is_null());
}

#[test]
fn by_residency_a_wrong_model_gives_1_and_how_to_see_it_again() {
    if !runs_here() {
        return;
    }
    let world = World::new();
    let arguments =
        "check-kernel --method residency --program 144 --file-system ext4 --without all";
    let words: Vec<&str> = arguments.split(' ').collect();
    let output = world.output(&words);
    if is_another_kernel(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let text = stdout(&output);
    for part in [
        "By residency.",
        "Not seen, but by what comes of it: marks, ",
        "kernel  read 0+4",
        "pages cached:",
        "--file-system ext4 --method residency --seed 1 --program 144",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
}

#[test]
fn a_model_without_the_known_defects_differs_and_gives_1() {
    if !runs_here() {
        return;
    }
    let world = World::new();
    let arguments = "check-kernel --method bpf --count 60 --file-system ext4 --without all";
    let words: Vec<&str> = arguments.split(' ').collect();
    let output = world.output(&words);
    if is_refused(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let text = stdout(&output);
    for part in [
        "The first difference: program",
        "kernel  ",
        "model   ",
        "--seed 1 --program ",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
}

#[test]
fn wrong_usage_is_said_in_one_line() {
    let world = World::new();
    let output = world.output(&["check-kernel", "--directory", "/no/such/place"]);
    assert_fails_in_one_line(&output, "a directory that is not there");
    for wrong in [
        ["--count", "0"],
        ["--count", "many"],
        ["--file-system", "fat"],
        ["--without", "everything"],
        ["--method", "guessing"],
        ["--seed", "one"],
    ] {
        let output = world.output(&[&["check-kernel"], &wrong[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert!(stderr(&output).contains(wrong[0]), "{}", stderr(&output));
    }
}

#[test]
fn an_unknown_kernel_is_answered_with_the_known_ones() {
    let world = World::new();
    for verb in ["check-kernel", "compare"] {
        for unknown in ["6.6", "6.18.44", "linux", ""] {
            let output = world.output(&[verb, "--kernel", unknown]);
            assert_fails_in_one_line(&output, verb);
            let answer = format!("`{unknown}` is modelled; there are: 6.1, 6.12, 6.18, 7.3");
            assert!(stderr(&output).contains(&answer), "{}", stderr(&output));
        }
    }
}

#[test]
fn files_in_memory_have_no_readahead_to_check() {
    if !runs_here() {
        return;
    }
    let world = World::new();
    let output = world.output(&["check-kernel", "--directory", "/dev/shm"]);
    assert_fails_in_one_line(&output, "a directory in memory");
    assert!(stderr(&output).contains("memory"), "{}", stderr(&output));
}
