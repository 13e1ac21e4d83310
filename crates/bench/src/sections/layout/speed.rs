// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast `foreread layout apply` is, beside a copy of one large file on the same disk.

use std::fs;
use std::process::Stdio;
use std::time::Instant;

use foreread_measure::MeasureError;
use foreread_measure::disk::{Layout, ModelledDisk, preset};
use foreread_measure::foreread::Foreread;
use foreread_measure::names::PROGRAM_NAMES;
use foreread_measure::process;
use foreread_measure::programs::Program;
use serde_json::json;

use super::{age, applied, recorded};
use crate::context::Context;
use crate::report::{Row, Section, Target};

/// Of the speed of a sequential copy.
const TARGET: Target = Target::AtLeast(0.5);
const COPY_BYTES: usize = 256 << 20;

pub fn measure(context: &mut Context) -> Result<Section, MeasureError> {
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    for name in context.programs_of(&PROGRAM_NAMES) {
        context.say(&format!("layout-speed: {name}"));
        match on_one(context, &name) {
            Ok(row) => rows.push(row),
            Err(error) => notes.push(format!("{name}: {error}.")),
        }
    }
    Ok(Section {
        name: "layout-speed",
        about: "`foreread layout apply` on an aged hdd, whose writes take as long as reads, beside \
                a copy of one large file by dd,\nwritten out at its end. Both begin with nothing in \
                memory. apply reads each byte twice: before it moves it, and\nafterwards from the \
                disk, to compare."
            .to_owned(),
        header: vec![
            "files of",
            "MB",
            "s",
            "requests",
            "seeks",
            "apply MB/s",
            "copy MB/s",
            "apply / copy",
        ],
        rows,
        notes,
    })
}

fn on_one(context: &Context, name: &str) -> Result<Row, MeasureError> {
    let mut disk = ModelledDisk::start(preset("hdd")?, Layout::Ext4)?;
    // Before the disk is aged: it lies in one piece.
    disk.fill(|top| {
        let done = fs::write(top.join("one"), vec![1; COPY_BYTES]);
        done.map_err(MeasureError::system("write a large file"))
    })?;
    age(&mut disk)?;
    let program = Program::install(name, &mut disk)?;
    let foreread = Foreread::new(&context.foreread)?;
    let profile = recorded(&foreread, &program, &disk)?;
    disk.forget()?;
    disk.testbed().time_writes(true);
    disk.testbed().reset_counters();

    let moved = applied(&foreread, &disk, &profile)?;

    let done = disk.testbed().counters();
    disk.forget()?;
    let copy_bytes_per_s = copied(&disk)?;
    let number = |name: &str| moved[name].as_u64().unwrap_or(0) as f64;
    let (bytes, seconds) = (number("moved_bytes"), number("time_ns") / 1e9);
    let apply_bytes_per_s = bytes / seconds.max(1e-9);
    let mb = |bytes: f64| format!("{:.1}", bytes / 1e6);
    Ok(Row {
        cells: vec![
            program.title().to_owned(),
            mb(bytes),
            format!("{seconds:.2}"),
            done.requests.to_string(),
            done.seeks.to_string(),
            mb(apply_bytes_per_s),
            mb(copy_bytes_per_s),
        ],
        value: apply_bytes_per_s / copy_bytes_per_s,
        digits: 2,
        target: TARGET,
        details: json!({
            "moved": moved,
            "requests": done.requests,
            "write_requests": done.write_requests,
            "bytes": done.bytes,
            "write_bytes": done.write_bytes,
            "seeks": done.seeks,
            "busy_ns": done.busy_ns,
            "copy_bytes_per_s": copy_bytes_per_s,
        }),
    })
}

/// The speed at which a large file is copied and written out.
fn copied(disk: &ModelledDisk) -> Result<f64, MeasureError> {
    let mut command = disk.testbed().command("dd");
    command.args(["if=one", "of=copy", "bs=1M", "conv=fsync"]);
    command.current_dir(disk.root()).stderr(Stdio::null());
    let begun = Instant::now();
    process::run_to(&mut command, &[0])?;
    Ok(COPY_BYTES as f64 / begun.elapsed().as_secs_f64())
}
