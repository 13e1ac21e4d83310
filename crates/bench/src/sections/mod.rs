// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sections of the bench.

mod advice;
mod agreement;
pub mod churn;
mod cold;
mod costs;
mod decision;
mod file_systems;
mod held;
mod image;
mod layout;
mod load;
pub mod many_files;
pub mod many_processes;
mod memory;
mod recording;
mod refresh;
mod simulator;
mod sizing;
mod small_device;
mod stat;
mod streams;
mod together;
mod trace;
mod warm;
mod watch;
mod wrong;

use clap::ValueEnum;
use foreread_measure::MeasureError;

use crate::context::{Context, MINUTES};
use crate::report::Section;

/// A section, by the name under which it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SectionName {
    /// Cold starts against the limit, on four disks.
    Cold,
    /// Cold starts on other file systems.
    FileSystems,
    /// Cold starts with profiles that are wrong.
    Wrong,
    /// Cost of `run` for a command whose files are in memory.
    Warm,
    /// Cost of a full recording.
    Recording,
    /// Cost of a later run, which keeps the profile fresh.
    Refresh,
    /// Memory for a profile of 50,000 files.
    Memory,
    /// How long a profile of 50,000 files takes to read.
    Load,
    /// Page accesses that the simulator plays in a second, and how near it comes to real machines.
    Simulator,
    /// How near the simulator comes to the same programs on the testbed.
    Agreement,
    /// Cost of one decision of a policy.
    Decision,
    /// How fast traces are read, and in how much memory.
    Trace,
    /// How long advice for 1,000 block devices takes.
    Advice,
    /// Reads that a label probe causes on a small slow device.
    SmallDevice,
    /// Whether `probe` finds the plateau of ten devices, and how long it takes.
    Sizing,
    /// Programs that walk through a tree, with `foreread watch` and without.
    Watch,
    /// Programs with a profile, with `foreread watch` and without.
    Together,
    /// Programs that read large files, with `foreread watch` and without.
    Streams,
    /// How near the forecasts of `layout` come to replays, before a move and after it.
    Layout,
    /// What a move is worth to the second run of a program.
    LayoutStarts,
    /// How fast files are moved.
    LayoutSpeed,
    /// Cold starts from images in the order of need.
    Image,
    /// Cost of `foreread stat`.
    Stat,
    /// Resources that `foreread watch` holds while programs, files and mounts come and go.
    Churn,
    /// Resources that it holds while very many processes exist at once.
    ManyProcesses,
    /// Resources that it holds while programs go through a tree of very many files; only where
    /// asked for.
    ManyFiles,
}

impl SectionName {
    /// Those that are measured where none is asked for.
    pub const USUAL: [Self; 25] = [
        Self::Cold,
        Self::FileSystems,
        Self::Wrong,
        Self::Warm,
        Self::Recording,
        Self::Refresh,
        Self::Memory,
        Self::Load,
        Self::Simulator,
        Self::Agreement,
        Self::Decision,
        Self::Trace,
        Self::Advice,
        Self::SmallDevice,
        Self::Sizing,
        Self::Watch,
        Self::Together,
        Self::Streams,
        Self::Layout,
        Self::LayoutStarts,
        Self::LayoutSpeed,
        Self::Image,
        Self::Stat,
        Self::Churn,
        Self::ManyProcesses,
    ];

    /// Duration on a machine with two processors, in minutes.
    pub fn minutes(self, quick: bool) -> f64 {
        let minutes = match self {
            Self::Cold => 10.0,
            Self::FileSystems => 5.5,
            Self::Wrong => 25.0,
            Self::Warm => 1.0,
            Self::Recording => 2.5,
            Self::Refresh => 3.0,
            Self::Memory => 1.0,
            Self::Load | Self::Decision | Self::Advice => 0.1,
            Self::Simulator | Self::SmallDevice => 0.3,
            Self::Agreement => 15.0,
            Self::Trace => 3.0,
            Self::Sizing => 13.0,
            Self::Watch => 6.0,
            Self::Together => 1.5,
            Self::Layout => 2.5,
            Self::LayoutStarts => 4.0,
            Self::LayoutSpeed => 3.0,
            Self::Image => 1.5,
            Self::Streams => 12.0,
            Self::Stat => 2.0,
            Self::Churn => MINUTES + 0.3,
            Self::ManyProcesses => 0.4,
            Self::ManyFiles => 5.0,
        };
        match (quick, self) {
            (false, _) => minutes,
            // The long starts can't be had shorter.
            (true, Self::Cold | Self::FileSystems | Self::Watch) => minutes * 0.7,
            // The time that was asked for.
            (true, Self::Churn | Self::ManyProcesses | Self::ManyFiles) => minutes,
            (true, Self::Agreement) => minutes * 0.5,
            (true, _) => minutes * 0.3,
        }
    }

    pub fn measure(self, context: &mut Context) -> Result<Section, MeasureError> {
        match self {
            Self::Cold => cold::measure(context),
            Self::FileSystems => file_systems::measure(context),
            Self::Wrong => wrong::measure(context),
            Self::Warm => warm::measure(context),
            Self::Recording => recording::measure(context),
            Self::Refresh => refresh::measure(context),
            Self::Memory => memory::measure(context),
            Self::Load => load::measure(context),
            Self::Simulator => simulator::measure(context),
            Self::Agreement => agreement::measure(context),
            Self::Decision => decision::measure(context),
            Self::Trace => trace::measure(context),
            Self::Advice => advice::measure(context),
            Self::SmallDevice => small_device::measure(context),
            Self::Sizing => sizing::measure(context),
            Self::Watch => watch::measure(context),
            Self::Together => together::measure(context),
            Self::Streams => streams::measure(context),
            Self::Layout => layout::forecast::measure(context),
            Self::LayoutStarts => layout::starts::measure(context),
            Self::LayoutSpeed => layout::speed::measure(context),
            Self::Image => image::measure(context),
            Self::Stat => stat::measure(context),
            Self::Churn => churn::measure(context),
            Self::ManyProcesses => many_processes::measure(context),
            Self::ManyFiles => many_files::measure(context),
        }
    }
}
