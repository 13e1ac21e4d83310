// SPDX-License-Identifier: MIT OR Apache-2.0
//! A replay that fetches nothing although it wanted to says why.

mod common;

use std::fs;

use common::{World, profile_of, stderr, stdout};
use serde_json::Value;

fn document(text: &str) -> Value {
    serde_json::from_str(text).expect("one document")
}

#[test]
fn a_replay_whose_files_are_gone_says_so() {
    let world = World::new();
    let file = world.path("file");
    fs::write(&file, vec![b'x'; 20_000]).expect("a file");
    common::write(&world.path("all.frp"), &profile_of(&[&file]));
    fs::remove_file(&file).expect("it goes");
    let output = world.output(&["replay", "all.frp"]);
    assert_eq!(output.status.code(), Some(64), "{}", stderr(&output));
    let line = stderr(&output);
    assert!(
        line.contains("replay fetched nothing: 1 file is gone"),
        "{line}"
    );
    let told = document(&stdout(&world.output(&["replay", "--json", "all.frp"])));
    let replay = &told["replay"];
    assert_eq!(replay["fetched_nothing_because"], "1 file is gone");
    assert_eq!(
        (&replay["failed_reads"], &replay["short_reads"]),
        (&Value::from(0), &Value::from(0))
    );
    assert_eq!(replay["first_error"], Value::Null);
}

#[test]
fn a_replay_that_finds_everything_cached_has_no_excuse() {
    let world = World::new();
    let file = world.path("file");
    fs::write(&file, vec![b'x'; 20_000]).expect("a file");
    common::write(&world.path("all.frp"), &profile_of(&[&file]));
    let output = world.output(&["replay", "--json", "all.frp"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let told = document(&stdout(&output));
    let replay = &told["replay"];
    let arrived = replay["arrived_pages"].as_u64();
    assert_eq!(arrived, replay["asked_pages"].as_u64(), "{replay:#}");
    assert_eq!(replay["fetched_nothing_because"], Value::Null);
}
