// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost of `foreread stat`: programs that read from memory while it follows the machine, and the
//! processors while a cold file is read.

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;

use foreread_bench::follower::Follower;
use foreread_measure::disk::{Layout, ModelledDisk, preset};
use foreread_measure::foreread::Foreread;
use foreread_measure::sample::{Pairs, Sample, in_turn};
use foreread_measure::{MeasureError, process};
use serde_json::json;

use super::costs::{milliseconds, pairs_json, read_ns, spread, write_file};
use crate::context::Context;
use crate::report::{Row, Section, Target};

const FILE_BYTES: u64 = 512 << 20;
/// A `foreread stat` of the whole machine.
const STAT: [&str; 4] = ["stat", "--json", "--by", "machine"];
/// Times that the file is read from inside.
const PASSES: &str = "4";
/// Runs from memory whose median is one time.
const RUNS: usize = 5;

pub fn measure(context: &mut Context) -> Result<Section, MeasureError> {
    let bed = Bed::make(context)?;
    let mut rows = Vec::new();
    for (name, words) in [
        ("pread of 4 KiB, from memory", bed.preads(context)),
        ("dd bs=4k, from memory", bed.dd(context, "4k")),
        ("dd bs=128k, from memory", bed.dd(context, "128k")),
    ] {
        context.say(&format!("stat: {name}"));
        rows.push(bed.hot(context, name, &words)?);
    }
    context.say("stat: from a cold disk");
    rows.extend(bed.cold(context)?);
    Ok(Section {
        name: "stat",
        about: format!(
            "Programs that read a file of {} MiB (ext4 on nvme) while `foreread stat` follows the \
             machine, and without it, in turn: their own time, medians, and how much longer it is \
             with it. Of the cold scan also what `--self` says, of the time of the scan.",
            FILE_BYTES >> 20
        ),
        header: vec!["program", "without", "with", "half of the pairs", "%"],
        rows,
        notes: Vec::new(),
    })
}

/// A disk with a large file.
struct Bed {
    disk: ModelledDisk,
    file: PathBuf,
    foreread: Foreread,
    /// Where programs write how long they took.
    out: PathBuf,
}

impl Bed {
    fn make(context: &Context) -> Result<Self, MeasureError> {
        let mut disk = ModelledDisk::start(preset("nvme")?, Layout::Ext4)?;
        disk.fill(|root| write_file(&root.join("file"), FILE_BYTES))?;
        let foreread = Foreread::new(&context.foreread)?;
        Ok(Self {
            file: disk.root().join("file"),
            out: foreread.state().join("inside-ns"),
            disk,
            foreread,
        })
    }

    fn preads(&self, context: &Context) -> Vec<OsString> {
        let mut words = context.inside(&self.out, &["--passes", PASSES, "--preads"]);
        words.push(self.file.clone().into());
        words
    }

    fn dd(&self, context: &Context, block: &str) -> Vec<OsString> {
        let mut words = context.inside(&self.out, &["--", "dd", "of=/dev/null", "status=none"]);
        words.push(format!("bs={block}").into());
        words.push(format!("if={}", self.file.display()).into());
        words
    }

    /// Time of a program, measured inside it, in nanoseconds.
    fn run_ns(&self, words: &[OsString]) -> Result<f64, MeasureError> {
        let mut command = self.disk.testbed().command(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        process::run_to(command.stdout(Stdio::null()), &[0])?;
        read_ns(&self.out)
    }

    fn hot(&self, context: &Context, name: &str, words: &[OsString]) -> Result<Row, MeasureError> {
        let several = || -> Result<f64, MeasureError> {
            let times: Result<Vec<f64>, MeasureError> =
                (0..RUNS).map(|_| self.run_ns(words)).collect();
            Ok(Sample::new(times?).median())
        };
        // This run brings everything that is missing into memory.
        self.disk.testbed().instantly(|| self.run_ns(words))?;
        let pairs = in_turn(context.few_rounds(), several, || {
            let stat = Follower::start(&self.foreread, &STAT)?;
            let time_ns = several()?;
            stat.end(&[0])?;
            Ok::<f64, MeasureError>(time_ns)
        })?;
        Ok(longer(name, &pairs))
    }

    fn cold(&self, context: &Context) -> Result<Vec<Row>, MeasureError> {
        let words = self.dd(context, "128k");
        let once = || {
            self.disk.forget()?;
            self.run_ns(&words)
        };
        let shares = RefCell::new((Vec::new(), Vec::new()));
        let pairs = in_turn(context.few_rounds(), once, || {
            let stat = Follower::start(&self.foreread, &[&STAT[..], &["--self"]].concat())?;
            let time_ns = once()?;
            let cost = &stat.end(&[0])?["self"];
            let percent = |name: &str| cost[name].as_f64().unwrap_or(f64::NAN) * 100.0 / time_ns;
            let (kernel, foreread) = &mut *shares.borrow_mut();
            kernel.push(percent("programs_ns"));
            foreread.push(percent("process_ns"));
            Ok::<f64, MeasureError>(time_ns)
        })?;
        let (kernel, foreread) = shares.into_inner();
        Ok(vec![
            longer("dd bs=128k, cold", &pairs),
            share("dd bs=128k, cold: processor in the kernel", kernel),
            share("dd bs=128k, cold: processor in foreread", foreread),
        ])
    }
}

/// Slowdown of a program, in percent.
fn longer(name: &str, pairs: &Pairs) -> Row {
    Row {
        cells: vec![
            name.to_owned(),
            milliseconds(pairs.without().median()),
            milliseconds(pairs.with().median()),
            spread(&pairs.slowdowns(), 100.0),
        ],
        value: 100.0 * pairs.slowdown(),
        digits: 1,
        target: Target::None,
        details: pairs_json(pairs),
    }
}

fn share(name: &str, percents: Vec<f64>) -> Row {
    let sample = Sample::new(percents.iter().copied());
    Row {
        cells: vec![
            name.to_owned(),
            String::new(),
            String::new(),
            spread(&sample, 1.0),
        ],
        value: sample.median(),
        digits: 1,
        target: Target::None,
        details: json!({ "percent": percents }),
    }
}
