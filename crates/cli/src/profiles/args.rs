// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `foreread profiles`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::show::args::ShowArguments;
use crate::typed::time_ns;

#[derive(Debug, Args)]
#[command(arg_required_else_help = true, subcommand_required = true)]
pub struct ProfilesArguments {
    #[command(subcommand)]
    pub what: ProfilesVerb,
}

#[derive(Debug, Subcommand)]
pub enum ProfilesVerb {
    /// List the stored profiles: command, last run, size, and what the last replay saved.
    List(ListArguments),
    /// Show what a profile holds, and what its replays were worth.
    #[command(after_help = "Example:\n  foreread profiles show -- git status\n\n\
        It is `foreread show`.\n\n\
        Exit status: 0 done, 2 when there is no such profile or it can't be read.")]
    Show(ShowArguments),
    /// Remove stored profiles; the next run of these commands records.
    Forget(ForgetArguments),
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  foreread profiles list\n\n\
    Exit status: 0 done, 2 when the directory of profiles can't be read.")]
pub struct ListArguments {
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    foreread profiles forget git-1b2c3d4e       by its name in `foreread profiles list`\n  \
    foreread profiles forget --unused-for 90d   those that no run has used for so long\n  \
    foreread profiles forget --all --dry-run    print which these are\n\n\
    Files outside of the directory of profiles are never removed.\n\n\
    Exit status: 0 done, 1 when there was none, 2 when one can't be removed.")]
pub struct ForgetArguments {
    /// Names of stored profiles.
    #[arg(value_name = "PROFILE", required_unless_present_any = ["all", "unused_for_ns"])]
    pub profiles: Vec<PathBuf>,
    /// All profiles.
    #[arg(long, conflicts_with_all = ["profiles", "unused_for_ns"])]
    pub all: bool,
    /// Profiles that no run has used for so long, such as 90d.
    #[arg(long = "unused-for", value_name = "TIME", value_parser = time_ns,
        conflicts_with = "profiles")]
    pub unused_for_ns: Option<u64>,
    /// Print what would be removed, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}
