// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a new user meets first.

mod common;

use std::fs;
use std::process::Stdio;

use common::{World, assert_fails_in_one_line, can_record, golden, stderr, stdout};

#[test]
fn alone_it_says_what_it_is_for_in_a_look() {
    let world = World::new();
    let output = world.output(&[]);
    assert_eq!(output.status.code(), Some(0));
    let said = stdout(&output);
    assert_eq!(said.lines().count(), 4, "{said}");
    for line in said.lines() {
        assert!(line.len() <= 80 && line.contains(":  "), "{line}");
    }
}

#[test]
fn an_unknown_option_is_no_command() {
    let world = World::new();
    for verb in [&["run"][..], &["record", "-o", "out"]] {
        let output = world.output(&[verb, &["--fesh", "--", "true"]].concat());
        assert_eq!(output.status.code(), Some(2), "{verb:?}");
        let said = stderr(&output);
        assert!(said.contains("unexpected argument '--fesh'"), "{said}");
        // Behind `--` all words are the command's, and the first may begin with dashes.
        let output = world.output(&[verb, &["--", "echo", "--fesh"]].concat());
        assert!(stdout(&output) == "--fesh\n" || !can_record(), "{verb:?}");
        let output = world.output(&[verb, &["echo", "--fesh"]].concat());
        assert_eq!(output.status.code(), Some(2), "{verb:?}");
        let said = stderr(&output);
        assert!(said.contains("a command comes after `--`"), "{said}");
        let output = world.output(&[verb, &["--", "--fesh"]].concat());
        let said = stderr(&output);
        assert!(!said.contains("unexpected argument"), "{said}");
    }
}

#[test]
fn a_full_disk_behind_standard_output_is_told() {
    let world = World::new();
    let profile = golden();
    let profile = profile.to_str().expect("text");
    for words in [&["replay", "--json"][..], &["show", "--json"], &["show"]] {
        let mut command = world.foreread(&[words, &[profile]].concat());
        let full = fs::OpenOptions::new().write(true).open("/dev/full");
        let output = command
            .stdout(full.expect("it is there"))
            .stderr(Stdio::piped())
            .output()
            .expect("it starts");
        assert_fails_in_one_line(&output, &format!("{words:?}"));
        let said = stderr(&output);
        assert!(said.contains("No space left"), "{said}");
    }
}

#[test]
fn what_a_recording_is_good_for_depends_on_where_it_is_and_how_it_ended() {
    if !can_record() {
        println!("skipped: nothing can record here");
        return;
    }
    let world = World::new();
    let said = |words: &[&str]| stderr(&world.output(words));
    let run = said(&["run", "--", "true"]);
    assert!(run.contains("the next cold start will be faster"), "{run}");
    let failed = said(&["run", "--fresh", "--", "false"]);
    assert!(failed.contains("it did not end well"), "{failed}");
    assert!(!failed.contains("faster"), "{failed}");
    let in_file = world.path("a file.frp");
    let path = in_file.to_str().expect("text");
    let recorded = said(&["record", "-o", path, "--", "true"]);
    let replay = format!("`foreread replay '{path}'`");
    assert!(recorded.contains(&replay), "{recorded}");
    assert!(!recorded.contains("faster"), "{recorded}");
}

#[test]
fn quiet_leaves_out_reports_and_no_errors() {
    let world = World::new();
    let profile = golden();
    let profile = profile.to_str().expect("text");
    let merged = world.output(&["merge", "-q", "-o", "out.frp", profile, profile]);
    assert!(
        merged.status.success() && merged.stderr.is_empty(),
        "{merged:?}"
    );
    let merged = world.output(&["--quiet", "merge", "-o", "out.frp", profile, "none.frp"]);
    assert_fails_in_one_line(&merged, "a profile that isn't there");
    if !can_record() {
        return;
    }
    let output = world.output(&["run", "-q", "--", "sh", "-c", "echo out; echo err >&2"]);
    assert_eq!(
        (stdout(&output), stderr(&output)),
        ("out\n".into(), "err\n".into())
    );
    // What was asked for in a file is there all the same.
    let words = ["run", "-q", "--json", "-o", "report", "--", "true"];
    assert!(world.output(&words).status.success());
    let report = fs::read_to_string(world.path("report")).expect("a file");
    assert!(report.contains("\"schema\":\"foreread.run/1\""), "{report}");
    let words = ["run", "--json", "--", "true"];
    let said = stderr(&world.output(&words));
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with('{'), "{said}");
}
