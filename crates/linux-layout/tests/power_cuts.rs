// SPDX-License-Identifier: MIT OR Apache-2.0
//! Power cuts while files are moved, and while they are moved back.
//!
//! A modelled disk logs all writes and flushes of a pass. Then, for each time between two flushes,
//! the disk is built as a power cut may have left it: all that was flushed, and of the rest a
//! random part. The kernel mounts it and replays its journal. All contents must be as before, the
//! stored pass must be readable, and e2fsck content. A disk that lies about flushes
//! must fail: so the check is known to see damage.
//!
//! Needs root and a loop device; prints `skipped:` where they are missing. `FOREREAD_POWER_CUTS` is
//! the number of cuts, by default few.
// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

mod common;

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use common::{Counter, Volume, bytes_of, gather, identify, largest, with_files};
use foreread_layout::{Pass, PassFile, Step};
use foreread_linux_layout::{Mover, movable};
use foreread_model::DiskParameters;
use foreread_sys::save;
use foreread_testbed::{FileSystem, Testbed, TestbedConfig, WriteLog};

const CAPACITY_BYTES: u64 = 512 << 20;

/// Where the pass is stored: on the file system itself.
const PASS: &str = "pass.json";

/// SplitMix64, so that a seed gives the same cuts.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

fn testbed() -> Testbed {
    let parameters = DiskParameters::preset("instant").unwrap();
    let mut config = TestbedConfig::new(parameters, CAPACITY_BYTES);
    config.takes_flushes = true;
    Testbed::start(config).unwrap()
}

/// The files with their contents, and what was written while they were moved there and back.
struct Recorded {
    contents: Vec<(String, Vec<u8>)>,
    files: Vec<PassFile>,
    steps: Vec<Step>,
    log: WriteLog,
}

fn record() -> Recorded {
    let volume = Volume::on(testbed());
    let paths = with_files(&volume.root, 300);
    let contents = paths
        .iter()
        .map(|path| {
            let name = path.strip_prefix(&volume.root).unwrap();
            (name.display().to_string(), fs::read(path).unwrap())
        })
        .collect();
    let files: Vec<PassFile> = paths.iter().map(|path| identify(path)).collect();
    let bytes = bytes_of(&gather(&paths, 0));
    let steps = gather(&paths, largest(&volume.free(), bytes));
    volume.testbed.log_writes().unwrap();
    let pass = serde_json::json!({
        "schema": "foreread.layout.pass/1", "uuid": "", "block_bytes": 4096, "profile": "",
        "planned_unix_s": 0, "bandwidth_bytes_per_s": 0, "is_finished": false,
        "files": files, "steps": steps,
    });
    save::replace(&volume.root.join(PASS), pass.to_string().as_bytes()).unwrap();
    let there = volume.run(&files, &steps, &mut Counter::default());
    let back: Vec<Step> = steps.iter().map(|step| step.back()).collect();
    let again = volume.run(&files, &back, &mut Counter::default());
    assert_eq!(
        (there.bytes, again.bytes),
        (bytes, bytes),
        "{there:?} {again:?}"
    );
    let log = volume.testbed.take_write_log().unwrap();
    Recorded {
        contents,
        files,
        steps,
        log,
    }
}

/// What is wrong with a disk after a power cut; `None` if nothing is.
fn damage(testbed: &Testbed, image: &Path, recorded: &Recorded, goes_on: bool) -> Option<String> {
    testbed.load_image(image).unwrap();
    let root = match testbed.mount(FileSystem::Ext4, "") {
        Ok(root) => root,
        Err(error) => return Some(error.to_string()),
    };
    let mut found = contents_differ(&root, recorded);
    // It is stored before the first move. The cut may have come earlier.
    if let Ok(text) = fs::read_to_string(root.join(PASS)) {
        match Pass::from_json(&text) {
            Ok(pass) if pass.steps == recorded.steps => {}
            Ok(_) => found = found.or(Some("the stored pass is another".to_owned())),
            Err(error) => found = found.or(Some(format!("the stored pass: {error}"))),
        }
    }
    if goes_on && found.is_none() {
        found = resumed(&root, recorded);
    }
    testbed.unmount().unwrap();
    let checked = Command::new("e2fsck")
        .args(["-f", "-n"])
        .arg(testbed.device())
        .output()
        .unwrap();
    if !checked.status.success() {
        let said = String::from_utf8_lossy(&checked.stdout).into_owned();
        found = found.or(Some(format!("e2fsck: {said}")));
    }
    found
}

