// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost of `foreread watch --all` for programs whose files are in memory, and for an idle machine.

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use foreread_bench::follower::Follower;
use foreread_measure::MeasureError;
use foreread_measure::host::executable;
use foreread_measure::programs::made_up_tree;
use foreread_measure::sample::{Sample, in_turn};
use foreread_testbed::workload::{ABSENT_PATTERN, SMALL_FILES};
use serde_json::json;

use super::bed::{Bed, EXIT_PARTLY, Program};
use super::{Cells, Judged, MIB, Streams, build, fio, row};
use crate::report::{Row, Target};
use crate::sections::costs::{WARM_READ_BYTES_MAX, pairs_json, spread};

pub const PROGRAMS: [&str; 5] = ["hot-dd", "hot-random", "hot-grep", "hot-build", "idle"];

/// With `foreread watch --all` on the machine, of without.
const TIME: Target = Target::AtMost(1.01);
/// Target for the idle cost, as a share of one processor.
const IDLE: Target = Target::AtMost(0.001);

const FILE_BYTES: u64 = 512 * MIB;
const TREE: &str = "tree";
const BUILD: &str = "build";
/// It follows the whole machine, and may lose records on the way.
const WATCH_ALL: [&str; 3] = ["watch", "--all", "--json"];
const GOOD_ENDS: [i32; 2] = [0, EXIT_PARTLY];
/// Runs whose median is one time.
const RUNS: usize = 5;
/// Duration of one run of fio.
const FIO_SECONDS: u64 = 1;
const IDLE_SECONDS: u64 = 10;

pub fn measure(streams: &mut Streams<'_>) -> Result<(), MeasureError> {
    if streams.context.programs_of(&PROGRAMS).is_empty() {
        return Ok(());
    }
    let mut bed = Bed::make(streams, "nvme", &[("file".to_owned(), FILE_BYTES)])?;
    bed.disk.fill(|root| {
        build::make_up(&root.join(BUILD)).map_err(MeasureError::system("make sources up"))?;
        made_up_tree(&root.join(TREE), SMALL_FILES)
    })?;
    bed.bring_in("file")?;
    for name in PROGRAMS {
        if !streams.wants(name) {
            continue;
        }
        streams.context.say(&format!("streams: {name}"));
        let row = match name {
            "idle" => idle(streams)?,
            "hot-random" if !fio::is_there() => {
                streams.note(format!("{name} is left out: {}.", fio::MISSING));
                continue;
            }
            "hot-build" if ["gcc", "make"].map(executable).contains(&None) => {
                streams.note(format!("{name} is left out: {}.", build::MISSING));
                continue;
            }
            "hot-random" => {
                let path = PathBuf::from(bed.file("file"));
                let once = || fio::cached_read_ns(&bed, &path, FIO_SECONDS);
                one(streams, &bed, name, 1, &once)?
            }
            name => {
                let program = program(streams, &bed, name);
                let once = || Ok(bed.run(&program, &[])?.inside_ns as f64);
                one(streams, &bed, name, RUNS, &once)?
            }
        };
        streams.rows.push(row);
    }
    Ok(())
}

fn program(streams: &Streams<'_>, bed: &Bed, name: &'static str) -> Program {
    if name == "hot-dd" {
        return bed.dd(streams, name, "file", FILE_BYTES);
    }
    if name == "hot-build" {
        let mut command = ["make", "-s", "-B", "-j2", "-C"]
            .map(OsString::from)
            .to_vec();
        command.push(bed.file(BUILD));
        return bed.timed(streams, name, &command);
    }
    let mut command = ["grep", "-rq", ABSENT_PATTERN].map(OsString::from).to_vec();
    command.push(bed.file(TREE));
    Program {
        // It found nothing.
        good_end: 1,
        ..bed.timed(streams, name, &command)
    }
}

/// Times `once` with `foreread watch --all` on the machine and without.
fn one(
    streams: &Streams<'_>,
    bed: &Bed,
    name: &str,
    runs: usize,
    once: &dyn Fn() -> Result<f64, MeasureError>,
) -> Result<Row, MeasureError> {
    let undisturbed = || bed.disk.undisturbed(WARM_READ_BYTES_MAX, once);
    let several = || -> Result<f64, MeasureError> {
        let times: Result<Vec<f64>, MeasureError> = (0..runs).map(|_| undisturbed()).collect();
        Ok(Sample::new(times?).median())
    };
    // This run brings everything that is missing into memory.
    bed.disk.testbed().instantly(once)?;
    let said = RefCell::new(Vec::new());
    let pairs = in_turn(streams.context.few_rounds(), several, || {
        let all = Follower::start(streams.foreread, &WATCH_ALL)?;
        let time_ns = several()?;
        said.borrow_mut().push(all.end(&GOOD_ENDS)?);
        Ok::<f64, MeasureError>(time_ns)
    })?;
    let cell = |sample: Sample| match sample.median() {
        ns if ns < 1e5 => format!("{:.3} us", ns / 1e3),
        ns => format!("{:.1} ms", ns / 1e6),
    };
    Ok(row(
        Cells {
            program: name,
            disk: "memory",
            alone: cell(pairs.without()),
            watched: format!(
                "{} ({} %)",
                cell(pairs.with()),
                spread(&pairs.slowdowns(), 100.0)
            ),
            best: String::new(),
            start_and_end: String::new(),
            judged: "time, watch --all / without",
        },
        Judged {
            value: 1.0 + pairs.slowdown(),
            target: TIME,
            digits: 3,
        },
        json!({
            "program": name,
            "pairs_ns": pairs_json(&pairs),
            "watch": said.into_inner(),
        }),
    ))
}

/// The share of a processor that `foreread watch --all` takes while nothing happens.
fn idle(streams: &mut Streams<'_>) -> Result<Row, MeasureError> {
    let all = Follower::start(streams.foreread, &WATCH_ALL)?;
    let before = all.processor_time()?;
    thread::sleep(Duration::from_secs(IDLE_SECONDS));
    let seconds = all.processor_time()?.saturating_sub(before).as_secs_f64();
    let said = all.end(&GOOD_ENDS)?;
    if let Some(misses) = said["misses"].as_u64().filter(|misses| *misses > 0) {
        let note = "programs of this machine read meanwhile, so the row says less";
        streams.note(format!("idle: {note} ({misses} files missed)."));
    }
    Ok(row(
        Cells {
            program: "idle",
            disk: "",
            alone: String::new(),
            watched: format!("{:.0} ms in {IDLE_SECONDS} s", seconds * 1e3),
            best: String::new(),
            start_and_end: String::new(),
            judged: "processor time / time",
        },
        Judged {
            value: seconds / IDLE_SECONDS as f64,
            target: IDLE,
            digits: 4,
        },
        json!({ "program": "idle", "processor_seconds": seconds, "watch": said }),
    ))
}
