// SPDX-License-Identifier: MIT OR Apache-2.0
//! `probe TARGET -- COMMAND`: a command at several readahead sizes: its time, what of the readahead
//! it used, and the memory that it took.

use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use foreread_core::{Bytes, KiB};
use foreread_device::median;
use foreread_linux_sizing::probe::Stop;
use foreread_linux_sizing::probe::workload::{self, WorkloadError, WorkloadRun};
use foreread_profile::{PAGE_BYTES, Profile};
use foreread_sys::interrupt::Interrupt;
use foreread_sys::read_ahead::ReadAheadSetting;
use serde::Serialize;

use super::args::ProbeArguments;
use super::setting::{SharedSetting, watch};
use crate::EXIT_PARTLY;
use crate::device_state::DeviceState;
use crate::probing::HeldSetting;
use crate::progress::Progress;
use crate::store;
use crate::table::{finished, table};
use crate::{output, text};

/// Sizes where none are named; the one that is set is tried besides.
const SIZES_KIB: [u64; 5] = [32, 128, 512, 1024, 2048];
/// Rounds over all sizes, as long as there is time: the median of fewer says little.
const ROUNDS: usize = 5;
/// Time after which no further round begins.
const TIME: Duration = Duration::from_secs(60);

/// A command at one size.
struct Point {
    size: KiB,
    runs: Vec<WorkloadRun>,
}

impl Point {
    fn median(&self, of: impl Fn(&WorkloadRun) -> u64) -> f64 {
        let values: Vec<f64> = self.runs.iter().map(|run| of(run) as f64).collect();
        median(&values).unwrap_or(0.0)
    }

    fn fetched(&self) -> f64 {
        self.median(|run| run.fetched_pages)
    }

    fn used(&self) -> f64 {
        self.median(|run| run.used_pages)
    }

    /// Share of the pages read ahead that were used, 0 to 1; `None` if none were read ahead.
    fn hit_ratio(&self) -> Option<f64> {
        (self.fetched() > 0.0).then(|| self.used() / self.fetched())
    }
}

/// `foreread probe TARGET -- COMMAND`.
pub fn probe(arguments: &ProbeArguments) -> Result<ExitCode> {
    let named = text::escaped_path(&arguments.target);
    let target = workload::open_quietly(&arguments.target).with_context(|| named.clone())?;
    let setting = ReadAheadSetting::of(&target)
        .with_context(|| named.clone())?
        .with_context(|| format!("{named}: nothing is read ahead there"))?;
    let profile = learn(arguments)?;
    // Held from before the first change on, also for the threads that are started later.
    let interrupt = Interrupt::hold().context("cannot hold back signals")?;
    let until_stop = DeviceState::until_stop(std::path::Path::new("/"));
    let held = HeldSetting::take(&until_stop, &setting).with_context(|| named.clone())?;
    let before_kib = held.before_kib();
    let held = SharedSetting::new(held);
    let stop = Stop::default();
    watch(interrupt, stop.clone(), held.clone())?;
    let measured = measure(arguments, &profile, &held, before_kib, &stop);
    let put_back = held.lock().put_back();
    let (points, is_interrupted) = measured?;
    put_back?;
    if points.iter().any(|point| point.runs.is_empty()) {
        bail!("interrupted before each size was tried once; the setting is as it was");
    }
    if arguments.json {
        text::print_json(&WorkloadReport::of(arguments, &points, before_kib))?;
    } else {
        text::print(&human(&points, before_kib))?;
    }
    Ok(match is_interrupted || notes(&points) {
        true => ExitCode::from(EXIT_PARTLY),
        false => ExitCode::SUCCESS,
    })
}

/// Records one run of the command to learn the pages that it reads. They are dropped from the cache
/// before each measured run.
fn learn(arguments: &ProbeArguments) -> Result<Profile> {
    // It holds names only, is closed to others, and goes with this.
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    let path = directory.path().join("workload.frp");
    let foreread = std::env::current_exe().context("cannot tell where foreread is")?;
    let recorded = Command::new(foreread)
        .args(["record", "--quiet", "-o"])
        .arg(&path)
        .arg("--")
        .args(&arguments.command)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .context("cannot record what the command reads");
    let status = recorded?;
    // A status from 126 on means that it did not run, or that a signal ended it.
    let has_failed = match status.code() {
        Some(code) => code >= 126 || (code != 0 && !arguments.ignore_failure),
        None => true,
    };
    if has_failed && path.exists() {
        bail!("the command ended with {status}; --ignore-failure measures it all the same");
    }
    store::read(&path).with_context(|| {
        format!("cannot find out what the command reads: recording it ended with {status}")
    })
}

fn measure(
    arguments: &ProbeArguments,
    profile: &Profile,
    setting: &SharedSetting,
    before_kib: u64,
    stop: &Stop,
) -> Result<(Vec<Point>, bool)> {
    let mut points = points(arguments, before_kib);
    let progress = Progress::of_share();
    let begun = Instant::now();
    let time = arguments.max_time.unwrap_or(TIME);
    let all = (ROUNDS * points.len()) as f64;
    for round in 0..ROUNDS {
        if round > 0 && begun.elapsed() >= time {
            break;
        }
        for index in 0..points.len() {
            let size = points[index].size;
            let done = (round * points.len() + index) as f64;
            progress.share(format!("with {size}"), done / all);
            setting.lock().set(size.count())?;
            workload::forget(profile);
            match workload::run(&arguments.command, stop) {
                Ok(run) => points[index].runs.push(run),
                Err(WorkloadError::Stopped) => return Ok((points, true)),
                Err(error) => return Err(error).context("the command"),
            }
        }
    }
    Ok((points, false))
}

