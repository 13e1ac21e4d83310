// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread watch` as programs and files come and go under it: what it holds is bounded, and all
//! of it is given back. `FOREREAD_CHURN=10` has ten times as much come and go.

mod common;

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use common::service::{Service, until};
use common::watched::{disk, grep, mount_again};
use common::{World, stderr, stdout};
use foreread_testbed::Testbed;
use foreread_testbed::workload::{Crowd, files_below, small_files};
use rustix::process::{Pid, Signal, kill_process};

const FILES: usize = 600;
const TREE_BYTES: u64 = 6_000_000;
const DISK_BYTES: u64 = 128 << 20;
/// Growth that is allowed, in KiB: buffers that the allocator keeps for the next walk.
const GROWTH_KIB_MAX: u64 = 32 << 10;
/// Room for it and for the files of a walk, not for both and the next.
const MEMORY_BYTES: u64 = 96 << 20;
/// Limit of lines on standard error, however long it runs.
const LINES_MAX: usize = 5;

/// One at a time: each watches all that this process starts, and looks at what is left of that.
static TURN: Mutex<()> = Mutex::new(());

/// How much comes and goes.
fn scaled(count: usize) -> usize {
    let scale = env::var("FOREREAD_CHURN").ok();
    count * scale.and_then(|scale| scale.parse().ok()).unwrap_or(1)
}

/// Whether process numbers are those that the kernel itself has: the first namespace of them has a
/// fixed number.
fn numbers_are_the_machines() -> bool {
    let namespace = fs::read_link("/proc/self/ns/pid");
    namespace.is_ok_and(|name| name == Path::new("pid:[4026531836]"))
}

/// Runs a program that may find files gone.
fn run(command: &mut Command) {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::null()).status().expect("it runs");
}

/// Resources of a service.
#[derive(Debug)]
struct Held {
    descriptors: usize,
    threads: usize,
    rss_kib: u64,
}

impl Held {
    fn by(service: &Service) -> Self {
        Self {
            descriptors: service.descriptors(),
            threads: service.threads(),
            rss_kib: service.rss_kib(),
        }
    }

