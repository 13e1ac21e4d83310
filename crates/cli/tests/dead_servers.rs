// SPDX-License-Identifier: MIT OR Apache-2.0
//! File servers that stop answering, or die: `foreread` starts commands all the same, ends with
//! their status, and leaves nothing that can't be reaped.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use foreread_testbed::hanging_server::{HangingServer, Operation};
use rustix::process::Signal;

use common::served::{LIMIT, Running, forget, let_go, reader, script, server};
use common::service::{Service, until};
use common::watched::can_watch;
use common::{World, drop_pages, profile_of, write};

/// A file of 32 MiB.
fn large(world: &World) -> PathBuf {
    let path = world.path("large");
    fs::write(&path, vec![1; 32 << 20]).expect("a file");
    path
}

/// Runs `work` for each call that a server can leave without an answer, all at the same time.
fn each_operation(work: impl Fn(&World, &HangingServer, Operation) + Sync) {
    let work = &work;
    thread::scope(|scope| {
        for operation in Operation::ALL {
            scope.spawn(move || {
                let world = World::new();
                if let Some(server) = server(&world) {
                    work(&world, &server, operation);
                }
            });
        }
    });
}

#[test]
fn a_command_is_replayed_though_a_server_hangs() {
    if !World::new().can(&["run", "--", "true"]) {
        return;
    }
    each_operation(|world, server, operation| {
        let large = large(world);
        let script = script(server.point(), &large, world);
        let run = |busy: bool| {
            forget(world);
            let mut command = world.foreread(&["run", "--", "sh", "-c", &script]);
            if busy {
                command.env("BUSY", "1");
            }
            Running::start(world, "run", command)
        };
        let first = run(true);
        let_go(world);
        let first = first.end("recorded");
        assert_eq!(first.code, Some(7), "{first:?}");
        drop_pages(&large);
        server.hang(&[operation]);
        let began = Instant::now();
        let second = run(false);
        until("the command has begun", || world.path("ready").exists());
        println!(
            "{operation:?}: begun after {} ms",
            began.elapsed().as_millis()
        );
        // The replay has time to hang.
        thread::sleep(Duration::from_millis(300));
        let_go(world);
        let second = second.end(&format!("{operation:?}"));
        assert_eq!(second.code, Some(7), "{operation:?}: {second:?}");
    });
}

#[test]
fn a_recorded_command_ends_though_a_server_hangs_meanwhile() {
    if !World::new().can(&["run", "--", "true"]) {
        return;
    }
    each_operation(|world, server, operation| {
        let large = large(world);
        let script = script(server.point(), &large, world);
        let output = world.path("output.frp");
        let output = output.to_str().expect("a text");
        let verbs: [(&str, &[&str]); 4] = [
            ("run", &["run", "--"]),
            ("record", &["record", "--output", output, "--"]),
            ("stat", &["stat", "--"]),
            ("watch", &["watch", "--"]),
        ];
        for (verb, arguments) in verbs {
            forget(world);
            server.hang(&[]);
            let mut command = world.foreread(arguments);
            command.args(["sh", "-c", &script]).env("BUSY", "1");
            let running = Running::start(world, verb, command);
            until("the command is ready", || world.path("ready").exists());
            server.hang(&[operation]);
            let_go(world);
            let end = running.end(&format!("{verb}, {operation:?}"));
            assert_eq!(end.code, Some(7), "{verb}, {operation:?}: {end:?}");
        }
    });
}

/// Held by the replay of a server that answers.
static HEALTHY: Mutex<()> = Mutex::new(());

#[test]
fn a_replay_ends_though_a_server_hangs_and_names_it() {
    each_operation(|world, server, operation| {
        let files: Vec<PathBuf> = (0..HangingServer::FILES)
            .map(|at| server.point().join(at.to_string()))
            .collect();
        let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
        let profile = world.path("profile.frp");
        write(&profile, &profile_of(&files));
        let profile = profile.to_str().expect("a text");
        let all = files.len() as u64 * HangingServer::FILE_PAGES * 4096;
        // The helper reads all of it while the server answers. On busy processors a server may
        // make no progress for seconds, which counts as hanging: one at a time, again if need be.
        let one_at_a_time = HEALTHY.lock().unwrap_or_else(PoisonError::into_inner);
        let replay = || {
            let command = world.foreread(&["replay", profile]);
            Running::start(world, "replay", command).end("healthy")
        };
        let mut tries = (0..5).map(|_| replay());
        let end = tries.find(|end| end.code == Some(0)).unwrap_or_else(replay);
        drop(one_at_a_time);
        assert_eq!(end.code, Some(0), "{end:?}");
        // The kernel may read on, or drop what it has when a file is opened again.
        let read = server.bytes_read();
        assert!(read >= all / 2, "{read} of {all}: {end:?}");
        server.hang(&[operation]);
        for verb in [&["replay", profile][..], &["show", profile]] {
            let unanswered = server.unanswered();
            let running = Running::start(world, verb[0], world.foreread(verb));
            let end = running.end(&format!("{}, {operation:?}", verb[0]));
            let hung = server.unanswered() > unanswered;
            let named = end.stderr.contains("does not answer");
            assert_eq!(hung, named, "{operation:?}: {end:?}");
            assert_eq!(
                end.code,
                Some(if hung { 64 } else { 0 }),
                "{operation:?}: {end:?}"
            );
            let needs_helper = matches!(
                operation,
                Operation::Lookup
                    | Operation::Getattr
                    | Operation::Open
                    | Operation::Read
                    | Operation::Opendir
            );
            assert_eq!(hung, needs_helper && verb[0] == "replay", "{operation:?}");
        }
    });
}

