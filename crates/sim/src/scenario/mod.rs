// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenarios: descriptions of simulations, as small TOML texts. `docs/scenarios.md` describes the
//! fields.

mod combine;
mod expect;
mod fit;
mod parts;
mod phases;
mod programs;
mod read;
mod setup_error;
mod text;
mod traced;

pub use combine::{Combination, Overrides};
pub use expect::{Checked, Metric, Tolerance};
pub use fit::{Fit, FitError, Fitted};
pub use setup_error::SetupError;
pub use text::ScenarioError;

use std::sync::Arc;

use foreread_core::policy::{Kernel, Limits};
use foreread_model::DiskParameters;

use crate::block::QueueRules;
use crate::contender::Contender;
use crate::engine::{Cached, Phase, Through};
use crate::trace::Survey;
use expect::Expectation;

/// A disk with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// As in tables.
    pub name: String,
    /// How it is.
    pub parameters: DiskParameters,
}

/// A group of files of one size.
#[derive(Clone, Debug)]
struct FileGroup {
    name: String,
    bytes: u64,
    count: u64,
    /// Where the first one starts; after the file before it when nothing is said.
    offset_bytes: Option<u64>,
    extent_step_bytes: u64,
    cached: Option<Cached>,
}

/// Number of programs of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Programs {
    Fixed(u64),
    /// As many as `[sweep] count` says, each in turn.
    Swept,
}

/// A kind of program.
#[derive(Clone, Debug)]
struct ProgramGroup {
    name: String,
    is_victim: bool,
    count: Programs,
    files: String,
    /// Each program has a file of its own, and not all read all of them.
    own_files: bool,
    /// A request of 0 bytes stands for the size of the window.
    phases: Vec<Phase>,
    threads: u64,
    piece_bytes: u64,
    through: Through,
    advice: Option<foreread_core::policy::Advice>,
    repeat: u64,
    start_ns: u64,
    start_step_ns: u64,
    think_ns: u64,
    cpu_per_page_ns: u64,
    cpu_per_fetched_page_ns: u64,
    cpu_per_call_ns: u64,
    rate_bytes_per_s: u64,
    seed: u64,
}

/// A scenario: everything that is simulated, and the values that are tried out.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The file it is from, as it was named.
    pub file: String,
    /// The point of the scenario.
    pub about: String,
    /// Which of the workloads that tell policies apart it is, such as `W5`; empty when none.
    pub workload: String,
    /// Whether readahead can only lose here, so that a policy should fetch only the requested
    /// pages.
    pub is_random: bool,
    /// Memory sizes, in pages.
    pub memory_pages: Vec<u64>,
    cpus: Option<usize>,
    until_ns: Option<u64>,
    /// Disks.
    pub devices: Vec<Device>,
    disks: u64,
    /// Queues, each with its name where several are tried out.
    pub queues: Vec<(String, QueueRules)>,
    /// Policies.
    pub policies: Vec<Contender>,
    /// Maximum windows, in pages.
    pub read_ahead_pages: Vec<u32>,
    capacity_cap: bool,
    limits: Limits,
    /// The kernel that the policy `linux` is, with its departures; Linux 6.18 without them where
    /// none is named.
    pub kernel: Option<Kernel>,
    files: Vec<FileGroup>,
    programs: Vec<ProgramGroup>,
    /// Numbers of programs of the swept kinds.
    pub counts: Vec<u64>,
    expectations: Vec<Expectation>,
    fit: Option<Fit>,
    /// The trace that stands in place of files and programs.
    trace: Option<Arc<Survey>>,
}
