// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the simulator with the testbed. A program runs for real with the kernel's default
//! readahead, and its recorded trace is played under `linux` on the same modelled disk.

use std::ffi::OsString;
use std::fs::File;
use std::io::BufReader;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use foreread_core::policy::{Limits, Policy};
use foreread_measure::MeasureError;
use foreread_measure::cold::{Start, kernel_start, wall};
use foreread_measure::disk::{CAPACITY_BYTES, ModelledDisk};
use foreread_measure::foreread::Foreread;
use foreread_measure::host::HostFiles;
use foreread_measure::process;
use foreread_measure::programs::Program;
use foreread_measure::sample::Sample;
use foreread_sim::Scenario;
use foreread_sim::block::QueueRules;
use foreread_sim::engine::{Cached, Keep, Outcome, RequestSeen, Setup, Simulation};
use foreread_sim::trace::Survey;
use foreread_testbed::TraceEntry;
use foreread_trace::ReadOptions;
use rustix::fs::{Advice, fadvise};

/// The kernel's default window, in pages: 128 KiB.
const READ_AHEAD_PAGES: u32 = 32;
/// Requests that a loop device lets out at one time.
const QUEUE_DEPTH: u64 = 128;
/// The testbed's largest request.
const REQUEST_BYTES_MAX: u64 = 1 << 20;
/// Nothing is evicted in these runs: memory for 16 GiB.
const MEMORY_PAGES: u64 = 1 << 22;
/// Reads that show the machine's own part of a request, and the pages that they are taken from.
const OWN_READS: u64 = 60;
const OWN_PAGES: u64 = 16_384;
const PAGE_BYTES: u64 = 4096;
/// Requests of a simulation that are kept for comparison.
const REQUESTS_MAX: usize = 1 << 20;

/// One program on one disk, for real and simulated.
#[derive(Clone, Debug)]
pub struct Agreement {
    /// Cold starts with the kernel alone, its readahead at 128 KiB, the fastest first.
    pub real: Vec<Start>,
    /// Time that this machine added to each request of the modelled disk just before the median
    /// start.
    pub host_ns: u64,
    /// The cold start that was recorded, which shows the cost of recording.
    pub recorded_ns: u64,
    /// The outcome of playing its trace.
    pub simulated: Outcome,
    /// Requests of the simulation, on the modelled disk without host delays.
    pub requests: Vec<RequestSeen>,
}

impl Agreement {
    /// The median time for real.
    pub fn real_ns(&self) -> u64 {
        wall(&self.real).median_ns()
    }

    /// The median number of requests for real.
    pub fn real_requests(&self) -> f64 {
        let requests = self.real.iter().map(|start| start.disk.requests as f64);
        Sample::new(requests).median()
    }

    /// The median number of bytes for real.
    pub fn real_bytes(&self) -> f64 {
        let bytes = self.real.iter().map(|start| start.disk.bytes as f64);
        Sample::new(bytes).median()
    }

    /// The simulated bytes.
    pub fn simulated_bytes(&self) -> u64 {
        self.requests
            .iter()
            .map(|request| request.length_bytes)
            .sum()
    }

    /// Simulated time by real time.
    pub fn time_ratio(&self) -> f64 {
        self.simulated.elapsed_ns as f64 / (self.real_ns().max(1)) as f64
    }

    /// Simulated requests by real requests.
    pub fn requests_ratio(&self) -> f64 {
        self.requests.len() as f64 / self.real_requests().max(1.0)
    }
}

/// Measures a program on the disk as it is now: `runs` cold starts, then one that is recorded as
/// `trace`, which is played.
///
/// # Errors
/// The program can't be started or ends badly, or nothing here can record a trace.
pub fn measure(
    disk: &ModelledDisk,
    program: &Program,
    executable: &Path,
    runs: usize,
    trace: &Path,
) -> Result<Agreement, MeasureError> {
    let foreread = Foreread::new(executable)?;
    let host = program.host_files(&foreread, disk);
    let mut runs_made = Vec::new();
    for run in 0..runs.max(1) {
        let mut host_ns = 0;
        let start = kernel_start(disk, program, &host, || {
            warm_up(disk, program, foreread.state())?;
            host_ns = own_time_ns(disk, run as u64)?;
            Ok(())
        })?;
        runs_made.push((start, host_ns));
    }
    // The machine as it was at the run that is compared.
    runs_made.sort_by_key(|(start, _)| start.wall_ns);
    let host_ns = runs_made[(runs_made.len() - 1) / 2].1;
    let real: Vec<Start> = runs_made.into_iter().map(|(start, _)| start).collect();
    let recorded_ns = record(disk, program, &foreread, &host, trace)?;
    let (simulated, requests) = simulate(disk, trace, host_ns)?;
    Ok(Agreement {
        real,
        host_ns,
        recorded_ns,
        simulated,
        requests,
    })
}

