// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread explain` without a log: a running `foreread watch` is asked.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::service::{Service, until};
use common::watched::{can_watch, cold_tree, count, make_cold};
use common::{World, assert_fails_in_one_line, binary_for_all, stderr, stdout};
use serde_json::Value;

fn explain(world: &World, what: &str) -> Output {
    world.output(&["explain", what, "--json"])
}

fn document_of(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|e| panic!("{e}: {}", stderr(output)))
}

#[test]
fn where_nobody_watches_that_is_said_in_a_line() {
    let world = World::new();
    let output = explain(&world, "1");
    assert_fails_in_one_line(&output, "nobody watches");
    assert!(stderr(&output).contains("--log LOG"), "{}", stderr(&output));
    // Somebody watched, and was killed.
    let socket = world.path("state").join("watch.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).expect("a socket"));
    assert_fails_in_one_line(&explain(&world, "1"), "nobody watches any more");
    // Who says nothing, and who says something else.
    for said in ["", "{}\n", "x\n"] {
        fs::remove_file(&socket).expect("it is there");
        let listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody asks");
            std::io::Write::write_all(&mut stream, said.as_bytes()).expect("he hears");
        });
        assert_fails_in_one_line(&explain(&world, "1"), said);
        thread.join().expect("it ends");
    }
}

#[test]
fn who_watches_the_machine_tells_of_walks() {
    let world = World::new();
    let Some((testbed, tree)) = cold_tree(&world) else {
        return;
    };
    let service = Service::start(&world, &[]);
    make_cold(&testbed);
    let mut grep = Command::new("grep")
        .args(["-rq", "NOWHERE"])
        .arg(&tree)
        .spawn()
        .expect("grep starts");
    let process = grep.id().to_string();
    grep.wait().expect("it ends");
    let ended = || {
        let output = explain(&world, &process);
        output.status.code() == Some(0) && {
            let walks = document_of(&output)["walks"].clone();
            walks.as_array().is_some_and(|walks| {
                !walks.is_empty() && walks.iter().all(|walk| walk["ended"].is_string())
            })
        }
    };
    until("its walks have ended", ended);
    let document = document_of(&explain(&world, &process));
    let walks = document["walks"].as_array().expect("walks");
    let sum = |name: &str| walks.iter().map(|walk| count(walk, name)).sum::<u64>();
    assert!(sum("fetched_files") > 0, "{document}");
    assert!(sum("used_files") <= sum("fetched_files"), "{document}");
    let is_there = |walk: &&Value| {
        let top = walk["top"].as_str().unwrap_or_default();
        Path::new(top).starts_with(&tree) || tree.starts_with(top)
    };
    assert_eq!(walks.iter().filter(is_there).count(), walks.len());

    let found = Command::new("find")
        .arg(&tree)
        .args(["-name", "*.c"])
        .output();
    let found = stdout(&found.expect("find runs"));
    let file = found.lines().next().expect("a file");
    let said = stdout(&world.output(&["explain", file]));
    assert!(
        said.contains(&format!("Process {process} walks below ")),
        "{said}"
    );
    assert!(said.contains("is in a log only"), "{said}");
    let output = explain(&world, "4194305");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));

    assert_eq!(service.end().status.code(), Some(0));
    assert!(!world.path("state").join("watch.sock").exists());
}

#[test]
fn only_root_may_ask() {
    let world = World::new();
    if !can_watch(&world) {
        return;
    }
    let _service = Service::start(&world, &[]);
    let (binary, state) = (binary_for_all(&world), world.path("state"));
    let ask = |what: &str| {
        fs::set_permissions(&state, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("open to all");
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        let command = command.arg(&binary).args(["explain", "1"]);
        let output = command.env("FOREREAD_STATE_DIR", &state).output();
        let output = output.expect("setpriv starts");
        assert_fails_in_one_line(&output, what);
        assert!(
            stderr(&output).contains("only root may"),
            "{}",
            stderr(&output)
        );
    };
    ask("the socket is root's");
    let socket = state.join("watch.sock");
    fs::set_permissions(&socket, std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .expect("open to all");
    ask("the socket is everybody's");
}