fn points(arguments: &ProbeArguments, before_kib: u64) -> Vec<Point> {
    let mut sizes: Vec<KiB> = match arguments.sizes.is_empty() {
        true => SIZES_KIB.map(KiB::new).to_vec(),
        false => arguments.sizes(),
    };
    sizes.push(KiB::new(before_kib));
    sizes.sort_unstable();
    sizes.dedup();
    let point = |size| Point {
        size,
        runs: Vec::new(),
    };
    sizes.into_iter().map(point).collect()
}

/// Says what people should know of the runs; whether something of them could not be followed.
fn notes(points: &[Point]) -> bool {
    let runs = || points.iter().flat_map(|point| &point.runs);
    if let Some(run) = runs().find(|run| !run.status.success()) {
        output::note(&format!("the command ended with {}", run.status));
    }
    let unfollowed: u64 = runs().map(|run| run.losses.unfollowed_pages).sum();
    if unfollowed > 0 {
        output::note(&format!("pages that could not be followed: {unfollowed}"));
    }
    unfollowed > 0
}

fn human(points: &[Point], before_kib: u64) -> String {
    let mut rows = table(&[
        "read-ahead",
        "time",
        "waited",
        "read ahead",
        "used",
        "hit ratio",
        "held at most",
        "",
    ]);
    for point in points {
        let ratio = point
            .hit_ratio()
            .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        let is_now = point.size.count() == before_kib;
        rows.add_row([
            point.size.to_string(),
            output::time(point.median(|run| run.wall_ns) as u64),
            output::time(point.median(|run| run.stall_ns) as u64),
            size(point.fetched()),
            size(point.used()),
            ratio,
            size(point.median(|run| run.held_pages_max)),
            if is_now { "as it is" } else { "" }.to_owned(),
        ]);
    }
    let fewest = points.iter().map(|point| point.runs.len()).min();
    format!(
        "{}\nMedians of {} runs of each size, its files dropped from memory before, names and inodes \
         not.\n",
        finished(rows, &[7]),
        fewest.unwrap_or(0)
    )
}

fn size(pages: f64) -> String {
    Bytes::new((pages * PAGE_BYTES as f64) as u64)
        .human()
        .to_string()
}

/// A command at several readahead sizes: `foreread.workload/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkloadReport {
    schema: &'static str,
    /// Name and arguments.
    command: Vec<String>,
    /// The setting before the probe.
    read_ahead_kib_before: u64,
    /// Each readahead size, the smallest first.
    sizes: Vec<SizeReport>,
}

/// One size; the numbers are the medians of its runs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SizeReport {
    read_ahead_kib: u64,
    wall_ns: f64,
    /// Time that the command waited for reads.
    stall_ns: f64,
    /// Pages that were read ahead.
    fetched_pages: f64,
    /// Pages of `fetched_pages` that were used.
    used_pages: f64,
    /// Used pages for each fetched page; none where nothing was fetched.
    hit_ratio: Option<f64>,
    /// Most pages that were in memory unused at one time.
    held_pages_max: f64,
    /// In the order in which they ran.
    runs: Vec<RunReport>,
}

/// One run, with the fields of its size.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RunReport {
    wall_ns: u64,
    stall_ns: u64,
    fetched_pages: u64,
    used_pages: u64,
    held_pages_max: u64,
    /// None where a signal ended the command.
    exit_status: Option<i32>,
    /// Pages that were read and could not be followed.
    unfollowed_pages: u64,
}

impl WorkloadReport {
    fn of(arguments: &ProbeArguments, points: &[Point], before_kib: u64) -> Self {
        let words = arguments.command.iter();
        Self {
            schema: "foreread.workload/1",
            command: words
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            read_ahead_kib_before: before_kib,
            sizes: points.iter().map(SizeReport::of).collect(),
        }
    }
}

impl SizeReport {
    fn of(point: &Point) -> Self {
        Self {
            read_ahead_kib: point.size.count(),
            wall_ns: point.median(|run| run.wall_ns),
            stall_ns: point.median(|run| run.stall_ns),
            fetched_pages: point.fetched(),
            used_pages: point.used(),
            hit_ratio: point.hit_ratio(),
            held_pages_max: point.median(|run| run.held_pages_max),
            runs: point.runs.iter().map(RunReport::of).collect(),
        }
    }
}

impl RunReport {
    fn of(run: &WorkloadRun) -> Self {
        Self {
            wall_ns: run.wall_ns,
            stall_ns: run.stall_ns,
            fetched_pages: run.fetched_pages,
            used_pages: run.used_pages,
            held_pages_max: run.held_pages_max,
            exit_status: run.status.code(),
            unfollowed_pages: run.losses.unfollowed_pages,
        }
    }
}
