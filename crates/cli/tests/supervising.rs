// SPDX-License-Identifier: MIT OR Apache-2.0
//! A wrapped command is never abandoned, started twice or changed: by signals while it is replayed,
//! by errors of what is done for it, and by what it inherits.

mod common;

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use common::service::until;
use common::watched::{cold_tree, disk, make_cold, slow_down, speed_up, text};
use common::{World, can_record, is_root, stderr, stdout};
use foreread_testbed::{Testbed, race};
use rustix::process::{Pid, Signal, kill_process};

/// Reads all files where it is told so; else waits for a signal, or for its end.
const SCRIPT: &str = "trap 'exit 7' TERM HUP INT USR1
echo ready
if [ -e \"$1/read\" ]; then cat \"$1\"/files/* > /dev/null; exit 0; fi
left=3000
while [ $left -gt 0 ]; do sleep 0.02; left=$((left - 1)); done";

/// Signals that are ignored where the test is run, such as by nohup, are not when the command
/// starts.
fn with_default_signals(command: &Command) -> Command {
    let mut with = Command::new("env");
    with.arg("--default-signal").arg(command.get_program());
    with.args(command.get_args());
    if let Some(directory) = command.get_current_dir() {
        with.current_dir(directory);
    }
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => with.env(key, value),
            None => with.env_remove(key),
        };
    }
    with
}

fn ready(child: &mut Child) {
    let mut line = String::new();
    let mut reader = BufReader::new(child.stdout.take().expect("its output"));
    reader.read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
}

#[test]
fn signals_during_a_replay_reach_the_command() {
    race(|| {
        let world = World::new();
        if !can_record() {
            return;
        }
        let Some((testbed, root)) = disk(&world, "usb", 512 << 20) else {
            return;
        };
        // Its threads are there while the command is.
        let make = || -> std::io::Result<()> {
            fs::create_dir(root.join("files"))?;
            fs::write(root.join("read"), "")?;
            (0..40).try_for_each(|n| fs::write(root.join(format!("files/{n}")), vec![n; 4 << 20]))
        };
        testbed.instantly(make).expect("files");
        let at = text(&root);
        let arguments = ["run", "--", "sh", "-c", SCRIPT, "sh", at];
        make_cold(&testbed);
        let recorded = world.output(&arguments);
        assert!(recorded.status.success(), "{}", stderr(&recorded));
        testbed
            .instantly(|| fs::remove_file(root.join("read")))
            .expect("it was there");
        for signal in [Signal::TERM, Signal::HUP, Signal::INT, Signal::USR1] {
            make_cold(&testbed);
            let mut command = with_default_signals(&world.foreread(&arguments));
            let mut child = command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("it starts");
            ready(&mut child);
            let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).expect("threads");
            assert!(tasks.count() > 1, "nothing is replayed");
            kill_process(Pid::from_child(&child), signal).expect("it lives");
            let output = child.wait_with_output().expect("it ends");
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(7), "{signal:?}: {said}");
            assert!(said.contains("replay"), "{signal:?}: {said}");
        }
    });
}

/// A command that needs some time, leaves a file at its end, and fails in its own way.
fn marked(end: &Path) -> String {
    format!("sleep 0.3; echo once >> {}; exit 7", end.display())
}

#[test]
fn an_error_of_what_is_done_for_a_command_waits_for_its_end() {
    let world = World::new();
    if !is_root() || !world.can(&["stat", "--", "true"]) {
        return;
    }
    let end = world.path("end");
    let script = marked(&end);
    let full = [
        "stat",
        "--output",
        "/dev/full",
        "50ms",
        "--",
        "sh",
        "-c",
        &script,
    ];
    let output = world.output(&full);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(
        said.contains("No space left") && said.contains("runs on"),
        "{said}"
    );
    assert_eq!(fs::read_to_string(&end).expect("it ran"), "once\n");
}

#[test]
fn a_command_runs_once_whatever_descriptors_are_left_to_us() {
    let world = World::new();
    let end = world.path("end");
    // The shell needs some itself.
    let script = format!("ulimit -S -n 64; {}", marked(&end).replace("0.3", "0.01"));
    for verb in ["run", "watch", "stat"] {
        for limit in (6..70).step_by(3) {
            let _ = fs::remove_file(&end);
            let command = world.foreread(&[verb, "--", "sh", "-c", &script]);
            let mut limited = Command::new("sh");
            limited
                .args(["-c", &format!("ulimit -S -n {limit}; exec \"$@\""), "sh"])
                .arg(command.get_program())
                .args(command.get_args())
                .env("FOREREAD_STATE_DIR", world.state());
            let output = limited.output().expect("it starts");
            let said = format!("{verb}, {limit}: {}", stderr(&output));
            assert_eq!(output.status.code(), Some(7), "{said}");
            assert_eq!(fs::read_to_string(&end).expect(&said), "once\n", "{said}");
        }
    }
}

