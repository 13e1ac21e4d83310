// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulated system: a machine, its disks, its files, and the programs on it.

use std::ops::Range;
use std::sync::Arc;

use foreread_core::policy::{Limits, Policy};
use foreread_model::DiskParameters;
use foreread_trace::Extent;

use super::foresight::Foresight;
use crate::block::QueueRules;
use crate::random::Random;

/// Everything that a run depends on. Equal setups give equal results, to the byte.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Memory for the page cache, in pages; `None` for as much as it takes.
    pub memory_pages: Option<u64>,
    /// CPUs that programs share; `None` for one each.
    pub cpus: Option<usize>,
    /// Ends the run, even if programs go on.
    pub until_ns: Option<u64>,
    /// How each disk is.
    pub disk: DiskParameters,
    /// Number of disks, at least 1.
    pub disks: usize,
    /// The queue before each disk.
    pub queue: QueueRules,
    /// The policy that decides.
    pub policy: Policy,
    /// Settings of the oracle, where there is one; `policy` only reads the requested pages then.
    pub foresight: Option<Foresight>,
    /// Limits of each file, except for its size.
    pub limits: Limits,
    /// The files.
    pub files: Vec<FileSetup>,
    /// The programs.
    pub programs: Vec<ProgramSetup>,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSetup {
    /// Its name in reports.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Which disk it is on.
    pub disk: usize,
    /// Where it starts there.
    pub offset_bytes: u64,
    /// Distance between the starts of its extents; 0 for a file in one piece. Each extent is half
    /// as long.
    pub extent_step_bytes: u64,
    /// Where its parts are, by offset in the file; empty where the two above say so.
    pub extents: Arc<[Extent]>,
    /// The part of it that is cached before anything runs.
    pub cached: Option<Cached>,
}

/// The part of a file that is cached before anything runs: all of it, except for one block in every
/// `missing_one_in`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cached {
    /// It was in use, and is on the active list; else it was read once.
    pub is_active: bool,
    /// One block in this many is missing; 0: none is.
    pub missing_one_in: u64,
    /// Pages of a block, at least 1.
    pub block_pages: u64,
    /// Which of them is missing is drawn with this; without, it is the last one.
    pub seed: Option<u64>,
}

impl Cached {
    /// The runs of cached pages of a file.
    pub(super) fn runs(&self, file_pages: u64) -> Vec<Range<u64>> {
        let block = self.block_pages.max(1);
        let group = block.saturating_mul(self.missing_one_in);
        let groups = match group {
            0 => 0,
            group => file_pages.div_ceil(group),
        };
        let (mut runs, mut from) = (Vec::new(), 0);
        for number in 0..groups {
            let drawn = |seed: u64| Random::new(seed ^ (number << 32)).below(self.missing_one_in);
            let missing = self.seed.map_or(self.missing_one_in - 1, drawn);
            let before = missing.saturating_mul(block);
            let hole = (number * group).saturating_add(before).min(file_pages);
            runs.push(from..hole);
            from = hole.saturating_add(block).min(file_pages);
        }
        runs.push(from..file_pages);
        runs.retain(|run| !run.is_empty());
        runs
    }
}

/// How a program comes to pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// read(2).
    Read,
    /// A mapping, with `Access::VMA_*` flags.
    Mapping(u16),
}

/// Advice that a program gives with posix_fadvise(2) when it has opened a file.
pub use foreread_core::policy::Advice;

/// One program: one or more threads that do the same, each on its part of the files.
#[derive(Clone, Debug)]
pub struct ProgramSetup {
    /// Its name in reports.
    pub name: String,
    /// Whether reports tell its latencies apart.
    pub is_victim: bool,
    /// The files it reads, one after the other, as numbers of [`Setup::files`].
    pub files: Vec<usize>,
    /// Its phases on each file, one after the other.
    pub phases: Vec<Phase>,
    /// Number of threads, at least 1, on one open file (one `struct file`, one mapping).
    pub threads: u64,
    /// Threads take turns with pieces of this size, a multiple of their requests; 0: each has one
    /// part of the file.
    pub piece_bytes: u64,
    /// How.
    pub through: Through,
    /// Its advice.
    pub advice: Option<Advice>,
    /// Number of times that it goes through each file.
    pub repeat: u64,
    /// When it starts.
    pub start_ns: u64,
    /// Time that it thinks after each call.
    pub think_ns: u64,
    /// CPU time of each page.
    pub cpu_per_page_ns: u64,
    /// CPU time of each page that is read from a disk for it, used or not. The disk is asked for a
    /// batch when this time of all its pages has passed.
    pub cpu_per_fetched_page_ns: u64,
    /// CPU time of each call.
    pub cpu_per_call_ns: u64,
    /// Each thread reads no faster than this; 0 for as fast as it can.
    pub rate_bytes_per_s: u64,
    /// Seed of its random numbers.
    pub seed: u64,
}

