// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread probe` on modelled disks: what it finds, what it leaves behind, and what wrong usage
//! gets.

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use common::{World, assert_fails_in_one_line, binary_for_all, stderr, stdout};
use foreread_model::DiskParameters;
use foreread_sys::cache::cached_pages;
use foreread_testbed::{FileSystem, Testbed, TestbedConfig, race};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};

/// The setting before a probe; a probe tries no such size.
const READ_AHEAD_KIB: u64 = 132;
const CAPACITY_BYTES: u64 = 1 << 30;
/// How long a state that must come may take to come, in steps of 20 ms.
const PATIENCE: usize = 500;

/// A disk whose plateau is 128 KiB, whatever the speed of the machine. Requests of 64 KiB take more
/// than half as long, requests of 256 KiB more than twice as long: what a busy machine adds to each
/// request makes small requests look slower, and 256 KiB must not be faster for that.
fn disk() -> Option<Testbed> {
    disk_of(
        "64K:3ms,128K:4ms,256K:9ms,512K:18ms,1M:36ms",
        CAPACITY_BYTES,
    )
}

fn disk_of(times: &str, capacity_bytes: u64) -> Option<Testbed> {
    if let Err(lacking) = Testbed::available() {
        println!("skipped: {lacking}");
        return None;
    }
    let mut disk = DiskParameters::preset("usb").expect("a preset");
    disk.set("latency_ns", "0").expect("a latency");
    disk.set("transfer_times", times).expect("a table");
    let testbed = Testbed::start(TestbedConfig::new(disk, capacity_bytes)).expect("a testbed");
    testbed
        .set_read_ahead_kib(READ_AHEAD_KIB)
        .expect("a setting");
    Some(testbed)
}

fn setting(testbed: &Testbed) -> PathBuf {
    let name = testbed.device().file_name().expect("a name");
    PathBuf::from("/sys/class/block")
        .join(name)
        .join("queue/read_ahead_kb")
}

fn read_ahead_kib(testbed: &Testbed) -> u64 {
    let text = fs::read_to_string(setting(testbed)).expect("a setting");
    text.trim().parse().expect("a number")
}

/// A probe of that, which dies with this test.
fn command(world: &World, testbed: &Testbed, arguments: &[&str]) -> Command {
    let mut command = testbed.command(env!("CARGO_BIN_EXE_foreread"));
    command
        .arg("probe")
        .args(arguments)
        .env("FOREREAD_STATE_DIR", world.state())
        .stdin(Stdio::null());
    command
}

fn probe(world: &World, testbed: &Testbed, arguments: &[&str]) -> Output {
    command(world, testbed, arguments)
        .output()
        .expect("foreread starts")
}

fn device(testbed: &Testbed) -> &str {
    testbed.device().to_str().expect("plain text")
}

fn document(output: &Output) -> serde_json::Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|_| panic!("{}", stderr(output)))
}

