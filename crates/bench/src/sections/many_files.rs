// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resources that `foreread watch` holds while programs go through a tree of very many files, and
//! the time of the programs with it and without.

use std::process::Stdio;

use foreread_bench::service::Service;
use foreread_measure::disk::{Layout, ModelledDisk, preset};
use foreread_measure::foreread::Foreread;
use foreread_measure::{MeasureError, process};
use foreread_testbed::workload::{ABSENT_PATTERN, small_files};

use super::held::{HEADER, Times, alone, counted, troubles};
use crate::context::Context;
use crate::report::{Row, Section, Target};

/// Small enough that most files take one block.
const BYTES_PER_FILE: usize = 1_000;
const SEED: u64 = 1;
/// A block of data, an inode, and room for larger files.
const DISK_BYTES_PER_FILE: usize = 8 << 10;
/// With the directories.
const INODES_PER_FILE: f64 = 1.2;
const DISK_BYTES_MIN: u64 = 1 << 30;

/// Each with the status that is its good end: grep finds nothing.
const PROGRAMS: [(&str, &[&str], i32); 2] = [
    ("grep", &["-rq", ABSENT_PATTERN, "tree"], 1),
    ("find", &["tree", "-size", "+1G"], 0),
];

pub fn measure(context: &mut Context) -> Result<Section, MeasureError> {
    let files = context.files;
    context.say(&format!("many-files: making {files} files"));
    let disk = disk(files)?;
    let names: Vec<&str> = PROGRAMS.map(|(name, ..)| name).to_vec();
    let wanted = context.programs_of(&names);
    let programs = PROGRAMS
        .iter()
        .filter(|(name, ..)| wanted.iter().any(|wanted| wanted == name));
    let mut alone_s = Vec::new();
    for program in programs.clone() {
        context.say(&format!("many-files: {} alone", program.0));
        alone_s.push(cold_s(&disk, program)?);
    }
    let foreread = Foreread::new(&context.foreread)?;
    let watch = Service::start(&disk, &foreread)?;
    let first = watch.held()?;
    let (mut most, mut times) = (first, Vec::new());
    for (program, alone_s) in programs.zip(alone_s) {
        context.say(&format!("many-files: {} with watch", program.0));
        let (watched_s, held) = watch.most_during(|| cold_s(&disk, program))?;
        times.extend(rows(program.0, alone_s, watched_s));
        most = most.or_more(held);
        watch.settle(Some(first));
    }
    disk.forget()?;
    let last = watch.held()?;
    let said = watch.end()?;
    let mut rows = Times { first, most, last }.rows();
    rows.extend(times);
    rows.extend([
        counted("files fetched", &said, "fetched_files"),
        counted("files used", &said, "used_files"),
        counted("files missed", &said, "missed_files"),
    ]);
    rows.extend(troubles(&said));
    Ok(Section {
        name: "many-files",
        about: format!(
            "`foreread watch` while programs go through {files} files of {BYTES_PER_FILE} bytes \
             (ext4 on nvme), cold, one after the other; and the same without it."
        ),
        header: HEADER.to_vec(),
        rows,
        notes: Vec::new(),
    })
}

fn disk(files: usize) -> Result<ModelledDisk, MeasureError> {
    let bytes = (files * DISK_BYTES_PER_FILE) as u64;
    let inodes = (files as f64 * INODES_PER_FILE) as u64 + 1_000;
    let mut disk = ModelledDisk::start_with(
        preset("nvme")?,
        Layout::Ext4,
        bytes.max(DISK_BYTES_MIN),
        &["-N", &inodes.to_string()],
    )?;
    disk.fill(|root| {
        let tree = root.join("tree");
        Ok(small_files(
            &tree,
            files,
            (files * BYTES_PER_FILE) as u64,
            SEED,
        )?)
    })?;
    Ok(disk)
}

/// Time of a program with nothing in memory, in seconds.
fn cold_s(
    disk: &ModelledDisk,
    (name, arguments, good_end): &(&str, &[&str], i32),
) -> Result<f64, MeasureError> {
    disk.forget()?;
    let mut command = disk.testbed().command(name);
    command.args(*arguments).current_dir(disk.root());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let ended = process::run_to(&mut command, &[*good_end])?;
    Ok(ended.elapsed.as_secs_f64())
}

fn rows(program: &str, alone_s: f64, watched_s: f64) -> [Row; 3] {
    let row = |what: &str, value, target| alone(&format!("{program}, {what}"), value, 1, target);
    [
        row("kernel alone, s", alone_s, Target::None),
        row("with watch, s", watched_s, Target::None),
        row(
            "times faster",
            alone_s / watched_s.max(f64::MIN_POSITIVE),
            Target::AtLeast(1.0),
        ),
    ]
}
