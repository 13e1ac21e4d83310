// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs whose reads can't be predicted: they must neither take longer nor make the disk read
//! more.

use std::ffi::OsString;
use std::thread;
use std::time::Duration;

use foreread_measure::MeasureError;
use serde_json::json;

use super::bed::{Bed, Program};
use super::turns::{Turns, median};
use super::{Cells, Judged, MIB, Streams, row};
use crate::report::{Row, Target};

pub const PROGRAMS: [&str; 3] = ["random", "early-stops", "mostly-cached"];
const DEVICES: [&str; 5] = ["hdd", "cloud", "nfs", "usb", "nvme"];

/// With `foreread watch`, of the kernel alone.
const TIME: Target = Target::AtMost(1.02);
const BYTES: Target = Target::AtMost(1.05);

const FILE_BYTES: u64 = 1024 * MIB;
const CACHED_BYTES: u64 = 64 * MIB;
/// Files that are opened, read a little of, and closed.
const SMALL_FILES: u64 = 128;
const SMALL_FILE_BYTES: u64 = 8 * MIB;

/// ext4 reads the bitmaps of blocks by itself, once, at some time within five seconds after the
/// mount. No program asked for these bytes.
const SETTLE: Duration = Duration::from_secs(6);

/// Number of reads of one page, or of early stops: enough that the kernel alone takes two seconds
/// or so.
fn count(program: &str, device: &str) -> u64 {
    match (program, device) {
        ("random", "hdd") => 200,
        ("random", "cloud") => 2_000,
        ("random", "nfs" | "usb") => 1_200,
        ("random", _) => 10_000,
        ("early-stops", "hdd") => 80,
        ("early-stops", "usb") => 150,
        ("early-stops", "cloud" | "nfs") => 500,
        ("early-stops", _) => 2_000,
        // One in a hundred goes to the disk.
        (_, device) => 100 * count("random", device),
    }
}

pub fn measure(streams: &mut Streams<'_>) -> Result<(), MeasureError> {
    let mut files = vec![
        ("file".to_owned(), FILE_BYTES),
        ("cached".to_owned(), CACHED_BYTES),
    ];
    files.extend((0..SMALL_FILES).map(|file| (small_name(file), SMALL_FILE_BYTES)));
    let settle = |bed: &Bed| bed.disk.testbed().instantly(|| thread::sleep(SETTLE));
    streams.on_each_disk(
        &PROGRAMS,
        &DEVICES,
        &files,
        settle,
        |streams, bed, name, device| {
            let program = program(streams, bed, name, device);
            Ok(both(streams, bed, &program, device)?.into())
        },
    )
}

fn small_name(file: u64) -> String {
    format!("small-{file}")
}

fn program(streams: &Streams<'_>, bed: &Bed, name: &'static str, device: &str) -> Program {
    let count = streams.size(count(name, device));
    let (how, files): (&str, Vec<OsString>) = match name {
        "random" => ("reads", vec![bed.file("file")]),
        "early-stops" => {
            let files = (0..SMALL_FILES).map(|file| bed.file(&small_name(file)));
            ("stops", files.collect())
        }
        _ => ("reads", vec![bed.file("cached"), bed.file("file")]),
    };
    let options = [name.to_owned(), format!("--{how}={count}")];
    bed.reader(streams, name, &options, &files)
}

/// The time of a program, and the bytes that the disk read for it.
fn both(
    streams: &mut Streams<'_>,
    bed: &Bed,
    program: &Program,
    device: &str,
) -> Result<[Row; 2], MeasureError> {
    let turns = Turns::take(streams, bed, program, |_| match program.name {
        "mostly-cached" => bed.bring_in("cached"),
        _ => Ok(()),
    })?;
    let (alone_runs, watched_runs) = turns.documents();
    let details = json!({
        "program": program.name,
        "disk": device,
        "kernel_alone": alone_runs,
        "watch": watched_runs,
    });
    let of = |alone: String, watched: String, judged: &'static str| Cells {
        program: program.name,
        disk: device,
        alone,
        watched,
        best: String::new(),
        start_and_end: turns.start_and_end(),
        judged,
    };
    let judged = |alone: f64, watched: f64, target| Judged {
        value: watched / alone.max(1.0),
        target,
        digits: 3,
    };
    let ns = [&turns.alone, &turns.watched].map(|runs| median(runs, |run| run.inside_ns));
    let bytes = [&turns.alone, &turns.watched].map(|runs| median(runs, |run| run.device_bytes));
    let seconds = |ns: f64| format!("{:.3} s", ns / 1e9);
    let megabytes = |bytes: f64| format!("{:.2} MB", bytes / 1e6);
    Ok([
        row(
            of(seconds(ns[0]), seconds(ns[1]), "time, watch / kernel"),
            judged(ns[0], ns[1], TIME),
            details.clone(),
        ),
        row(
            of(
                megabytes(bytes[0]),
                megabytes(bytes[1]),
                "bytes from the disk, watch / kernel",
            ),
            judged(bytes[0], bytes[1], BYTES),
            details,
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_reads_miss_as_go_to_the_disk_at_random() {
        for device in DEVICES {
            assert_eq!(
                count("mostly-cached", device),
                100 * count("random", device)
            );
            assert!(count("early-stops", device) < count("random", device));
        }
    }
}
