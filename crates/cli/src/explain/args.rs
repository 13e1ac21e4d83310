// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `foreread explain`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sudo foreread explain 1234                    what a running watch does for a process\n  \
    foreread explain src/a.c --log watch.jsonl    what became of a file\n\n\
    The log is that of `sudo foreread watch --log watch.jsonl`, which may still be running; \
    it tells more.\n\n\
    Exit status: 0 done, 1 when nothing is known of it, 2 when the log can't be used or nobody \
    can be asked, 64 when the log lacks something of it.")]
pub struct ExplainArguments {
    /// A file or directory, or the number of a process. A file whose name is a number is `./1234`.
    #[arg(value_name = "FILE|PID")]
    pub what: OsString,
    /// A log of `foreread watch`; without one, the one that watches the machine now is asked.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}
