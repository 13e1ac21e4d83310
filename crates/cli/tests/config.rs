// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defaults of options from a file, and `foreread config`.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use common::{World, golden, stderr, stdout};
use serde_json::Value;

fn world(text: &str) -> World {
    let world = World::new();
    fs::write(world.path("foreread.toml"), text).expect("a file");
    world
}

#[test]
fn each_option_is_shown_with_the_file_that_sets_it() {
    let world = world("[advise]\nstreams = 7\n");
    let output = world.output(&["config", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(document["schema"], "foreread.config/1");
    let options = document["options"].as_array().expect("a list");
    let of = |verb: &str, option: &str| {
        let is_it = |one: &&Value| one["verb"] == verb && one["option"] == option;
        options.iter().find(is_it).expect("the option").clone()
    };
    let file = world.path("foreread.toml");
    assert_eq!(of("advise", "streams")["value"], "7");
    assert_eq!(
        of("advise", "streams")["file"],
        file.to_str().expect("text")
    );
    assert_eq!(of("apply", "streams")["file"], Value::Null);
    assert_ne!(of("apply", "streams")["value"], Value::Null);
    let said = stdout(&world.output(&["config"]));
    assert!(said.contains("streams"), "{said}");
}

#[test]
fn a_default_is_that_of_the_file_unless_another_is_typed() {
    let world = world("quiet = true\n");
    let profile = golden();
    let profile = profile.to_str().expect("text");
    let merged = world.output(&["merge", "-o", "out.frp", profile, profile]);
    assert!(
        merged.status.success() && merged.stderr.is_empty(),
        "{merged:?}"
    );
    let other = world_without();
    let merged = other.output(&["merge", "-o", "out.frp", profile, profile]);
    assert!(stderr(&merged).contains("merged 2 profiles"), "{merged:?}");
}

fn world_without() -> World {
    World::new()
}

#[test]
fn a_file_that_can_not_be_used_is_told_and_keeps_no_command_from_running() {
    for (text, told) in [
        ("[run", "foreread.toml: "),
        ("[run]\nbudgt = 1\n", "`run.budgt` is no option"),
        ("[run]\nbudget = \"2\"\n", "are left out: invalid value '2'"),
        (
            "[run]\nrecorder = \"none\"\n",
            "are left out: invalid value 'none'",
        ),
    ] {
        let world = world(text);
        let output = world.output(&["run", "--", "echo", "ran"]);
        assert_eq!(stdout(&output), "ran\n", "{text}: {}", stderr(&output));
        assert!(
            stderr(&output).contains(told),
            "{text}: {}",
            stderr(&output)
        );
    }
    let broken = world("[run");
    let output = broken.output(&["config"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn a_file_that_others_may_change_is_not_used() {
    let world = world("quiet = true\n");
    let path = world.path("foreread.toml");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("they are set");
    let output = world.output(&["config"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        stderr(&output).contains("others may change it"),
        "{output:?}"
    );
    fs::remove_file(&path).expect("it goes");
    fs::create_dir(&path).expect("a directory");
    let output = world.output(&["config"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(stderr(&output).contains("directory"), "{output:?}");
}
