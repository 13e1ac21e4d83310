// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread explain` without a log: a running `foreread watch` is asked.

mod common;

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::service::{Service, until};
use common::watched::{can_watch, cold_tree, count, disk, grep, grep_words, make_cold, text};
use common::{World, assert_fails_in_one_line, binary_for_all, stderr, stdout};
use foreread_testbed::race;
use serde_json::{Value, json};

/// Pages of a file that is read backward, 64 KiB at a time.
const PAGES: u64 = 12_288;
/// Reads one from its end to its start, and doesn't end before its input does.
const BACKWARD: &str = "import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
for at in range(int(sys.argv[2]) // 16 - 1, -1, -1):
    os.pread(fd, 65536, at * 65536)
print('done', flush=True)
sys.stdin.read()";

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
    drop(UnixListener::bind(&socket).expect("a socket"));
    assert_fails_in_one_line(&explain(&world, "1"), "nobody watches any more");
    // Servers that answer nothing, or something else.
    for said in ["", "{}\n", "x\n"] {
        assert_fails_in_one_line(&explain_told(&world, &["1", "--json"], said), said);
    }
}

/// The output of `explain` if the server answers `said`.
fn explain_told(world: &World, arguments: &[&str], said: &str) -> Output {
    let socket = world.path("state").join("watch.sock");
    let _ = fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket).expect("a socket");
    let said = said.to_owned();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("somebody asks");
        stream.write_all(said.as_bytes()).expect("he hears");
    });
    let output = world.output(&[&["explain"], arguments].concat());
    thread.join().expect("it ends");
    output
}

/// A line of a running watch.
fn line(mut what: Value) -> String {
    what["schema"] = "foreread.watch.log/1".into();
    what["since_start_ns"] = 0.into();
    what["process"] = 1.into();
    format!("{what}\n")
}

#[test]
fn what_is_told_of_streams_is_said_or_why_nothing_is() {
    let world = World::new();
    drop(explain(&world, "1"));
    fs::create_dir_all(world.path("state")).expect("a directory");
    let start = line(json!({ "what": "started" }));
    let why = "the kernel refuses that (loading the programs): no";
    let unknown = start.clone() + &line(json!({ "what": "streams_unknown", "why": why }));
    let output = explain_told(&world, &["/some/file"], &unknown);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stdout(&output).contains(why), "{}", stdout(&output));
    let output = explain_told(&world, &["7", "--json"], &unknown);
    assert_eq!(document_of(&output)["streams_unknown"], why);

    let stream = json!({
        "thread": 8, "process": 7, "course": "step-up", "step_pages": 256, "page": 1000,
        "ahead_pages": 784, "distance_pages": 128, "window_pages": 0, "ceiling_pages": 512,
        "run_pages": 16, "quiet_pages": 0, "used_ns": 5, "idle_ns": 2_000_000_000u64,
    });
    // One whose thread has ended, which was its process's first.
    let mut ended = stream.clone();
    ended["process"] = Value::Null;
    let file = |streams: Value| {
        let what = json!({
            "what": "followed", "file": "7:1:42:3", "path": "/some/file", "accesses": 99,
            "streams": streams,
        });
        start.clone() + &line(what)
    };
    let both = file(json!([stream, ended]));
    let output = explain_told(&world, &["/some/file"], &both);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let said = stdout(&output);
    for part in [
        "A stream that thread 8 of process 7 began in /some/file (inode 42 of device 7:1) goes in \
         steps of 256 pages: it is at page 1,000, read last 2.00 s ago.\n",
        "ends 784 pages ahead of it; it may be 128 ahead, and no more than 512",
        "thread 8 (which has ended, or isn't seen from here) began in",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    for (process, streams) in [("7", 1), ("8", 1), ("9", 0)] {
        let document = document_of(&explain_told(&world, &[process, "--json"], &both));
        let told = document["streams"].as_array().expect("streams");
        assert_eq!(told.len(), streams, "{document}");
        assert_eq!(document["is_known"], streams > 0);
    }
    let output = explain_told(&world, &["/some/file"], &file(json!([])));
    assert!(
        stdout(&output).contains(
            "Of 99 accesses to /some/file (inode 42 of device 7:1), which is \
                                  followed, none makes a stream now."
        ),
        "{}",
        stdout(&output)
    );
    for wrong in [json!(null), json!([{}]), json!([7])] {
        let output = explain_told(&world, &["/some/file"], &file(wrong));
        assert_fails_in_one_line(&output, "no such streams");
    }
}

