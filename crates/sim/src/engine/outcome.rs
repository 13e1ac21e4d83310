// SPDX-License-Identifier: MIT OR Apache-2.0
//! The outcome of a run.

use foreread_model::Counters;

use super::explain::{Explanation, RequestSeen};
use super::stats::Stats;
use super::windows::WindowSeen;
use super::{Simulation, StreamId};

/// One open file of one program.
#[derive(Clone, Debug)]
pub struct StreamOutcome {
    /// Its program, as a number of [`super::Setup::programs`].
    pub program: usize,
    /// Its file, as a number of [`super::Setup::files`].
    pub file: usize,
    /// Its counts.
    pub stats: Stats,
}

/// One program.
#[derive(Clone, Debug)]
pub struct ProgramOutcome {
    /// From its start to its end, or to the end of the run.
    pub elapsed_ns: u64,
    /// Whether it was through by then.
    pub finished: bool,
    /// Bytes that its calls returned.
    pub read_bytes: u64,
}

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// When the last program ended, or the run was ended.
    pub elapsed_ns: u64,
    /// All streams together.
    pub total: Stats,
    /// The programs.
    pub programs: Vec<ProgramOutcome>,
    /// The streams, in the order in which they were opened.
    pub streams: Vec<StreamOutcome>,
    /// Counters of each disk.
    pub disks: Vec<Counters>,
    /// The call that was asked for, when there was one of that number.
    pub explanation: Option<Explanation>,
    /// Windows over time, when they were asked for.
    pub windows: Vec<WindowSeen>,
    /// Windows beyond those kept.
    pub windows_dropped: u64,
    /// The first requests of the disks in the order of their ends, as many as were asked for.
    pub requests: Vec<RequestSeen>,
}

impl Outcome {
    /// Bytes that all programs read, per second.
    #[must_use]
    pub fn bytes_per_s(&self) -> f64 {
        let bytes: u64 = self.programs.iter().map(|program| program.read_bytes).sum();
        if self.elapsed_ns == 0 {
            return 0.0;
        }
        bytes as f64 * 1e9 / self.elapsed_ns as f64
    }

    /// Counts of the streams that `wanted` picks by program and file.
    #[must_use]
    pub fn part(&self, wanted: impl Fn(usize, usize) -> bool) -> Stats {
        let mut stats = Stats::default();
        let picked = self.streams.iter().filter(|s| wanted(s.program, s.file));
        for stream in picked {
            stats.merge(&stream.stats);
        }
        stats
    }
}

impl Simulation {
    /// The outcome so far.
    #[must_use]
    pub fn outcome(mut self) -> Outcome {
        let streams = self.stream_outcomes();
        let mut total = Stats::default();
        for stream in &streams {
            total.merge(&stream.stats);
        }
        let ends = self.processes.iter().map(|process| process.ended_ns());
        let elapsed_ns = ends.map(|end| end.unwrap_or(self.now_ns)).max();
        let kept = self.io.watch.windows.take().unwrap_or_default();
        let (mut windows, windows_dropped) = kept.finish();
        for window in &mut windows {
            let stream = self.streams.get(window.stream.number());
            window.program = stream.and_then(|(program, _)| *program);
        }
        let programs = (0..self.setup.programs.len()).map(|program| self.program_outcome(program));
        Outcome {
            elapsed_ns: elapsed_ns.unwrap_or(0),
            total,
            programs: programs.collect(),
            streams,
            disks: self.io.disks.iter().map(|disk| disk.counters()).collect(),
            explanation: self.io.watch.explanation(),
            windows,
            windows_dropped,
            requests: std::mem::take(&mut self.io.watch.requests),
        }
    }

    fn program_outcome(&self, program: usize) -> ProgramOutcome {
        let threads = &self.processes[self.threads_of(program)];
        let ends = threads.iter().map(|thread| thread.ended_ns());
        let end_ns = ends.map(|end| end.unwrap_or(self.now_ns)).max();
        let started = threads.iter().filter_map(|thread| thread.started_ns).min();
        let start_ns = started.unwrap_or(self.setup.programs[program].start_ns);
        ProgramOutcome {
            elapsed_ns: end_ns.unwrap_or(0).saturating_sub(start_ns),
            finished: threads.iter().all(|thread| thread.is_done()),
            read_bytes: threads.iter().map(|thread| thread.read_bytes()).sum(),
        }
    }

    fn stream_outcomes(&mut self) -> Vec<StreamOutcome> {
        for process in &self.processes {
            let waiting = process.waiting_since_ns().zip(process.stream());
            if let Some((since_ns, stream)) = waiting {
                self.io.stats_mut(stream).stall_ns += self.now_ns.saturating_sub(since_ns);
            }
        }
        let stats = std::mem::take(&mut self.io.stats).into_iter();
        let streams = stats.zip(&self.streams).enumerate();
        streams
            .filter_map(|(number, (mut stats, (program, file)))| {
                stats.pages = self.cache.account(StreamId::from_number(number));
                Some(StreamOutcome {
                    program: (*program)?,
                    file: *file,
                    stats,
                })
            })
            .collect()
    }
}
