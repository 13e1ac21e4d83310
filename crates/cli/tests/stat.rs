// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread stat`: what is told, where to, and what wrong usage gets.

mod common;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{World, assert_fails_in_one_line, binary_for_all, is_root, stderr, stdout};
use foreread_testbed::Readers;
use rustix::fs::{Advice, fadvise};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const PAGES: u64 = 23;

/// Whether it works here; says so when not.
fn can_follow(world: &World) -> bool {
    is_root() && world.can(&["stat", "10ms", "1"])
}

/// 23 files of 23 pages on a disk, none of which is cached; `None` where that can't be.
fn files(world: &World) -> Option<Vec<PathBuf>> {
    let directory = world.path("files");
    fs::create_dir(&directory).expect("a directory");
    let paths: Vec<PathBuf> = (0..23)
        .map(|n| directory.join(format!("file-{n}")))
        .collect();
    for path in &paths {
        let mut file = File::create(path).expect("a file");
        file.write_all(&vec![b'x'; (PAGES * 4096) as usize])
            .expect("bytes");
        file.sync_all().expect("a sync");
        if !leaves_memory(&file) {
            println!("skipped: {} is nowhere but in memory", directory.display());
            return None;
        }
    }
    Some(paths)
}

/// Whether a file's pages leave memory. On busy processors a page may be held for a moment, and the
/// advice then leaves it where it is: once in some fifty runs of the suite.
fn leaves_memory(file: &File) -> bool {
    const TRIES: usize = 100;
    (0..TRIES).any(|attempt| {
        if attempt > 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        fadvise(file, 0, None, Advice::DontNeed).expect("advice");
        // Where that can't be told, it is taken to be so.
        let cached = foreread_sys::cache::cached_pages(file, 0, PAGES);
        cached.map_or(true, |cached| cached == 0)
    })
}

