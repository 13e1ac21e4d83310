// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of `foreread report`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(
    override_usage = "foreread report [OPTIONS] [PROFILE | -- COMMAND...]",
    after_help = "Examples:\n  \
    sudo foreread report --output machine.html             the whole machine\n  \
    foreread report grep-1f0e2d3c.frp --output grep.html   the runs of one program, by the name \
    that\n                                                         `foreread show` lists\n  \
    foreread report --output grep.html -- grep -rn x .     the same, by its command line\n  \
    sudo foreread report --json                            as a document\n\n\
    Exit status: 0 done, 64 when something is left out, which is said, 2 when there is no such \
    profile or the page can't be written. Nothing is changed; recorders are loaded and attached for \
    a moment, as by `foreread doctor`."
)]
pub struct ReportArguments {
    /// A profile: a file, or a name as `foreread show` lists it. Without, the whole machine.
    #[arg(value_name = "PROFILE", conflicts_with = "command")]
    pub profile: Option<PathBuf>,
    /// Write to this file, and not to standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
    /// Look at the devices and boots of the machine below this directory.
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub sysroot: PathBuf,
    /// The command line whose profile it is, in this directory.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