/// Reads everything into memory that a program expects there: files that it needs from other disks,
/// and paths that its parent process has looked up. Neither is in its trace.
fn warm_up(disk: &ModelledDisk, program: &Program, directory: &Path) -> Result<(), MeasureError> {
    let command = program.command(disk, &[]);
    let paths = [
        command.get_current_dir(),
        Some(Path::new(command.get_program())),
    ];
    for path in paths.into_iter().flatten() {
        // A name without a directory is looked for elsewhere.
        let _ = std::fs::metadata(path);
    }
    let Some(mut command) = program.warm_up(directory)? else {
        return Ok(());
    };
    process::run_to(&mut command, &[0]).map(drop)
}

/// Time of the machine's own part of a request. It is the median by which reads of a page of the
/// device, one after the other, take longer than in the model. The pages are far behind all files.
fn own_time_ns(disk: &ModelledDisk, round: u64) -> Result<u64, MeasureError> {
    let testbed = disk.testbed();
    let what = || format!("read {}", testbed.device().display());
    let device = File::open(testbed.device()).map_err(MeasureError::system(what()))?;
    fadvise(&device, 0, None, Advice::Random).map_err(MeasureError::system(what()))?;
    let mut buffer = [0; PAGE_BYTES as usize];
    let mut over_ns = Vec::new();
    for read in 0..OWN_READS {
        let place = (round * OWN_READS + read) * 4099 % OWN_PAGES;
        let offset = CAPACITY_BYTES - (place + 1) * PAGE_BYTES;
        let busy_ns = testbed.counters().busy_ns;
        let began = Instant::now();
        let got = device.read_exact_at(&mut buffer, offset);
        let took_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        got.map_err(MeasureError::system(what()))?;
        let busy_ns = testbed.counters().busy_ns.saturating_sub(busy_ns);
        over_ns.push(took_ns.saturating_sub(busy_ns));
    }
    Ok(Sample::of_ns(over_ns).median_ns())
}

/// Records a cold start; how long it took, the recorder's own start included.
fn record(
    disk: &ModelledDisk,
    program: &Program,
    foreread: &Foreread,
    host: &HostFiles,
    trace: &Path,
) -> Result<u64, MeasureError> {
    let mut before: Vec<OsString> = vec![foreread.executable().into()];
    before.extend(["record", "--quiet", "--trace"].map(OsString::from));
    before.extend([trace.into(), "--".into()]);
    let mut command = program.command(disk, &before);
    disk.testbed().drop_caches()?;
    host.read();
    warm_up(disk, program, foreread.state())?;
    Ok(process::run_to(&mut command, &[program.good_end()])?.elapsed_ns())
}

/// Plays a trace on the disk as it is now, before a machine that adds `host_ns` to each request.
///
/// # Errors
/// It can't be read.
pub fn simulate(
    disk: &ModelledDisk,
    trace: &Path,
    host_ns: u64,
) -> Result<(Outcome, Vec<RequestSeen>), MeasureError> {
    let unread = |error: foreread_trace::ReadError| {
        MeasureError::Report("foreread record --trace", error.to_string())
    };
    let open = || -> Result<_, MeasureError> {
        let what = format!("read {}", trace.display());
        let file = File::open(trace).map_err(MeasureError::system(what))?;
        foreread_trace::open(BufReader::new(file), ReadOptions::default()).map_err(unread)
    };
    let survey = Arc::new(Survey::read(&mut *open()?).map_err(unread)?);
    let mut setup = setup(disk, &survey)?;
    setup.queue.host_ns = host_ns;
    let keep = Keep {
        requests_max: REQUESTS_MAX,
        ..Keep::default()
    };
    let own_disk = own_disk(disk, &survey)?;
    let mut outcome = Simulation::of_trace(setup, keep, &survey, open()?)
        .run_trace()
        .map_err(unread)?;
    let mut requests = std::mem::take(&mut outcome.requests);
    requests.retain(|request| Some(request.disk) == own_disk);
    Ok((outcome, requests))
}

