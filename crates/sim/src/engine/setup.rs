// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is simulated: a machine, its disks, its files, and the programs on it.

use foreread_core::policy::{Limits, Policy};
use foreread_model::DiskParameters;

use crate::block::QueueRules;

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
    /// How many there are, at least 1.
    pub disks: usize,
    /// The queue before each disk.
    pub queue: QueueRules,
    /// Who decides.
    pub policy: Policy,
    /// What holds for each file, but for its size.
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
    /// How far apart its extents start; 0 for a file in one piece. Each extent is half of that.
    pub extent_step_bytes: u64,
}

/// How a program comes to pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// read(2).
    Read,
    /// A mapping, with `Access::VMA_*` flags.
    Mapping(u16),
}

/// What posix_fadvise(2) a program calls when it has opened a file.
pub use foreread_core::policy::Advice;

/// One program.
#[derive(Clone, Debug)]
pub struct ProgramSetup {
    /// Its name in reports.
    pub name: String,
    /// The files it reads, one after the other, as numbers of [`Setup::files`].
    pub files: Vec<usize>,
    /// Where it reads in each.
    pub pattern: Pattern,
    /// The first byte of each file that it reads.
    pub offset_bytes: u64,
    /// How much of each file it reads from there, as a range that the pattern stays in.
    pub length_bytes: u64,
    /// Bytes of one read(2), or of one step through a mapping.
    pub request_bytes: u64,
    /// How.
    pub through: Through,
    /// Its advice.
    pub advice: Option<Advice>,
    /// How often it goes through each file.
    pub repeat: u64,
    /// When it starts.
    pub start_ns: u64,
    /// How long it thinks after each call.
    pub think_ns: u64,
    /// CPU time of each page.
    pub cpu_per_page_ns: u64,
    /// CPU time of each call.
    pub cpu_per_call_ns: u64,
    /// It reads no faster than this; 0 for as fast as it can.
    pub rate_bytes_per_s: u64,
    /// Of its random numbers.
    pub seed: u64,
}

/// Where a program reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// From start to end.
    Sequential,
    /// From end to start.
    Backward,
    /// From start to end, with so many bytes from the start of one request to the next.
    Strided {
        /// The distance.
        stride_bytes: u64,
    },
    /// So many streams on one descriptor, each on its part of the file, in turn.
    Interleaved {
        /// How many.
        streams: u64,
    },
    /// So many requests anywhere, each place as likely as another.
    Random {
        /// How many.
        requests: u64,
    },
    /// So many requests, the n-th most wanted place as often as 1/n.
    Zipf {
        /// How many.
        requests: u64,
    },
    /// These: offset and length in bytes.
    List(Vec<(u64, u64)>),
}