/// A probe that would go on for long, once it has changed the setting.
fn begun(world: &World, testbed: &Testbed) -> Child {
    let mut command = command(world, testbed, &["--max-time", "60s", device(testbed)]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().expect("foreread starts");
    for _ in 0..PATIENCE {
        if read_ahead_kib(testbed) != READ_AHEAD_KIB {
            return child;
        }
        sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
    panic!("the probe did not begin");
}

fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process")).expect("a process");
    kill_process(pid, signal).expect("a signal");
}

#[test]
fn the_plateau_is_found_kept_and_nothing_stays_changed() {
    race(|| {
        let Some(testbed) = disk() else { return };
        let world = World::new();
        // Open throughout: the last to close a device drops its pages.
        let file = File::open(testbed.device()).unwrap();
        let mut bytes = vec![0; 64 << 10];
        testbed
            .instantly(|| file.read_exact_at(&mut bytes, 1 << 20))
            .unwrap();
        let before = cached_pages(&file, 0, CAPACITY_BYTES / 4096).unwrap();
        let arguments = ["--sizes", "64K,128K,256K", "--json", device(&testbed)];
        let output = probe(&world, &testbed, &arguments);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let document = document(&output);
        assert_eq!(document["schema"], "foreread.probe/1");
        assert_eq!(document["plateau_kib"], 128, "{document}");
        assert_eq!(document["sweep"].as_array().unwrap().len(), 3);
        assert_eq!(document["read_ahead_kib_before"], READ_AHEAD_KIB);
        assert!(document["latency"]["latency_ns"].as_f64() > Some(100_000.0));
        assert_eq!(read_ahead_kib(&testbed), READ_AHEAD_KIB);
        assert!(before >= 16);
        // A probe drops whole regions. Single pages may go by themselves: a kernel with DAMON
        // reclaims what has not been read for a while, without need for memory.
        let left = cached_pages(&file, 256, 16).unwrap();
        assert!(left >= 4, "what was cached stays: {left} of 16 pages");
        let after = cached_pages(&file, 0, CAPACITY_BYTES / 4096).unwrap();
        assert!(after <= before + 64, "what was read goes: {before} {after}");
        let kept = fs::read_to_string(world.state().join("devices/measured.json")).unwrap();
        assert!(kept.contains("\"plateau_kib\": 128"), "{kept}");
        // Three sizes leave open whether a smaller one would do.
        assert_eq!(document["complete"], false, "{document}");
        assert!(kept.contains("\"certain\": false"), "{kept}");
        let said = stderr(&output);
        assert!(said.contains("don't use this measurement"), "{said}");
        assert!(
            !world
                .state()
                .join("devices")
                .read_dir()
                .unwrap()
                .flatten()
                .any(|entry| {
                    let name = entry.file_name().into_string().unwrap();
                    name.starts_with("probing-") && name.ends_with(".json")
                })
        );
    });
}

#[test]
fn a_table_a_picture_and_readers() {
    // A busy machine may delay requests of one size for longer than those of the next.
    race(|| {
        let Some(testbed) = disk() else { return };
        let world = World::new();
        let svg = world.path("probe.svg");
        let output = probe(
            &world,
            &testbed,
            &[
                "--sizes",
                "64K,128K,256K",
                "--direct",
                "--readers",
                "1,2",
                "--svg",
                svg.to_str().unwrap(),
                device(&testbed),
            ],
        );
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let text = stdout(&output);
        let marked = text.lines().find(|line| line.starts_with("==>"));
        assert!(
            marked.is_some_and(|line| line.contains("128 KiB")),
            "{text}"
        );
        for part in [
            "direct MB/s",
            "The plateau is 128 KiB",
            "readers",
            "longest wait",
        ] {
            assert!(text.contains(part), "{part} is not in:\n{text}");
        }
        let picture = fs::read_to_string(svg).unwrap();
        assert!(picture.starts_with("<svg") && picture.contains("plateau"));
        assert_eq!(read_ahead_kib(&testbed), READ_AHEAD_KIB);
    });
}

#[test]
fn interrupted_it_puts_the_setting_back() {
    let Some(testbed) = disk() else { return };
    let world = World::new();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let child = begun(&world, &testbed);
        send(&child, signal);
        let output = child.wait_with_output().unwrap();
        let text = stderr(&output);
        // With nothing measured there is nothing to show.
        assert!(matches!(output.status.code(), Some(64 | 2)), "{output:?}");
        assert!(text.contains("interrupted"), "{text}");
        assert_eq!(read_ahead_kib(&testbed), READ_AHEAD_KIB);
    }
}

