// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages that read() and its kin read: exactly these, cold and warm.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use foreread_profile::Uses;

use crate::setting::{Place, evict, make, or_skip, pages_of_bytes, record, warm};

/// Around every border: of a page, of a chunk of 64 pages, of more than one chunk.
const SIZES_BYTES: [u64; 23] = [
    0, 1, 100, 2048, 4095, 4096, 4097, 8191, 8192, 12_288, 65_535, 65_536, 65_537, 131_072,
    262_143, 262_144, 262_145, 266_240, 524_288, 524_289, 1_048_576, 1_100_000, 5_000_001,
];

fn make_known(place: &Place) -> Vec<(PathBuf, u64)> {
    let make_one = |(n, bytes): (usize, &u64)| {
        // Names in an order that isn't the one of reading.
        let name = format!("{:02}-{bytes}", (n * 7) % SIZES_BYTES.len());
        (make(&place.join(name), *bytes), *bytes)
    };
    SIZES_BYTES.iter().enumerate().map(make_one).collect()
}

#[test]
fn known_files_are_seen_whole_and_no_others_cold_and_warm() {
    let place = or_skip!(Place::new());
    let files = make_known(&place);
    for state in ["cold", "warm"] {
        if state == "cold" {
            files.iter().for_each(|(path, _)| evict(path));
        }
        let recorded = record(Command::new("cat").args(files.iter().map(|(path, _)| path)));
        let found = recorded.pages_below(place.path());
        let full = files.iter().filter(|(_, bytes)| *bytes > 0);
        let expected = full
            .map(|(path, bytes)| (path.clone(), vec![(0, pages_of_bytes(*bytes))]))
            .collect();
        assert_eq!(found, expected, "{state}");
        for (path, bytes) in &files {
            let uses = recorded.uses(path);
            assert!(uses.contains(Uses::OPENED), "{state}: {}", path.display());
            assert_eq!(
                uses.contains(Uses::READ),
                *bytes > 0,
                "{state}: {}",
                path.display()
            );
        }
        assert_eq!(recorded.unresolved, Default::default(), "{state}");
        let missed = recorded.recording.counts.missed_pages;
        let all: u64 = files.iter().map(|(_, bytes)| pages_of_bytes(*bytes)).sum();
        if state == "cold" {
            assert!(missed >= all, "{missed} of {all}");
        }
    }
}

#[test]
fn times_of_need_follow_the_order_of_reading() {
    let place = or_skip!(Place::new());
    let files = make_known(&place);
    for state in ["cold", "warm"] {
        if state == "cold" {
            files.iter().for_each(|(path, _)| evict(path));
        }
        let recorded = record(Command::new("cat").args(files.iter().map(|(path, _)| path)));
        let full = files.iter().filter(|(_, bytes)| *bytes > 0);
        let times: Vec<u64> = full.map(|(path, _)| recorded.first_need_ns(path)).collect();
        assert!(times.is_sorted(), "{state}: {times:?}");
        assert!(
            times[0] > 0 && times[0] < times[times.len() - 1],
            "{state}: {times:?}"
        );
    }
}