#[test]
fn who_watches_the_machine_tells_of_streams() {
    race(|| {
        let world = World::new();
        let Some((testbed, root)) = disk(&world, "cloud", 128 << 20) else {
            return;
        };
        let file = root.join("large");
        testbed
            .instantly(|| fs::write(&file, vec![1u8; PAGES as usize * 4096]))
            .expect("a file");
        let service = Service::start(&world, &[]);
        make_cold(&testbed);
        let output = explain(&world, text(&file));
        assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
        let mut reader = Command::new("python3")
            .args(["-c", BACKWARD])
            .arg(&file)
            .arg(PAGES.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 starts");
        let mut done = [0; 5];
        let mut said = reader.stdout.take().expect("a pipe");
        std::io::Read::read_exact(&mut said, &mut done).expect("it is done");
        let process = reader.id().to_string();

        let inode = file.metadata().expect("it is there").ino();
        // The reader reads files of its own, too, and its libraries' pages come in any order.
        // Hits are seen some time after the first miss. If the reader has passed the first window
        // by then, its next miss begins another stream, and the first one stays where it was.
        let backward = |what: &str| {
            let document = document_of(&explain(&world, what));
            let streams = document["streams"].as_array().expect("streams").clone();
            let of_file = streams.iter().filter(|one| one["inode"] == inode);
            let backward = of_file.filter(|one| one["direction"] == "backward");
            let last = backward.min_by_key(|one| one["idle_ns"].as_u64());
            last.unwrap_or_else(|| panic!("{what}: {document}")).clone()
        };
        // The last accesses may still be in the ring buffer, where the watcher waits for a CPU.
        until("the stream is seen at the start of the file", || {
            count(&backward(text(&file)), "page") == 0
        });
        let stream = backward(text(&file));
        assert_eq!(stream["process"], reader.id(), "{stream}");
        assert_eq!(stream["file"], text(&file), "{stream}");
        // On busy processors it may be the second or third stream of this reader.
        let window_pages = count(&stream, "window_pages");
        assert!(
            window_pages > 0 && count(&stream, "run_pages") >= window_pages,
            "{stream}"
        );
        assert!(count(&stream, "distance_pages") > 0, "{stream}");
        assert_eq!(backward(&process)["page"], 0);
        let people = stdout(&world.output(&["explain", text(&file)]));
        assert!(
            people.contains(&format!("of process {process} began in {} (", text(&file))),
            "{people}"
        );

        // Its number was that of its only thread.
        drop(reader.stdin.take());
        assert!(reader.wait().expect("it ends").success());
        let stream = backward(&process);
        assert_eq!(stream["process"], Value::Null, "{stream}");
        assert_eq!(explain(&world, "4194305").status.code(), Some(1));
        assert_eq!(service.end().status.code(), Some(0));
    });
}

#[test]
fn who_watches_the_machine_tells_of_walks() {
    race(|| {
        let world = World::new();
        let Some((testbed, tree)) = cold_tree(&world) else {
            return;
        };
        let service = Service::start(&world, &[]);
        make_cold(&testbed);
        let mut grep = grep(&tree).spawn().expect("grep starts");
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

        // Each of these programs goes through a part of it.
        make_cold(&testbed);
        let each = format!("find {} -type f -print0 | xargs -0 -n 8 cat", text(&tree));
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", &each]).stdout(Stdio::null());
        assert!(shell.status().expect("sh starts").success());
        let member = || {
            let document = document_of(&explain(&world, text(&tree)));
            let walks = document["walks"].as_array()?;
            let mut shared = walks.iter().filter_map(|walk| walk["shared_by"].as_array());
            let process = &shared.find_map(|by| by.last())?["process"];
            Some(process.to_string())
        };
        until("a walk is shared", || member().is_some());
        let member = member().expect("one that shares it");
        let said = stdout(&world.output(&["explain", &member]));
        assert!(
            said.contains(&format!("Process {member} shares it since ")),
            "{said}"
        );

        assert_eq!(service.end().status.code(), Some(0));
        assert!(!world.path("state").join("watch.sock").exists());
    });
}

/// Runs the program as a user who owns nothing.
fn as_user(world: &World, user: &str, words: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", user, "--regid", user, "--clear-groups"]);
    command
        .args(words)
        .env("FOREREAD_STATE_DIR", world.path("state"));
    command
}

fn open_to_all(path: &Path) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(path, mode).expect("open to all");
}

