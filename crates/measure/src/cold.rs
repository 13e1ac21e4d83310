// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cold starts: the kernel alone, the first run, the second run, against the limit.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use foreread_model::Counters;
use foreread_testbed::TraceEntry;
use foreread_testbed::needed::{Needed, needed};
use rustix::time::{ClockId, clock_gettime};

use crate::disk::ModelledDisk;
use crate::error::MeasureError;
use crate::foreread::{Foreread, RunReport};
use crate::host::HostFiles;
use crate::process;
use crate::programs::Program;
use crate::sample::{Rounds, Sample};

/// Number of runs of each kind.
#[derive(Clone, Copy, Debug)]
pub struct ColdPlan {
    /// Pairs of a start with the kernel alone and a first run, or no such starts.
    pub pairs: Option<Rounds>,
    /// Second runs, at least 1.
    pub second_runs: usize,
    /// Runs with everything cached, at least 1.
    pub cached_runs: usize,
    /// Keep the disk's requests.
    pub trace: bool,
}

/// The current stage, for a display of progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Finding out which bytes the program needs.
    Needed,
    /// Running with everything cached.
    Cached,
    /// A cold start with the kernel alone.
    Kernel,
    /// A cold start that is recorded.
    First,
    /// A cold start with replay.
    Second,
}

/// One start from a cold disk.
#[derive(Clone, Debug)]
pub struct Start {
    /// From before the command was started until it had ended, `foreread` included.
    pub wall_ns: u64,
    /// Processor time of all this.
    pub processor_ns: u64,
    /// When it began, in the clock of the trace.
    pub began_ns: u64,
    /// Counters of the disk meanwhile.
    pub disk: Counters,
    /// The disk's requests in order of their ends, if asked for.
    pub trace: Vec<TraceEntry>,
    /// The report of `foreread run`, unless the kernel was alone.
    pub report: Option<RunReport>,
}

/// Everything measured of one program on one disk.
#[derive(Clone, Debug)]
pub struct ColdStarts {
    /// The distinct bytes the program reads.
    pub needed_bytes: u64,
    /// The least time the disk needs for them.
    pub disk_ns: u64,
    /// The program's own time with everything cached.
    pub cached: Sample,
    /// Starts with the kernel alone, its readahead at 128 KiB.
    pub kernel: Vec<Start>,
    /// First runs: recorded, each without a profile from before. As many as of the kernel alone,
    /// taken in turn with them; one if there are none of those.
    pub first: Vec<Start>,
    /// Second runs: replayed.
    pub second: Vec<Start>,
}

impl ColdStarts {
    /// No start can be faster: the disk's least time or the program's own, whichever is longer.
    pub fn limit_ns(&self) -> u64 {
        self.disk_ns.max(self.cached.median_ns())
    }

    /// The median second run as a multiple of the limit; 1 is the best there can be.
    pub fn second_over_limit(&self) -> f64 {
        wall(&self.second).median() / self.limit_ns().max(1) as f64
    }

    /// The median time with the kernel alone, divided by the median second run.
    pub fn times_faster(&self) -> Option<f64> {
        let second = wall(&self.second).median();
        (!self.kernel.is_empty() && second > 0.0).then(|| wall(&self.kernel).median() / second)
    }

    /// The median first run over the median of the kernel alone, less 1.
    pub fn first_slowdown(&self) -> Option<f64> {
        let kernel = wall(&self.kernel).median();
        (kernel > 0.0).then(|| wall(&self.first).median() / kernel - 1.0)
    }
}

/// The times of some starts, in nanoseconds.
pub fn wall(starts: &[Start]) -> Sample {
    Sample::of_ns(starts.iter().map(|start| start.wall_ns))
}

/// The start whose time is the median, of two the faster.
pub fn median_start(starts: &[Start]) -> Option<&Start> {
    let mut order: Vec<&Start> = starts.iter().collect();
    order.sort_by_key(|start| start.wall_ns);
    order.get(order.len().saturating_sub(1) / 2).copied()
}

/// Measures a program on the disk as it is now. `stage` is called before each step.
///
/// # Errors
/// The program can't be started or ends badly, or a system call failed.
pub fn measure(
    disk: &ModelledDisk,
    program: &Program,
    executable: &Path,
    plan: &ColdPlan,
    stage: &mut dyn FnMut(Stage),
) -> Result<ColdStarts, MeasureError> {
    stage(Stage::Needed);
    let needed = needed_by(disk, program)?;
    let parameters = disk.testbed().parameters();
    let mut cached = Vec::new();
    for _ in 0..plan.cached_runs.max(1) {
        stage(Stage::Cached);
        cached.push(timed(program, &mut program.command(disk, &[]))?);
    }
    let foreread = Foreread::new(executable)?;
    let cold = Cold {
        disk,
        program,
        host: program.host_files(&foreread, disk),
        trace: plan.trace,
    };
    let (kernel, first, foreread) = cold.pairs(plan.pairs, foreread, stage)?;
    let mut second = Vec::new();
    for _ in 0..plan.second_runs.max(1) {
        stage(Stage::Second);
        second.push(cold.start(Some(&foreread))?);
    }
    Ok(ColdStarts {
        needed_bytes: needed.bytes,
        disk_ns: needed.limit_ns(&parameters, disk.testbed()),
        cached: Sample::of_ns(cached),
        kernel,
        first,
        second,
    })
}