/// A replay of a file whose server does not answer its first read.
fn hanging_replay(world: &World, server: &HangingServer) -> Running {
    let profile = profile_of(&[&server.point().join("0")]);
    write(&world.path("profile.frp"), &profile);
    server.hang(&[Operation::Read]);
    let replay = world.foreread(&["replay", "profile.frp"]);
    let running = Running::start(world, "replay", replay);
    until("a read hangs", || server.unanswered() > 0);
    running
}

#[test]
fn a_server_that_died_is_an_error_like_others() {
    let world = World::new();
    let Some(server) = server(&world) else {
        return;
    };
    let running = hanging_replay(&world, &server);
    server.die();
    let end = running.end("died meanwhile");
    assert_eq!(end.code, Some(64), "{end:?}");
    let replay = world.foreread(&["replay", "profile.frp"]);
    let running = Running::start(&world, "replay", replay);
    let end = running.end("died before");
    assert_eq!(end.code, Some(64), "{end:?}");
}

#[test]
fn a_helper_ends_with_the_one_that_it_works_for() {
    let world = World::new();
    let Some(server) = server(&world) else {
        return;
    };
    let helpers = || {
        let processes = fs::read_dir("/proc").expect("processes").flatten();
        let ours = processes.filter(|process| {
            let read = |name: &str| fs::read(process.path().join(name)).unwrap_or_default();
            let here = fs::read_link("/proc/thread-self/ns/mnt").ok();
            let namespace = fs::read_link(process.path().join("ns/mnt")).ok();
            read("cmdline").starts_with(b"foreread\0helper-process\0") && namespace == here
        });
        ours.count()
    };
    let running = hanging_replay(&world, &server);
    assert_eq!(helpers(), 1);
    running.signal(Signal::KILL);
    let end = running.end("killed");
    assert_eq!(end.code, None, "{end:?}");
    // What hangs in the server ends when that does.
    server.die();
    until("the helper has ended", || helpers() == 0);
}

#[test]
fn a_service_that_walks_through_a_hanging_server_can_be_stopped_and_started() {
    for operation in [
        Operation::Open,
        Operation::Read,
        Operation::Readdir,
        Operation::Lookup,
    ] {
        let world = World::new();
        let Some(server) = server(&world) else {
            return;
        };
        if !can_watch(&world) {
            return;
        }
        let service = Service::start(&world, &[]);
        let mut reader = reader(server.point()).spawn().expect("it starts");
        until("some files are read", || {
            server.bytes_read() > 40 * 16 * 4096
        });
        server.hang(&[operation]);
        thread::sleep(Duration::from_millis(200));
        let began = Instant::now();
        let end = service.end();
        println!(
            "{operation:?}: ended after {} ms",
            began.elapsed().as_millis()
        );
        assert_eq!(end.status.code(), Some(0), "{operation:?}: {end:?}");
        assert!(began.elapsed() < LIMIT, "{operation:?}");
        // The lock is free.
        let next = Service::start(&world, &[]);
        assert_eq!(next.end().status.code(), Some(0));
        let _ = reader.kill();
        server.die();
        let _ = reader.wait();
    }
}

#[test]
fn a_service_names_a_server_that_hangs_and_goes_on() {
    let world = World::new();
    let Some(server) = server(&world) else {
        return;
    };
    if !can_watch(&world) {
        return;
    }
    let mut service = Service::start(&world, &[]);
    // Only the service lists the directory.
    server.hang(&[Operation::Opendir, Operation::Readdir]);
    let mut reader = reader(server.point()).spawn().expect("it starts");
    let point = server.point().to_str().expect("a text");
    let named = format!("{point} (fuse.hanging) does not answer");
    until("it is named", || service.stderr().contains(&named));
    service.hear_anew(&format!("STATUS={named}"));
    let file = format!("{point}/150");
    let output = world.output(&["explain", &file]);
    let said = common::stdout(&output);
    assert!(said.contains(&format!(
        "The file system at {point} (fuse.hanging) did not answer"
    )));
    let output = world.output(&["explain", "--json", &file]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(document["left_alone"][0]["mount_point"], point);
    let began = Instant::now();
    let end = service.end();
    println!("ended after {} ms", began.elapsed().as_millis());
    assert_eq!(end.status.code(), Some(0), "{end:?}");
    let _ = reader.kill();
    server.die();
    let _ = reader.wait();
}