impl ProgramSetup {
    /// A program of one thread that reads each file once from start to end, 4 KiB at a time.
    #[must_use]
    pub fn new(name: &str, files: Vec<usize>) -> Self {
        Self {
            name: name.to_owned(),
            is_victim: false,
            files,
            phases: vec![Phase::default()],
            threads: 1,
            piece_bytes: 0,
            through: Through::Read,
            advice: None,
            repeat: 1,
            start_ns: 0,
            think_ns: 0,
            cpu_per_page_ns: 0,
            cpu_per_fetched_page_ns: 0,
            cpu_per_call_ns: 0,
            rate_bytes_per_s: 0,
            seed: 1,
        }
    }

    /// When a thread of it that keeps a rate has had so many bytes; 0 where there is no rate.
    #[must_use]
    pub fn paced_ns(&self, bytes: u64) -> u64 {
        if self.rate_bytes_per_s == 0 {
            return 0;
        }
        let ns = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate_bytes_per_s);
        let ns = u64::try_from(ns).unwrap_or(u64::MAX);
        self.start_ns.saturating_add(ns)
    }

    /// The size of one of the files that it reads, of those of the setup; 0 when it has none so.
    #[must_use]
    pub fn file_bytes(&self, files: &[FileSetup], at: usize) -> u64 {
        self.files.get(at).map_or(0, |file| files[*file].bytes)
    }
}

/// A phase of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Where it reads.
    pub pattern: Pattern,
    /// The first byte of each file that it reads.
    pub offset_bytes: u64,
    /// Length of the range in each file from there on. The pattern stays in this range.
    pub length_bytes: u64,
    /// Bytes of one read(2), or of one step through a mapping.
    pub request_bytes: u64,
    /// Number of requests of the pattern after which it ends.
    pub requests_max: u64,
    /// Requests are put out of order within windows of this many; 0 and 1: none is.
    pub reorder_requests: u64,
    /// Percentage of the file that is left out, in runs.
    pub holes_percent: u8,
    /// Length of these runs; not less than a request.
    pub hole_run_bytes: u64,
    /// Percentage of all requests, below 100, that go anywhere, between those of the pattern.
    pub noise_percent: u8,
}

impl Default for Phase {
    /// The whole file from start to end, 4 KiB at a time.
    fn default() -> Self {
        Self {
            pattern: Pattern::Sequential,
            offset_bytes: 0,
            length_bytes: u64::MAX,
            request_bytes: 4096,
            requests_max: u64::MAX,
            reorder_requests: 0,
            holes_percent: 0,
            hole_run_bytes: 0,
            noise_percent: 0,
        }
    }
}

/// Where a program reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// From start to end.
    Sequential,
    /// From end to start.
    Backward {
        /// The distance from request to request; not less than a request.
        stride_bytes: u64,
    },
    /// From start to end, with a fixed distance from the start of one run to that of the next.
    Strided {
        /// The distance.
        stride_bytes: u64,
        /// Bytes that are read at each place, request by request; not less than a request.
        run_bytes: u64,
    },
    /// One request from the start, one from the end, in turn, until they meet.
    ZigZag,
    /// Several streams on one descriptor, each on its part of the file, in turn.
    Interleaved {
        /// Number of streams.
        streams: u64,
    },
    /// Requests anywhere, each place as likely as another.
    Random {
        /// Number of requests.
        requests: u64,
    },
    /// Requests by Zipf's law: the n-th most wanted place as often as 1/n.
    Zipf {
        /// Number of requests.
        requests: u64,
    },
    /// Requests, each either where the last one ended or anywhere.
    Mixed {
        /// Number of requests.
        requests: u64,
        /// Percentage of requests that continue where the last one ended.
        sequential_percent: u8,
    },
    /// These: offset and length in bytes.
    List(Vec<(u64, u64)>),
}
