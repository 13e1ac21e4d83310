// SPDX-License-Identifier: MIT OR Apache-2.0
//! Large files read by calls: sequential, many at once, strided, backward.

use std::ffi::OsString;

use foreread_measure::MeasureError;
use serde_json::json;

use super::bed::{Bed, Program};
use super::turns::Turns;
use super::{Cells, Judged, MIB, Streams, megabytes_per_s, row};
use crate::reader::PAGE_BYTES;
use crate::report::{Row, Target};

pub const PROGRAMS: [&str; 7] = [
    "dd",
    "readers-2",
    "readers-4",
    "readers-16",
    "strided",
    "backward-64k",
    "backward-4k",
];
const DEVICES: [&str; 3] = ["hdd", "cloud", "nfs"];

/// Limit: this share of the throughput of the disk,
const LIMIT_SHARE: f64 = 0.85;
/// or this multiple of the kernel's throughput, whichever is less.
const KERNEL_TIMES: f64 = 3.0;
const TARGET: Target = Target::AtLeast(1.0);

const FILE_BYTES: u64 = 1024 * MIB;

/// Bytes that all threads of a program read together or, for a strided one, go through. The kernel
/// alone takes about two seconds for them.
fn bytes(program: &str, device: &str) -> u64 {
    let [hdd, cloud, nfs] = match program {
        "dd" => [192, 160, 384],
        "readers-2" => [128, 192, 512],
        "readers-4" => [96, 192, 512],
        "readers-16" => [64, 192, 512],
        "strided" => [32, 96, 96],
        "backward-64k" => [24, 80, 96],
        _ => [2, 8, 7],
    };
    let mib = match device {
        "hdd" => hdd,
        "cloud" => cloud,
        _ => nfs,
    };
    mib * MIB
}

pub fn measure(streams: &mut Streams<'_>) -> Result<(), MeasureError> {
    let mut files = vec![("file".to_owned(), FILE_BYTES)];
    for device in streams.context.devices_of(&DEVICES) {
        for program in PROGRAMS.iter().filter(|program| streams.wants(program)) {
            let readers = readers(program);
            // Each reader reads its file to the end.
            let each = streams.size(bytes(program, device)) / readers.max(1);
            files.extend((0..readers).map(|part| (part_name(program, device, part), each)));
        }
    }
    let nothing = |_: &Bed| {};
    streams.on_each_disk(
        &PROGRAMS,
        &DEVICES,
        &files,
        nothing,
        |streams, bed, name, device| {
            let program = program(streams, bed, name, device);
            Ok(vec![one(streams, bed, &program, device)?])
        },
    )
}

/// Number of files that a program reads; 0 if it reads parts of the large one.
fn readers(program: &str) -> u64 {
    let number = program.strip_prefix("readers-");
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn part_name(program: &str, device: &str, part: u64) -> String {
    format!("{program}-{device}-{part}")
}

fn program(streams: &Streams<'_>, bed: &Bed, name: &'static str, device: &str) -> Program {
    let bytes = streams.size(bytes(name, device));
    let file = [bed.file("file")];
    let parallel = || {
        let readers = readers(name);
        let files: Vec<OsString> = (0..readers)
            .map(|part| bed.file(&part_name(name, device, part)))
            .collect();
        let each = format!("--bytes={}", bytes / readers.max(1));
        let options = [
            "sequential".to_owned(),
            "--read-bytes=65536".to_owned(),
            each,
        ];
        bed.reader(streams, name, &options, &files)
    };
    let backward = |read_bytes: u64| {
        let options = [
            "backward".to_owned(),
            format!("--read-bytes={read_bytes}"),
            format!("--reads={}", bytes / read_bytes),
        ];
        bed.reader(streams, name, &options, &file)
    };
    match name {
        "dd" => bed.dd(streams, name, "file", bytes),
        _ if readers(name) > 0 => parallel(),
        "strided" => {
            let options = [
                "strided".to_owned(),
                format!("--pages={}", bytes / PAGE_BYTES),
            ];
            bed.reader(streams, name, &options, &file)
        }
        "backward-64k" => backward(64 << 10),
        _ => backward(PAGE_BYTES),
    }
}

/// The speed over its target: 0.85 of the limit or three times the kernel's, whichever is less.
fn judged(alone: f64, watched: f64, limit: f64) -> f64 {
    watched / (LIMIT_SHARE * limit).min(KERNEL_TIMES * alone)
}

fn one(
    streams: &mut Streams<'_>,
    bed: &Bed,
    program: &Program,
    device: &str,
) -> Result<Row, MeasureError> {
    let limit_ns = bed.limit_ns(program)?;
    let turns = Turns::take(streams, bed, program, |_| Ok(()))?;
    let read_bytes = turns.alone.first().map_or(0, |run| run.bytes);
    let limit = read_bytes as f64 * 1e9 / limit_ns.max(1) as f64;
    let (alone, watched) = (turns.alone_bytes_per_s(), turns.watched_bytes_per_s());
    let (alone_runs, watched_runs) = turns.documents();
    Ok(row(
        Cells {
            program: program.name,
            disk: device,
            alone: megabytes_per_s(alone),
            watched: megabytes_per_s(watched),
            best: format!("limit: {}", megabytes_per_s(limit)),
            start_and_end: turns.start_and_end(),
            judged: "speed / least of 0.85 limit, 3 kernel",
        },
        Judged {
            value: judged(alone, watched, limit),
            target: TARGET,
            digits: 2,
        },
        json!({
            "program": program.name,
            "disk": device,
            "limit_ns": limit_ns,
            "kernel_alone": alone_runs,
            "watch": watched_runs,
        }),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_easier_of_two_targets_counts() {
        // Near the limit already: 0.85 of it.
        assert_eq!(judged(90.0, 85.0, 100.0), 1.0);
        // Far below: three times as fast will do.
        assert_eq!(judged(10.0, 30.0, 100.0), 1.0);
        assert!(judged(10.0, 29.0, 100.0) < 1.0);
    }

    #[test]
    fn there_is_as_much_in_the_files_as_programs_read() {
        for device in DEVICES {
            for program in PROGRAMS {
                let bytes = bytes(program, device);
                assert!(bytes.is_multiple_of(16 * 65_536), "{program} {device}");
                assert!(bytes <= FILE_BYTES, "{program} {device}");
            }
        }
    }
}