fn device(disk: &ModelledDisk) -> Result<u64, MeasureError> {
    let what = format!("look at {}", disk.root().display());
    Ok(std::fs::metadata(disk.root())
        .map_err(MeasureError::system(what))?
        .dev())
}

/// Which of the trace's disks is the modelled one.
fn own_disk(disk: &ModelledDisk, survey: &Survey) -> Result<Option<usize>, MeasureError> {
    let device = device(disk)?;
    let own = survey.files.iter().find(|file| file.device == device);
    Ok(own.map(|file| file.disk))
}

/// The machine as it was: the disk and its queue, with none of its pages in memory, and all pages
/// of other disks.
fn setup(disk: &ModelledDisk, survey: &Arc<Survey>) -> Result<Setup, MeasureError> {
    let scenario = Scenario::of_trace("trace", Arc::clone(survey))
        .map_err(|error| MeasureError::Report("foreread record --trace", error.to_string()))?;
    let combination = scenario.combinations().into_iter().next();
    let combination = combination.ok_or_else(|| {
        MeasureError::Report("foreread record --trace", "nothing to simulate".to_owned())
    })?;
    let mut setup = scenario.setup(&combination);
    setup.policy = Policy::Linux;
    setup.memory_pages = Some(MEMORY_PAGES);
    setup.disk = disk.testbed().parameters();
    setup.queue = QueueRules {
        depth: QUEUE_DEPTH,
        request_bytes_max: REQUEST_BYTES_MAX,
        ..QueueRules::default()
    };
    setup.limits.ra_pages = READ_AHEAD_PAGES;
    setup.limits.io_pages = (REQUEST_BYTES_MAX / 4096) as u32;
    setup.limits.folio_order_max = folio_order_max();
    setup.limits.quirks = Limits::QUIRKS_6_18;
    let device = device(disk)?;
    for (file, traced) in setup.files.iter_mut().zip(&survey.files) {
        if traced.device == device {
            continue;
        }
        if traced.metadata {
            // Metadata pages of another disk are in memory, so no device is asked for them.
            file.bytes = 0;
        } else {
            file.cached = Some(Cached {
                is_active: true,
                missing_one_in: 0,
                block_pages: 1,
                seed: None,
            });
        }
    }
    Ok(setup)
}

/// The largest folios of a file of ext4: since Linux 6.16 those that a PMD maps.
fn folio_order_max() -> u8 {
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy();
    let mut numbers = release
        .split(['.', '-'])
        .map(|n| n.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= (6, 16) { 9 } else { 0 }
}

/// Writes both lists of requests, as lines of offset and length in bytes with the time in
/// nanoseconds, to `PATH.real` and `PATH.simulated`.
///
/// # Errors
/// They can't be written.
pub fn write_requests(agreement: &Agreement, path: &Path) -> Result<(), MeasureError> {
    let started = agreement.real.last();
    let (real, began_ns) = started.map_or((&[][..], 0), |s| (&s.trace[..], s.began_ns));
    let line = |entry: &TraceEntry| {
        let arrived_ns = entry.arrived_ns.saturating_sub(began_ns);
        let took_ns = entry.done_ns.saturating_sub(entry.arrived_ns);
        format!(
            "{} {} {arrived_ns} {took_ns}\n",
            entry.offset_bytes, entry.length_bytes
        )
    };
    let mut sorted: Vec<&TraceEntry> = real.iter().collect();
    sorted.sort_by_key(|entry| entry.arrived_ns);
    write(path, "real", sorted.into_iter().map(line).collect())?;
    let mut sorted = agreement.requests.clone();
    sorted.sort_by_key(|request| request.asked_ns);
    let line = |request: RequestSeen| {
        let took_ns = request.done_ns.saturating_sub(request.asked_ns);
        format!(
            "{} {} {} {took_ns}\n",
            request.offset_bytes, request.length_bytes, request.asked_ns
        )
    };
    write(path, "simulated", sorted.into_iter().map(line).collect())
}

fn write(path: &Path, extension: &str, text: String) -> Result<(), MeasureError> {
    let path: PathBuf = path.with_extension(extension);
    let what = format!("write {}", path.display());
    std::fs::write(&path, text).map_err(MeasureError::system(what))
}
