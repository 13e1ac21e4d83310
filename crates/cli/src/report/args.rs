// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of `foreread report`.

use std::path::PathBuf;

use clap::Args;

use crate::named_profile::ProfileArguments;

#[derive(Debug, Args)]
#[command(
    override_usage = "foreread report [OPTIONS] [PROFILE | -- COMMAND...]",
    after_help = "Examples:\n  \
    sudo foreread report --output machine.html             the whole machine\n  \
    foreread report grep-1f0e2d3c --output grep.html       the runs of one program\n  \
    foreread report --output grep.html -- grep -rn x .     the same, by its command line\n  \
    sudo foreread report --json                            as a document\n\n\
    Exit status: 0 done, 64 when something is left out, which is said, 2 when there is no such \
    profile or the page can't be written. Nothing is changed; recorders are loaded and attached for \
    a moment, as by `foreread doctor`."
)]
pub struct ReportArguments {
    #[command(flatten)]
    pub profile: ProfileArguments,
    /// Write to this file, and not to standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
    /// The root directory of the system whose devices and boots are shown.
    #[arg(long = "root", value_name = "DIR", default_value = "/")]
    pub sysroot: PathBuf,
}