/// The bytes the program reads; its caches are warm afterwards.
fn needed_by(disk: &ModelledDisk, program: &Program) -> Result<Needed, MeasureError> {
    let mut command = program.command(disk, &[]);
    let needed = needed(disk.testbed(), &mut command)?;
    if needed.status.code() == Some(program.good_end()) {
        return Ok(needed);
    }
    Err(MeasureError::Failed {
        command: format!("{command:?}"),
        status: needed.status.to_string(),
    })
}

struct Cold<'a> {
    disk: &'a ModelledDisk,
    program: &'a Program,
    host: HostFiles,
    trace: bool,
}

impl Cold<'_> {
    /// Measures starts with the kernel alone and first runs in turn, or one first run. Returns them
    /// with the `foreread` of the last run, which now knows the program.
    fn pairs(
        &self,
        rounds: Option<Rounds>,
        mut foreread: Foreread,
        stage: &mut dyn FnMut(Stage),
    ) -> Result<(Vec<Start>, Vec<Start>, Foreread), MeasureError> {
        let (mut kernel, mut first) = (Vec::new(), Vec::new());
        let began = Instant::now();
        while rounds.is_some_and(|rounds| rounds.wants_more(first.len(), began)) {
            stage(Stage::Kernel);
            kernel.push(self.start(None)?);
            // One that knows nothing yet.
            foreread = Foreread::new(foreread.executable())?;
            stage(Stage::First);
            first.push(self.start(Some(&foreread))?);
        }
        if first.is_empty() {
            stage(Stage::First);
            first.push(self.start(Some(&foreread))?);
        }
        Ok((kernel, first, foreread))
    }

    fn start(&self, foreread: Option<&Foreread>) -> Result<Start, MeasureError> {
        let command = match foreread {
            Some(foreread) => self.program.under(foreread, self.disk),
            None => self.program.command(self.disk, &[]),
        };
        let mut start = start(self, command, || Ok(()))?;
        start.report = foreread.map(Foreread::report).transpose()?;
        Ok(start)
    }
}

/// A cold start with the kernel alone, its requests kept. `warm_up` is called when the caches have
/// been dropped and `host` is in memory again.
///
/// # Errors
/// The program can't be started or ends badly, or a system call failed.
pub fn kernel_start(
    disk: &ModelledDisk,
    program: &Program,
    host: &HostFiles,
    warm_up: impl FnOnce() -> Result<(), MeasureError>,
) -> Result<Start, MeasureError> {
    let cold = Cold {
        disk,
        program,
        host: host.clone(),
        trace: true,
    };
    start(&cold, program.command(disk, &[]), warm_up)
}

fn start(
    cold: &Cold<'_>,
    mut command: Command,
    warm_up: impl FnOnce() -> Result<(), MeasureError>,
) -> Result<Start, MeasureError> {
    let testbed = cold.disk.testbed();
    testbed.drop_caches()?;
    testbed.forget_touches();
    cold.host.read();
    warm_up()?;
    testbed.reset_counters();
    if cold.trace {
        testbed.trace_start();
    }
    let began_ns = now_ns();
    let ended = process::run_to(&mut command, &[cold.program.good_end()]);
    let trace = if cold.trace {
        testbed.trace_stop()
    } else {
        Vec::new()
    };
    let ended = ended?;
    Ok(Start {
        wall_ns: ended.elapsed_ns(),
        processor_ns: ended.processor_ns(),
        began_ns,
        disk: testbed.counters(),
        trace,
        report: None,
    })
}

/// Time of a command from its start to its end.
fn timed(program: &Program, command: &mut Command) -> Result<u64, MeasureError> {
    Ok(process::run_to(command, &[program.good_end()])?.elapsed_ns())
}

/// `CLOCK_MONOTONIC`, as in [`TraceEntry`].
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(now.tv_sec)
        .saturating_mul(1_000_000_000)
        .saturating_add(part(now.tv_nsec))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(wall_ns: u64) -> Start {
        Start {
            wall_ns,
            processor_ns: 0,
            began_ns: 0,
            disk: Counters::default(),
            trace: Vec::new(),
            report: None,
        }
    }

    fn starts(times_ns: &[u64]) -> Vec<Start> {
        times_ns.iter().copied().map(start).collect()
    }

    #[test]
    fn ratios_are_of_medians_and_of_the_longer_limit() {
        let mut measured = ColdStarts {
            needed_bytes: 0,
            disk_ns: 100,
            cached: Sample::of_ns([30, 20, 90]),
            kernel: starts(&[1000, 900]),
            first: starts(&[1000, 985]),
            second: starts(&[130, 120, 500]),
        };
        assert_eq!(measured.limit_ns(), 100);
        assert_eq!(measured.second_over_limit(), 1.3);
        assert_eq!(measured.times_faster(), Some(950.0 / 130.0));
        assert!(measured.first_slowdown().unwrap() > 0.04);
        assert_eq!(median_start(&measured.second).unwrap().wall_ns, 130);
        assert_eq!(median_start(&measured.kernel).unwrap().wall_ns, 900);
        measured.cached = Sample::of_ns([250]);
        measured.kernel.clear();
        assert_eq!(measured.limit_ns(), 250);
        assert_eq!(measured.times_faster(), None);
        assert_eq!(measured.first_slowdown(), None);
        assert!(median_start(&[]).is_none());
    }
}
