// SPDX-License-Identifier: MIT OR Apache-2.0
//! The profile on the disk is the old or the new one, whole, whatever happens while saving.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{World, can_record, is_root, read, stderr};
use foreread_testbed::FileSystem;

#[test]
fn runs_at_once_all_work_and_save_a_whole_profile() {
    const AT_ONCE: usize = 4;
    if !can_record() {
        return;
    }
    let world = World::new();
    let tree = world.tree(500, 100);
    let tree = tree.to_str().expect("text");
    for round in 0..3 {
        let fresh: &[&str] = if round == 0 { &[] } else { &["--fresh"] };
        let arguments = [&["run"], fresh, &["--", "grep", "-rc", "x", tree]].concat();
        let children: Vec<Child> = (0..AT_ONCE)
            .map(|_| {
                let mut command = world.foreread(&arguments);
                command
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()
                    .expect("starts")
            })
            .collect();
        for child in children {
            let output = child.wait_with_output().expect("ends");
            assert!(output.status.success(), "{}", stderr(&output));
            assert_eq!(common::stdout(&output).lines().count(), 500);
            assert!(!stderr(&output).contains("cannot"), "{}", stderr(&output));
        }
        let [path] = &world.profiles()[..] else {
            panic!("{:?}", world.profiles())
        };
        let profile = read(path);
        let tops = profile
            .files()
            .filter(|(id, _)| profile.name(*id).starts_with(b"file-"));
        assert_eq!(tops.count(), 500, "round {round}");
        assert!(!common::has_temporary(&world.state()));
    }
}