#[test]
fn a_user_is_told_of_its_own_processes_and_of_no_others() {
    race(|| {
        let world = World::new();
        let Some((testbed, tree)) = cold_tree(&world) else {
            return;
        };
        let service = Service::start(&world, &[]);
        let (binary, state) = (binary_for_all(&world), world.path("state"));
        open_to_all(&state);
        let socket = fs::metadata(state.join("watch.sock")).expect("a socket");
        let mode = std::os::unix::fs::PermissionsExt::mode(&socket.permissions());
        assert_eq!(mode & 0o777, 0o666);
        // One process of a user, one of another user, and one of root.
        let words = grep_words(&tree);
        let mut processes = Vec::new();
        for user in ["65534", "65533", "0"] {
            make_cold(&testbed);
            let mut grep = match user {
                "0" => grep(&tree).spawn(),
                user => as_user(&world, user, &words).spawn(),
            }
            .expect("grep starts");
            processes.push((user, grep.id().to_string()));
            grep.wait().expect("it ends");
        }
        for (_, process) in &processes {
            until("root is told of all", || {
                let document = document_of(&explain(&world, process));
                let walks = document["walks"].as_array().expect("walks").clone();
                !walks.is_empty() && walks.iter().all(|walk| walk["ended"].is_string())
            });
        }
        let ask = |user: &str, what: &str, json: &[&str]| {
            let words = [&[text(&binary), "explain", what][..], json].concat();
            as_user(&world, user, &words).output().expect("it starts")
        };
        let others = |user: &str, own: &str| {
            let others = processes.iter().filter(|(_, process)| process != own);
            let others: Vec<&(&str, String)> = others.collect();
            // One that never was there is told of in the same words.
            for process in others.iter().map(|of| of.1.as_str()).chain(["4194305"]) {
                let output = ask(user, process, &[]);
                assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
                let said = stdout(&output).replace(process, "N");
                assert_eq!(said, OTHERS, "{said}");
                let document = document_of(&ask(user, process, &["--json"]));
                assert_eq!(
                    (&document["is_known"], &document["own_only"]),
                    (&json!(false), &json!(true))
                );
            }
            // Not by the tree either, in which all of them were.
            let said = stdout(&ask(user, text(&tree), &["--json"]));
            for (_, process) in others {
                assert!(!said.contains(&format!("\"process\":{process},")), "{said}");
            }
        };
        for (user, process) in &processes[..2] {
            let document = document_of(&ask(user, process, &["--json"]));
            assert_eq!(document["is_known"], true, "{document}");
            let walks = document["walks"].as_array().expect("walks");
            assert!(
                walks.iter().any(|walk| count(walk, "used_files") > 0),
                "{document}"
            );
            assert!(
                document["streams_unknown"]
                    .as_str()
                    .is_some_and(|why| why.contains("root"))
            );
            others(user, process);
        }
        // A user of whom there is nothing.
        others("65532", "none");
        assert_eq!(service.end().status.code(), Some(0));
    });
}

/// What is said of a process of another user, and of one that isn't there.
const OTHERS: &str = "nothing is known of process N: no walk was ahead of it lately, or it belongs \
                      to another user; what concerns other users and streams in large files is \
                      told to root only: `sudo foreread explain N`\n";

/// Opens connections, says when they are open, and waits. Perl, since every Debian has it for all
/// users.
const HOLDS: &str = "use IO::Socket::UNIX; $| = 1;
my @held = map { IO::Socket::UNIX->new(Peer => $ARGV[0]) or die $! } 1 .. $ARGV[1];
print \"held\\n\"; <STDIN>;";

#[test]
fn a_user_that_holds_the_socket_keeps_no_other_away() {
    let world = World::new();
    if !can_watch(&world) {
        return;
    }
    let _service = Service::start(&world, &[]);
    let (binary, state) = (binary_for_all(&world), world.path("state"));
    open_to_all(&state);
    let socket = state.join("watch.sock");
    // Each answer is of a few lines, which the socket holds: who doesn't read is answered all the
    // same, and gone. So this one asks again and again.
    let words = ["perl", "-e", HOLDS, text(&socket), "40"];
    let mut holder = as_user(&world, "65534", &words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("perl starts");
    let mut held = [0; 5];
    let mut said = holder.stdout.take().expect("a pipe");
    std::io::Read::read_exact(&mut said, &mut held).expect("it holds them");
    for user in ["65533", "0"] {
        let words = [text(&binary), "explain", "4194305"];
        let output = match user {
            "0" => world.output(&["explain", "4194305"]),
            user => as_user(&world, user, &words).output().expect("it starts"),
        };
        assert_eq!(output.status.code(), Some(1), "{user}: {}", stderr(&output));
    }
    drop(holder.stdin.take());
    holder.wait().expect("it ends");
}

#[test]
fn who_may_not_reach_the_socket_is_told_what_to_do() {
    let world = World::new();
    if !can_watch(&world) {
        return;
    }
    let _service = Service::start(&world, &[]);
    let (binary, state) = (binary_for_all(&world), world.path("state"));
    fs::set_permissions(&state, std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .expect("closed");
    let words = [text(&binary), "explain", "1"];
    let output = as_user(&world, "65534", &words)
        .output()
        .expect("it starts");
    assert_fails_in_one_line(&output, "the socket is root's");
    assert!(stderr(&output).contains("use sudo, or --log LOG"));
}
