// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `foreread trace`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use foreread_trace::{Format, Objects, ReadOptions, Target};

/// `foreread trace`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    foreread trace info make.strace\n  \
    foreread trace convert make.strace make.frt\n  \
    foreread trace cut make.frt part.iolog --from 10s --to 20s --file '*.h'\n  \
    strace -f -ttt -T -o /dev/stdout make | foreread trace convert - make.frt\n\n\
    Exit status: 0 done, 64 when something of the input could not be read, 2 when it is no trace \
    or nothing could be written.")]
pub struct TraceArguments {
    #[command(subcommand)]
    pub verb: TraceVerb,
}

#[derive(Debug, Subcommand)]
pub enum TraceVerb {
    /// Say what a trace is and holds.
    #[command(after_help = "Example:\n  foreread trace info make.strace\n\n\
        Exit status: 0 done, 64 when something of the input could not be read, 2 when it is no trace.")]
    Info(InfoArguments),
    /// Print the first accesses.
    #[command(after_help = "Example:\n  foreread trace head -n 20 make.frt\n\n\
        Exit status: 0 done, 64 when something of the input could not be read, 2 when it is no trace.")]
    Head(HeadArguments),
    /// Write a trace in another format.
    #[command(
        after_help = "Example:\n  foreread trace convert make.strace make.frt\n\n\
        Exit status: 0 done, 64 when something of the input could not be read, 2 when it is no trace."
    )]
    Convert(ConvertArguments),
    /// Write a part of a trace: of a time, of files, of a process.
    #[command(
        after_help = "Example:\n  foreread trace cut make.frt part.frt --from 10s --to 20s\n\n\
        Exit status: 0 done, 64 when something of the input could not be read, 2 when it is no trace."
    )]
    Cut(CutArguments),
}

/// How to read.
#[derive(Clone, Debug, Args)]
pub struct InputArguments {
    /// The format of a trace that is read; by default told from its content.
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub from_format: Option<FormatChoice>,
    /// Meaning of an object of oracleGeneral: a file, or a place in one address space.
    #[arg(long, value_enum, value_name = "UNIT", default_value = "files")]
    pub objects: ObjectsChoice,
}

impl InputArguments {
    pub fn options(&self) -> ReadOptions {
        ReadOptions {
            format: self.from_format.map(Format::from),
            objects: self.objects.into(),
        }
    }
}

#[derive(Debug, Args)]
pub struct InfoArguments {
    /// The trace; - is standard input.
    #[arg(value_name = "FILE")]
    pub input: PathBuf,
    #[command(flatten)]
    pub how: InputArguments,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct HeadArguments {
    /// The trace; - is standard input.
    #[arg(value_name = "FILE")]
    pub input: PathBuf,
    /// How many accesses.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub lines: u64,
    #[command(flatten)]
    pub how: InputArguments,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ConvertArguments {
    /// The trace to read; - is standard input.
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// The trace to write; - is standard output.
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// The format to write; by default that of OUT's extension: .frt, .iolog, .csv, .parquet.
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub to_format: Option<TargetChoice>,
    #[command(flatten)]
    pub how: InputArguments,
    /// Print what was done as JSON; on standard error when the trace goes to standard output.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct CutArguments {
    /// The trace to read; - is standard input.
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// The trace to write; - is standard output.
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// Only accesses from this time of the trace on, such as 10s or 2.5ms.
    #[arg(long, value_name = "TIME", value_parser = time_ns)]
    pub from: Option<u64>,
    /// Only accesses before this time of the trace.
    #[arg(long, value_name = "TIME", value_parser = time_ns)]
    pub to: Option<u64>,
    /// Only accesses of files whose path matches; * is any text, ? any character.
    #[arg(long, value_name = "GLOB")]
    pub file: Option<String>,
    /// Only accesses of this process.
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
    /// The format to write; by default that of OUT's extension.
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub to_format: Option<TargetChoice>,
    #[command(flatten)]
    pub how: InputArguments,
    /// Print what was done as JSON; on standard error when the trace goes to standard output.
    #[arg(long)]
    pub json: bool,
}

/// A format to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormatChoice {
    /// Foreread's own.
    Frt,
    /// fio's iolog, version 2 or 3.
    Fio,
    /// Output of `strace -f`.
    Strace,
    /// Output of `blkparse`.
    Blkparse,
    /// The access log of JuiceFS.
    #[value(name = "juicefs")]
    JuiceFs,
    /// libCacheSim's oracleGeneral.
    OracleGeneral,
}

impl From<FormatChoice> for Format {
    fn from(choice: FormatChoice) -> Self {
        match choice {
            FormatChoice::Frt => Self::Frt,
            FormatChoice::Fio => Self::Fio,
            FormatChoice::Strace => Self::Strace,
            FormatChoice::Blkparse => Self::Blkparse,
            FormatChoice::JuiceFs => Self::JuiceFs,
            FormatChoice::OracleGeneral => Self::OracleGeneral,
        }
    }
}

/// A format to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TargetChoice {
    /// Foreread's own.
    Frt,
    /// fio's iolog, version 3.
    Fio,
    /// fio's iolog, version 2: waits in place of times.
    Fio2,
    /// Comma-separated values.
    Csv,
    /// Parquet; only in builds with the feature `parquet`.
    #[cfg(feature = "parquet")]
    Parquet,
}

impl From<TargetChoice> for Target {
    fn from(choice: TargetChoice) -> Self {
        match choice {
            TargetChoice::Frt => Self::Frt,
            TargetChoice::Fio => Self::Fio,
            TargetChoice::Fio2 => Self::FioV2,
            TargetChoice::Csv => Self::Csv,
            #[cfg(feature = "parquet")]
            TargetChoice::Parquet => Self::Parquet,
        }
    }
}

/// Meaning of an object of oracleGeneral.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ObjectsChoice {
    /// A file of its own that is read whole.
    Files,
    /// A byte of one address space.
    Bytes,
    /// A sector of it, 512 bytes.
    Sectors,
    /// A page of it, 4096 bytes.
    Pages,
}

impl From<ObjectsChoice> for Objects {
    fn from(choice: ObjectsChoice) -> Self {
        match choice {
            ObjectsChoice::Files => Self::Files,
            ObjectsChoice::Bytes => Self::Bytes,
            ObjectsChoice::Sectors => Self::Sectors,
            ObjectsChoice::Pages => Self::Pages,
        }
    }
}

const UNITS: [(&str, f64); 6] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];

fn time_ns(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| c != '.' && !c.is_ascii_digit());
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit = UNITS.iter().find(|(name, _)| *name == unit);
    match (number.parse::<f64>(), unit) {
        (Ok(number), Some((_, ns))) => Ok((number * ns).round() as u64),
        (Ok(_), None) => Err(format!(
            "{text}: which unit? {number}s, {number}ms, {number}us, {number}ns, {number}m or \
             {number}h"
        )),
        (Err(_), _) => Err(format!("{text}: no time; such as 10s or 2.5ms")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_need_their_unit() {
        assert_eq!(time_ns("10s"), Ok(10_000_000_000));
        assert_eq!(time_ns("2.5ms"), Ok(2_500_000));
        assert_eq!(time_ns("1m"), Ok(60_000_000_000));
        assert!(time_ns("10").unwrap_err().contains("which unit"));
        assert!(time_ns("10x").unwrap_err().contains("which unit"));
        assert!(time_ns("s").unwrap_err().contains("no time"));
        assert!(time_ns("-1s").is_err());
    }
}
