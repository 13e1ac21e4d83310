// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a user without root is told: one line, with the command that gives more.

mod common;

use std::process::Command;

use common::{World, is_root, stderr, stdout};

/// Runs `foreread` as nobody, who may not read our build directory.
fn as_nobody(world: &World, words: &[&str]) -> std::process::Output {
    let program = world.path("foreread");
    if !program.exists() {
        std::fs::copy(env!("CARGO_BIN_EXE_foreread"), &program).expect("a copy");
    }
    Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&program)
        .args(words)
        .env("HOME", "/nonexistent")
        .env("USER", "nobody")
        .env_remove("XDG_STATE_HOME")
        .current_dir("/")
        .output()
        .expect("setpriv starts")
}

#[test]
fn it_is_one_line_with_the_command_that_gives_more() {
    if !is_root() {
        return;
    }
    let world = World::new();
    for (words, told) in [
        (
            &["run", "--", "true"][..],
            "`sudo foreread run --user nobody -- COMMAND`",
        ),
        (
            &["record", "-o", "/nonexistent/x", "--", "true"],
            "`sudo foreread run --user nobody -- COMMAND`",
        ),
        (&["watch"], "sudo foreread watch"),
        (&["watch", "--", "true"], "sudo foreread watch"),
        (&["stat", "1", "1"], "sudo foreread stat"),
        (&["stat", "--", "true"], "sudo foreread stat"),
    ] {
        let output = as_nobody(&world, words);
        let said = stderr(&output);
        assert_eq!(said.lines().count(), 1, "{words:?}: {said}");
        assert!(said.contains(told), "{words:?}: {said}");
        assert!(said.len() < 240, "{words:?}: {said}");
    }
    // A command runs all the same, as whoever called.
    let output = as_nobody(&world, &["run", "--", "id", "-u"]);
    assert_eq!(stdout(&output), "65534\n", "{}", stderr(&output));
    let output = as_nobody(&world, &["run", "--user", "root", "--", "id", "-u"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stdout(&output), "");
}

#[test]
fn doctor_tells_each_lack_by_its_own_reason() {
    if !is_root() {
        return;
    }
    let output = as_nobody(&World::new(), &["doctor"]);
    let said = stdout(&output);
    assert_eq!(
        said.matches("kernel refused to report opened files")
            .count(),
        1,
        "{said}"
    );
}
