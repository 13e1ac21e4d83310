// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread watch` as a service: what it says to who started it, its settings, its rights, and
//! what is left of it.

mod common;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::service::{Service, until};
use common::watched::can_watch;
use common::{World, assert_fails_in_one_line, stderr, stdout};
use libbpf_rs::query::ProgInfoIter;
use rustix::process::Signal;

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

fn settings(world: &World, content: &str) -> PathBuf {
    let path = world.path("watch.toml");
    fs::write(&path, content).expect("a file");
    path
}

#[test]
fn who_started_it_hears_how_it_goes() {
    let world = World::new();
    if !can_watch(&world) {
        return;
    }
    let path = settings(&world, "dry_run = true\n");
    let mut command = world.foreread(&["watch", "--config", text(&path)]);
    command.env("WATCHDOG_USEC", "200000");
    let mut service = Service::start_as(&world, command);
    service.hear("STATUS=");
    let last = service.heard().last().expect("it said something");
    assert!(
        last.contains(" files missed") && last.contains(" seen, "),
        "{last}"
    );
    service.hear("WATCHDOG=1");
    service.hear("WATCHDOG=1");
    service.signal(Signal::HUP);
    service.hear("RELOADING=1");
    service.hear("READY=1");
    service.signal(Signal::TERM);
    service.hear("STOPPING=1");
    let output = service.wait();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    // Others may walk meanwhile.
    assert!(stdout(&output).contains(" seen, "), "{}", stdout(&output));
    assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
}

#[test]
fn settings_are_read_again_and_wrong_ones_change_nothing() {
    let world = World::new();
    if !can_watch(&world) {
        return;
    }
    let (log, moved, other) = (world.path("log"), world.path("log.1"), world.path("other"));
    let path = settings(&world, &format!("log = {:?}\n", text(&log)));
    let service = Service::start(&world, &["--config", text(&path)]);
    fs::rename(&log, &moved).expect("it is there");
    service.signal(Signal::HUP);
    until("the log begins anew", || log.exists());
    settings(
        &world,
        &format!("log = {:?}\nbugdet = \"1M\"\n", text(&other)),
    );
    service.signal(Signal::HUP);
    let said = "watch.toml, line 2: there is no key `bugdet`; did you mean `budget`?; what was \
                set before stays";
    until("it says what is wrong", || service.stderr().contains(said));
    assert!(!other.exists());
    settings(&world, "log = \"/no/such/directory/log\"\n");
    service.signal(Signal::HUP);
    until("it says so", || {
        service.stderr().contains("/no/such/directory/log")
    });
    settings(&world, "dry_run = true\ncgroup = \"/another\"\n");
    service.signal(Signal::HUP);
    until("it says so", || {
        service.stderr().contains("changes with the next start")
    });
    let output = service.end();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    // Only then nothing is fetched, which shows in how it sums up.
    assert!(stdout(&output).contains(" seen, "), "{}", stdout(&output));
}

