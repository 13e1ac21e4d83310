// SPDX-License-Identifier: MIT OR Apache-2.0
//! A checkpoint of many files, twice as large as the memory there is for it, mapped file after file
//! and consumed at a steady speed.

use std::ffi::OsString;
use std::process::ExitStatus;

use foreread_bench::memory_group::MemoryGroup;
use foreread_measure::MeasureError;
use foreread_model::Extent;
use foreread_testbed::needed::Needed;
use serde_json::json;

use super::bed::{Bed, Program, Run};
use super::turns::{Turns, median};
use super::{Cells, Judged, MIB, Streams, megabytes_per_s, row};
use crate::report::{Row, Target};

pub const PROGRAM: &str = "checkpoint";
const DEVICES: [&str; 1] = ["nfs"];
/// Target as a share of the best possible result.
const TARGET: Target = Target::AtLeast(0.9);

const FILES: u64 = 100;
const FILE_BYTES: u64 = 16 * MIB;
const CONSUMED_BYTES_PER_S: u64 = 500_000_000;

pub fn measure(streams: &mut Streams<'_>) -> Result<(), MeasureError> {
    for device in streams.context.devices_of(&DEVICES) {
        if !streams.wants(PROGRAM) {
            return Ok(());
        }
        streams
            .context
            .say(&format!("streams: {PROGRAM} on {device}"));
        let file_bytes = streams.size(FILE_BYTES);
        let memory_bytes = FILES * file_bytes / 2;
        let group = match MemoryGroup::make(memory_bytes) {
            Ok(group) => group,
            Err(error) => {
                streams.note(format!("{PROGRAM} is left out: {error}."));
                return Ok(());
            }
        };
        let files: Vec<(String, u64)> = (0..FILES)
            .map(|file| (format!("shard-{file}"), file_bytes))
            .collect();
        let bed = Bed::make(streams, device, &files)?.within(group.words_before());
        let row = one(streams, &bed, &files, &group, device)?;
        streams.rows.push(row);
    }
    Ok(())
}

fn one(
    streams: &mut Streams<'_>,
    bed: &Bed,
    files: &[(String, u64)],
    group: &MemoryGroup,
    device: &str,
) -> Result<Row, MeasureError> {
    let options = [
        "checkpoint".to_owned(),
        format!("--bytes-per-s={CONSUMED_BYTES_PER_S}"),
    ];
    let paths: Vec<OsString> = files.iter().map(|(name, _)| bed.file(name)).collect();
    let program: Program = bed.reader(streams, PROGRAM, &options, &paths);
    let bytes = files.iter().map(|(_, bytes)| bytes).sum();
    let killed_before = group.killed()?;
    let turns = Turns::take(streams, bed, &program, |_| Ok(()));
    let killed = group.killed()?.saturating_sub(killed_before);
    let turns = match turns {
        Err(_) if killed > 0 => Turns::default(),
        turns => turns?,
    };
    if killed > 0 {
        streams.note(format!(
            "{PROGRAM}: the kernel killed {killed} processes for want of memory."
        ));
    }
    let best_ns =
        (disk_ns(bed, bytes) as f64).max(bytes as f64 * 1e9 / CONSUMED_BYTES_PER_S as f64);
    let inside_ns = |runs: &[Run]| median(runs, |run| run.inside_ns);
    let (alone_runs, watched_runs) = turns.documents();
    Ok(row(
        Cells {
            program: PROGRAM,
            disk: device,
            alone: megabytes_per_s(turns.alone_bytes_per_s()),
            watched: megabytes_per_s(turns.watched_bytes_per_s()),
            best: format!("limit: {}", megabytes_per_s(bytes as f64 * 1e9 / best_ns)),
            start_and_end: turns.start_and_end(),
            judged: "speed / limit",
        },
        Judged {
            // A program that was killed did not get there at all.
            value: match killed {
                0 => best_ns / inside_ns(&turns.watched).max(1.0),
                _ => 0.0,
            },
            target: TARGET,
            digits: 2,
        },
        json!({
            "program": PROGRAM,
            "disk": device,
            "memory_bytes": group.limit_bytes(),
            "killed": killed,
            "limit_ns": best_ns,
            "kernel_alone": alone_runs,
            "watch": watched_runs,
        }),
    ))
}

/// The least time for `bytes` bytes side by side. Counting page by page would take longer than
/// everything else.
fn disk_ns(bed: &Bed, bytes: u64) -> u64 {
    let testbed = bed.disk.testbed();
    let all = Needed {
        extents: vec![Extent {
            offset_bytes: 0,
            length_bytes: bytes,
        }],
        bytes,
        status: ExitStatus::default(),
    };
    all.limit_ns(&testbed.parameters(), testbed)
}
