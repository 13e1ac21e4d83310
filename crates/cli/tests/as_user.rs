// SPDX-License-Identifier: MIT OR Apache-2.0
//! `run --user`: a command runs with the rights of another user, on each way in which it is
//! started.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use common::{World, assert_fails_in_one_line, can_record, is_root, stderr, stdout};

/// Every Debian has this user, and Linux the number.
const NOBODY: &str = "nobody";
const SHOWN: &str = "id -u; id -g; id -G; echo $HOME $USER $LOGNAME; grep CapEff /proc/self/status; \
                     grep NoNewPrivs /proc/self/status";

#[test]
fn a_command_has_the_rights_and_the_home_of_the_user_and_no_others() {
    if !is_root() || !can_record() {
        return;
    }
    let world = World::new();
    let shown = ["sh", "-c", SHOWN];
    let is_it = |said: &str| {
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], "65534", "{said}");
        assert_eq!(lines[1], "65534", "{said}");
        assert_eq!(lines[2], "65534", "{said}");
        assert!(lines[3].ends_with("nobody nobody"), "{said}");
        assert!(!lines[3].starts_with("/root"), "{said}");
        assert_eq!(lines[4], "CapEff:\t0000000000000000", "{said}");
        assert_eq!(lines[5], "NoNewPrivs:\t0", "{said}");
    };
    // Recorded, and then replayed.
    for _ in 0..2 {
        let words = [&["run", "--user", NOBODY, "--"][..], &shown].concat();
        let output = world.output(&words);
        assert!(output.status.success(), "{}", stderr(&output));
        is_it(&stdout(&output));
    }
    assert_eq!(world.profiles().len(), 1);
    let recorded = ["record", "-o", "x.frp", "--user", NOBODY, "--"];
    let output = world.output(&[&recorded[..], &shown].concat());
    is_it(&stdout(&output));
    // Where nothing can be saved or recorded, too.
    fs::remove_dir_all(world.state()).expect("it goes");
    fs::write(world.state(), "no directory").expect("a file");
    let words = [&["run", "--user", NOBODY, "--"][..], &shown].concat();
    is_it(&stdout(&world.output(&words)));
}

/// A failure beyond repair executes the command in the place of `foreread`: not as root either.
#[test]
fn a_command_that_outlives_foreread_has_them_too() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let script = "ulimit -n 3; exec \"$0\" run --user nobody -- sh -c 'id -u'";
    let output = std::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_foreread")])
        .env("FOREREAD_STATE_DIR", world.state())
        .output()
        .expect("it starts");
    let said = stdout(&output);
    assert!(said.is_empty() || said == "65534\n", "{said}");
}

#[test]
fn what_the_user_may_not_execute_is_not_executed() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let private = world.path("private");
    fs::copy("/bin/true", &private).expect("a copy");
    fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).expect("it is ours");
    let path = private.to_str().expect("text");
    let output = world.output(&["run", "--user", NOBODY, "--", path]);
    assert_eq!(output.status.code(), Some(126), "{}", stderr(&output));
}

#[test]
fn an_unknown_user_is_told_and_nothing_runs() {
    if !is_root() {
        return;
    }
    let world = World::new();
    for name in ["no-such-user", ""] {
        let output = world.output(&["run", "--user", name, "--", "touch", "ran"]);
        assert_fails_in_one_line(&output, name);
    }
    assert!(!world.path("ran").exists());
}
