// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cold starts with profiles that are wrong, against the kernel alone.

mod profiles;

use std::ffi::OsString;
use std::fs;

use foreread_measure::MeasureError;
use foreread_measure::disk::{Layout, ModelledDisk, preset};
use foreread_measure::foreread::Foreread;
use foreread_measure::host::HostFiles;
use foreread_measure::process;
use foreread_measure::programs::{Program, made_up_tree};
use foreread_measure::sample::Sample;
use foreread_profile::{Profile, decode, encode};
use serde_json::json;

use crate::context::Context;
use crate::report::{Row, Section, Target};
use profiles::{Files, KINDS};

const DEVICES: [&str; 3] = ["hdd", "cloud", "nvme"];
/// The other program, whose profile is the wrong one, has this many times as many files.
const OTHER_TIMES: usize = 10;
/// The file that nobody reads. A script whose content had changed replayed as much for nothing.
const HUGE_BYTES: u64 = 172 << 20;

/// Time with a wrong profile, as a multiple of the time without.
const TIMES: f64 = 1.05;

pub fn measure(context: &mut Context) -> Result<Section, MeasureError> {
    let devices = context.devices_of(&DEVICES);
    let mut rows = Vec::new();
    let mut all: Vec<(&str, Vec<f64>)> = Vec::new();
    for device in devices {
        let bed = Bed::make(context, device)?;
        let mut ratios = Vec::new();
        for kind in KINDS {
            context.say(&format!("wrong: {kind}, on {device}"));
            let row = bed.row(context, device, kind)?;
            ratios.push(row.value);
            rows.push(row);
        }
        all.push((device, ratios));
    }
    let notes = all.iter().map(|(device, ratios)| {
        let sample = Sample::new(ratios.iter().copied());
        let slow = ratios.iter().filter(|ratio| **ratio > TIMES).count();
        let median = Target::AtMost(TIMES).rounded(sample.median(), 3);
        let profiles = ratios.len();
        format!("{device}: median {median} of {profiles} profiles; {slow} above {TIMES}.")
    });
    let files = DEVICES.map(|device| format!("{} on {device}", own_files(device)));
    let files = files.join(", ");
    Ok(Section {
        name: "wrong",
        about: format!(
            "A cold grep of small files ({files}) with profiles that are wrong, against the kernel \
             alone, the page\ncache dropped before each; each pair in turn; medians, in seconds. \
             \"Its\" files are those of another program, {OTHER_TIMES} times as many."
        ),
        header: vec![
            "profile",
            "disk",
            "kernel alone",
            "with it",
            "replayed MiB",
            "times",
        ],
        notes: notes.collect(),
        rows,
    })
}

/// Files of the program that is measured. It takes about a second, of which the time that `run`
/// takes to start any command is little. (See `warm` for that.)
fn own_files(device: &str) -> usize {
    match device {
        "hdd" => 300,
        "cloud" => 1000,
        _ => 5000,
    }
}

struct Bed {
    disk: ModelledDisk,
    program: Program,
    host: HostFiles,
    /// Where `foreread run` looks for the profile of the program.
    name: OsString,
    files: Files,
}

impl Bed {
    fn make(context: &Context, device: &str) -> Result<Self, MeasureError> {
        let mut disk = ModelledDisk::start(preset(device)?, Layout::Ext4)?;
        let own_files = own_files(device);
        let other_files = OTHER_TIMES * own_files;
        disk.fill(|root| {
            made_up_tree(&root.join("own"), own_files)?;
            made_up_tree(&root.join("other"), other_files)?;
            let huge = root.join("huge");
            let what = format!("write {}", huge.display());
            let content = vec![b'x'; usize::try_from(HUGE_BYTES).unwrap_or(0)];
            fs::write(huge, content).map_err(MeasureError::system(what))
        })?;
        let program = Program::grep("own", own_files as u64)?;
        let other = Program::grep("other", other_files as u64)?;
        let foreread = Foreread::new(&context.foreread)?;
        let host = program.host_files(&foreread, &disk);
        let record = |program: &Program| {
            context.say(&format!("wrong: recording {}", program.title()));
            let foreread = Foreread::new(&context.foreread)?;
            disk.testbed().drop_caches()?;
            host.read();
            // The disk's time is none of what is recorded.
            disk.testbed()
                .instantly(|| run(&disk, program, Some(&foreread)))?;
            read(&foreread)
        };
        let (name, own) = record(&program)?;
        let (_, other) = record(&other)?;
        let files = Files {
            own,
            other,
            huge: disk.root().join("huge"),
            huge_bytes: HUGE_BYTES,
        };
        Ok(Self {
            disk,
            program,
            host,
            name,
            files,
        })
    }

    fn row(&self, context: &Context, device: &str, kind: &str) -> Result<Row, MeasureError> {
        let profile = encode(&profiles::of(kind, &self.files));
        let (mut without, mut with) = (Vec::new(), Vec::new());
        let mut replayed_bytes = Vec::new();
        let mut reports = Vec::new();
        for _ in 0..if context.quick { 3 } else { 5 } {
            without.push(self.start(None)?);
            // A run learns from what it sees: each gets the profile as it was made.
            let foreread = Foreread::new(&context.foreread)?;
            let path = foreread.state().join(&self.name);
            let what = format!("write {}", path.display());
            fs::write(path, &profile).map_err(MeasureError::system(what))?;
            with.push(self.start(Some(&foreread))?);
            let report = foreread.report()?;
            let pages =
                report.number("/replay/arrived_pages") * report.number("/profile/page_bytes");
            replayed_bytes.push(pages + report.number("/replay/metadata_bytes"));
            reports.push(report.document);
        }
        let (without, with) = (Sample::new(without), Sample::new(with));
        let mebibytes = Sample::of_ns(replayed_bytes).median() / f64::from(1 << 20);
        let seconds = |sample: &Sample| format!("{:.3}", sample.median() / 1e9);
        Ok(Row {
            cells: vec![
                kind.to_owned(),
                device.to_owned(),
                seconds(&without),
                seconds(&with),
                format!("{mebibytes:.1}"),
            ],
            value: with.median() / without.median().max(1.0),
            digits: 3,
            target: Target::AtMost(TIMES),
            details: json!({
                "without_ns": without.median_ns(),
                "with_ns": with.median_ns(),
                "runs": reports,
            }),
        })
    }

    fn start(&self, foreread: Option<&Foreread>) -> Result<f64, MeasureError> {
        self.disk.testbed().drop_caches()?;
        self.host.read();
        Ok(run(&self.disk, &self.program, foreread)? as f64)
    }
}

/// Time of the program, in nanoseconds.
fn run(
    disk: &ModelledDisk,
    program: &Program,
    foreread: Option<&Foreread>,
) -> Result<u64, MeasureError> {
    let mut command = match foreread {
        Some(foreread) => program.under(foreread, disk),
        None => program.command(disk, &[]),
    };
    Ok(process::run_to(&mut command, &[program.good_end()])?.elapsed_ns())
}

/// The name and the content of the profile of a `foreread` that has recorded one program.
fn read(foreread: &Foreread) -> Result<(OsString, Profile), MeasureError> {
    let path = fs::read_dir(foreread.state())
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "frp"));
    let failed = |why: String| MeasureError::Report("foreread run", why);
    let path = path.ok_or_else(|| failed("it has saved no profile".to_owned()))?;
    let bytes = fs::read(&path).map_err(MeasureError::system("read a profile"))?;
    let profile = decode(&bytes).map_err(|error| failed(error.to_string()))?;
    Ok((path.file_name().unwrap_or_default().to_owned(), profile))
}