#[test]
fn a_command_inherits_masks_and_ignored_signals() {
    let world = World::new();
    const IGNORES: &str = "import os, signal, sys
for ignored in signal.SIGPIPE, signal.SIGCHLD, signal.SIGUSR2:
    signal.signal(ignored, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH, signal.SIGTERM])
os.execvp(sys.argv[1], sys.argv[1:])";
    let look = ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"];
    let of = |before: &[&str]| {
        let foreread = env!("CARGO_BIN_EXE_foreread");
        let before = before.iter().map(|word| word.replace("foreread", foreread));
        let output = Command::new("python3")
            .args(["-c", IGNORES])
            .args(before)
            .args(look)
            .env("FOREREAD_STATE_DIR", world.state())
            .output()
            .expect("it starts");
        assert!(output.status.success(), "{}", stderr(&output));
        // Signals 32 and 33 are the C library's own.
        let own = |line: &str| -> Option<u64> {
            let mask = line.split_whitespace().last()?;
            Some(u64::from_str_radix(mask, 16).ok()? & !(3 << 31))
        };
        let lines: Vec<u64> = stdout(&output).lines().filter_map(own).collect();
        lines
    };
    let alone = of(&["env"]);
    assert!(
        alone.len() == 2 && alone.iter().all(|mask| *mask > 0),
        "{alone:?}"
    );
    for verb in ["run", "watch", "stat"] {
        for _ in 0..2 {
            assert_eq!(of(&["foreread", verb, "--"]), alone, "{verb}");
        }
    }
}

#[test]
fn who_reads_our_output_does_not_wait_for_what_is_saved() {
    let world = World::new();
    if !can_record() {
        return;
    }
    let (store, files) = (disk(&world, "instant", 64 << 20), cold_tree(&world));
    let (Some((testbed, root)), Some((disk_of_files, files))) = (store, files) else {
        return;
    };
    let run = || {
        let mut command = world.foreread(&["run", "--", "grep", "-rq", "nothing-there"]);
        command.arg(&files).env("FOREREAD_STATE_DIR", &root);
        command
    };
    make_cold(&disk_of_files);
    run().output().expect("it starts");
    let mut saved = Vec::new();
    // On a busy machine this test itself may be told late. If the saving process held the output
    // open, the profile would be saved before the output ends, each time.
    for _ in 0..ATTEMPTS {
        make_cold(&disk_of_files);
        let (is_saved, said) = saved_at_end_of_output(&testbed, &root, run());
        if !is_saved {
            return;
        }
        saved.push(said);
    }
    panic!("each time it was saved before its output ended: {saved:?}");
}

const ATTEMPTS: usize = 5;

/// Whether the profile is saved, on a slow disk, when the output of the run has ended; and what the
/// run said. Waits until it is saved.
fn saved_at_end_of_output(testbed: &Testbed, store: &Path, mut run: Command) -> (bool, String) {
    let mut profiles = fs::read_dir(store).expect("a store").flatten();
    let is_profile = |name: OsString| name.as_encoded_bytes().ends_with(b".frp");
    let profile = profiles.find(|entry| is_profile(entry.file_name()));
    let profile = fs::File::open(profile.expect("a profile").path()).expect("it is there");
    // To look into the directory would be to wait for who saves there.
    let is_saved = || profile.metadata().expect("it is open").nlink() == 0;
    // Each write takes long, so that it isn't saved when the run has ended.
    slow_down(testbed, "2s");
    let mut child = run.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut said = String::new();
    let mut pipe = child.stderr.take().expect("a pipe");
    pipe.read_to_string(&mut said).expect("its end");
    let was_saved = is_saved();
    child.wait().expect("it ends");
    speed_up(testbed);
    until("the profile is saved", is_saved);
    (was_saved, said)
}

