// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nothing is lost in silence: with tables that are too small, what doesn't fit is counted.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use foreread_linux_recorder::{BpfRecorder, Limits, Watch};

use crate::setting::{Place, Recorded, evict, finish, make, or_skip, run};

const FILES: usize = 300;

fn make_files(place: &Place) -> Vec<PathBuf> {
    (0..FILES)
        .map(|n| make(&place.join(n.to_string()), 4096))
        .collect()
}

fn record_with(limits: Limits, command: &mut Command) -> Recorded {
    let mut recorder = BpfRecorder::load_with(Watch::Everything, limits).unwrap();
    recorder.attach().unwrap();
    // Without draining: what waits must fit, or be counted.
    assert!(command.status().unwrap().success());
    finish(recorder)
}

#[test]
fn records_that_find_no_room_are_counted() {
    let place = or_skip!(Place::new());
    let files = make_files(&place);
    let limits = Limits {
        records_bytes: 4096,
        ..Limits::default()
    };
    let recorded = record_with(limits, Command::new("wc").arg("-c").args(&files));
    let counts = recorded.recording.counts;
    // A node and a path for each file, of which some tens of both together fit.
    assert!(counts.lost_records >= FILES as u64, "{counts:?}");
    assert_eq!(counts.lost(), counts.lost_records, "{counts:?}");
    // Pages of files whose names were lost are reported too, not attributed to others.
    assert!(
        recorded.unresolved.unreachable > FILES as u64 / 2,
        "{:?}",
        recorded.unresolved
    );
}

#[test]
fn inodes_that_find_no_room_are_counted() {
    let place = or_skip!(Place::new());
    let files = make_files(&place);
    let limits = Limits {
        inodes: 100,
        ..Limits::default()
    };
    let recorded = record_with(limits, Command::new("cat").args(&files));
    let counts = recorded.recording.counts;
    assert!(counts.lost_inodes >= FILES as u64 - 100, "{counts:?}");
    assert!(recorded.recording.inodes.len() <= 100);
}

#[test]
fn chunks_that_find_no_room_are_counted() {
    let place = or_skip!(Place::new());
    let large = make(&place.join("large"), 16 << 20);
    let limits = Limits {
        chunks: 16,
        ..Limits::default()
    };
    // The log of the suite would hold all of it.
    let mut cat = Command::new("cat");
    let recorded = record_with(limits, cat.arg(&large).stdout(Stdio::null()));
    let counts = recorded.recording.counts;
    assert!(counts.lost_chunks >= 63 - 16, "{counts:?}");
    let pages: u64 = recorded
        .pages(&large)
        .iter()
        .map(|(start, end)| end - start)
        .sum();
    // The first is with the inode.
    assert!((64..=17 * 64).contains(&pages), "{pages}");
}

#[test]
fn processes_that_find_no_room_are_counted() {
    let place = or_skip!(Place::new());
    let file = make(&place.join("file"), 4096);
    let limits = Limits {
        processes: 1,
        ..Limits::default()
    };
    let text = file.to_str().unwrap();
    let recorded = record_with(limits, &mut place.probe(&["fork", "read", text]));
    let counts = recorded.recording.counts;
    assert_eq!(counts.lost_processes, 1, "{counts:?}");
    assert_eq!(recorded.pages(&file), []);
}

#[test]
fn enough_room_loses_nothing() {
    let place = or_skip!(Place::new());
    let files = make_files(&place);
    let recorded = record_with(Limits::default(), Command::new("wc").arg("-c").args(&files));
    assert_eq!(recorded.recording.counts.lost(), 0);
    assert_eq!(recorded.pages_below(place.path()).len(), FILES);
}

/// A refresh sees no pages that were in memory all along, and no lookups of names.
#[test]
fn a_refresh_sees_what_was_not_in_memory_and_no_names() {
    let place = or_skip!(Place::new());
    let [cold, mapped, warm] = ["cold", "mapped", "warm"].map(|name| make(&place.join(name), 8192));
    evict(&cold);
    evict(&mapped);
    let [cold_text, mapped_text, warm_text] =
        [&cold, &mapped, &warm].map(|path| path.to_str().unwrap());
    let mut recorder = BpfRecorder::load(Watch::Refresh).unwrap();
    recorder.attach().unwrap();
    let none = format!("{cold_text}-none");
    let operations = [
        ["stat", &none, "read", cold_text],
        ["read", warm_text, "map", mapped_text],
    ];
    let operations = [&operations.concat()[..], &["private", "0"]].concat();
    run(&recorder, &mut place.probe(&operations));
    let recorded = finish(recorder);
    assert_eq!(recorded.pages(&cold), [(0, 2)]);
    assert_eq!(recorded.pages(&mapped)[0].0, 0);
    assert_eq!(recorded.kind(&warm), None);
    assert_eq!(recorded.kind(&none), None);
    assert_eq!(recorded.recording.counts.lost(), 0);
}
