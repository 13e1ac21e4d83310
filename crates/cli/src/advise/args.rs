// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of `foreread advise`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use foreread_device::{Expected, Reading, STREAMS_DEFAULT};

/// Predominant access pattern of the devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum UseChoice {
    /// Large files from start to end, and little else.
    Sequential,
    /// Some of everything.
    #[default]
    Mixed,
    /// Files mapped into memory and read here and there, as search engines do.
    Mapped,
    /// Small reads all over, as most databases do.
    Random,
}

impl From<UseChoice> for Reading {
    fn from(choice: UseChoice) -> Self {
        match choice {
            UseChoice::Sequential => Self::Sequential,
            UseChoice::Mixed => Self::Mixed,
            UseChoice::Mapped => Self::Mapped,
            UseChoice::Random => Self::Random,
        }
    }
}

/// Expected load, which the advice depends on.
#[derive(Debug, Args)]
pub struct ExpectedArguments {
    /// Sequential readers at once, for the share of memory that their windows may take.
    #[arg(long, value_name = "N", default_value_t = STREAMS_DEFAULT,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub streams: u32,
    /// Predominant access pattern of the devices.
    #[arg(long = "use", value_name = "USE", value_enum, default_value_t)]
    pub reading: UseChoice,
}

impl ExpectedArguments {
    /// As the advice takes them.
    pub fn expected(&self) -> Expected {
        Expected {
            streams: self.streams,
            reading: self.reading.into(),
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    foreread advise                         every device and mount, in one table\n  \
    foreread advise sda /srv --explain      why, in prose\n  \
    foreread advise --use random --json     for databases, as a document\n\n\
    Exit status: 0 advice given, 2 when there is no such device. Nothing is changed, and no root is \
    needed: what can't be read is named.")]
pub struct AdviseArguments {
    /// A disk (sda, /dev/sda), a partition, which is its disk, a mapping (/dev/mapper/home), a
    /// number (8:0) or a mount point; by default all.
    #[arg(value_name = "DEVICE")]
    pub devices: Vec<String>,
    /// Say why, a paragraph for each device.
    #[arg(long)]
    pub explain: bool,
    #[command(flatten)]
    pub expected: ExpectedArguments,
    /// The root directory of the system.
    #[arg(long = "root", value_name = "DIR", default_value = "/")]
    pub sysroot: PathBuf,
    /// Print one JSON document.
    #[arg(long, conflicts_with = "explain")]
    pub json: bool,
}
