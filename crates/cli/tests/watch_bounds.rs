// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bounds of `foreread watch`: what it fetches for whom, and how much memory users can make it
//! hold.

mod common;

use std::env;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::service::Service;
use common::watched::{
    FILES, cold_tree, count, disk, grep_words, make_cold, shuffled_files, text, watched,
};
use common::{World, assert_fails_in_one_line, stdout};
use foreread_sys::cache::cached_pages;
use foreread_testbed::race;
use rustix::fs::{major, minor};
use serde_json::Value;

const USER: u32 = 12_345;
const AS_USER: [&str; 6] = [
    "setpriv",
    "--reuid",
    "12345",
    "--regid",
    "12345",
    "--clear-groups",
];
const PYTHON: &str = "/usr/bin/python3";
/// The promise of the documents.
const MEMORY_KIB_MAX: u64 = 64 << 10;

fn close(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode is set");
}

/// Whether the user may read a file by its path.
fn may_read(path: &Path) -> bool {
    let mut command = Command::new(AS_USER[0]);
    let status = command
        .args(&AS_USER[1..])
        .args(["test", "-r", text(path)])
        .status();
    status.expect("setpriv runs").success()
}

fn cached(path: &Path) -> u64 {
    let file = File::open(path).expect("it opens");
    let pages = file.metadata().expect("it is there").len().div_ceil(4096);
    cached_pages(&file, 0, pages).expect("the kernel knows")
}

#[test]
fn nothing_is_fetched_for_a_user_that_it_may_not_read_itself() {
    race(|| {
        let world = World::new();
        let Some((testbed, tree)) = cold_tree(&world) else {
            return;
        };
        let files: Vec<PathBuf> = shuffled_files(&tree)
            .into_iter()
            .map(PathBuf::from)
            .collect();
        // Every third file, and all of one directory in which the others are open.
        let shut = files[0].parent().expect("a directory").to_owned();
        testbed.instantly(|| {
            for (number, file) in files.iter().enumerate() {
                close(file, if number % 3 == 0 { 0o600 } else { 0o644 });
            }
            close(&shut, 0o711);
        });
        let (open, secret): (Vec<&PathBuf>, Vec<&PathBuf>) = files
            .iter()
            .enumerate()
            .map(|(number, file)| (number % 3 != 0 && file.parent() != Some(&shut), file))
            .fold(
                Default::default(),
                |(mut open, mut secret): (Vec<&PathBuf>, Vec<&PathBuf>), (is_open, file)| {
                    if is_open {
                        open.push(file)
                    } else {
                        secret.push(file)
                    }
                    (open, secret)
                },
            );
        assert!(may_read(open[0]), "the tree is closed to others");
        make_cold(&testbed);
        let words = grep_words(&tree);
        let grep = [&AS_USER[..], &["grep", "-rsq"], &words[2..]].concat();
        let (document, log) = watched(&world, &[], &grep);
        let what = format!("{document} {log:#?}");
        assert!(
            count(&document, "used_files") > open.len() as u64 / 3,
            "{what}"
        );
        assert!(count(&document, "withheld") > 0, "{what}");
        assert!(log.iter().any(|line| line["what"] == "withheld"), "{what}");
        // The same file behind a directory that can't be listed isn't known to the reader either.
        let found: Vec<&&PathBuf> = secret.iter().filter(|file| cached(file) > 0).collect();
        assert!(found.is_empty(), "{found:?} {what}");
        // Root may read all of it.
        make_cold(&testbed);
        let (document, _) = watched(&world, &[], &words);
        assert_eq!(count(&document, "withheld"), 0, "{document}");
        assert!(
            count(&document, "used_files") > FILES as u64 / 2,
            "{document}"
        );
    });
}

/// A cgroup that limits the reads of a device, removed at the end.
struct Limited(PathBuf);

