// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread layout`: where files lie, what a replay takes, and where the files should lie.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::watched::{disk, make_cold, text};
use common::{World, assert_fails_in_one_line, can_record, stderr, stdout};
use foreread_testbed::{Testbed, race};
use serde_json::Value;

/// Parts of a file that a program reads, each so long, one in each step.
const PARTS: u64 = 150;
const PART_BYTES: u64 = 80 << 10;
/// A head seeks over what lies between two of them.
const STEP_BYTES: u64 = 640 << 10;

const READ_PARTS: &str = "import os, sys
data = os.open(sys.argv[1], os.O_RDONLY)
parts, part_bytes, step_bytes = map(int, sys.argv[2:])
os.posix_fadvise(data, 0, 0, os.POSIX_FADV_RANDOM)
for part in range(parts):
    os.pread(data, part_bytes, part * step_bytes)";

/// A disk with a head, a profile of a program that reads parts of a file on it, and that file;
/// `None` where that can't be had, and says so.
fn scattered(world: &World) -> Option<(Testbed, PathBuf, PathBuf)> {
    if !can_record() {
        return None;
    }
    let (testbed, root) = disk(world, "hdd", 512 << 20)?;
    let data = root.join("data");
    testbed.instantly(|| {
        let file = fs::File::create(&data).expect("a file");
        let bytes = vec![b'x'; (PARTS * STEP_BYTES) as usize];
        (&file).write_all(&bytes).expect("bytes");
        file.sync_all().expect("it is on the disk");
    });
    make_cold(&testbed);
    let profile = world.path("parts.frp");
    let numbers = [PARTS, PART_BYTES, STEP_BYTES].map(|number| number.to_string());
    let output = testbed.instantly(|| {
        world
            .foreread(&["record", "--output", text(&profile), "--"])
            .args(["python3", "-c", READ_PARTS, text(&data)])
            .args(numbers)
            .output()
            .expect("it starts")
    });
    assert!(output.status.success(), "{}", stderr(&output));
    Some((testbed, profile, data))
}

fn document(world: &World, words: &[&str]) -> Value {
    let output = world.output(words);
    let said = stderr(&output) + &stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    serde_json::from_str(&stdout(&output)).expect("a document")
}

fn number(value: &Value, name: &str) -> u64 {
    let number = value[name].as_u64();
    number.unwrap_or_else(|| panic!("{name}: {value}"))
}

/// Of the file systems of a document, the modelled disk.
fn on_disk(document: &Value) -> &Value {
    let all = document["file_systems"].as_array().expect("a list");
    let ours = all.iter().find(|one| {
        let at = one["mount_point"].as_str();
        at.is_some_and(|at| at.contains("foreread-testbed"))
    });
    ours.unwrap_or_else(|| panic!("{document}"))
}

fn is_near(one: u64, other: u64, percent: u64) -> bool {
    one.abs_diff(other) * 100 <= one.max(other) * percent
}

#[test]
fn where_files_lie_is_shown_and_the_replay_is_as_forecast() {
    let world = World::new();
    let Some((testbed, profile, _)) = scattered(&world) else {
        return;
    };
    let profile = text(&profile);
    let shown = document(
        &world,
        &[
            "layout", "show", profile, "--disk", "hdd", "--json", "--files",
        ],
    );
    assert_eq!(shown["schema"], "foreread.layout/1");
    let shown = on_disk(&shown);
    assert_eq!(number(shown, "files"), 1);
    let told = (
        &shown["fs_type"],
        &shown["model"],
        &shown["counts_metadata"],
    );
    assert_eq!(told, (&"ext4".into(), &"given".into(), &true.into()));
    let phase = &shown["phases"][0];
    assert_eq!(number(phase, "bytes"), PARTS * PART_BYTES);
    let fragments = (number(phase, "fragments"), number(phase, "places"));
    assert_eq!(fragments, (PARTS, PARTS));
    let (now, after) = (&shown["now"], &shown["after"]);
    assert!(number(now, "seeks") >= PARTS - 1, "{now}");
    assert!(
        number(after, "seeks") * 5 < number(now, "seeks"),
        "{now} {after}"
    );
    assert_eq!(shown["is_worth_it"], true);
    assert_eq!(number(shown, "moves"), PARTS);
    let each = shown["each"].as_array().expect("files");
    let places = each[0]["places"].as_array().expect("runs");
    assert_eq!((each.len(), places.len() as u64), (1, PARTS));
    assert!(
        each[0]["path"]
            .as_str()
            .is_some_and(|path| path.ends_with("/data"))
    );

    // What the modelled disk does in a replay is what was forecast.
    make_cold(&testbed);
    testbed.reset_counters();
    let output = world.output(&["replay", profile]);
    assert!(output.status.success(), "{}", stderr(&output));
    let done = testbed.counters();
    println!("{done:?}, forecast {now}");
    assert!(
        is_near(done.seeks, number(now, "seeks"), 10),
        "{done:?} {now}"
    );
    assert!(
        is_near(done.bytes, number(now, "bytes"), 10),
        "{done:?} {now}"
    );
    assert!(
        is_near(done.busy_ns, number(now, "time_ns"), 10),
        "{done:?} {now}"
    );
}

