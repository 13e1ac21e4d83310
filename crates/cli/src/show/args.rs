// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `foreread show`.

use clap::Args;

use crate::named_profile::ProfileArguments;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    foreread show                         all profiles that run keeps\n  \
    foreread show build.frp               one profile\n  \
    foreread show -- grep -r x .          what `run -- grep -r x .` would use here\n\n\
    Exit status: 0 done, 2 when there is no such profile or it can't be read.")]
pub struct ShowArguments {
    #[command(flatten)]
    pub profile: ProfileArguments,
    /// List everything in the profile, with pages, time of first need, and weight.
    #[arg(long)]
    pub files: bool,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}
