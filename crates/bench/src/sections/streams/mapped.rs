// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mappings of a large file, against the throughput of fio on the same file in the same run.

use std::path::PathBuf;

use foreread_measure::MeasureError;
use foreread_measure::sample::Sample;
use serde_json::json;

use super::bed::Bed;
use super::turns::Turns;
use super::{Cells, Judged, MIB, Streams, fio, megabytes_per_s, row};
use crate::reader::{MapOrder, PAGE_BYTES};
use crate::report::{Row, Target};

const DEVICES: [&str; 1] = ["nfs"];
/// Share of fio's throughput.
const TARGET: Target = Target::AtLeast(0.9);
const FILE_BYTES: u64 = 1024 * MIB;

/// A way to read a mapping.
pub struct Mapped {
    pub name: &'static str,
    order: MapOrder,
    threads: u64,
    /// As many as the kernel alone reads in six seconds or so, of the file's.
    bytes: u64,
}

/// All of them.
pub const PROGRAMS: [Mapped; 5] = [
    mapped("map-forward", MapOrder::Forward, 1, 768 * MIB),
    mapped("map-parts", MapOrder::Parts, 8, FILE_BYTES),
    mapped("map-tensors", MapOrder::Tensors, 8, FILE_BYTES),
    mapped("map-slices", MapOrder::Slices, 8, FILE_BYTES),
    mapped("map-backward", MapOrder::Backward, 1, 256 * MIB),
];

const fn mapped(name: &'static str, order: MapOrder, threads: u64, bytes: u64) -> Mapped {
    Mapped {
        name,
        order,
        threads,
        bytes,
    }
}

pub fn measure(streams: &mut Streams<'_>) -> Result<(), MeasureError> {
    let wanted: Vec<&Mapped> = PROGRAMS
        .iter()
        .filter(|program| streams.wants(program.name))
        .collect();
    for device in streams.context.devices_of(&DEVICES) {
        if wanted.is_empty() {
            return Ok(());
        }
        if !fio::is_there() {
            streams.note(format!("Mappings are left out: {}.", fio::MISSING));
            return Ok(());
        }
        let bed = Bed::make(streams, device, &[("file".to_owned(), FILE_BYTES)])?;
        for program in &wanted {
            let say = format!("streams: {} on {device}", program.name);
            streams.context.say(&say);
            let row = one(streams, &bed, program, device)?;
            streams.rows.push(row);
        }
    }
    Ok(())
}

fn one(
    streams: &mut Streams<'_>,
    bed: &Bed,
    mapped: &Mapped,
    device: &str,
) -> Result<Row, MeasureError> {
    let bytes = streams.size(mapped.bytes);
    let options = [
        "map".to_owned(),
        format!("--order={}", mapped.order.name()),
        format!("--threads={}", mapped.threads),
        format!("--pages={}", bytes / PAGE_BYTES),
    ];
    let program = bed.reader(streams, mapped.name, &options, &[bed.file("file")]);
    let path = PathBuf::from(bed.file("file"));
    let mut fio = Vec::new();
    let turns = Turns::take(streams, bed, &program, |is_watched| {
        if is_watched {
            return Ok(());
        }
        fio.push(fio::cold_bytes_per_s(bed, &path, bytes)?);
        bed.make_cold()
    })?;
    let best = Sample::new(fio.iter().copied()).median();
    let watched = turns.watched_bytes_per_s();
    let (alone_runs, watched_runs) = turns.documents();
    Ok(row(
        Cells {
            program: mapped.name,
            disk: device,
            alone: megabytes_per_s(turns.alone_bytes_per_s()),
            watched: megabytes_per_s(watched),
            best: format!("fio: {}", megabytes_per_s(best)),
            start_and_end: turns.start_and_end(),
            judged: "watch / fio",
        },
        Judged {
            value: watched / best,
            target: TARGET,
            digits: 2,
        },
        json!({
            "program": mapped.name,
            "disk": device,
            "kernel_alone": alone_runs,
            "watch": watched_runs,
            "fio_bytes_per_s": fio,
        }),
    ))
}