/// Documents, one a line.
fn documents(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn assert_balances(counts: &Value) {
    let pages = |name: &str| counts[format!("{name}_pages")].as_i64().expect("a number");
    assert_eq!(
        pages("fetched"),
        pages("used_on_time")
            + pages("used_late")
            + pages("wasted")
            + pages("resident_unused")
            + pages("in_flight"),
        "{counts}"
    );
}

#[test]
fn of_a_command_each_file_is_told_exactly() {
    let world = World::new();
    if !can_follow(&world) {
        return;
    }
    let Some(paths) = files(&world) else {
        return;
    };
    let told = world.path("told.json");
    let readers = Readers::now();
    let output = world
        .foreread(&["stat", "--by", "file", "--json", "--output"])
        .arg(&told)
        .arg("--")
        .arg("cat")
        .args(&paths)
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    // Standard output has the command's bytes only.
    assert_eq!(output.stdout.len() as u64, 23 * PAGES * 4096);
    let documents = documents(&fs::read_to_string(&told).expect("what was told"));
    let [document] = &documents[..] else {
        panic!("{} documents", documents.len());
    };
    assert_eq!(document["schema"], "foreread.stat/1");
    assert_eq!(document["lost"]["unfollowed_pages"], 0);
    let lines = document["lines"].as_array().expect("lines");
    lines
        .iter()
        .for_each(|line| assert_balances(&line["since_start"]));
    for path in &paths {
        let path = path.canonicalize().expect("a path");
        let line = lines
            .iter()
            .find(|line| line["file"] == path.to_str().expect("text"));
        // A process that reads ahead of the command leaves it nothing to fetch.
        let counts = &line
            .unwrap_or_else(|| panic!("{}: {document}\n{}", path.display(), readers.since()))["since_start"];
        let pages = |name: &str| counts[name].as_u64().expect("a number");
        assert_eq!(pages("fetched_pages"), PAGES, "{counts}");
        assert_eq!(
            pages("used_on_time_pages") + pages("used_late_pages"),
            PAGES,
            "{counts}"
        );
        assert_eq!(pages("request_bytes"), PAGES * 4096, "{counts}");
    }
}

#[test]
fn a_table_has_the_columns_asked_for_and_goes_where_the_command_does_not_print() {
    let world = World::new();
    if !can_follow(&world) {
        return;
    }
    let arguments =
        "stat --by process --self --columns process,fetched,held,request_size -- echo mine";
    let words: Vec<&str> = arguments.split(' ').collect();
    let output = world.output(&words);
    assert_eq!(stdout(&output), "mine\n");
    let text = stderr(&output);
    let head: Vec<&str> = text
        .lines()
        .next()
        .expect("a line")
        .split_whitespace()
        .collect();
    assert_eq!(head, ["process", "fetched", "held", "size"], "{text}");
    assert!(
        text.contains("\nself: ") && text.contains("of a processor in the kernel"),
        "{text}"
    );
}

#[test]
fn intervals_are_told_as_often_as_asked_and_each_balances() {
    let world = World::new();
    if !can_follow(&world) {
        return;
    }
    for by in ["machine", "device", "process,kind", "cgroup", "device,file"] {
        let output = world.output(&["stat", "--by", by, "--json", "20ms", "4"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let documents = documents(&stdout(&output));
        assert_eq!(documents.len(), 4, "{by}");
        for line in documents
            .iter()
            .flat_map(|d| d["lines"].as_array().expect("lines"))
        {
            assert_balances(&line["since_start"]);
            assert_balances(&line["interval"]);
        }
    }
}

/// What a terminal is sent by `stat` with these words.
fn on_terminal(world: &World, words: &str) -> String {
    let line = format!("{} stat {words}", env!("CARGO_BIN_EXE_foreread"));
    let output = Command::new("script")
        .args(["-qefc", &line, "/dev/null"])
        .env("FOREREAD_CONFIG", world.path("foreread.toml"))
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .output()
        .expect("script of util-linux");
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    stdout(&output)
}

#[test]
fn on_a_terminal_a_table_takes_the_place_of_the_last_one() {
    let world = World::new();
    if !can_follow(&world) {
        return;
    }
    const CLEARED: &str = "\u{1b}[2K";
    let drawn = on_terminal(&world, "100ms 3 --by machine");
    assert!(
        drawn.contains("fetched") && drawn.contains(CLEARED),
        "{drawn:?}"
    );
    let scrolled = on_terminal(&world, "100ms 3 --by machine --scroll --timestamps");
    assert!(!scrolled.contains('\u{1b}'), "{scrolled:?}");
    assert_eq!(scrolled.matches("fetched").count(), 3, "{scrolled:?}");
    assert_eq!(scrolled.matches(" UTC").count(), 3, "{scrolled:?}");
}

#[test]
fn only_what_was_asked_for_is_counted() {
    let world = World::new();
    if !can_follow(&world) {
        return;
    }
    let Some(paths) = files(&world) else {
        return;
    };
    let device = world.path(".").to_str().expect("text").to_owned();
    let fetched = |options: &[&str]| {
        for path in &paths {
            leaves_memory(&File::open(path).expect("a file"));
        }
        let told = world.path("told.json");
        let mut command = world.foreread(&["stat", "--by", "machine", "--json", "--output"]);
        command.arg(&told).args(options).args(["--", "cat"]);
        let output = command.args(&paths).output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let documents = documents(&fs::read_to_string(&told).expect("what was told"));
        let lines = documents[0]["lines"].as_array().expect("lines");
        let pages = |line: &Value| line["since_start"]["fetched_pages"].as_u64();
        lines.iter().filter_map(pages).sum::<u64>()
    };
    let all = paths.len() as u64 * PAGES;
    for counted in [
        &["--device", device.as_str()][..],
        &["--process", "cat"],
        &["--process", "nobody", "--process", "cat"],
        &["--cgroup", "/"],
    ] {
        assert!(fetched(counted) >= all, "{counted:?}");
    }
    for left_out in [
        &["--device", "/proc"][..],
        &["--process", "nobody"],
        &["--cgroup", "/no/such/cgroup"],
        &["--process", "cat", "--device", "/proc"],
    ] {
        assert_eq!(fetched(left_out), 0, "{left_out:?}");
    }
    let wrong = world.output(&["stat", "--device", "no-such-device", "1", "1"]);
    assert_fails_in_one_line(&wrong, "no such device");
}

#[test]
fn how_the_command_ended_is_passed_on() {
    let world = World::new();
    if !can_follow(&world) {
        return;
    }
    let code = |words: &[&str]| world.output(words).status.code();
    assert_eq!(code(&["stat", "--", "sh", "-c", "exit 7"]), Some(7));
    assert_eq!(code(&["stat", "--", "no-such-command-here"]), Some(127));
    // All is told before the command ends, and it is waited for.
    assert_eq!(
        code(&["stat", "10ms", "1", "--", "sh", "-c", "sleep 0.1; exit 3"]),
        Some(3)
    );
}

#[test]
fn metrics_are_printed_and_told_at_a_socket() {
    let world = World::new();
    if !can_follow(&world) {
        return;
    }
    let output = world.output(&["stat", "--openmetrics", "--by", "machine", "10ms", "1"]);
    let text = stdout(&output);
    assert!(text.ends_with("# EOF\n"), "{text}");
    assert!(text.contains("\nforeread_fetched_pages_total "), "{text}");
    let path = world.path("socket");
    let mut listening = Command::new("sh")
        .args(["-c", "umask 000; exec \"$@\"", "sh"])
        .arg(env!("CARGO_BIN_EXE_foreread"))
        .args(["stat", "--by", "device,kind", "--listen"])
        .arg(&path)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    // Six that never say what they want hold up nobody.
    let first = ask(&path, &mut listening);
    let silent: Vec<UnixStream> = (0..6)
        .map(|_| UnixStream::connect(&path).expect("it listens"))
        .collect();
    let asked = ask(&path, &mut listening);
    let mode = fs::metadata(&path)
        .expect("the socket")
        .permissions()
        .mode();
    drop(silent);
    let pid = Pid::from_child(&listening);
    kill_process(pid, Signal::INT).expect("a signal");
    let ended = listening.wait().expect("it ends");
    assert_eq!(mode & 0o777, 0o600, "whatever the umask");
    for asked in [first, asked] {
        assert!(asked.starts_with("HTTP/1.1 200 OK\r\n"), "{asked}");
        assert!(asked.ends_with("# EOF\n"), "{asked}");
    }
    assert!(ended.success());
    assert!(!path.exists(), "the socket is removed");
}

fn ask(path: &PathBuf, listening: &mut Child) -> String {
    let started = Instant::now();
    let mut stream = loop {
        if let Ok(stream) = UnixStream::connect(path) {
            break stream;
        }
        let ended = listening.try_wait().expect("a look");
        assert!(
            ended.is_none() && started.elapsed() < Duration::from_secs(60),
            "{ended:?}"
        );
        std::thread::sleep(Duration::from_millis(5));
    };
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: foreread\r\n\r\n")
        .expect("a request");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}

#[test]
fn wrong_usage_is_told_in_words() {
    let world = World::new();
    let wrong: [(&[&str], &str); 6] = [
        (&["stat", "soon"], "a time is as in"),
        (&["stat", "1ms"], "10ms or longer"),
        (&["stat", "1s", "0"], "0"),
        (&["stat", "--by", "disk"], "machine, device, process"),
        (&["stat", "--columns", "pages"], "used_on_time"),
        (&["stat", "--json", "--openmetrics"], "cannot be used with"),
    ];
    for (words, expected) in wrong {
        let output: Output = world.output(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(
            stderr(&output).contains(expected),
            "{words:?}: {}",
            stderr(&output)
        );
    }
    let taken = world.path("taken");
    fs::write(&taken, "mine").expect("a file");
    let taken = taken.to_str().expect("text");
    let output = world.output(&["stat", "--listen", taken, "10ms", "1"]);
    assert_fails_in_one_line(&output, "a file where the socket should be");
    assert_eq!(fs::read(taken).expect("the file"), b"mine");
}

#[test]
fn without_rights_it_says_what_it_needs() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(binary_for_all(&world))
        .args(["stat", "10ms", "1"])
        .output()
        .expect("setpriv starts");
    assert_fails_in_one_line(&output, "stat without rights");
    assert!(
        stderr(&output).contains("needs root"),
        "{}",
        stderr(&output)
    );
}
