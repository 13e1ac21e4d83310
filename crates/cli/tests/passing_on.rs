// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command's status, signals and streams are its own, whatever becomes of the rest.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use common::{World, can_record, read, stderr, stdout};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn the_exit_status_is_the_commands() {
    let world = World::new();
    for status in [0, 1, 2, 3, 64, 126, 255] {
        // Twice: recorded, and with what the first run left.
        for _ in 0..2 {
            let output = world.output(&["run", "--", "sh", "-c", &format!("exit {status}")]);
            assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        }
    }
}

#[test]
fn a_command_that_is_not_there_is_127() {
    let world = World::new();
    for name in ["no-such-command-here", "/no/such/path", "./missing", ""] {
        let output = world.output(&["run", "--", name]);
        assert_eq!(
            output.status.code(),
            Some(127),
            "{name}: {}",
            stderr(&output)
        );
        assert_eq!(
            stderr(&output).lines().count(),
            1,
            "{name}: {}",
            stderr(&output)
        );
    }
    assert_eq!(world.profiles().len(), 0);
}

#[test]
fn a_command_that_cannot_be_executed_is_126() {
    let world = World::new();
    let text = world.path("text");
    fs::write(&text, "no program").expect("a file");
    fs::set_permissions(&text, fs::Permissions::from_mode(0o644)).expect("permissions");
    for path in [text, world.state()] {
        let output = world.output(&["run", "--", path.to_str().expect("text")]);
        assert_eq!(
            output.status.code(),
            Some(126),
            "{}: {}",
            path.display(),
            stderr(&output)
        );
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    }
}

