// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread profiles`, and what `foreread status` says of the machine.

mod common;

use std::fs;
use std::path::Path;

use common::{World, assert_fails_in_one_line, golden, stderr, stdout};
use serde_json::Value;

/// Stores a copy of the golden profile.
fn store(world: &World, name: &str) {
    fs::copy(golden(), world.state().join(name)).expect("a copy");
}

fn names(world: &World) -> Vec<String> {
    let stored = world.profiles();
    let name = |path: &Path| {
        path.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into()
    };
    let mut names: Vec<String> = stored.iter().map(|path| name(path)).collect();
    names.sort();
    names
}

#[test]
fn they_are_listed_with_command_and_directory() {
    let world = World::new();
    let output = world.output(&["profiles", "list"]);
    assert!(stdout(&output).starts_with("no profiles in "), "{output:?}");
    store(&world, "grep-1.frp");
    fs::write(world.state().join("bad-2.frp"), "no profile").expect("a file");
    let output = world.output(&["profiles", "list"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let said = stdout(&output);
    let row = said.lines().nth(1).expect("a row");
    assert!(row.starts_with("grep-1 "), "{said}");
    assert!(row.contains("2025-10-09"), "{said}");
    assert!(row.ends_with(", /srv/data"), "{said}");
    assert!(said.contains("unreadable: "), "{said}");
    let output = world.output(&["profiles", "list", "--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(document["schema"], "foreread.profiles/1");
    assert_eq!(document["profiles"][1]["last_run_unix_s"], 1_760_000_100);
    let one = world.output(&["profiles", "show", "grep-1"]);
    assert_eq!(stdout(&one), stdout(&world.output(&["show", "grep-1.frp"])));
}

#[test]
fn only_those_that_are_named_are_forgotten() {
    let world = World::new();
    for name in ["a-1.frp", "b-2.frp", "c-3.frp"] {
        store(&world, name);
    }
    fs::write(world.state().join("recorder.json"), "{}").expect("a file");
    fs::copy(golden(), world.path("mine.frp")).expect("a copy");
    let dry = world.output(&["profiles", "forget", "--all", "--dry-run"]);
    assert_eq!(dry.status.code(), Some(0), "{}", stderr(&dry));
    assert!(
        stdout(&dry).contains("3 profiles would be removed"),
        "{dry:?}"
    );
    assert_eq!(names(&world).len(), 3);
    let output = world.output(&["profiles", "forget", "a-1", "c-3.frp", "--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(document["schema"], "foreread.profiles.forget/1");
    assert_eq!(
        document["forgotten"],
        serde_json::json!(["a-1.frp", "c-3.frp"])
    );
    assert_eq!(names(&world), ["b-2.frp"]);
    // Files of the user, and others of the store, are no profiles to forget.
    let mine = world.path("mine.frp");
    let mine = mine.to_str().expect("text");
    for wrong in [mine, "mine.frp", "../mine", "recorder.json", "a-1"] {
        let output = world.output(&["profiles", "forget", wrong]);
        assert_fails_in_one_line(&output, wrong);
    }
    assert!(world.path("mine.frp").exists());
    let all = world.output(&["profiles", "forget", "--all"]);
    assert_eq!(all.status.code(), Some(0), "{}", stderr(&all));
    assert_eq!(names(&world).len(), 0);
    assert!(world.state().join("recorder.json").exists());
    let none = world.output(&["profiles", "forget", "--all"]);
    assert_eq!(none.status.code(), Some(1));
}

#[test]
fn those_that_no_run_has_used_for_long_are_forgotten() {
    let world = World::new();
    store(&world, "old-1.frp");
    fs::write(
        world.state().join("new-2.frp"),
        "unreadable, and written now",
    )
    .expect("a file");
    let young = world.output(&["profiles", "forget", "--unused-for", "36500d"]);
    assert_eq!(young.status.code(), Some(1), "{}", stderr(&young));
    let old = world.output(&["profiles", "forget", "--unused-for", "1d"]);
    assert_eq!(old.status.code(), Some(0), "{}", stderr(&old));
    assert_eq!(names(&world), ["new-2.frp"]);
    for wrong in [
        &["profiles", "forget"][..],
        &["profiles", "forget", "--all", "x"],
        &["profiles", "forget", "--unused-for", "long"],
    ] {
        assert_eq!(world.output(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn status_has_a_line_for_each_part_of_the_machine() {
    let world = World::new();
    store(&world, "grep-1.frp");
    fs::write(world.state().join("bad-2.frp"), "no profile").expect("a file");
    let output = world.output(&["status"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let said = stdout(&output);
    let line = |name: &str| {
        let line = said.lines().find(|line| line.starts_with(name));
        line.unwrap_or_else(|| panic!("{name} in {said}"))
    };
    assert!(line("watch ").contains("off; "), "{said}");
    let profiles = line("profiles ");
    assert!(
        profiles.contains("2 profiles, replay on for 1, 1 unreadable"),
        "{said}"
    );
    assert!(line("boot ").contains("off; "), "{said}");
    assert!(line("layout ").contains("nothing was moved"), "{said}");
    let output = world.output(&["status", "--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(document["schema"], "foreread.status/2");
    assert_eq!(document["profiles"]["unreadable"], 1);
    assert_eq!(document["watch"]["running"], false);
    // Of the devices alone, the machine is left out.
    let history = stdout(&world.output(&["status", "--history"]));
    assert!(!history.contains("profiles"), "{history}");
    // A part that can't be read hides no other.
    fs::create_dir(world.state().join("layout")).expect("a directory");
    fs::write(world.state().join("layout/000001.json"), "{").expect("a file");
    let said = stdout(&world.output(&["status"]));
    assert!(said.contains("layout     unknown: "), "{said}");
    assert!(said.contains("2 profiles"), "{said}");
}