#[test]
fn a_command_outlives_a_crash_of_what_wraps_it() {
    let world = World::new();
    let end = world.path("end");
    let script = format!("echo ready; {}", marked(&end));
    for verb in ["run", "watch", "stat", "record"] {
        let _ = fs::remove_file(&end);
        let kept = world.path("kept.frp");
        let mut command = world.foreread(&[verb]);
        if verb == "record" {
            if !can_record() {
                continue;
            }
            command.arg("--output").arg(&kept);
        }
        command.args(["--", "sh", "-c", &script]);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        ready(&mut child);
        kill_process(Pid::from_child(&child), Signal::SEGV).expect("it lives");
        let output = child.wait_with_output().expect("it ends");
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(7), "{verb}: {said}");
        assert!(said.contains("the command runs on"), "{verb}: {said}");
        assert_eq!(fs::read_to_string(&end).expect("it ran"), "once\n");
    }
}

#[test]
fn what_cannot_be_said_or_written_is_no_failure_of_the_command() {
    let world = World::new();
    let end = world.path("end");
    let script = marked(&end).replace("0.3", "0.01");
    // Standard error on a full disk; a file that can't be made; no file may grow.
    let ways = [
        "exec \"$0\" run -- sh -c \"$1\" 2> /dev/full",
        "exec \"$0\" run --output /no/such/file -- sh -c \"$1\"",
        "ulimit -f 0; exec \"$0\" run --output run.json -- sh -c 'exit 7'",
    ];
    for way in ways {
        for _ in 0..2 {
            let _ = fs::remove_file(&end);
            let wrapped = world.foreread(&[]);
            let mut command = Command::new("sh");
            command.args(["-c", way]).arg(wrapped.get_program());
            command
                .arg(&script)
                .env("FOREREAD_STATE_DIR", world.state());
            command.current_dir(world.path("")).stdin(Stdio::null());
            let output = command.output().expect("it starts");
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(7), "{way}: {said}");
            assert!(!said.contains("internal error"), "{way}: {said}");
            // The limit of file sizes is the command's, too.
            let is_limited = way.starts_with("ulimit");
            let ran = fs::read_to_string(&end).unwrap_or_default();
            assert!(is_limited || ran == "once\n", "{way}: {ran}");
        }
    }
}

#[test]
fn a_timer_set_before_ends_the_command() {
    const ALARM: &str = "import os, signal, sys
signal.alarm(1)
os.execvp(sys.argv[1], sys.argv[1:])";
    let world = World::new();
    let wrapped = world.foreread(&["run", "--", "sleep", "60"]);
    let output = Command::new("python3")
        .args(["-c", ALARM])
        .arg(wrapped.get_program())
        .args(wrapped.get_args())
        .env("FOREREAD_STATE_DIR", world.state())
        .output()
        .expect("it starts");
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    assert_eq!(signal, Some(Signal::ALARM.as_raw()), "{}", stderr(&output));
}

/// While somebody sets one of the limits of a disk, no other can be read, and the kernel first
/// waits for all requests of that disk.
#[test]
fn a_command_does_not_wait_for_a_disk_that_cannot_be_asked() {
    race(|| {
        let world = World::new();
        let Some((testbed, root)) = disk(&world, "instant", 64 << 20) else {
            return;
        };
        let file = root.join("file");
        fs::write(&file, vec![b'x'; 1 << 20]).expect("a file");
        make_cold(&testbed);
        let name = testbed.device().file_name().expect("a name");
        let sys = Path::new("/sys/block").join(name);
        slow_down(&testbed, "5s");
        thread::scope(|scope| {
            let read = || {
                testbed.enter().expect("its mounts");
                fs::File::open(&file).and_then(|file| file.read_at(&mut [0; 1], 0))
            };
            scope.spawn(read);
            let reads = || fs::read_to_string(sys.join("inflight")).expect("two numbers");
            until("a read is under way", || {
                !reads().trim_start().starts_with('0')
            });
            let set = scope.spawn(|| fs::write(sys.join("queue/rotational"), "1"));
            thread::sleep(Duration::from_millis(200));
            let cannot_be_asked = !set.is_finished();
            let script = format!(": > {}", world.path("started").display());
            let command = ["watch", "--", "sh", "-c", &script];
            let mut child = world.foreread(&command).spawn().expect("it starts");
            until("the command has started", || world.path("started").exists());
            let has_waited = set.is_finished();
            speed_up(&testbed);
            // Its thread that asks the disk can't end before.
            assert_eq!(child.wait().expect("it ends").code(), Some(0));
            if cannot_be_asked {
                assert!(!has_waited, "it started when the disk had answered");
            } else {
                println!("skipped: this kernel sets attributes of a disk at once");
            }
        });
    });
}
