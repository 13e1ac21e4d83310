// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `foreread watch`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use foreread_core::Bytes;

use crate::typed::size;

#[derive(Debug, Args)]
#[command(
    override_usage = "foreread watch [OPTIONS] [--pid PID | --cgroup PATH | --all]\n       \
    foreread watch [OPTIONS] -- COMMAND..."
)]
#[command(after_help = "Examples:\n  \
    sudo foreread watch                            ahead of every program, until Ctrl-C\n  \
    sudo foreread watch -- grep -rq folio src      ahead of this one\n  \
    sudo foreread watch --pid 1234 --budget 512M   ahead of a running one and its children\n  \
    sudo foreread watch --dry-run --verbose        only say what was detected\n\n\
    Exit status: 0 done, 64 when something was lost on the way, 2 when nothing can be watched; with \
    a command, its own where that isn't 0, and 64 when it ran unwatched. Nothing is changed.")]
pub struct WatchArguments {
    /// Watch this process and its children.
    #[arg(long, value_name = "PID", conflicts_with_all = ["cgroup", "all", "command"],
        value_parser = clap::value_parser!(u32).range(1..=0x7fff_ffff))]
    pub pid: Option<u32>,
    /// Watch the processes of this cgroup and of those below it.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["all", "command"])]
    pub cgroup: Option<PathBuf>,
    /// Watch every process, which is what it does where nothing else is said.
    #[arg(long, conflicts_with = "command")]
    pub all: bool,
    /// Read ahead only on this device, its partitions included; may be given more than once.
    #[arg(long, value_name = "DEVICE")]
    pub device: Vec<String>,
    /// Settings, by default those of `/etc/foreread/watch.toml` where the machine is watched; what
    /// is said here comes first. SIGHUP has them read again.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Most memory that holds what one program hasn't come to yet, such as 512M; by default half
    /// of what is available, and never more.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub budget: Option<Bytes>,
    /// Fetch nothing; only detect directory traversals, streams and profiles.
    #[arg(long)]
    pub dry_run: bool,
    /// Write what is decided, and what comes of it, to this file, one JSON document a line; `-` for
    /// standard error.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Print each decision on standard error, as a line.
    #[arg(short, long)]
    pub verbose: bool,
    /// Put the date and time before each of these lines.
    #[arg(long, requires = "verbose")]
    pub timestamps: bool,
    /// Print one JSON document at the end.
    #[arg(long)]
    pub json: bool,
    /// Watch only this command and its children, until it ends.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
