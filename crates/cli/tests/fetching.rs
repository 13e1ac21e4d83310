// SPDX-License-Identifier: MIT OR Apache-2.0
//! A replay that fetches nothing although it wanted to says why.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

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

/// Holds a write lease on a file, and says at the end whether somebody broke it.
const LEASE_HOLDER: &str = "
import fcntl, os, signal, sys
file = os.open(sys.argv[1], os.O_RDWR)
broken = []
signal.signal(signal.SIGIO, lambda *_: broken.append(1))
try:
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
except OSError as error:
    print('refused', error, flush=True)
    sys.exit()
print('leased', flush=True)
sys.stdin.readline()
print('broken' if broken else 'kept', flush=True)
";

#[test]
fn a_replay_leaves_a_file_with_a_write_lease_alone() {
    let world = World::new();
    let (leased, free) = (world.path("leased"), world.path("free"));
    for file in [&leased, &free] {
        fs::write(file, vec![b'x'; 20_000]).expect("a file");
    }
    common::write(&world.path("all.frp"), &profile_of(&[&leased, &free]));
    let holder = Command::new("python3")
        .args(["-c", LEASE_HOLDER])
        .arg(&leased)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut holder = match holder {
        Ok(holder) => holder,
        Err(error) => {
            println!("skipped: python3: {error}");
            return;
        }
    };
    let mut lines = BufReader::new(holder.stdout.take().expect("a pipe")).lines();
    let mut said = || lines.next().expect("a line").expect("text");
    let first = said();
    if first != "leased" {
        println!("skipped: no write lease here: {first}");
        let _ = holder.wait();
        return;
    }
    let output = world.output(&["replay", "--json", "all.frp"]);
    let told = stderr(&world.output(&["replay", "all.frp"]));
    drop(holder.stdin.take());
    assert_eq!(said(), "kept");
    assert!(holder.wait().expect("it ends").success());
    assert_eq!(output.status.code(), Some(64), "{}", stderr(&output));
    let replay = &document(&stdout(&output))["replay"];
    assert_eq!(replay["leased_files"], 1, "{replay}");
    assert_eq!(replay["unreadable_files"], 0, "{replay}");
    assert!(replay["skipped_pages"].as_u64() >= Some(5), "{replay}");
    assert!(told.contains("1 leased to others"), "{told}");
}
