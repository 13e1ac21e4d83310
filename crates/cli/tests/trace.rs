// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread trace`: through files and pipes, damaged input, and what is there when it fails.

mod common;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use common::{World, assert_fails_in_one_line, stderr, stdout};
use serde_json::Value;

const STRACE: &[u8] = include_bytes!("../../../tests/traces/make.strace");
const FIO: &[u8] = include_bytes!("../../../tests/traces/fio-v2.iolog");
const PARTLY: Option<i32> = Some(64);

fn world() -> World {
    let world = World::new();
    fs::write(world.path("in.strace"), STRACE).expect("a trace");
    fs::write(world.path("in.iolog"), FIO).expect("a trace");
    world
}

fn document(text: &str) -> Value {
    serde_json::from_str(text).expect("one document")
}

fn csv(world: &World, file: &str, more: &[&str]) -> String {
    let arguments = [&["trace", "cut", file, "-", "--to-format", "csv"], more].concat();
    stdout(&world.output(&arguments))
}

/// Names of files that a conversion left behind.
fn leftovers(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .filter(|name| name.contains(".foreread-tmp"))
        .collect()
}

#[test]
fn the_own_format_holds_what_its_source_holds() {
    let world = world();
    let output = world.output(&["trace", "convert", "in.strace", "x.frt", "--json"]);
    assert_eq!(output.status.code(), PARTLY, "a line is broken");
    let done = document(&stdout(&output));
    assert_eq!(done["schema"], "foreread.trace-convert/1");
    assert_eq!(done["accesses"], 14);
    assert_eq!(done["findings"]["bad_records"], 1);
    assert_eq!(csv(&world, "x.frt", &[]), csv(&world, "in.strace", &[]));
    let info = world.output(&["trace", "info", "x.frt", "--json"]);
    assert!(info.status.success(), "all that is in it can be read");
    let info = document(&stdout(&info));
    assert_eq!(info["source"], "strace");
    assert_eq!(info["left_out"]["bad-records"], 1);
    assert_eq!(leftovers(world.path(".").as_path()), [""; 0]);
}

#[test]
fn cuts_agree_with_each_other_and_with_the_source() {
    let world = world();
    world.output(&["trace", "convert", "in.strace", "x.frt"]);
    for cut in [
        &["--from", "2ms", "--to", "7ms"][..],
        &["--file", "*Makefile", "--pid", "100"],
        &["--pid", "101", "--from", "8.5ms"],
    ] {
        let arguments = [&["trace", "cut", "x.frt", "part.frt"], cut].concat();
        assert!(world.output(&arguments).status.success());
        let part = csv(&world, "part.frt", &[]);
        assert_eq!(part, csv(&world, "in.strace", cut));
        assert!(part.lines().count() > 1, "{cut:?}");
    }
    let head = world.output(&["trace", "head", "part.frt", "--json"]);
    let head = document(&stdout(&head));
    assert_eq!(head["accesses"][0]["time_ns"], 8_500_000);
}

#[test]
fn a_trace_goes_through_pipes() {
    let world = world();
    let mut convert = world
        .foreread(&["trace", "convert", "-", "-", "--to-format", "frt"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("foreread starts");
    let mut input = convert.stdin.take().expect("its input");
    input.write_all(FIO).expect("it reads");
    drop(input);
    let output = convert.wait_with_output().expect("it ends");
    assert!(output.status.success());
    fs::write(world.path("x.frt"), &output.stdout).expect("a trace");
    assert_eq!(csv(&world, "x.frt", &[]), csv(&world, "in.iolog", &[]));
}

#[test]
fn a_trace_can_be_written_over_itself() {
    let world = world();
    world.output(&["trace", "convert", "in.strace", "x.frt"]);
    let wanted = csv(&world, "x.frt", &["--pid", "100"]);
    let output = world.output(&["trace", "cut", "x.frt", "x.frt", "--pid", "100"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(csv(&world, "x.frt", &[]), wanted);
}

#[test]
fn what_fails_leaves_what_was_there() {
    let world = world();
    fs::write(world.path("out.frt"), "before").expect("a file");
    fs::write(world.path("empty"), "").expect("a file");
    let output = world.output(&["trace", "convert", "empty", "out.frt"]);
    assert_fails_in_one_line(&output, "no known format of traces");
    let output = world.output(&["trace", "convert", "in.iolog", "no/where.frt"]);
    assert_fails_in_one_line(&output, "cannot write no/where.frt");
    let output = world.output(&["trace", "convert", "in.iolog", "."]);
    assert_fails_in_one_line(&output, "in which format?");
    let before = fs::read(world.path("out.frt")).expect("it is there");
    assert_eq!(before, b"before");
    assert_eq!(leftovers(world.path(".").as_path()), [""; 0]);
}

#[test]
fn a_trace_that_is_cut_off_gives_what_is_whole() {
    let world = world();
    world.output(&["trace", "convert", "in.strace", "x.frt"]);
    let whole = fs::read(world.path("x.frt")).expect("a trace");
    for bytes in [whole.len() - 1, whole.len() / 2, 60] {
        fs::write(world.path("cut.frt"), &whole[..bytes]).expect("a file");
        let output = world.output(&["trace", "convert", "cut.frt", "again.frt"]);
        assert_eq!(output.status.code(), PARTLY, "{}", stderr(&output));
        assert!(stderr(&output).contains("it is cut off at byte"));
        let info = world.output(&["trace", "info", "again.frt"]);
        assert!(info.status.success(), "{}", stderr(&info));
    }
}
