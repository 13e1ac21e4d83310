// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that read many files in an order that no directory shows. They have a profile, but no
//! command requests its replay. Compares the kernel alone with `foreread watch`, which recognizes
//! the programs by the first files that they read.

use std::fmt::Write;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use foreread_bench::service::Service;
use foreread_measure::disk::{Layout, ModelledDisk, preset};
use foreread_measure::foreread::Foreread;
use foreread_measure::host::{HostFiles, executable};
use foreread_measure::sample::Sample;
use foreread_measure::{MeasureError, process};
use foreread_testbed::workload::small_files;
use serde_json::{Value, json};

use super::cold::seconds;
use crate::context::Context;
use crate::report::{Row, Section, Target};

const DEVICES: [&str; 2] = ["hdd", "cloud"];
/// Files on the disk.
const FILES: usize = 600;
const BYTES: u64 = 6_000_000;
const SEED: u64 = 1;
/// Those that the recorded program reads are the first of them.
const READ: usize = 300;
/// The other program begins with `ALIKE` of these files, and goes on with `OTHERS` of the rest.
const ALIKE: usize = 8;
const OTHERS: usize = 150;

pub fn measure(context: &mut Context) -> Result<Section, MeasureError> {
    let mut rows = Vec::new();
    for device in context.devices_of(&DEVICES) {
        let bed = Bed::make(context, device)?;
        for (name, program) in [("recorded", &bed.recorded), ("other", &bed.other)] {
            context.say(&format!("together: {name} on {device}"));
            rows.push(bed.row(context, device, name, program)?);
        }
    }
    Ok(Section {
        name: "together",
        about: format!(
            "A shell that reads the first line of {READ} small files of {FILES} in a shuffled order \
             (recorded), and one that reads {ALIKE} of them and then {OTHERS} others (other), from \
             a cold ext4, in seconds; medians. `foreread watch` runs and has a profile of the \
             first."
        ),
        header: vec![
            "program",
            "disk",
            "kernel alone",
            "watch",
            "matched",
            "fetched files",
            "used",
            "wasted",
            "missed files",
            "times faster",
        ],
        rows,
        notes: Vec::new(),
    })
}

/// A disk with files, and two programs that read some of them.
struct Bed {
    disk: ModelledDisk,
    host: HostFiles,
    foreread: Foreread,
    recorded: PathBuf,
    other: PathBuf,
}

impl Bed {
    /// One where the first program has been recorded.
    fn make(context: &Context, device: &str) -> Result<Self, MeasureError> {
        let mut disk = ModelledDisk::start(preset(device)?, Layout::Ext4)?;
        disk.fill(|root| Ok(small_files(&root.join("tree"), FILES, BYTES, SEED)?))?;
        let foreread = Foreread::new(&context.foreread)?;
        let files = shuffled(&disk)?;
        let recorded = script(&foreread, "recorded", files[..READ].iter())?;
        let alike = files[..ALIKE].iter();
        let others = files[READ..READ + OTHERS].iter();
        let other = script(&foreread, "other", alike.chain(others))?;
        let mut programs = vec![foreread.executable().to_owned()];
        programs.extend(executable("sh"));
        let bed = Self {
            host: HostFiles::of(&programs),
            disk,
            foreread,
            recorded,
            other,
        };
        bed.record()?;
        Ok(bed)
    }

    fn record(&self) -> Result<(), MeasureError> {
        self.make_cold()?;
        let words = self.foreread.before(&[]);
        let mut command = self.disk.testbed().command(&words[0]);
        command.args(&words[1..]).arg("sh").arg(&self.recorded);
        self.foreread.set_environment(&mut command);
        process::run_to(command.stdin(Stdio::null()), &[0]).map(drop)
    }

    /// Only the modelled disk is to be measured.
    fn make_cold(&self) -> Result<(), MeasureError> {
        self.disk.forget()?;
        self.host.read();
        Ok(())
    }

    /// Runs a program, with the time that it took.
    fn cold_ns(&self, program: &Path) -> Result<u64, MeasureError> {
        self.make_cold()?;
        let mut command = self.disk.testbed().command("sh");
        command.arg(program).stdin(Stdio::null());
        Ok(process::run_to(&mut command, &[0])?.elapsed_ns())
    }

    /// The same with `foreread watch`, and its report.
    fn watched(&self, program: &Path) -> Result<(u64, Value), MeasureError> {
        let watch = Service::start(&self.disk, &self.foreread)?;
        let elapsed_ns = self.cold_ns(program)?;
        Ok((elapsed_ns, watch.end()?.document))
    }

    fn row(
        &self,
        context: &Context,
        device: &str,
        name: &str,
        program: &Path,
    ) -> Result<Row, MeasureError> {
        let rounds = context.rounds(3, Duration::from_secs(15));
        let (mut alone, mut watched) = (Vec::new(), Vec::new());
        let began = Instant::now();
        while rounds.wants_more(alone.len(), began) {
            alone.push(self.cold_ns(program)?);
            watched.push(self.watched(program)?);
        }
        let alone_ns = Sample::of_ns(alone.iter().copied()).median_ns();
        let watched_ns = Sample::of_ns(watched.iter().map(|start| start.0)).median_ns();
        let said = |count: &str| {
            let counts = watched.iter().map(|start| &start.1["profiles"][count]);
            let counts = counts.map(|count| count.as_u64().unwrap_or_default() as f64);
            format!("{:.0}", Sample::new(counts).median())
        };
        Ok(Row {
            cells: vec![
                name.to_owned(),
                device.to_owned(),
                seconds(alone_ns),
                seconds(watched_ns),
                said("matched"),
                said("fetched_files"),
                said("used_files"),
                said("wasted_files"),
                said("missed_files"),
            ],
            value: alone_ns as f64 / watched_ns.max(1) as f64,
            digits: 2,
            target: Target::None,
            details: json!({ "kernel_alone_ns": alone, "watch": watched }),
        })
    }
}

/// A script that reads these files one after the other by itself.
fn script<'a>(
    foreread: &Foreread,
    name: &str,
    files: impl Iterator<Item = &'a PathBuf>,
) -> Result<PathBuf, MeasureError> {
    let path = foreread.state().join(name);
    let mut text = String::new();
    for file in files {
        // Text always takes more of it.
        let _ = writeln!(text, "read -r line <'{}'", file.display());
    }
    fs::write(&path, text).map_err(MeasureError::system("write a script"))?;
    Ok(path)
}

/// In no order, which is the same each time, wherever the disk is mounted.
fn shuffled(disk: &ModelledDisk) -> Result<Vec<PathBuf>, MeasureError> {
    let mut files = disk.files_below("tree")?;
    files.sort_by_key(|file| {
        let mut hasher = DefaultHasher::new();
        file.strip_prefix(disk.root()).ok().hash(&mut hasher);
        hasher.finish()
    });
    Ok(files)
}
