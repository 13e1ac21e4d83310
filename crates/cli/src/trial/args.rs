// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `foreread try`.

use std::ffi::OsString;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sudo foreread try -- git status\n  \
    sudo foreread try --runs 10 --drop-caches -- ./server --check\n\n\
    The command runs once to be recorded, and then twice a round: alone and with a replay, in turn. \
    Its standard output and standard error are thrown away. Before each run the files that it reads \
    are dropped from memory: names and inodes stay, and so do pages of files that another program \
    has mapped. Profiles that `run` keeps are neither used nor changed.\n\n\
    Exit status: 0 it is worth it, 1 it isn't or that isn't clear, 2 when nothing could be \
    measured, 64 when it was interrupted.")]
pub struct TryArguments {
    /// How many rounds.
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(3..=1000))]
    pub runs: u32,
    /// Drop all caches of the machine before each run, as after a restart. Every program on it
    /// reads from disk afterwards. Needs root.
    #[arg(long)]
    pub drop_caches: bool,
    /// Go on when the command ends with another status than 0.
    #[arg(short, long)]
    pub ignore_failure: bool,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
    /// The command and its arguments.
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