impl Limited {
    /// `None` where there is no such controller; says so.
    fn new(device: u64) -> Option<Self> {
        let top = Path::new("/sys/fs/cgroup/blkio");
        let at = top.join(format!("foreread-test-{}", std::process::id()));
        if !top.is_dir() || fs::create_dir(&at).is_err() {
            println!("skipped: no blkio controller of version 1");
            return None;
        }
        let limited = Self(at);
        let limit = format!("{}:{} {}\n", major(device), minor(device), 1u64 << 34);
        match fs::write(limited.0.join("blkio.throttle.read_bps_device"), limit) {
            Ok(()) => Some(limited),
            Err(error) => {
                println!("skipped: reads can't be limited: {error}");
                None
            }
        }
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_program_whose_io_is_limited_is_skipped() {
    let world = World::new();
    let Some((testbed, tree)) = cold_tree(&world) else {
        return;
    };
    let device = tree.metadata().expect("a tree").dev();
    let Some(limited) = Limited::new(device) else {
        return;
    };
    make_cold(&testbed);
    let words = grep_words(&tree);
    let script = format!(
        "echo $$ > {}/cgroup.procs && exec \"$@\"",
        limited.0.display()
    );
    let command = [&["sh", "-c", &script, "sh"], &words[..]].concat();
    let (document, log) = watched(&world, &[], &command);
    let what = format!("{document} {log:#?}");
    assert_eq!(count(&document, "fetched_files"), 0, "{what}");
    assert!(count(&document, "skipped") > 0, "{what}");
    let is_it = |line: &&Value| line["what"] == "skipped" && line["why"] == "throttled";
    let line = log.iter().find(is_it).unwrap_or_else(|| panic!("{what}"));
    let process = line["process"].to_string();
    let told = world.output(&["explain", &process, "--log", text(&world.path("log"))]);
    let told = stdout(&told);
    assert!(
        told.contains("was skipped") && told.contains("I/O of its cgroup is limited"),
        "{told}"
    );
}

/// Reads a large file backward, 64 KiB at a time, with a write lease on it or without. Says whether
/// somebody broke the lease.
const LEASED_BACKWARD: &str = "import fcntl, os, signal, sys
fd = os.open(sys.argv[1], os.O_RDWR)
broken = []
signal.signal(signal.SIGIO, lambda *_: broken.append(1))
if sys.argv[3] == 'lease':
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError as error:
        sys.exit(f'refused: {error}')
for at in range(int(sys.argv[2]) // 65536 - 1, -1, -1):
    os.pread(fd, 65536, at * 65536)
open(sys.argv[4], 'w').write('broken' if broken else 'kept')";

#[test]
fn a_stream_in_a_file_with_a_write_lease_is_left_alone() {
    race(|| {
        const BYTES: usize = 48 << 20;
        let world = World::new();
        let Some((testbed, root)) = disk(&world, "cloud", 128 << 20) else {
            return;
        };
        let file = root.join("large");
        testbed
            .instantly(|| fs::write(&file, vec![1u8; BYTES]))
            .expect("a file");
        let said = world.path("said");
        let backward = |lease: &str| {
            make_cold(&testbed);
            let bytes = BYTES.to_string();
            let words = [PYTHON, "-c", LEASED_BACKWARD, text(&file), &bytes, lease];
            watched(&world, &[], &[&words[..], &[text(&said)]].concat())
        };
        let is_it = |line: &&Value| line["what"] == "skipped" && line["why"] == "leased";
        let (document, log) = backward("lease");
        let Ok(lease) = fs::read_to_string(&said) else {
            println!("skipped: no write lease, or no Python, here");
            return;
        };
        let what = format!("{document} {log:#?}");
        assert_eq!(lease, "kept", "{what}");
        assert_eq!(log.iter().filter(is_it).count(), 1, "{what}");
        let line = log.iter().find(is_it).expect("it is there");
        let process = line["process"].to_string();
        let told = world.output(&["explain", &process, "--log", text(&world.path("log"))]);
        assert!(stdout(&told).contains("write lease"), "{}", stdout(&told));
        // The same without a lease is read ahead of.
        let (document, log) = backward("none");
        let what = format!("{document} {log:#?}");
        assert!(!log.iter().any(|line| is_it(&line)), "{what}");
        let fetched_pages = count(&document["streams"], "fetched_pages");
        assert!(fetched_pages * 4096 > BYTES as u64 / 2, "{what}");
    });
}

#[test]
fn other_devices_are_left_alone_where_one_is_named() {
    race(|| {
        let world = World::new();
        let Some((testbed, tree)) = cold_tree(&world) else {
            return;
        };
        let device = tree.metadata().expect("a tree").dev();
        let number = format!("{}:{}", major(device), minor(device));
        for (named, is_watched) in [(text(&tree), true), (&number, true), ("/proc", false)] {
            make_cold(&testbed);
            let (document, log) = watched(&world, &["--device", named], &grep_words(&tree));
            let what = format!("{named}: {document} {log:#?}");
            assert_eq!(count(&document, "used_files") > 0, is_watched, "{what}");
        }
    });
}

#[test]
fn a_device_that_is_not_there_is_said_in_a_line() {
    let world = World::new();
    let output = world.output(&["watch", "--device", "no-such-disk"]);
    assert_fails_in_one_line(&output, "no-such-disk is no device here");
    let output = world.output(&["watch", "--device", "no-such-disk", "--", "echo", "ran"]);
    assert_eq!(stdout(&output), "ran\n");
}

#[test]
fn a_user_with_ever_new_processes_is_listed_for_less_and_less() {
    let world = World::new();
    let Some((testbed, tree)) = cold_tree(&world) else {
        return;
    };
    let many = tree.join("many");
    testbed.instantly(|| {
        fs::create_dir(&many).expect("a directory");
        for number in 0..480 {
            fs::write(many.join(format!("{number:03}")), [b'x'; 5000]).expect("a file");
        }
    });
    let files = shuffled_files(&many);
    let list = world.path("list");
    fs::write(&list, files.join("\0")).expect("a list");
    make_cold(&testbed);
    // Each process reads six files of the directory, in no order.
    let cats = ["xargs", "-0", "-n", "6", "-a", text(&list), "cat"];
    let (document, log) = watched(&world, &[], &cats);
    let refused = count(&document, "refused");
    let what = format!("{document} {log:#?}");
    println!("{refused} refused of {} processes", files.len() / 6);
    assert!(
        count(&document, "misses") > files.len() as u64 / 2,
        "{what}"
    );
    // 60 to 70 without a backoff by user.
    assert!(refused <= 40, "{what}");
}

/// What an unprivileged user does to make `watch` hold as much as it can. Arguments: the kind of
/// attack, a directory, and the time in seconds.
const ATTACK: &str = r#"
import os, random, sys, time
kind, top, end = sys.argv[1], sys.argv[2], time.time() + float(sys.argv[3])
def read(path):
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.pread(fd, 1, 0)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
def write(path):
    with open(path, "wb") as file:
        file.write(b"x" * 8192)
        file.flush()
        os.fsync(file.fileno())
def name(number):
    return f"{number:06d}".ljust(255, "n")
if kind == "links":
    targets = [os.path.join(top, name(n)) for n in range(8)]
    for target in targets:
        write(target)
    for number in range(8, 12000):
        os.link(targets[number % 8], os.path.join(top, name(number)))
    while time.time() < end:
        for number in range(12000):
            read(os.path.join(top, name(number)))
            if time.time() > end:
                break
elif kind == "paths":
    at = top
    for level in range(7):
        at = os.path.join(at, str(level).ljust(250, "p"))
        os.mkdir(at)
    files = [os.path.join(at, str(n).ljust(250, "q")) for n in range(400)]
    for file in files:
        write(file)
    while time.time() < end:
        for file in files:
            read(file)
elif kind == "forks":
    files = [os.path.join(top, str(n).ljust(200, "f")) for n in range(600)]
    for file in files:
        write(file)
    while time.time() < end:
        child = os.fork()
        if child == 0:
            for file in random.sample(files, 8):
                read(file)
            os._exit(0)
        os.waitpid(child, 0)
else:
    number = 0
    while time.time() < end:
        at = top
        for level in range(60):
            at = os.path.join(at, f"{level}-{number % 50}")
            os.makedirs(at, exist_ok=True)
            for file in range(4):
                path = os.path.join(at, f"{file}-{number}")
                write(path)
                read(path)
                if file:
                    os.unlink(path)
        number += 1
"#;

fn attacker(script: &Path, kind: &str, top: &Path, seconds: u64) -> Child {
    let at = top.join(kind);
    fs::create_dir(&at).expect("a directory");
    chown(&at, Some(USER), Some(USER)).expect("it is given away");
    let mut command = Command::new(AS_USER[0]);
    command
        .args(&AS_USER[1..])
        .args([PYTHON, text(script), kind, text(&at)]);
    let command = command.arg(seconds.to_string()).stdin(Stdio::null());
    command.spawn().expect("it starts")
}

/// Memory of a process that is its own, and what of its files is in memory with it, in KiB.
fn memory_kib(process: u32) -> (u64, u64) {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        number.unwrap_or(0)
    };
    (of("RssAnon:") + of("RssShmem:"), of("VmRSS:"))
}

#[test]
fn four_attackers_do_not_make_it_large() {
    let world = World::new();
    let Some((testbed, root)) = disk(&world, "nvme", 1 << 30) else {
        return;
    };
    if !Command::new("python3")
        .arg("--version")
        .status()
        .is_ok_and(|status| status.success())
    {
        return println!("skipped: no python3");
    }
    close(&root, 0o755);
    close(&world.path(""), 0o755);
    let script = world.path("attack.py");
    fs::write(&script, ATTACK).expect("a script");
    let seconds = env::var("FOREREAD_ATTACK_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok());
    let seconds: u64 = seconds.unwrap_or(15);
    let service = Service::start(&world, &[]);
    let before = memory_kib(service.id());
    let kinds = ["links", "paths", "forks", "trees"];
    let attackers = kinds.map(|kind| attacker(&script, kind, &root, seconds));
    let (began, mut most) = (Instant::now(), (0, 0));
    while began.elapsed() < Duration::from_secs(seconds + 5) {
        let (anonymous, resident) = memory_kib(service.id());
        most = (most.0.max(anonymous), most.1.max(resident));
        thread::sleep(Duration::from_millis(50));
    }
    for mut attacker in attackers {
        let _ = attacker.kill();
        let status = attacker.wait().expect("it ends");
        assert_ne!(status.code(), Some(126), "an attacker could not run");
    }
    let after = memory_kib(service.id());
    service.signal(rustix::process::Signal::TERM);
    let output = service.wait();
    println!("KiB, own and resident: {before:?}, at most {most:?}, at the end {after:?}");
    println!("{}{}", stdout(&output), common::stderr(&output));
    assert_eq!(output.status.code(), Some(0));
    assert!(most.0 > 0 && most.0 < MEMORY_KIB_MAX, "{most:?}");
    drop(testbed);
}