fn contents_differ(root: &Path, recorded: &Recorded) -> Option<String> {
    let mut files = recorded.contents.iter();
    files.find_map(|(name, content)| match fs::read(root.join(name)) {
        Ok(read) if &read == content => None,
        Ok(_) => Some(format!("{name} differs")),
        Err(error) => Some(format!("{name}: {error}")),
    })
}

/// Goes on with the pass, and then back.
fn resumed(root: &Path, recorded: &Recorded) -> Option<String> {
    let movable = movable(b"ext4", common::device_of(root), root).unwrap();
    let mover = Mover::of(&movable, 100_000_000).unwrap();
    let back: Vec<Step> = recorded.steps.iter().map(|step| step.back()).collect();
    for steps in [&recorded.steps, &back] {
        let moved = match mover.run(&recorded.files, steps, &mut Counter::default()) {
            Ok(moved) => moved,
            Err(error) => return Some(format!("going on: {error}")),
        };
        if moved.bytes + moved.there_bytes != bytes_of(steps) {
            return Some(format!("going on: {:?}", moved.skipped));
        }
        if let Some(differs) = contents_differ(root, recorded) {
            return Some(format!("after going on: {differs}"));
        }
    }
    None
}

#[test]
fn no_power_cut_loses_a_byte_and_a_disk_that_lies_is_found_out() {
    if let Err(lacking) = Testbed::available() {
        println!("skipped: {lacking}");
        return;
    }
    let asked = env::var("FOREREAD_POWER_CUTS").ok();
    let cuts: usize = asked.map_or(24, |number| number.parse().unwrap());
    let mut recorded = record();
    let epochs = recorded.log.epochs();
    assert!(epochs > 20, "{epochs}");
    let testbed = testbed();
    let directory = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let image = directory.path().join("image");
    let begun = Instant::now();
    let mut random = Random(1);
    let mut failed = Vec::new();
    for cut in 0..cuts {
        // In their order, each as often as the others.
        let epoch = cut * epochs / cuts;
        let mut share = random.next() % 101;
        if cut.is_multiple_of(10) {
            // All, or nothing, of what wasn't flushed.
            share = if cut.is_multiple_of(20) { 100 } else { 0 };
        }
        let mut keep = || random.next() % 100 < share;
        recorded.log.after_cut(epoch, &image, &mut keep).unwrap();
        let goes_on = cut % 8 == 7;
        if let Some(what) = damage(&testbed, &image, &recorded, goes_on) {
            failed.push(format!("cut {cut} in epoch {epoch}, {share} %: {what}"));
        }
    }
    println!(
        "{} of {cuts} cuts in {epochs} epochs were harmless, in {} s",
        cuts - failed.len(),
        begun.elapsed().as_secs()
    );
    assert_eq!(failed, Vec::<String>::new());

    // Harm is a matter of chance: on kernels that commit seldom, one cut in twenty does some.
    let controls = 120;
    let (mut harmed, mut made) = (0, 0);
    while made < controls && harmed < 3 {
        made += 1;
        let epoch = 1 + (made * 7919) % (epochs - 1);
        let mut keep = || random.next().is_multiple_of(2);
        recorded
            .log
            .after_cut_of_a_disk_that_lies(epoch, 6, &image, &mut keep)
            .unwrap();
        harmed += u32::from(damage(&testbed, &image, &recorded, false).is_some());
    }
    println!("a disk that lies about flushes: {harmed} of {made} cuts did harm");
    assert!(harmed > 0);
}