#[test]
fn death_by_a_signal_is_passed_on() {
    let world = World::new();
    for (name, number) in [("KILL", 9), ("TERM", 15), ("SEGV", 11), ("HUP", 1)] {
        // Under nohup the test is started with SIGHUP ignored.
        let kill = format!("kill -{name} $$");
        let words = ["run", "--", "env", "--default-signal=HUP,TERM", "sh", "-c"];
        let output = world.output(&[&words[..], &[kill.as_str()]].concat());
        assert_eq!(
            output.status.signal(),
            Some(number),
            "{name}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn signals_reach_the_command() {
    let world = World::new();
    for (name, signal) in [
        ("TERM", Signal::TERM),
        ("USR1", Signal::USR1),
        ("INT", Signal::INT),
    ] {
        let script = format!("trap 'exit 7' {name}; echo ready; while :; do sleep 0.02; done");
        // A shell can't trap what was ignored when it started, as SIGINT is in the background.
        let foreread = world.foreread(&["run", "-q", "--", "sh", "-c", &script]);
        let mut command = Command::new("env");
        command.arg(format!("--default-signal={name}"));
        command
            .arg(foreread.get_program())
            .args(foreread.get_args());
        for (key, value) in foreread.get_envs() {
            match value {
                Some(value) => command.env(key, value),
                None => command.env_remove(key),
            };
        }
        let mut child = command.stdout(Stdio::piped()).spawn().expect("starts");
        let mut line = String::new();
        let mut reader = BufReader::new(child.stdout.take().expect("its output"));
        reader.read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        let pid = Pid::from_child(&child);
        kill_process(pid, signal).expect("it lives");
        assert_eq!(child.wait().expect("ends").code(), Some(7), "{name}");
    }
}

#[test]
fn streams_are_untouched() {
    let world = World::new();
    let bytes: Vec<u8> = (0..300_000u32).map(|at| (at * 7 % 256) as u8).collect();
    let mut command = world.foreread(&["run", "-q", "--", "sh", "-c", "cat; echo mine >&2"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("starts");
    let mut stdin = child.stdin.take().expect("its input");
    let sent = bytes.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&sent));
    let mut received = Vec::new();
    child
        .stdout
        .take()
        .expect("its output")
        .read_to_end(&mut received)
        .expect("read");
    writer.join().expect("no panic").expect("all written");
    let output = child.wait_with_output().expect("ends");
    assert!(
        received == bytes,
        "{} bytes of {} came",
        received.len(),
        bytes.len()
    );
    assert_eq!(stderr(&output), "mine\n");
}

#[test]
fn only_one_line_is_added_and_only_to_stderr() {
    let world = World::new();
    for _ in 0..2 {
        let output = world.output(&["run", "--", "echo", "hello"]);
        assert_eq!(stdout(&output), "hello\n");
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
        assert!(
            stderr(&output).starts_with("foreread: "),
            "{}",
            stderr(&output)
        );
    }
}

#[test]
fn a_command_runs_where_no_profile_can_be_kept() {
    let world = World::new();
    let open = world.path("open");
    fs::create_dir(&open).expect("a directory");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("permissions");
    fs::write(world.path("file"), "").expect("a file");
    for place in ["/proc/no-place", "/dev/null", "file", "open"] {
        let mut command = world.foreread(&["run", "--", "sh", "-c", "echo ran; exit 3"]);
        let output = command
            .env("FOREREAD_STATE_DIR", place)
            .output()
            .expect("starts");
        let text = stderr(&output);
        assert_eq!(
            (output.status.code(), &*stdout(&output)),
            (Some(3), "ran\n"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1, "{place}: {text}");
    }
    if can_record() {
        let mut command = world.foreread(&["run", "--", "true"]);
        let output = command
            .env("FOREREAD_STATE_DIR", "open")
            .output()
            .expect("starts");
        assert!(
            stderr(&output).contains("others may write there"),
            "{}",
            stderr(&output)
        );
    }
}

#[test]
fn a_damaged_profile_is_recorded_afresh() {
    if !can_record() {
        return;
    }
    let world = World::new();
    let first = world.output(&["run", "--", "ls", "/"]);
    assert!(first.status.success(), "{}", stderr(&first));
    let [path] = &world.profiles()[..] else {
        panic!("{:?}", world.profiles())
    };
    let whole = fs::read(path).expect("the profile");
    for damage in [&b""[..], b"junk", &whole[..whole.len() / 2]] {
        fs::write(path, damage).expect("damaged");
        let output = world.output(&["run", "--", "ls", "/"]);
        let text = stderr(&output);
        assert_eq!(stdout(&output), stdout(&first), "{text}");
        assert!(
            output.status.success() && text.contains("recording afresh"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(read(path).files().count() > 0);
    }
}

#[test]
fn a_fresh_run_forgets_what_was_known() {
    if !can_record() {
        return;
    }
    let world = World::new();
    let (one, two) = (world.path("one"), world.path("two"));
    fs::write(&one, "1").expect("a file");
    fs::write(&two, "2").expect("a file");
    // The file read isn't part of the command line, so both are one program.
    let read_what_is_named = ["sh", "-c", "cat $WHICH"];
    let run = |extra: &[&str], which: &str| {
        let arguments = [&["run"], extra, &["--"], &read_what_is_named].concat();
        world
            .foreread(&arguments)
            .env("WHICH", which)
            .output()
            .expect("starts")
    };
    run(&[], "one");
    let [path] = &world.profiles()[..] else {
        panic!("{:?}", world.profiles())
    };
    let holds = |file: &std::path::Path| read(path).find(file.as_os_str().as_encoded_bytes());
    assert!(holds(&one).is_some() && holds(&two).is_none());
    run(&["--fresh"], "two");
    assert!(holds(&one).is_none() && holds(&two).is_some());
    assert_eq!(read(path).runs.len(), 1);
}

#[test]
fn every_verb_has_an_example() {
    let world = World::new();
    for verb in ["run", "record", "replay", "show", "merge", "doctor"] {
        let output = world.output(&[verb, "--help"]);
        let text = stdout(&output);
        assert!(
            output.status.success() && text.contains("Example"),
            "{verb}: {text}"
        );
        assert!(text.contains(&format!("foreread {verb}")), "{verb}: {text}");
        assert!(text.contains("Exit status:"), "{verb}: {text}");
    }
}

#[test]
fn wrong_usage_is_2() {
    let world = World::new();
    let wrong: [&[&str]; 8] = [
        &["run"],
        &["run", "--fesh", "--", "true"],
        &["run", "--budget", "128", "--", "true"],
        &["record", "--", "true"],
        &["merge", "-o", "out", "one"],
        &["show", "a", "--", "b"],
        &["run", "true"],
        &["watch", "true"],
    ];
    for arguments in wrong {
        let output = world.output(arguments);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: {}",
            stderr(&output)
        );
    }
}
