// SPDX-License-Identifier: MIT OR Apache-2.0
//! Without privileges: replay works on readable files, record says what it needs.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use common::{World, binary_for_all, is_root, profile_of, stderr, stdout};

/// The user that owns nothing.
const NOBODY: &str = "65534";

/// Runs the binary as a user without rights.
fn as_nobody(world: &World, binary: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"])
        .arg(binary);
    command
        .args(arguments)
        .current_dir(world.path(""))
        .env_remove("FOREREAD_STATE_DIR");
    command
        .env("HOME", "/nonexistent")
        .env_remove("XDG_STATE_HOME");
    command.output().expect("setpriv starts")
}

fn file(world: &World, name: &str, mode: u32) -> std::path::PathBuf {
    let path = world.path(name);
    fs::write(&path, vec![b'x'; 20_000]).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("permissions");
    path
}

#[test]
fn replay_reads_what_may_be_read_and_counts_the_rest() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let binary = binary_for_all(&world);
    let (open, closed) = (file(&world, "open", 0o644), file(&world, "closed", 0o600));
    common::write(&world.path("all.frp"), &profile_of(&[&open]));
    common::write(&world.path("part.frp"), &profile_of(&[&open, &closed]));
    let output = as_nobody(&world, &binary, &["replay", "all.frp"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let output = as_nobody(&world, &binary, &["replay", "part.frp"]);
    assert_eq!(output.status.code(), Some(64), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("1 unreadable"),
        "{}",
        stderr(&output)
    );
    let output = as_nobody(&world, &binary, &["replay", "--json", "part.frp"]);
    assert_eq!(output.status.code(), Some(64), "{}", stderr(&output));
    let document: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("one document");
    assert_eq!(document["schema"], "foreread.replay/1");
    assert_eq!(document["replay"]["unreadable_files"], 1);
    assert_eq!(document["replay"]["planned_pages"], 10);
}

#[test]
fn what_lies_behind_a_closed_directory_is_unreadable() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let binary = binary_for_all(&world);
    fs::create_dir(world.path("shut")).expect("a directory");
    let hidden = file(&world, "shut/hidden", 0o644);
    fs::set_permissions(world.path("shut"), fs::Permissions::from_mode(0o700)).expect("shut");
    common::write(&world.path("hidden.frp"), &profile_of(&[&hidden]));
    let output = as_nobody(&world, &binary, &["replay", "hidden.frp"]);
    assert_eq!(output.status.code(), Some(64), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("unreadable"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn record_says_what_it_needs() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let binary = binary_for_all(&world);
    let output = as_nobody(
        &world,
        &binary,
        &["record", "-o", "/tmp/none.frp", "--", "true"],
    );
    common::assert_fails_in_one_line(&output, "record");
    let text = stderr(&output);
    assert!(text.contains("sudo foreread run --user"), "{text}");
}

#[test]
fn run_runs_all_the_same() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let binary = binary_for_all(&world);
    let output = as_nobody(
        &world,
        &binary,
        &["run", "--", "sh", "-c", "echo ran; exit 3"],
    );
    let text = stderr(&output);
    assert_eq!(
        (output.status.code(), &*stdout(&output)),
        (Some(3), "ran\n"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn a_closed_directory_in_the_path_makes_nothing_forbidden() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let binary = binary_for_all(&world);
    fs::create_dir(world.path("shut")).expect("a directory");
    fs::set_permissions(world.path("shut"), fs::Permissions::from_mode(0o700)).expect("shut");
    file(&world, "shut/hidden-command", 0o755);
    let with_path = format!("PATH={}:/usr/bin:/bin", world.path("shut").display());
    let run = |name: &str| {
        let inner = binary.to_str().expect("a path that is text");
        as_nobody(
            &world,
            Path::new("/usr/bin/env"),
            &[&with_path, inner, "run", "--", name],
        )
    };
    for name in ["no-such-command-here", "hidden-command"] {
        let output = run(name);
        assert_eq!(
            output.status.code(),
            Some(127),
            "{name}: {}",
            stderr(&output)
        );
        assert!(
            stderr(&output).contains("command not found"),
            "{name}: {}",
            stderr(&output)
        );
    }
    assert_eq!(run("true").status.code(), Some(0));
}

#[test]
fn doctor_finds_that_something_lacks() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let binary = binary_for_all(&world);
    let output = as_nobody(&world, &binary, &["doctor"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}{}", stderr(&output));
    assert!(output.stderr.is_empty(), "{}", stderr(&output));
    for what in [
        "lacking   privileges",
        "lacking   BPF recorder",
        "remedy: run with sudo",
    ] {
        assert!(text.contains(what), "{what}: {text}");
    }
    let output = as_nobody(&world, &binary, &["doctor", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("one document");
    assert_eq!(document["schema"], "foreread.doctor/1");
    assert_eq!(document["works_fully"], false);
    assert_eq!(document["recorder"], serde_json::Value::Null);
    let checks = document["checks"].as_array().expect("checks");
    let lacking = checks.iter().filter(|check| check["status"] == "lacking");
    assert!(lacking.clone().count() >= 2);
    assert!(
        lacking.clone().all(|check| check["remedy"].is_string()),
        "{document:#}"
    );
}

#[test]
fn check_kernel_goes_by_residency_where_bpf_is_refused_and_says_so() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let binary = binary_for_all(&world);
    fs::create_dir(world.path("own")).expect("a directory");
    let nobody = NOBODY.parse().expect("a number");
    std::os::unix::fs::chown(world.path("own"), Some(nobody), Some(nobody)).expect("chown");
    let arguments = ["check-kernel", "--directory", "own", "--count", "20"];
    let output = as_nobody(&world, &binary, &arguments);
    if output.status.code() == Some(2) {
        // In memory, or on no block device; the reason of BPF is still said.
        assert!(
            stderr(&output).contains("BPF programs"),
            "{}",
            stderr(&output)
        );
        println!("skipped: {}", stderr(&output).trim_end());
        return;
    }
    let text = stdout(&output);
    assert!(
        text.starts_with("By residency, for loading BPF programs needs root"),
        "{text}"
    );
    // Another kernel than the modelled one may differ.
    if !stderr(&output).contains("compared with the model of") {
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(text.contains("own: 20 of 20 programs equal"), "{text}");
    }
    let output = as_nobody(
        &world,
        &binary,
        &[&arguments[..], &["--method", "bpf"]].concat(),
    );
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    assert!(
        stderr(&output).contains("BPF programs"),
        "{}",
        stderr(&output)
    );
}

/// The recipe of docs/install.md: two file capabilities in place of root.
#[test]
fn with_two_file_capabilities_an_ordinary_user_records() {
    if !is_root() || !common::can_record() {
        return;
    }
    let world = World::new();
    let binary = binary_for_all(&world);
    let set = Command::new("setcap")
        .arg("cap_bpf,cap_perfmon+ep")
        .arg(&binary)
        .output();
    match set {
        Ok(set) if set.status.success() => {}
        lacking => return println!("skipped: no file capabilities here: {lacking:?}"),
    }
    let home = world.path("home");
    fs::create_dir(&home).expect("a directory");
    std::os::unix::fs::chown(&home, Some(65534), Some(65534)).expect("it is theirs");
    let read = file(&world, "read", 0o644);
    let run = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"])
            .arg(&binary)
            .args(words);
        command
            .current_dir(world.path(""))
            .env("HOME", &home)
            .env_remove("FOREREAD_STATE_DIR")
            .env_remove("XDG_STATE_HOME");
        command.output().expect("setpriv starts")
    };
    let script = format!(
        "cat {} > /dev/null; grep CapEff /proc/self/status",
        read.display()
    );
    let command = ["sh", "-c", &script];
    let output = run(&[&["run", "--"][..], &command].concat());
    let (said, told) = (stdout(&output), stderr(&output));
    assert!(output.status.success(), "{told}");
    assert!(told.contains("recorded "), "{told}");
    // The command has none of them.
    assert_eq!(said, "CapEff:\t0000000000000000\n");
    let output = run(&[&["show", "--json", "--"][..], &command].concat());
    assert!(
        stdout(&output).contains(read.to_str().expect("text")),
        "{}",
        stderr(&output)
    );
    let output = run(&["doctor", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("one document");
    assert_eq!(document["recorder"], "bpf", "{document}");
    let checks = document["checks"].as_array().expect("checks");
    let rights = checks.iter().find(|check| check["name"] == "privileges");
    assert_eq!(rights.expect("it is checked")["status"], "ok", "{document}");
}
