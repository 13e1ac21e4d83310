// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `foreread stat`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use foreread_accounting::By;

use super::columns::Column;

use crate::typed::time_ns;

/// Shorter intervals would show little but foreread itself.
const INTERVAL_NS_MIN: u64 = 10_000_000;

#[derive(Debug, Args)]
#[command(override_usage = "foreread stat [OPTIONS] [INTERVAL [COUNT]]\n       \
    foreread stat [OPTIONS] [INTERVAL [COUNT]] -- COMMAND...")]
#[command(after_help = "Examples:\n  \
    sudo foreread stat 1                         by device, every second\n  \
    sudo foreread stat --by process,kind 5s 12   who reads ahead, how, for a minute\n  \
    sudo foreread stat --device sda --by file 2  which files of a disk, every two seconds\n  \
    sudo foreread stat --by file -- make         what make fetched, and what became of it\n  \
    foreread stat --module 1                     what the kernel module has read, and its use\n  \
    sudo foreread stat --listen /run/foreread.sock 1m   metrics for whoever asks there\n\n\
    Exit status: 0 done, 64 when something could not be followed, 2 when nothing can; with a \
    command, its own where that isn't 0. Nothing is changed.")]
pub struct StatArguments {
    /// How often to print, such as 500ms, 1m, or 2 for seconds; by default once, at the end or at
    /// Ctrl-C.
    #[arg(value_name = "INTERVAL", value_parser = interval_ns)]
    pub interval_ns: Option<u64>,
    /// How often in all.
    #[arg(value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Subjects that have lines of their own: machine, device, process, file, cgroup, kind, or
    /// several.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "device"
    )]
    pub by: Vec<By>,
    /// Count only what is on this device, its partitions included; may be given more than once.
    #[arg(long, value_name = "DEVICE")]
    pub device: Vec<String>,
    /// Count only for this process, by name or number; may be given more than once.
    #[arg(long, value_name = "PROCESS")]
    pub process: Vec<String>,
    /// Count only for processes of this cgroup and of those below it.
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// Show what the kernel module counts of its own windows, by device; needs no BPF. Without
    /// INTERVAL: once, since it was loaded.
    #[arg(long, conflicts_with_all = ["by", "process", "cgroup", "columns", "top", "openmetrics",
        "listen", "measure", "command"])]
    pub module: bool,
    /// Root directory of the system whose module it is.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/",
        hide = true,
        requires = "module"
    )]
    pub root: PathBuf,
    /// The columns, such as device,fetched,wasted; an unknown one lists all.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = column)]
    pub columns: Vec<Column>,
    /// How many lines at most, those that fetched most first.
    #[arg(long, value_name = "N", default_value_t = 20,
        value_parser = clap::value_parser!(u16).range(1..))]
    pub top: u16,
    /// Put the date and time above each table.
    #[arg(long, conflicts_with_all = ["json", "openmetrics"])]
    pub timestamps: bool,
    /// Print each table below the last one, also on a terminal.
    #[arg(long)]
    pub scroll: bool,
    /// Print one JSON document a line.
    #[arg(long, conflicts_with_all = ["openmetrics", "columns"])]
    pub json: bool,
    /// Print OpenMetrics.
    #[arg(long, conflicts_with = "columns")]
    pub openmetrics: bool,
    /// Answer with OpenMetrics, by HTTP, whoever connects to this UNIX socket.
    #[arg(long, value_name = "PATH")]
    pub listen: Option<PathBuf>,
    /// Write to this file; by default to standard output, or, with a command, to standard error.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Measure what this costs, and tell it too.
    #[arg(long = "self")]
    pub measure: bool,
    /// Follow only what this command and its children bring in, until it ends.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl StatArguments {
    /// The subjects that lines are told apart by: the union of all values of `--by`.
    pub fn by(&self) -> By {
        self.by.iter().fold(By::default(), |all, one| all.and(*one))
    }
}

fn interval_ns(text: &str) -> Result<u64, String> {
    let ns = time_ns(text)?;
    if ns < INTERVAL_NS_MIN {
        return Err(format!(
            "{text} is too short: an interval is 10ms or longer"
        ));
    }
    Ok(ns)
}

fn column(name: &str) -> Result<Column, String> {
    let found = Column::ALL.into_iter().find(|column| column.name() == name);
    found.ok_or_else(|| {
        let names = Column::ALL.map(Column::name);
        format!("{name} is none of {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_units_and_a_bare_number_is_seconds() {
        assert_eq!(interval_ns("1s"), Ok(1_000_000_000));
        assert_eq!(interval_ns("2"), Ok(2_000_000_000));
        assert_eq!(interval_ns("2m"), Ok(120_000_000_000));
        for wrong in ["0", "", "m", "-1", "1.5x", "1ms", "99999999999999999999m"] {
            assert!(interval_ns(wrong).is_err(), "{wrong}");
        }
    }
}
