// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each recorder that works here records, and the profile says what it couldn't see.

mod common;

use std::fs;

use common::{World, read, stderr, stdout};
use foreread_profile::{BlindSpots, Recorder};
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