#[test]
fn times_of_need_within_a_file_follow_the_order_of_reading() {
    let place = or_skip!(Place::new());
    let file = make(&place.join("large"), 8 << 20);
    let recorded = record(&mut place.probe(&[
        "pread",
        text(&file),
        "1900",
        "sleep-ms",
        "20",
        "pread",
        text(&file),
        "100",
        "sleep-ms",
        "20",
        "pread",
        text(&file),
        "1000",
    ]));
    assert_eq!(
        recorded.pages(&file),
        [(100, 101), (1000, 1001), (1900, 1901)]
    );
    let id = recorded.profile.find(text(&file).as_bytes()).unwrap();
    let times: Vec<u64> = recorded
        .profile
        .ranges(id)
        .iter()
        .map(|r| r.need_ns)
        .collect();
    assert!(times[2] < times[0] && times[0] < times[1], "{times:?}");
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn single_pages_of_a_large_file_are_seen_alone() {
    let place = or_skip!(Place::new());
    let file = make(&place.join("large"), 64 << 20);
    let expected = [
        (0, 1),
        (7, 9),
        (63, 66),
        (511, 513),
        (5000, 5001),
        (12_345, 12_346),
        (16_383, 16_384),
    ];
    let list = "5000,0,7,8,63,64,65,511,512,12345,16383";
    for state in ["in the folios of the writer", "cold", "warm"] {
        if state == "cold" {
            evict(&file);
        }
        let recorded = record(&mut place.probe(&["pread", text(&file), list]));
        assert_eq!(recorded.pages(&file), expected, "{state}");
        // Only the last state is sure to have all in memory, but folios can't be told apart.
        warm(&file);
    }
}

#[test]
fn a_read_across_a_border_is_seen_on_both_sides() {
    let place = or_skip!(Place::new());
    let file = make(&place.join("large"), 2 << 20);
    for state in ["cold", "warm"] {
        if state == "cold" {
            evict(&file);
        }
        let recorded = record(&mut place.probe(&["pread-over", text(&file), "3,63,300"]));
        assert_eq!(
            recorded.pages(&file),
            [(3, 5), (63, 65), (300, 302)],
            "{state}"
        );
    }
}

const SEQUENTIAL_BYTES: u64 = 64 << 20;
const SEQUENTIAL_PAGES: u64 = SEQUENTIAL_BYTES / 4096;

fn dd(file: &Path, size: &str) -> Command {
    let mut command = Command::new("dd");
    command.arg(format!("if={}", file.display()));
    command.args(["of=/dev/null", "status=none", &format!("bs={size}")]);
    command
}

#[test]
fn a_sequential_read_is_seen_whole_in_pieces_of_any_size() {
    let place = or_skip!(Place::new());
    let file = make(&place.join("large"), SEQUENTIAL_BYTES);
    for size in ["1M", "4k", "96K", "20000", "3000"] {
        for state in ["cold", "warm"] {
            if state == "cold" {
                evict(&file);
            }
            let recorded = record(&mut dd(&file, size));
            assert_eq!(
                recorded.pages(&file),
                [(0, SEQUENTIAL_PAGES)],
                "{size} {state}"
            );
            let counts = recorded.recording.counts;
            assert!(counts.news <= counts.calls, "{size} {state}: {counts:?}");
            // At most one access with news a page, and few beside the file's.
            assert!(
                counts.news <= SEQUENTIAL_PAGES + 1000,
                "{size} {state}: {counts:?}"
            );
        }
    }
}

#[test]
fn cat_and_readv_are_seen_whole() {
    let place = or_skip!(Place::new());
    let file = make(&place.join("large"), SEQUENTIAL_BYTES);
    let mut cat = Command::new("cat");
    let mut readv = place.probe(&["readv", text(&file)]);
    for command in [cat.arg(&file), &mut readv] {
        for state in ["cold", "warm"] {
            if state == "cold" {
                evict(&file);
            }
            let recorded = record(command);
            assert_eq!(
                recorded.pages(&file),
                [(0, SEQUENTIAL_PAGES)],
                "{state}: {command:?}"
            );
        }
    }
}

#[test]
fn reading_the_same_again_brings_no_news() {
    let place = or_skip!(Place::new());
    let file = make(&place.join("hot"), 256 << 10);
    let recorded = record(&mut place.probe(&["times", "500", "read", text(&file)]));
    let counts = recorded.recording.counts;
    assert_eq!(recorded.pages(&file), [(0, 64)]);
    // Four reads a time, and one that finds the end.
    assert!(counts.calls >= 2000, "{counts:?}");
    assert!(counts.news < 500, "{counts:?}");
}

#[test]
fn three_gibibytes_are_as_many_chunks_as_they_must_be() {
    let place = or_skip!(Place::new());
    let file = place.join("sparse");
    const BYTES: u64 = 3 << 30;
    File::create(&file).unwrap().set_len(BYTES).unwrap();
    let recorded = record(Command::new("cat").arg(&file));
    assert_eq!(recorded.pages(&file), [(0, BYTES / 4096)]);
    let chunks = recorded.recording.chunks.len() as u64;
    let needed = BYTES / (256 << 10);
    // The first of each file is with its inode; programs and libraries have some too.
    assert!((needed - 1..needed + 500).contains(&chunks), "{chunks}");
    let counts = recorded.recording.counts;
    // cat reads 128 KiB at a time; an access may come in several events, but not in one a page.
    let reads = BYTES / (128 << 10);
    assert!(counts.calls < 4 * reads, "{counts:?}");
    let places = recorded
        .profile
        .ranges(recorded.profile.find(text(&file).as_bytes()).unwrap());
    assert!(places.len() < 2000, "{} ranges", places.len());
    evict(&file);
}

#[test]
fn what_the_kernel_copies_for_the_program_is_read() {
    let place = or_skip!(Place::new());
    let file = make(&place.join("file"), 5_000_000);
    let out = place.join("out");
    let pages = pages_of_bytes(5_000_000);
    let ways: [&[&str]; 3] = [
        &["splice", text(&file)],
        &["sendfile", text(&file), text(&out)],
        &["copy", text(&file), text(&out)],
    ];
    for way in ways {
        for state in ["cold", "warm"] {
            if state == "cold" {
                evict(&file);
            }
            let recorded = record(&mut place.probe(way));
            assert_eq!(recorded.pages(&file), [(0, pages)], "{} {state}", way[0]);
            assert_eq!(
                recorded.pages(&out),
                [],
                "{} {state}: written, not read",
                way[0]
            );
        }
    }
}

#[test]
fn what_the_program_reads_ahead_itself_is_no_access() {
    let place = or_skip!(Place::new());
    let file = make(&place.join("file"), 1 << 20);
    for way in ["readahead", "willneed"] {
        evict(&file);
        let recorded = record(&mut place.probe(&[way, text(&file), "pread", text(&file), "17"]));
        assert_eq!(recorded.pages(&file), [(17, 18)], "{way}");
        assert!(recorded.recording.counts.missed_pages >= 32, "{way}");
    }
}

#[test]
fn reads_by_io_uring_are_seen() {
    let place = or_skip!(Place::new());
    let file = make(&place.join("file"), 16 << 20);
    let trial = place
        .probe(&["ring", text(&file), "4096"])
        .output()
        .unwrap();
    if trial.stdout.starts_with(b"no io_uring") {
        println!("skipped: {}", String::from_utf8_lossy(&trial.stdout));
        return;
    }
    for size in ["4096", "100000", "1048576"] {
        for state in ["cold", "warm"] {
            if state == "cold" {
                evict(&file);
            }
            let recorded = record(&mut place.probe(&["ring", text(&file), size]));
            assert_eq!(recorded.pages(&file), [(0, 4096)], "{size} {state}");
        }
    }
}