#[test]
fn killed_the_next_start_puts_it_back_unless_somebody_else_has_set_it() {
    let Some(testbed) = disk() else { return };
    let world = World::new();
    for changed_since in [None, Some(1028)] {
        let mut child = begun(&world, &testbed);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_ne!(read_ahead_kib(&testbed), READ_AHEAD_KIB);
        if let Some(kib) = changed_since {
            fs::write(setting(&testbed), kib.to_string()).unwrap();
        }
        let output = probe(&world, &testbed, &["/no/such/device"]);
        let now = read_ahead_kib(&testbed);
        assert_eq!(now, changed_since.unwrap_or(READ_AHEAD_KIB));
        let told = stderr(&output).contains("was killed; its readahead is back");
        assert_eq!(told, changed_since.is_none(), "{}", stderr(&output));
        testbed.set_read_ahead_kib(READ_AHEAD_KIB).unwrap();
    }
}

#[test]
fn two_at_once_are_refused_and_a_setting_of_somebody_else_is_left() {
    // On busy processors the first probe may be through its sweep before this test stops it.
    race(|| {
        let Some(testbed) = disk() else { return };
        let world = World::new();
        let first = begun(&world, &testbed);
        // Or it might be through before the other has said its word.
        send(&first, Signal::STOP);
        let second = probe(&world, &testbed, &[device(&testbed)]);
        assert_fails_in_one_line(&second, "a second probe");
        assert!(stderr(&second).contains("being probed already"));
        fs::write(setting(&testbed), "1028").unwrap();
        send(&first, Signal::CONT);
        let output = first.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(
            stderr(&output).contains("somebody else"),
            "{}",
            stderr(&output)
        );
        assert_eq!(read_ahead_kib(&testbed), 1028);
    });
}

#[test]
fn what_cannot_be_read_is_passed_over() {
    race(|| {
        let Some(testbed) = disk() else { return };
        let world = World::new();
        testbed.fail_reads(1 << 20..2 << 20);
        let arguments = ["--sizes", "64K,128K,256K", "--json", device(&testbed)];
        let output = probe(&world, &testbed, &arguments);
        assert_eq!(output.status.code(), Some(64), "{}", stderr(&output));
        let found = document(&output);
        assert_eq!(found["plateau_kib"], 128, "{found}");
        assert!(found["read_errors"].as_u64() >= Some(1), "{found}");
        assert_eq!(read_ahead_kib(&testbed), READ_AHEAD_KIB);
        testbed.fail_reads(0..CAPACITY_BYTES);
        let output = probe(&world, &testbed, &arguments);
        assert_fails_in_one_line(&output, "a device that can't be read");
        assert_eq!(read_ahead_kib(&testbed), READ_AHEAD_KIB);
    });
}

#[test]
fn a_device_that_disappears_ends_the_probe() {
    let Some(testbed) = disk() else { return };
    let world = World::new();
    let child = begun(&world, &testbed);
    drop(testbed);
    let output = child.wait_with_output().unwrap();
    assert_fails_in_one_line(&output, "a device that is gone");
}

#[test]
fn a_mounted_file_system_is_probed_through_a_file() {
    race(|| {
        let Some(testbed) = disk() else { return };
        let world = World::new();
        testbed.make_file_system(FileSystem::Ext4, &[]).unwrap();
        let point = testbed.mount(FileSystem::Ext4, "noatime").unwrap();
        let arguments = |path: &str| {
            ["--sizes", "64K,128K,256K", "--json", path]
                .map(str::to_owned)
                .to_vec()
        };
        let run = |path: &str| {
            let arguments = arguments(path);
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let output = probe(&world, &testbed, &arguments);
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            assert_eq!(read_ahead_kib(&testbed), READ_AHEAD_KIB);
            document(&output)
        };
        let made = run(point.to_str().unwrap());
        assert_eq!(made["read"]["kind"], "own-file");
        assert_eq!(made["plateau_kib"], 128, "{made}");
        let lost = point.join("lost+found");
        assert_eq!(
            fs::read_dir(&point)
                .unwrap()
                .flatten()
                .map(|e| e.path())
                .next(),
            Some(lost)
        );
        let large = point.join("large");
        testbed.instantly(|| {
            let mut file = File::create(&large).unwrap();
            let block = vec![7; 1 << 20];
            for _ in 0..72 {
                file.write_all(&block).unwrap();
            }
            file.sync_all().unwrap();
        });
        testbed.drop_caches().unwrap();
        let found = run(point.to_str().unwrap());
        assert_eq!(found["read"]["kind"], "found-file");
        assert_eq!(found["read"]["path"], large.to_str().unwrap());
        assert_eq!(found["plateau_kib"], 128, "{found}");
        let named = run(large.to_str().unwrap());
        assert_eq!(named["read"]["kind"], "file");
        assert_eq!(named["plateau_kib"], 128, "{named}");
    });
}

