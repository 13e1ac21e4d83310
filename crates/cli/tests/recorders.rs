// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each recorder that works here records, and the profile says what it couldn't see.

mod common;

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{World, is_root, read, stderr, stdout};
use foreread_profile::{BlindSpots, Recorder};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn records(name: &str, recorder: Recorder, blind_spots: u32) {
    let world = World::new();
    let doctor: Value = serde_json::from_slice(&world.output(&["doctor", "--json"]).stdout)
        .expect("doctor prints one document");
    let title = if name == "bpf" {
        "BPF recorder".to_owned()
    } else {
        format!("{name} recorder")
    };
    let check = doctor["checks"]
        .as_array()
        .and_then(|checks| checks.iter().find(|check| check["name"] == title));
    let check = check.unwrap_or_else(|| panic!("{title}: {doctor:#}"));
    if check["status"] != "ok" {
        println!("skipped: {title}: {}", check["found"]);
        return;
    }
    let file = world.path("read me");
    fs::write(&file, vec![b'x'; 3 * 4096]).expect("a file");
    let arguments = [
        "record",
        "--recorder",
        name,
        "-o",
        "out.frp",
        "--",
        "cat",
        "read me",
    ];
    let output = world.output(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output).len(), 3 * 4096);
    let profile = read(&world.path("out.frp"));
    assert_eq!(profile.source.recorder, recorder);
    assert_eq!(profile.source.blind_spots.0 & blind_spots, blind_spots);
    let found = profile.find(file.as_os_str().as_encoded_bytes());
    let pages = found.map(|id| {
        profile
            .ranges(id)
            .iter()
            .map(|range| range.pages)
            .sum::<u64>()
    });
    assert_eq!(pages, Some(3), "{}", stderr(&output));
    let shown = stdout(&world.output(&["show", "out.frp"]));
    assert_eq!(shown.contains("not seen"), blind_spots != 0, "{shown}");
}

#[test]
fn bpf_records_without_blind_spots() {
    records("bpf", Recorder::Bpf, 0);
}

#[test]
fn tracefs_records_without_lookups() {
    records("tracefs", Recorder::Tracefs, BlindSpots::NO_LOOKUPS.0);
}

#[test]
fn fanotify_records_by_residency() {
    let blind_spots = BlindSpots::RESIDENCY_NOT_ACCESS.0 | BlindSpots::NO_LOOKUPS.0;
    records("fanotify", Recorder::Fanotify, blind_spots);
}

/// Tracefs by a mount that no path leads to.
struct Tracefs(OwnedFd);

impl Tracefs {
    fn open() -> Option<Self> {
        if !is_root() {
            return None;
        }
        let open = || {
            let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
            fsconfig_create(&context)?;
            fsmount(
                &context,
                FsMountFlags::FSMOUNT_CLOEXEC,
                MountAttrFlags::empty(),
            )
        };
        match open() {
            Ok(mount) => Some(Self(mount)),
            Err(error) => {
                println!("skipped: tracefs: {error}");
                None
            }
        }
    }

    /// The directory of trace instances.
    fn instances(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/instances", self.0.as_raw_fd()))
    }
}

/// Waits for that, a minute at most.
fn comes_true(is_true: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !is_true() && begun.elapsed() < Duration::from_secs(60) {
        sleep(Duration::from_millis(10));
    }
    is_true()
}

#[test]
fn a_killed_tracefs_recorder_leaves_no_instance() {
    let world = World::new();
    let Some(tracefs) = Tracefs::open() else {
        return;
    };
    for round in 0..5 {
        let script = "echo $$ > pid.new; mv pid.new pid; exec sleep 60";
        let arguments = ["record", "--recorder", "tracefs", "-o", "out.frp", "--"];
        let mut recording = world
            .foreread(&[&arguments[..], &["sh", "-c", script]].concat())
            .spawn()
            .expect("foreread starts");
        let prefix = format!("foreread-{}-", recording.id());
        let instances = || {
            let names = fs::read_dir(tracefs.instances())
                .expect("a directory")
                .flatten();
            let ours = names.filter(|entry| {
                let name = entry.file_name();
                name.to_str().is_some_and(|name| name.starts_with(&prefix))
            });
            ours.count()
        };
        let command = world.path("pid");
        assert!(comes_true(|| command.exists()), "the command starts");
        let had = instances();
        recording.kill().expect("it is killed");
        recording.wait().expect("it is waited for");
        let is_gone = comes_true(|| instances() == 0);
        let pid = fs::read_to_string(&command).expect("a number");
        let pid = Pid::from_raw(pid.trim().parse().expect("a number")).expect("a process");
        // The command, which runs on.
        kill_process(pid, Signal::KILL).expect("a signal");
        fs::remove_file(&command).expect("the file");
        assert_eq!(had, 1, "round {round}");
        assert!(is_gone, "round {round}: the instance stays");
    }
}

#[test]
fn whatever_records_next_removes_an_instance_that_was_left() {
    let world = World::new();
    let Some(tracefs) = Tracefs::open() else {
        return;
    };
    // No process has this number: it is above the largest that Linux gives out.
    let left = tracefs.instances().join("foreread-99999999-1-0");
    for arguments in [
        &["run", "-q", "--", "true"][..],
        &["record", "-o", "out.frp", "--", "true"],
        &["record", "--trace", "out.frt", "--", "true"],
    ] {
        fs::create_dir(&left).expect("an instance");
        let output = world.output(arguments);
        let is_gone = !left.exists();
        let _ = fs::remove_dir(&left);
        assert!(is_gone, "{arguments:?}: {}", stderr(&output));
    }
}