#[test]
fn a_full_disk_keeps_the_old_profile() {
    if !is_root() || !can_record() {
        return;
    }
    let world = World::new();
    // In a mount namespace of its own, which ends with the script.
    let script = r#"
        set -e
        mount -t tmpfs -o size=128k,mode=700 none "$FOREREAD_STATE_DIR"
        "$0" run -q -- ls / >/dev/null
        profile=$(ls "$FOREREAD_STATE_DIR"/*.frp)
        cp "$profile" before
        head -c 1M /dev/zero >"$FOREREAD_STATE_DIR/filler" 2>/dev/null || true
        "$0" run --fresh -- ls / >listing 2>line
        echo "$?" >status
        cmp "$profile" before
        ls -A "$FOREREAD_STATE_DIR" >left
    "#;
    if in_own_mounts(&world, script).is_none() {
        return;
    }
    let text = |name: &str| fs::read_to_string(world.path(name)).expect(name);
    assert_eq!(text("status"), "0\n");
    assert!(text("listing").contains("proc\n"));
    assert_eq!(text("line").lines().count(), 1, "{}", text("line"));
    assert!(
        text("line").contains("the old profile stays"),
        "{}",
        text("line")
    );
    assert!(!text("left").contains("foreread-tmp"), "{}", text("left"));
    assert_eq!(read(&world.path("before")).runs.len(), 1);
}

/// Runs a script in a mount namespace of its own, which ends with it; `None` where there is none.
fn in_own_mounts(world: &World, script: &str) -> Option<()> {
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "sh",
        "-c",
        script,
        env!("CARGO_BIN_EXE_foreread"),
    ]);
    command
        .env("FOREREAD_STATE_DIR", world.state())
        .current_dir(world.path(""));
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: unshare: {error}");
            return None;
        }
    };
    assert!(output.status.success(), "{script}: {}", stderr(&output));
    Some(())
}

#[test]
fn a_store_that_cannot_be_written_costs_a_line_and_no_more() {
    if !is_root() || !can_record() {
        return;
    }
    let mount = |options: &str| format!("mount -t tmpfs -o mode=700,{options} none state");
    // Of a subvolume: that binds root, too.
    let with_quota = "mkdir top; truncate -s 300M image; mkfs.btrfs -q image >/dev/null; \
                      mount -o loop image top; btrfs quota enable top; \
                      btrfs -q subvolume create top/state; mount --bind top/state state; \
                      chmod 700 state";
    // An empty subvolume takes so much.
    let not_a_byte_more = "sync -f state; btrfs qgroup limit 16K top/state; sync -f state";
    let before = "\"$0\" run -q -- sh -c 'echo done; exit 7' >/dev/null || true";
    // What the command does to the store before the run; what is run around it.
    let cases = [
        (
            "read-only",
            mount("size=1m"),
            "mount -o remount,ro none state",
            ":",
        ),
        // Its lock, its profile, and no third.
        ("no inodes", mount("size=1m,nr_inodes=3"), ":", ":"),
        ("quota", with_quota.to_owned(), not_a_byte_more, ":"),
        // The first byte is one too many.
        ("limit of file sizes", mount("size=1m"), ":", "ulimit -f 0"),
    ];
    for (what, mount, then, limit) in cases {
        if what == "quota"
            && let Err(lacking) = FileSystem::Btrfs.available()
        {
            println!("skipped: {lacking}");
            continue;
        }
        let world = World::new();
        let script = format!(
            "set -e; {mount}; {before}; {then}
            ( {limit}
            \"$0\" run --fresh -- sh -c 'echo done; exit 7' 2>&1 || echo \"status $?\" ) | cat >said
            ls -A state >left"
        );
        if in_own_mounts(&world, &script).is_none() {
            return;
        }
        let text = |name: &str| fs::read_to_string(world.path(name)).expect(name);
        let said = text("said");
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 3, "{what}: {said}");
        assert_eq!((lines[0], lines[2]), ("done", "status 7"), "{what}: {said}");
        assert!(lines[1].contains("cannot "), "{what}: {said}");
        let left = text("left");
        assert!(!left.contains("foreread-tmp"), "{what}: {left}");
    }
}

/// As after a clock that was set back by a year.
#[test]
fn a_profile_from_the_future_is_replayed_and_replaced() {
    if !can_record() {
        return;
    }
    let world = World::new();
    let tree = world.tree(20, 100);
    let tree = tree.to_str().expect("text");
    let run = |more: &[&str]| {
        let output = world.output(&[&["run"], more, &["--", "grep", "-rc", "x", tree]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(common::stdout(&output).lines().count(), 20);
        let said = stderr(&output);
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    };
    run(&[]);
    let later = std::time::SystemTime::now() + Duration::from_secs(365 * 24 * 3600);
    for entry in fs::read_dir(world.state()).expect("the store").flatten() {
        let file = fs::File::options().write(true).open(entry.path());
        file.and_then(|file| file.set_modified(later))
            .expect("a time");
    }
    let said = run(&[]);
    assert!(!said.contains("recorded"), "it is replayed: {said}");
    let said = run(&["--fresh"]);
    assert!(said.contains("recorded"), "{said}");
}

#[test]
fn files_that_name_paths_are_for_their_owner_only() {
    let world = World::new();
    if !is_root() || !can_record() || !world.can(&["watch", "--", "true"]) {
        return;
    }
    let name = |file: &str| world.path(file).to_str().expect("text").to_owned();
    let files = [
        "run.json",
        "trace.frt",
        "profile.frp",
        "watch.log",
        "stat.txt",
    ];
    let [run, trace, profile, log, table] = files.map(name);
    let ways: [&[&str]; 5] = [
        &["run", "--output", &run, "--", "true"],
        &["record", "--trace", &trace, "--", "true"],
        &["record", "--output", &profile, "--", "true"],
        &["watch", "--log", &log, "--", "true"],
        &["stat", "--output", &table, "--", "true"],
    ];
    for (way, file) in ways.into_iter().zip(files) {
        let command = world.foreread(way);
        let output = Command::new("sh")
            .args(["-c", "umask 000; exec \"$@\"", "sh"])
            .arg(command.get_program())
            .args(command.get_args())
            .env("FOREREAD_STATE_DIR", world.state())
            .output()
            .expect("it starts");
        assert!(output.status.success(), "{file}: {}", stderr(&output));
        let mode = fs::metadata(world.path(file))
            .expect(file)
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
}

#[test]
fn a_store_of_another_user_is_not_used() {
    let world = World::new();
    if !is_root() || !can_record() {
        return;
    }
    let run = || world.output(&["run", "--", "ls", "/"]);
    assert!(run().status.success());
    let [profile] = &world.profiles()[..] else {
        panic!("{:?}", world.profiles())
    };
    let before = fs::read(profile).expect("the profile");
    std::os::unix::fs::chown(world.state(), Some(65534), None).expect("it is root's");
    for _ in 0..2 {
        let output = run();
        let said = stderr(&output);
        assert!(
            output.status.success() && said.contains("belongs to another user"),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    assert_eq!(fs::read(profile).expect("the profile"), before);
}

#[test]
fn a_store_by_a_relative_path_is_saved_into_in_the_background_too() {
    let world = World::new();
    if !world.can(&["record", "-o", "probe.frp", "--", "true"]) {
        return;
    }
    fs::write(world.path("large"), vec![b'x'; 4 << 20]).expect("a file");
    for _ in 0..2 {
        // A run that finds everything cached teaches nothing.
        let evict = [
            "of=large",
            "count=0",
            "conv=notrunc,fdatasync",
            "oflag=nocache",
            "status=none",
        ];
        let mut dd = Command::new("dd");
        let evicted = dd.args(evict).current_dir(world.path("")).status();
        assert!(evicted.expect("dd starts").success());
        let mut foreread = world.foreread(&["run", "-q", "--", "cksum", "large"]);
        foreread
            .env("FOREREAD_STATE_DIR", "state")
            .stdout(Stdio::null());
        assert!(foreread.status().expect("foreread starts").success());
    }
    let runs = || {
        world
            .profiles()
            .first()
            .map_or(0, |path| read(path).runs.len())
    };
    let begun = Instant::now();
    while runs() < 2 && begun.elapsed() < Duration::from_secs(60) {
        sleep(Duration::from_millis(10));
    }
    assert_eq!(runs(), 2);
}