#[test]
fn a_very_small_device_is_measured_as_far_as_it_goes() {
    let Some(testbed) = disk_of("4K:1ms,8K:1.5ms,1M:190ms", 505_000) else {
        return;
    };
    let world = World::new();
    let output = probe(&world, &testbed, &["--json", device(&testbed)]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let document = document(&output);
    let sizes = document["sweep"].as_array().unwrap().len();
    assert!((3..=6).contains(&sizes), "{document}");
    assert_eq!(document["skipped"][0]["why"], "region");
}

/// Another node of the device, which everybody may read; the one in `/dev` stays as it is.
fn readable_by_all(world: &World, testbed: &Testbed) -> PathBuf {
    let node = world.path("disk");
    let number = fs::metadata(testbed.device()).expect("a device").rdev();
    let (kind, mode) = (FileType::BlockDevice, Mode::from_raw_mode(0o644));
    mknodat(CWD, &node, kind, mode, number).expect("a node");
    fs::set_permissions(&node, fs::Permissions::from_mode(0o644)).expect("open to all");
    node
}

#[test]
fn without_the_right_to_change_the_setting_it_says_so() {
    let Some(testbed) = disk() else { return };
    let world = World::new();
    let script = format!(
        "mount --bind /sys /sys && mount -o remount,bind,ro /sys && exec {} probe {}",
        env!("CARGO_BIN_EXE_foreread"),
        device(&testbed)
    );
    let mut command = testbed.command("unshare");
    command.args(["-m", "sh", "-c", &script]);
    command.env("FOREREAD_STATE_DIR", world.state());
    let output = command.output().unwrap();
    assert_fails_in_one_line(&output, "a read-only sysfs");
    assert!(stderr(&output).contains("read-only"), "{}", stderr(&output));

    let binary = binary_for_all(&world);
    let readable = readable_by_all(&world, &testbed);
    let mut command = testbed.command(&binary);
    command.arg("probe").arg(readable).uid(65534).gid(65534);
    let output = command.output().unwrap();
    assert_fails_in_one_line(&output, "no root");
    assert!(stderr(&output).contains("as root"), "{}", stderr(&output));
    assert_eq!(read_ahead_kib(&testbed), READ_AHEAD_KIB);
}

#[test]
fn what_is_no_device_is_refused_in_one_line() {
    let world = World::new();
    let fifo = world.path("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    let tiny = world.path("tiny");
    fs::write(&tiny, "tiny").unwrap();
    let empty = world.path("empty");
    File::create(&empty).unwrap();
    let memory = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
    memory.as_file().set_len(1 << 20).unwrap();
    for path in [
        "/no/such/device".as_ref(),
        "/dev/zero".as_ref(),
        "/dev/shm".as_ref(),
        "/proc".as_ref(),
        fifo.as_path(),
        tiny.as_path(),
        empty.as_path(),
        memory.path(),
    ] {
        let path = path.to_str().unwrap();
        let output = world.output(&["probe", path]);
        assert_fails_in_one_line(&output, path);
    }
    for wrong in [
        ["--sizes", "128"],
        ["--sizes", "5K"],
        ["--sizes", "2G"],
        ["--readers", "0"],
        ["--max-time", "long"],
        ["--max-time", "1ms"],
    ] {
        let output = world.output(&[&["probe", "/dev/null"], &wrong[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert!(stderr(&output).contains(wrong[0]), "{}", stderr(&output));
    }
}