#[test]
fn a_plan_says_what_goes_where_and_can_be_kept() {
    let world = World::new();
    let Some((_testbed, profile, _)) = scattered(&world) else {
        return;
    };
    let profile = text(&profile);
    let kept = world.path("kept.plan");
    let words = [
        "layout",
        "plan",
        profile,
        "--disk",
        "hdd",
        "--json",
        "--output",
        text(&kept),
    ];
    let planned = document(&world, &words);
    assert_eq!(planned["schema"], "foreread.layout.plan/1");
    let in_file = fs::read_to_string(&kept).expect("a file");
    assert_eq!(
        planned,
        serde_json::from_str::<Value>(&in_file).expect("a document")
    );
    assert_eq!(
        planned,
        document(&world, &words),
        "it is the same each time"
    );
    let moves = on_disk(&planned)["moves"].as_array().expect("moves");
    assert_eq!(moves.len() as u64, PARTS);
    // In the order of need, one behind the other.
    for (part, two) in (0..).zip(moves.windows(2)) {
        assert_eq!(number(&two[0], "offset_bytes"), part * STEP_BYTES);
        let end = number(&two[0], "to_bytes") + number(&two[0], "bytes");
        assert_eq!(number(&two[1], "to_bytes"), end);
    }
    let from = moves[0]["from"].as_array().expect("runs");
    assert_eq!(from.len(), 1);
    assert_eq!(number(&from[0], "length_bytes"), PART_BYTES);

    let output = world.output(&["layout", "plan", profile, "--disk", "hdd"]);
    let said = stdout(&output);
    for part in [
        "as --disk says",
        "moves  150 parts, 11.7 MiB\n",
        "/data\n",
        "and 130 more",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(
        said.lines()
            .all(|line| line.contains("/mnt") || line.len() <= 80),
        "{said}"
    );
    // On a disk without a head it isn't worth it, and that is the exit status.
    let output = world.output(&["layout", "plan", profile, "--disk", "nvme"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stdout(&output).contains("not worth it"),
        "{}",
        stdout(&output)
    );
}

/// Where a file lies: offset, place and length of each piece.
fn places(path: &Path) -> Vec<(u64, u64, u64)> {
    let file = fs::File::open(path).expect("a file");
    let runs = foreread_sys::fiemap::runs(file, 0, u64::MAX, 10_000).expect("its runs");
    let mut places: Vec<(u64, u64, u64)> = Vec::new();
    for run in runs {
        // The kernel keeps some that lie beside each other as two.
        match places.last_mut() {
            Some((offset, place, length))
                if *offset + *length == run.offset_bytes && *place + *length == run.place_bytes =>
            {
                *length += run.length_bytes;
            }
            _ => places.push((run.offset_bytes, run.place_bytes, run.length_bytes)),
        }
    }
    places
}

/// The pass of a document that was on the modelled disk.
fn pass(document: &Value) -> &Value {
    let passes = document["passes"].as_array().expect("passes");
    assert_eq!(passes.len(), 1, "{document}");
    &passes[0]
}

#[test]
fn files_are_moved_together_and_back_to_where_they_were() {
    let world = World::new();
    let Some((testbed, profile, data)) = scattered(&world) else {
        return;
    };
    let profile = text(&profile);
    let (places_before, bytes) = (places(&data), fs::read(&data).expect("a file"));
    let nothing = world.output(&["layout", "status"]);
    assert_eq!(stdout(&nothing), "nothing was moved\n");

    let words = ["layout", "apply", profile, "--disk", "hdd", "--json"];
    let applied = testbed.instantly(|| document(&world, &words));
    assert_eq!(applied["schema"], "foreread.layout.apply/1");
    let moved = pass(&applied);
    assert_eq!(number(moved, "moved_bytes"), PARTS * PART_BYTES, "{moved}");
    assert_eq!(moved["skipped"], Value::Array(Vec::new()));
    let (before, now) = (&moved["replay_before"], &moved["replay_now"]);
    assert!(
        number(now, "seeks") * 5 < number(before, "seeks"),
        "{moved}"
    );
    assert_eq!(fs::read(&data).expect("a file"), bytes);

    // The modelled disk has as few seeks as was said.
    race(|| {
        make_cold(&testbed);
        testbed.reset_counters();
        let output = world.output(&["replay", profile]);
        assert!(output.status.success(), "{}", stderr(&output));
        let done = testbed.counters();
        println!("{done:?}, forecast {now}");
        let is_as_said = is_near(done.busy_ns, number(now, "time_ns"), 10);
        assert!(is_as_said, "{done:?} {now}");
    });

    let status = document(&world, &["layout", "status", "--json"]);
    let standing = pass(&status);
    assert_eq!(standing["is_finished"], true);
    assert_eq!(number(standing, "there_bytes"), PARTS * PART_BYTES);
    assert_eq!(standing["is_worth_it"], false, "{standing}");
    let said = stdout(&world.output(&["layout", "status"]));
    assert!(said.contains("100%") || said.contains("100 %"), "{said}");

    // Once more, there is nothing to gain.
    let again = world.output(&words[..5]);
    assert_eq!(again.status.code(), Some(1), "{}", stderr(&again));
    let said = stdout(&again);
    assert!(said.contains("it isn't worth it"), "{said}");

    let undone = document(&world, &["layout", "undo", "--json"]);
    assert_eq!(undone["schema"], "foreread.layout.undo/1");
    assert_eq!(number(pass(&undone), "moved_bytes"), PARTS * PART_BYTES);
    assert_eq!(places(&data), places_before);
    assert_eq!(fs::read(&data).expect("a file"), bytes);
    let output = world.output(&["layout", "undo"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("no pass to undo"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn what_ctrl_c_stops_goes_on_with_resume() {
    let world = World::new();
    let Some((testbed, profile, _)) = scattered(&world) else {
        return;
    };
    let profile = text(&profile);
    // On the modelled disk, not instantly: it is stopped in the middle.
    let mut child = world
        .foreread(&["layout", "apply", profile, "--disk", "hdd", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    wait_for_pass(&world);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is there");
    let mut told = String::new();
    let mut stdout = child.stdout.take().expect("a pipe");
    stdout.read_to_string(&mut told).expect("text");
    let status = child.wait().expect("it ends");
    let told: Value = serde_json::from_str(&told).expect("a document");
    assert_eq!(status.code(), Some(64), "{told}");
    assert_eq!(pass(&told)["is_stopped"], true);
    let first_bytes = number(pass(&told), "moved_bytes");
    assert!(first_bytes < PARTS * PART_BYTES, "{told}");

    let output = world.output(&["layout", "apply", profile, "--disk", "hdd"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("layout resume"),
        "{}",
        stderr(&output)
    );
    let resumed = testbed.instantly(|| document(&world, &["layout", "resume", "--json"]));
    let rest = pass(&resumed);
    assert_eq!(number(rest, "there_bytes"), first_bytes);
    assert_eq!(
        number(rest, "moved_bytes") + first_bytes,
        PARTS * PART_BYTES
    );
    let output = world.output(&["layout", "resume"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("no pass to go on"),
        "{}",
        stderr(&output)
    );
}

/// Blocks that are free, with those that the kernel has set aside, and those of the file: its block
/// map may take one more, or one less.
fn free_and_own_blocks(path: &Path) -> u64 {
    rustix::fs::syncfs(fs::File::open(path).expect("a file")).expect("it is written");
    let own = fs::metadata(path).expect("a file").blocks() / 8;
    rustix::fs::statvfs(path).expect("numbers").f_bfree + own
}

/// Waits until a pass is stored.
fn wait_for_pass(world: &World) {
    let stored = world.state().join("layout/000001.json");
    let begun = Instant::now();
    while !stored.exists() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "no pass is stored"
        );
        sleep(Duration::from_millis(1));
    }
}

/// Starts `layout` with these words and kills it after this time, from when a pass is stored.
fn killed(world: &World, words: &[&str], after: Duration) {
    let mut child = world
        .foreread(words)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    wait_for_pass(world);
    // One that has ended by then isn't waited for: on busy processors the first pass, by which the
    // time is drawn, may take minutes.
    let begun = Instant::now();
    while begun.elapsed() < after && child.try_wait().expect("it is ours").is_none() {
        sleep(Duration::from_millis(1).min(after));
    }
    // It may have ended.
    let _ = child.kill();
    child.wait().expect("it ends");
}

/// There are so many kills in any case.
const KILLS_MIN: u64 = 2;
/// After this time there are no more, unless `FOREREAD_KILLS` says how many.
const ENOUGH_KILLING: Duration = Duration::from_secs(120);

/// `FOREREAD_KILLS` is how often, by default a few times.
#[test]
fn a_kill_at_any_time_leaves_nothing_behind() {
    let world = World::new();
    let Some((testbed, profile, data)) = scattered(&world) else {
        return;
    };
    let asked = std::env::var("FOREREAD_KILLS").ok();
    // A pass has the lowest priority: where others take all processors, it takes minutes.
    let enough = asked.is_none().then_some(ENOUGH_KILLING);
    let kills: u64 = asked.map_or(8, |number| number.parse().expect("a number"));
    let apply = ["layout", "apply", text(&profile), "--disk", "hdd"];
    let (places_before, bytes) = (places(&data), fs::read(&data).expect("a file"));
    let free_before = free_and_own_blocks(&data);
    let mut state = 1u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state >> 33
    };
    testbed.instantly(|| {
        // How long a pass takes here, and starting a program.
        let whole = document(&world, &[&apply[..], &["--json"]].concat());
        let pass_us = number(pass(&whole), "time_ns") / 1000;
        let begun = Instant::now();
        let undone = document(&world, &["layout", "undo", "--json"]);
        let start_us = begun.elapsed().as_micros() as u64 - number(pass(&undone), "time_ns") / 1000;
        let mut after = |longest_us: u64| Duration::from_micros(random() % longest_us);
        let (mut cut_short, mut made, begun) = (0, 0, Instant::now());
        for kill in 0..kills {
            if kill >= KILLS_MIN && enough.is_some_and(|enough| begun.elapsed() > enough) {
                break;
            }
            made += 1;
            killed(&world, &apply, after(pass_us * 5 / 4));
            assert!(fs::read(&data).expect("a file") == bytes, "kill {kill}");
            assert_eq!(free_and_own_blocks(&data), free_before, "kill {kill}");
            let status = document(&world, &["layout", "status", "--json"]);
            let passes = status["passes"].as_array().expect("passes");
            let is_between = |pass: &Value| {
                let there = number(pass, "there_bytes");
                there > 0 && there < PARTS * PART_BYTES
            };
            cut_short += u32::from(passes.iter().any(is_between));
            if kill % 2 == 0 {
                killed(&world, &["layout", "resume"], after(start_us + pass_us));
                assert!(fs::read(&data).expect("a file") == bytes, "kill {kill}");
            }
            killed(&world, &["layout", "undo"], after(start_us + pass_us));
            let all = world.output(&["layout", "undo"]);
            let is_done = stderr(&all).contains("no pass to undo");
            assert!(
                all.status.success() || is_done,
                "kill {kill}: {}{}",
                stdout(&all),
                stderr(&all)
            );
            assert_eq!(places(&data), places_before, "kill {kill}");
            assert!(fs::read(&data).expect("a file") == bytes, "kill {kill}");
            assert_eq!(free_and_own_blocks(&data), free_before, "kill {kill}");
        }
        println!("{cut_short} of {made} kills came in the middle of a pass");
    });
}

#[test]
fn a_picture_has_both_layouts() {
    let world = World::new();
    let Some((_testbed, profile, _)) = scattered(&world) else {
        return;
    };
    let picture = world.path("lies.svg");
    let words = [
        "layout",
        "show",
        text(&profile),
        "--disk",
        "hdd",
        "--svg",
        text(&picture),
    ];
    let output = world.output(&words);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let svg = fs::read_to_string(picture).expect("a picture");
    for part in [
        "now: a replay takes",
        "after: a replay takes",
        "in the order of need",
    ] {
        assert!(svg.contains(part), "{part}");
    }
}

/// A tree of files, and a profile of a program that reads three of them: the last first.
fn tree_read_backwards(world: &World) -> Option<(PathBuf, PathBuf)> {
    if !can_record() {
        return None;
    }
    let tree = world.path("tree");
    fs::create_dir_all(tree.join("d")).expect("a directory");
    for number in 0..30 {
        let content = format!("content of {number:02}, ").repeat(1000);
        fs::write(tree.join(format!("d/file {number:02}")), content).expect("a file");
    }
    let read = [29, 17, 5].map(|number| tree.join(format!("d/file {number:02}")));
    let profile = world.path("cat.frp");
    let mut command = world.foreread(&["record", "--output", text(&profile), "--", "cat"]);
    let output = command.args(read).output().expect("it starts");
    assert!(output.status.success(), "{}", stderr(&output));
    Some((tree, profile))
}

#[test]
fn an_image_is_built_in_the_order_of_need() {
    let world = World::new();
    let Some((tree, profile)) = tree_read_backwards(&world) else {
        return;
    };
    let (tree, profile) = (text(&tree), text(&profile));
    let order = [
        "layout",
        "order",
        profile,
        "--tree",
        tree,
        "--mounted-at",
        tree,
        "--builder",
    ];
    let sort = world.path("sort");
    let words = [&order[..], &["squashfs", "--json", "--output", text(&sort)]].concat();
    let told = document(&world, &words);
    assert_eq!(told["schema"], "foreread.layout.order/1");
    // The programs themselves are not below the top.
    assert_eq!(
        (number(&told, "files"), number(&told, "gone_files")),
        (3, 0)
    );
    let lines = fs::read_to_string(&sort).expect("a file");
    let first = lines.lines().next().expect("a line");
    assert_eq!(first, "d/file\\ 29 32767");

    let image = world.path("image");
    let built = Command::new("mksquashfs")
        .args([tree, text(&image), "-sort", text(&sort)])
        // Contents are found as they are.
        .args(["-noD", "-no-fragments", "-quiet", "-no-progress"])
        .output();
    let Ok(built) = built else {
        println!("skipped: there is no mksquashfs");
        return;
    };
    assert!(built.status.success(), "{}", stderr(&built));
    let bytes = fs::read(image).expect("an image");
    let place = |number: u32| {
        let content = format!("content of {number:02}, ");
        let mut windows = bytes.windows(content.len());
        windows
            .position(|window| window == content.as_bytes())
            .expect("its content")
    };
    let first = [29, 17, 5].map(place);
    assert!(first.is_sorted(), "{first:?}");
    let others = (0..30).filter(|number| ![29, 17, 5].contains(number));
    assert!(others.map(place).all(|place| place > first[2]));
}

#[test]
fn an_archive_has_every_file_once_and_those_that_are_needed_first() {
    let world = World::new();
    let Some((tree, profile)) = tree_read_backwards(&world) else {
        return;
    };
    let (tree, profile) = (text(&tree), text(&profile));
    let output = world.output(&[
        "layout",
        "order",
        profile,
        "--tree",
        tree,
        "--mounted-at",
        tree,
        "--builder",
        "tar",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let list = world.path("list");
    fs::write(&list, &output.stdout).expect("a file");
    let archive = world.path("archive");
    let made = Command::new("tar")
        .args([
            "--create",
            "--null",
            "--no-recursion",
            "--file",
            text(&archive),
        ])
        .args(["--directory", tree, "--files-from", text(&list)])
        .output()
        .expect("tar");
    assert!(made.status.success(), "{}", stderr(&made));
    let told = Command::new("tar")
        .args(["--list", "--file", text(&archive)])
        .output();
    let told = stdout(&told.expect("tar"));
    let names: Vec<&str> = told.lines().collect();
    let first = [
        "./d/",
        "./d/file 29",
        "./d/file 17",
        "./d/file 05",
        "./d/file 00",
    ];
    assert_eq!(names[..5], first);
    assert_eq!(names.len(), 31);
}

#[test]
fn wrong_usage_is_refused_in_one_line() {
    let world = World::new();
    fs::write(world.path("no.frp"), "no profile").expect("a file");
    for words in [
        &["layout", "show", "no.frp"][..],
        &["layout", "show", "not-there.frp"],
        &["layout", "plan", "--boot"],
        &["layout", "show", "--", "no-such-command-here"],
        &[
            "layout",
            "order",
            "no.frp",
            "--builder",
            "tar",
            "--tree",
            ".",
        ],
        &["layout", "apply", "no.frp"],
    ] {
        assert_fails_in_one_line(&world.output(words), &words.join(" "));
    }
    for words in [
        &["layout", "show"][..],
        &["layout", "show", "no.frp", "--boot"],
        &["layout", "show", "no.frp", "--disk", "floppy"],
        &["layout", "show", "no.frp", "--disk", "hdd,no=1"],
        &["layout", "plan", "no.frp", "--files"],
        &["layout", "apply"],
        &["layout", "undo", "no.frp"],
        &["layout", "status", "no.frp"],
        &[
            "layout",
            "order",
            "no.frp",
            "--builder",
            "cpio",
            "--tree",
            ".",
        ],
        &["layout", "order", "no.frp", "--builder", "tar"],
        &[
            "layout",
            "order",
            "no.frp",
            "--builder",
            "tar",
            "--tree",
            ".",
            "--json",
        ],
    ] {
        let output = world.output(words);
        assert_eq!(output.status.code(), Some(2), "{}", words.join(" "));
        assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
    }
}