    /// Waits until it holds no more than this again, and little more memory.
    fn again_by(&self, service: &Service) {
        until("all threads have ended", || {
            service.threads() <= self.threads
        });
        until("all is closed", || {
            service.descriptors() <= self.descriptors
        });
        let now = service.rss_kib();
        assert!(
            now <= self.rss_kib + GROWTH_KIB_MAX,
            "{} KiB, and {now} KiB now",
            self.rss_kib
        );
        let said = service.stderr();
        assert!(said.lines().count() <= LINES_MAX, "{said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

/// A tree of small files on a disk, and a service that watches all that this process starts.
struct Bed {
    // Ended before what it watches goes, and its turn last.
    service: Service,
    /// Resources after the first walk.
    first: Held,
    testbed: Testbed,
    tree: PathBuf,
    files: Vec<PathBuf>,
    world: World,
    _turn: MutexGuard<'static, ()>,
}

impl Bed {
    /// `None` where no disk can be had or nothing can be watched.
    fn new() -> Option<Self> {
        Self::with(TREE_BYTES, |world| world.foreread(&["watch"]))
    }

    /// The same with so many bytes in the tree, and a command that comes to run `foreread watch`.
    fn with(bytes: u64, watch: impl FnOnce(&World) -> Command) -> Option<Self> {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        if !numbers_are_the_machines() {
            println!("skipped: process numbers are a container's, so --pid can't be followed");
            return None;
        }
        let world = World::new();
        let (testbed, root) = disk(&world, "nvme", DISK_BYTES)?;
        let tree = root.join("tree");
        let made = testbed.instantly(|| small_files(&tree, FILES, bytes, 1));
        made.expect("files");
        let files = files_below(&tree).expect("files");
        mount_again(&testbed);
        let mut command = watch(&world);
        command.args(["--pid", &std::process::id().to_string()]);
        let service = Service::start_as(&world, command);
        run(&mut grep(&tree));
        Some(Self {
            first: Held::by(&service),
            service,
            testbed,
            tree,
            files,
            world,
            _turn: turn,
        })
    }

    /// Nothing of the tree is in memory afterwards. Fails while a process has it open.
    fn make_cold(&self) {
        mount_again(&self.testbed);
    }

    /// Runs a program that reads the whole tree.
    fn grep(&self) {
        run(&mut grep(&self.tree));
    }

    /// The same, which goes on meanwhile.
    fn begin_grep(&self) -> Child {
        grep(&self.tree).spawn().expect("it starts")
    }

    /// Ends the service when it holds no more than at first; what it said.
    fn end(self) -> String {
        self.first.again_by(&self.service);
        let output = self.service.end();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    }
}

#[test]
fn programs_come_and_go() {
    let Some(bed) = Bed::new() else { return };
    for _ in 0..scaled(3) {
        bed.make_cold();
        // Six files of a directory make a program suspect; then it has ended.
        for some in bed.files.chunks(6) {
            run(Command::new("cat").args(some));
            run(&mut Command::new("true"));
        }
        bed.make_cold();
        // Several at once, and more than are walked ahead of.
        let mut programs: Vec<_> = fs::read_dir(&bed.tree)
            .expect("a directory")
            .flatten()
            .map(|entry| grep(&entry.path()).spawn().expect("it starts"))
            .collect();
        for program in &mut programs {
            program.wait().expect("it ends");
        }
    }
    let said = bed.end();
    assert!(!said.contains(" 0 files missed"), "{said}");
}

#[test]
fn many_processes_exist_at_once() {
    let Some(bed) = Bed::new() else { return };
    for _ in 0..scaled(1) {
        bed.make_cold();
        let list = bed.world.path("list");
        let crowd = Crowd::begin(&bed.testbed, &bed.files, 2, &list).expect("a shell");
        assert_eq!(crowd.processes(), FILES / 2);
        let now = Held::by(&bed.service);
        assert!(now.rss_kib <= bed.first.rss_kib + GROWTH_KIB_MAX, "{now:?}");
        drop(crowd);
        // All at once.
        bed.make_cold();
    }
    let said = bed.end();
    assert!(!said.contains(" 0 files missed"), "{said}");
}

#[test]
fn files_vanish_and_shrink_under_it() {
    let Some(bed) = Bed::new() else { return };
    for round in 0..scaled(4) {
        bed.make_cold();
        let mut program = bed.begin_grep();
        for (index, file) in bed.files.iter().enumerate().skip(round % 3) {
            match index % 3 {
                0 => fs::remove_file(file).expect("it is there"),
                1 => File::create(file).map(drop).expect("it is emptied"),
                _ => {
                    // Another one under its name.
                    let beside = file.with_extension("new");
                    fs::write(&beside, vec![b'x'; 10_000]).expect("a file");
                    fs::rename(&beside, file).expect("it is replaced");
                }
            }
        }
        // A file that vanishes is no error of the service.
        program.wait().expect("it ends");
        for file in &bed.files {
            fs::write(file, vec![b'y'; 10_000]).expect("it is there again");
        }
        // Nothing is held open.
        bed.make_cold();
    }
    bed.end();
}

#[test]
fn a_file_system_goes_while_it_is_read_ahead_on_it() {
    let Some(bed) = Bed::new() else { return };
    for _ in 0..scaled(5) {
        bed.make_cold();
        let mut program = bed.begin_grep();
        // In the midst of it.
        std::thread::sleep(Duration::from_millis(30));
        program.kill().expect("it runs, or has ended");
        program.wait().expect("it has ended");
        // A fetch that is under way ends within what a device delivers in some tens of
        // milliseconds.
        bed.make_cold();
    }
    bed.end();
}

#[test]
fn it_is_stopped_for_a_while_and_goes_on() {
    let bed = Bed::with(TREE_BYTES, |world| {
        let mut command = world.foreread(&["watch", "--log"]);
        command
            .arg(world.path("log"))
            .env("WATCHDOG_USEC", "400000");
        command
    });
    let Some(mut bed) = bed else { return };
    let log = bed.world.path("log");
    // On a walk of its own, or on that of an earlier one.
    let fetches = || {
        let text = fs::read_to_string(&log).expect("a log");
        text.matches("\"what\":\"fetched\"").count()
    };
    for _ in 0..scaled(2) {
        bed.make_cold();
        let mut program = bed.begin_grep();
        // In the midst of it, as a suspend does: both, and for longer than a manager waits.
        std::thread::sleep(Duration::from_millis(30));
        let process = Pid::from_child(&program);
        // It may have ended.
        let _ = kill_process(process, Signal::STOP);
        bed.service.signal(Signal::STOP);
        std::thread::sleep(Duration::from_secs(1));
        let _ = kill_process(process, Signal::CONT);
        bed.service.signal(Signal::CONT);
        program.wait().expect("it ends");
        bed.service.hear_anew("WATCHDOG=1");
        // It alone: a program doesn't wait for it.
        bed.make_cold();
        bed.service.signal(Signal::STOP);
        bed.grep();
        bed.service.signal(Signal::CONT);
        let before = fetches();
        until("it walks ahead again", || {
            bed.make_cold();
            bed.grep();
            fetches() > before
        });
    }
    // Nothing was lost.
    bed.end();
}

#[test]
fn a_device_that_fails_is_no_storm() {
    let Some(bed) = Bed::new() else { return };
    for round in 0..scaled(3) as u64 {
        bed.make_cold();
        // Where the file system keeps its files, not where it begins.
        let begin = (8 + 8 * (round % 3)) << 20;
        bed.testbed.fail_reads(begin..begin + (24 << 20));
        bed.grep();
        bed.testbed.fail_reads(0..0);
        bed.make_cold();
        bed.grep();
    }
    bed.end();
}

/// A memory cgroup with a limit; removed when dropped, when nobody is in it any more.
struct MemoryLimit(PathBuf);

impl MemoryLimit {
    /// `None` where this machine has none for us.
    fn new(bytes: u64) -> Option<Self> {
        let name = format!("foreread-churn-{}", std::process::id());
        let version_1 = Path::new("/sys/fs/cgroup/memory").join(&name);
        let version_2 = Path::new("/sys/fs/cgroup").join(&name);
        for (group, file) in [
            (version_1, "memory.limit_in_bytes"),
            (version_2, "memory.max"),
        ] {
            let is_made =
                group.parent().is_some_and(Path::is_dir) && fs::create_dir(&group).is_ok();
            if !is_made {
                continue;
            }
            let group = Self(group);
            if group.0.join(file).exists()
                && fs::write(group.0.join(file), bytes.to_string()).is_ok()
            {
                return Some(group);
            }
        }
        println!("skipped: no cgroup with a limit of memory can be made");
        None
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // Its last process may take a moment to be gone.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn it_lives_with_little_memory() {
    let Some(limit) = MemoryLimit::new(MEMORY_BYTES) else {
        return;
    };
    let bed = Bed::with(10 * TREE_BYTES, |world| {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$1\" && shift && exec \"$@\"", "sh"]);
        command.arg(limit.0.join("cgroup.procs"));
        command.arg(env!("CARGO_BIN_EXE_foreread"));
        command.args(["watch", "--json"]);
        command.env("FOREREAD_STATE_DIR", world.state());
        command
    });
    let Some(bed) = bed else { return };
    for _ in 0..scaled(4) {
        bed.make_cold();
        bed.grep();
    }
    let said = bed.end();
    let document: serde_json::Value = serde_json::from_str(&said).expect("a document");
    // Each time it brings in what there is room for while nobody waits for memory, and goes on all
    // the same: on a walk of its own, or on that of an earlier grep.
    let used = document["used_files"].as_u64().unwrap_or_default();
    assert!(used > (FILES * scaled(4) / 2) as u64, "{document}");
}