#[test]
fn wrong_settings_are_told_at_the_start_in_a_line() {
    let world = World::new();
    for (content, part) in [
        ("budget = 512\n", "line 1: `budget` is a size"),
        ("\n[watch]\n", "line 2: there is no key `watch`"),
        ("dry_run = \"yes\"\n", "true or false"),
        ("= 1\n", "line 1: "),
        ("cgroup = \"/no/such/group\"\n", "cannot find the cgroup"),
    ] {
        let path = settings(&world, content);
        let output = world.output(&["watch", "--config", text(&path)]);
        assert_fails_in_one_line(&output, content);
        assert!(
            stderr(&output).contains(part),
            "{content}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn only_one_watches_the_machine_and_a_killed_one_is_none() {
    let world = World::new();
    if !can_watch(&world) {
        return;
    }
    let service = Service::start(&world, &[]);
    let output = world.output(&["watch", "--all"]);
    assert_fails_in_one_line(&output, "a second one");
    let pid = format!("by process {};", service.id());
    assert!(stderr(&output).contains(&pid), "{}", stderr(&output));
    // A watch of a command, or a dry run, is allowed beside the service: neither fetches twice.
    assert_eq!(
        world.output(&["watch", "--", "true"]).status.code(),
        Some(0)
    );
    let looking = Service::start(&world, &["--dry-run"]);
    assert_eq!(looking.end().status.code(), Some(0));
    service.signal(Signal::KILL);
    service.wait();
    let next = Service::start(&world, &[]);
    assert_eq!(next.end().status.code(), Some(0));
}

/// Numbers of the BPF programs that a process holds.
fn programs_of(service: &Service) -> BTreeSet<u32> {
    let entries = fs::read_dir(service.proc("fdinfo")).expect("it runs");
    let texts = entries
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let of = |text: String| {
        let line = text.lines().find_map(|line| line.strip_prefix("prog_id:"));
        line.and_then(|number| number.trim().parse().ok())
    };
    texts.filter_map(of).collect()
}

#[test]
fn nothing_is_left_of_a_killed_one() {
    let world = World::new();
    if !can_watch(&world) {
        return;
    }
    let before = fs::read_dir(world.path("")).expect("a directory").count();
    let service = Service::start(&world, &[]);
    let programs = programs_of(&service);
    assert!(programs.len() >= 4, "{programs:?}");
    let loaded =
        || -> BTreeSet<u32> { ProgInfoIter::default().map(|program| program.id).collect() };
    assert!(programs.is_subset(&loaded()), "{programs:?}");
    service.signal(Signal::KILL);
    let output = service.wait();
    assert_eq!(output.status.code(), None);
    until("its programs are gone", || programs.is_disjoint(&loaded()));
    let names = |path: &Path| -> BTreeSet<_> {
        let entries = fs::read_dir(path).expect("a directory").flatten();
        entries.map(|entry| entry.file_name()).collect()
    };
    // The test's own two files.
    let left = names(&world.path(""));
    assert_eq!(left.len(), before + 2, "{left:?}");
    // Two names: nobody holds the one or listens at the other, and the next one takes both.
    let (lock, socket) = (OsString::from("watch.lock"), OsString::from("watch.sock"));
    let left = names(&world.state());
    assert_eq!(left, BTreeSet::from([lock.clone(), socket.clone()]));
    assert!(UnixStream::connect(world.state().join(&socket)).is_err());
    let next = Service::start(&world, &[]);
    assert!(UnixStream::connect(world.state().join(&socket)).is_ok());
    assert_eq!(next.end().status.code(), Some(0));
    assert_eq!(names(&world.state()), BTreeSet::from([lock]));
}

/// A line of the unit.
fn unit(name: &str) -> String {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../packaging/systemd/foreread-watch.service"
    );
    let text = fs::read_to_string(path).expect("the unit");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    line.unwrap_or_else(|| panic!("no {name}")).to_owned()
}

#[test]
fn the_rights_of_the_unit_suffice_and_most_are_given_up() {
    let world = World::new();
    if !can_watch(&world) {
        return;
    }
    let set = unit("CapabilityBoundingSet")
        .to_lowercase()
        .replace("cap_", "+");
    let set = format!("-all,{}", set.replace(' ', ","));
    let mut command = Command::new("setpriv");
    command.args([
        "--no-new-privs",
        "--inh-caps",
        "-all",
        "--bounding-set",
        &set,
    ]);
    command.arg(env!("CARGO_BIN_EXE_foreread")).arg("watch");
    command.env("FOREREAD_STATE_DIR", world.state());
    let service = Service::start_as(&world, command);
    let capability = |status: &str, name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let bits = line.map(|bits| u64::from_str_radix(bits.trim(), 16).expect("bits"));
        bits.unwrap_or_else(|| panic!("{name}: {status}"))
    };
    let statuses = || -> Vec<String> {
        let threads = fs::read_dir(service.proc("task")).expect("it runs");
        // Threads of traversals come and go while others read.
        let status = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("status")).ok();
        threads.flatten().filter_map(status).collect()
    };
    // That of the streams needs them until its programs are loaded.
    until(
        "each thread to have CAP_DAC_READ_SEARCH and CAP_FOWNER only",
        || {
            let statuses = statuses();
            assert!(!statuses.is_empty(), "the first thread stays");
            statuses.iter().all(|status| {
                let names = ["CapEff:", "CapPrm:", "CapInh:"];
                names.map(|name| capability(status, name)) == [0b1100, 0b1100, 0]
            })
        },
    );
    let output = service.end();
    assert_eq!(stderr(&output), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn the_unit_is_sound() {
    let analyzes = Command::new("systemd-analyze").arg("--version").output();
    if !analyzes.is_ok_and(|output| output.status.success()) {
        println!("skipped: there is no systemd-analyze");
        return;
    }
    let world = World::new();
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../packaging/systemd/foreread-watch.service"
    );
    let unit = fs::read_to_string(path).expect("the unit");
    let installed = unit.replace("/usr/local/bin/foreread", env!("CARGO_BIN_EXE_foreread"));
    let copy = world.path("foreread-watch.service");
    fs::write(&copy, installed).expect("a file");
    let output = Command::new("systemd-analyze")
        .arg("verify")
        .arg(&copy)
        .output();
    let output = output.expect("it runs");
    let ours: Vec<String> = stderr(&output)
        .lines()
        .filter(|line| line.contains("foreread"))
        .map(str::to_owned)
        .collect();
    assert!(ours.is_empty(), "{ours:?}");
    // It would refuse openat2(2), without which no directory is listed.
    assert!(unit.contains("RestrictSUIDSGID=no\n"));
}

#[test]
fn installing_leaves_settings_alone_that_are_there() {
    let world = World::new();
    let root = world.path("root");
    let install = || {
        let output = Command::new("make")
            .args(["-s", "install", "PREFIX=/usr", "START_PAGES=true"])
            .arg(concat!("FOREREAD=", env!("CARGO_BIN_EXE_foreread")))
            .arg(format!("DESTDIR={}", root.display()))
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .output()
            .expect("make starts");
        assert!(output.status.success(), "{}", stderr(&output));
    };
    install();
    let unit = root.join("usr/lib/systemd/system/foreread-watch.service");
    let unit = fs::read_to_string(unit).expect("the unit");
    assert!(
        unit.contains("\nExecStart=/usr/bin/foreread watch\n"),
        "{unit}"
    );
    assert!(root.join("usr/bin/foreread").is_file());
    let settings = root.join("etc/foreread/watch.toml");
    assert!(
        fs::read_to_string(&settings)
            .expect("settings")
            .contains("#budget")
    );
    fs::write(&settings, "budget = \"1G\"\n").expect("a file");
    install();
    assert_eq!(
        fs::read_to_string(&settings).expect("settings"),
        "budget = \"1G\"\n"
    );
}
