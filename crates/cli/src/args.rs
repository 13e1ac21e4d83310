// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, StyledStr};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Parser, Subcommand, ValueEnum};
use foreread_core::Bytes;

use crate::advise::args::AdviseArguments;
use crate::alone::Failed;
use crate::apply::args::{ApplyArguments, RollbackArguments};
use crate::boot::args::BootArguments;
use crate::config::args::ConfigArguments;
use crate::config::defaults::Defaults;
use crate::config::files;
use crate::explain::args::ExplainArguments;
use crate::kernel::args::KernelArguments;
use crate::layout::args::LayoutArguments;
use crate::named_profile::ProfileArguments;
use crate::package::args::PackageArguments;
use crate::probe::args::ProbeArguments;
use crate::profiles::args::ProfilesArguments;
use crate::report::args::ReportArguments;
use crate::show::args::ShowArguments;
use crate::stat::args::StatArguments;
use crate::status::args::StatusArguments;
use crate::trace::args::{InputArguments, TraceArguments};
use crate::trial::args::TryArguments;
use crate::typed::{size, time_ns};
use crate::watch::args::WatchArguments;
use crate::{output, text};

/// Makes cold reads fast on Linux.
///
/// Records what a program reads, and from then on has it in memory just before the program asks.
#[derive(Debug, Parser)]
#[command(
    name = "foreread",
    version,
    max_term_width = 100,
    propagate_version = true,
    help_template = include_str!("help.txt")
)]
pub struct Arguments {
    #[command(flatten)]
    common: CommonArguments,
    #[command(subcommand)]
    pub verb: Verb,
}

/// Options that each verb takes.
#[derive(Debug, Args)]
struct CommonArguments {
    /// Print no progress and no report of what was done; results, warnings and errors stay.
    #[arg(short, long, global = true)]
    quiet: bool,
}

impl CommonArguments {
    fn take_effect(&self) {
        if self.quiet {
            output::be_quiet();
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run a command: record what it reads the first time, replay it ahead of it afterwards.
    Run(RunArguments),
    /// Measure what a replay is worth to a command, from cold files.
    Try(TryArguments),
    /// Record what a command reads into a profile file.
    Record(RecordArguments),
    /// Bring what a profile names into the page cache.
    Replay(ReplayArguments),
    /// Show what a profile holds, and what its replays were worth.
    Show(ShowArguments),
    /// Merge several profiles into one.
    Merge(MergeArguments),
    /// List, show and remove the profiles that run keeps.
    Profiles(ProfilesArguments),
    /// Record a boot, and replay it ahead of later ones.
    Boot(BootArguments),
    /// Show where the files of a profile lie on the disk, and plan where they should lie.
    Layout(LayoutArguments),
    /// Watch live reads, and read ahead of them better than the kernel does.
    Watch(WatchArguments),
    /// Count live what becomes of pages that are read ahead.
    Stat(StatArguments),
    /// Explain what watch does for a file or a process, and why.
    Explain(ExplainArguments),
    /// Read ahead by a policy inside the kernel: a module is installed, loaded and set.
    Kernel(KernelArguments),
    /// Measure which readahead size suits a device.
    Probe(ProbeArguments),
    /// Recommend a readahead size for each disk and mount, with the reason.
    Advise(AdviseArguments),
    /// Set readahead sizes: those that are recommended, or one that is named.
    Apply(ApplyArguments),
    /// Undo what apply has set.
    Rollback(RollbackArguments),
    /// Simulate readahead policies on modelled devices, in virtual time.
    Sim(SimArguments),
    /// Compare readahead policies over workloads, devices and sizes of memory.
    Compare(CompareArguments),
    /// Show, convert or cut a trace of accesses.
    Trace(TraceArguments),
    /// Find where the block layer holds reads back, from a trace or live.
    Analyze(AnalyzeArguments),
    /// Check that this kernel reads ahead as the simulator's model of it does.
    CheckKernel(CheckKernelArguments),
    /// Show the state of the machine: watcher, profiles, boot, layout, readahead that was set.
    Status(StatusArguments),
    /// Show the defaults of options, and the file that sets each.
    Config(ConfigArguments),
    /// Write a page of this machine, or of the runs of one program.
    Report(ReportArguments),
    /// Check what this machine allows and lacks, with the remedy.
    Doctor(DoctorArguments),
    /// Show what Foreread is worth, on a modelled disk: three programs, with and without it.
    Demo(DemoArguments),
    /// Write what an installation needs beside the program.
    #[command(hide = true)]
    Package(PackageArguments),
}

/// What `foreread` alone prints.
const FIRST_LOOK: &str = "\
Speed up a command:    sudo foreread try -- COMMAND
Speed up the machine:  sudo systemctl enable --now foreread-watch
Size the disks:        foreread advise, then sudo foreread apply
Study readahead:       foreread compare       (all verbs: foreread help)
";

/// `foreread run` by itself. Building the options of all verbs touches 250 KiB of the executable
/// that a cold start would read from disk, and `run` is what has to start fast.
#[derive(Debug, Parser)]
#[command(
    name = "foreread",
    version,
    max_term_width = 100,
    propagate_version = true
)]
struct RunAlone {
    #[command(flatten)]
    common: CommonArguments,
    #[command(subcommand)]
    verb: RunVerb,
}

#[derive(Debug, Subcommand)]
enum RunVerb {
    /// Run a command: record what it reads the first time, replay it ahead of it afterwards.
    Run(RunArguments),
}

impl Verb {
    /// Parses the command line; ends the process with help or an error where that is the answer.
    pub fn parse() -> Self {
        if std::env::args_os().len() == 1 {
            // What it is for, in a look. A closed pipe is no failure.
            let _ = text::print(FIRST_LOOK);
            std::process::exit(0);
        }
        if std::env::args_os().nth(1).is_some_and(|verb| verb == "run") {
            let parsed: RunAlone = parse_or_exit();
            parsed.common.take_effect();
            let RunVerb::Run(arguments) = parsed.verb;
            return Self::Run(arguments);
        }
        let parsed: Arguments = parse_or_exit();
        parsed.common.take_effect();
        parsed.verb
    }

    /// The user with whose rights that command is to run, if it isn't ours.
    pub fn user(&self) -> Option<&str> {
        match self {
            Self::Run(arguments) => arguments.user.as_deref(),
            Self::Record(arguments) => arguments.user.as_deref(),
            _ => None,
        }
    }

    /// The command that runs under this verb, for which all signals are, and what a failure of ours
    /// means for it.
    pub fn command(&self) -> Option<(&[OsString], Failed)> {
        let (command, failed) = match self {
            Self::Run(arguments) => (&arguments.command, Failed::Nothing),
            Self::Record(arguments) => (&arguments.command, Failed::Wholly),
            Self::Watch(arguments) => (&arguments.command, Failed::Partly),
            Self::Stat(arguments) => (&arguments.command, Failed::Partly),
            Self::Analyze(arguments) => (&arguments.command, Failed::Wholly),
            _ => return None,
        };
        (!command.is_empty()).then_some((command, failed))
    }
}

/// Parses the command line; ends the process with help or an error where that is the answer.
fn parse_or_exit<P: Parser>() -> P {
    // A file that can't be used must not keep a command from being run; the line is a warning then.
    let defaults = files::read().unwrap_or_else(|error| {
        // `config` itself ends with the error.
        if std::env::args_os()
            .nth(1)
            .is_none_or(|verb| verb != "config")
        {
            output::error(&error);
        }
        Defaults::default()
    });
    let parse = |command: clap::Command| {
        let matches = command.try_get_matches()?;
        P::from_arg_matches(&matches)
    };
    if !defaults.is_empty() {
        match parse(defaults.apply(P::command())) {
            Ok(parsed) => return parsed,
            Err(error) if !error.use_stderr() => error.exit(),
            Err(error) => {
                // It is the file's fault where the same words can be parsed without it.
                if let Ok(parsed) = parse(P::command()) {
                    let why = error.to_string();
                    let why = why
                        .lines()
                        .next()
                        .unwrap_or_default()
                        .trim_start_matches("error: ");
                    let files = defaults.files();
                    output::note(&format!("the defaults of {files} are left out: {why}"));
                    return parsed;
                }
            }
        }
    }
    parse(P::command()).unwrap_or_else(|error| with_tip(error).exit())
}

/// Says where a command goes, when a word was found that the verb doesn't take, and it takes a
/// command.
fn with_tip(mut error: clap::Error) -> clap::Error {
    let is_word = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) => !word.starts_with('-'),
        _ => false,
    };
    let takes_command = match error.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => usage.to_string().contains("-- "),
        _ => false,
    };
    if error.kind() == ErrorKind::UnknownArgument && is_word && takes_command {
        let tip = StyledStr::from("a command comes after `--`");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    error
}

/// Which recorder to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RecorderChoice {
    /// The best that works here.
    #[default]
    Auto,
    /// Accesses, aggregated in the kernel.
    Bpf,
    /// Accesses from a tracefs instance.
    Tracefs,
    /// Opened files, pages by residency.
    Fanotify,
}

impl From<RecorderChoice> for foreread_linux_recorder::Choice {
    fn from(choice: RecorderChoice) -> Self {
        match choice {
            RecorderChoice::Auto => Self::Best,
            RecorderChoice::Bpf => Self::Bpf,
            RecorderChoice::Tracefs => Self::Tracefs,
            RecorderChoice::Fanotify => Self::Fanotify,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  foreread run -- grep -rn needle .\n  \
    sudo foreread run --user $USER -- git status    it runs as you, and is recorded by root\n\n\
    Exit status: that of COMMAND; 127 when it isn't found, 126 when it can't be executed, 2 when \
    foreread itself was used wrongly.")]
pub struct RunArguments {
    /// Most memory to fill ahead of the command, such as 512M; by default half of what is
    /// available.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub budget: Option<Bytes>,
    /// Write the report to this file, too. It goes to standard error: standard output belongs to
    /// the command.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print the report as one JSON document.
    #[arg(long)]
    pub json: bool,
    /// Record afresh, without replaying, and forget what was known.
    #[arg(long)]
    pub fresh: bool,
    /// Run the command with the rights of this user; recording and replaying stay with root.
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// How to record.
    #[arg(long, value_enum, default_value_t)]
    pub recorder: RecorderChoice,
    /// The command and its arguments.
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  foreread record -o build.frp -- make -j4\n  \
    foreread record --trace build.frt -- make -j4\n\n\
    Exit status: that of COMMAND; 127 when it isn't found, 126 when it can't be executed, 2 when \
    nothing could be recorded or saved."
)]
pub struct RecordArguments {
    /// The profile to write.
    #[arg(short, long, value_name = "FILE", required_unless_present = "trace")]
    pub output: Option<PathBuf>,
    /// Write a trace instead, with each access, when it was and how long it waited.
    #[arg(long, value_name = "FILE", conflicts_with = "output")]
    pub trace: Option<PathBuf>,
    /// Print the report as one JSON document, on standard error: standard output belongs to the
    /// command.
    #[arg(long)]
    pub json: bool,
    /// Run the command with the rights of this user; recording stays with root.
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// How to record.
    #[arg(long, value_enum, default_value_t)]
    pub recorder: RecorderChoice,
    /// The command and its arguments.
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  foreread replay build.frp\n  \
    foreread replay -- git status    what `run -- git status` has recorded in this directory\n\n\
    Exit status: 0 all brought in, 64 only a part of it, 2 when the profile can't be read.")]
pub struct ReplayArguments {
    #[command(flatten)]
    pub profile: ProfileArguments,
    /// Most memory to fill, such as 512M; by default half of what is available.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub budget: Option<Bytes>,
    /// Print what was done as JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  foreread merge -o build.frp monday.frp tuesday.frp\n\n\
    Exit status: 0 done, 2 when a profile can't be read or the result can't be saved."
)]
pub struct MergeArguments {
    /// The profile to write; it may be one of those read.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Print what was done as JSON.
    #[arg(long)]
    pub json: bool,
    /// The profiles to put together, two or more: files, or names as `foreread show` lists them.
    #[arg(value_name = "PROFILE", required = true, num_args = 2..)]
    pub profiles: Vec<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    foreread sim dd.toml --policy linux,safe-2010 --device hdd,cloud --read-ahead 128K,512K\n  \
    foreread sim dd.toml --access 40       what was decided around access 40, and why\n  \
    foreread sim x25m.toml --check         whether what the scenario expects comes out\n  \
    foreread sim make.frt --policy linux,none --device hdd,nvme --memory 256M\n  \
    foreread sim --replay watch.jsonl      the decisions of `foreread watch --log`, made again\n  \
    foreread sim --replay trace.txt        those of the kernel module, by its tracepoints\n\n\
    Exit status: 0 done, 1 when a row that --check asks for is not reached or a decision that \
    --replay makes is another one, 2 when the scenario, the trace or an argument can't be used, 64 \
    when something of a trace could not be read, or of a log was lost.")]
pub struct SimArguments {
    /// The scenario, a TOML file, see docs/scenarios.md; or a trace, see docs/trace.md.
    #[arg(value_name = "SCENARIO", required_unless_present = "replay")]
    pub scenario: Option<PathBuf>,
    /// Make the decisions of a log of `foreread watch`, or of the tracepoints of the kernel module,
    /// again, from the same events; exit with 1 when one comes out otherwise.
    #[arg(long, value_name = "LOG", conflicts_with_all = ["scenario", "explain", "svg", "check",
        "fit", "csv", "streams"])]
    pub replay: Option<PathBuf>,
    /// With --replay of the kernel module's tracepoints, each decision in words.
    #[arg(long, short, requires = "replay", conflicts_with = "json")]
    pub verbose: bool,
    #[command(flatten)]
    pub values: SimValues,
    #[command(flatten)]
    pub how: InputArguments,
    /// Explain what was decided around access N, what the policy saw, and why.
    #[arg(long = "access", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub explain: Option<u64>,
    /// Draw windows over time, as SVG.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Exit with 1 when a row that the scenario expects does not come out.
    #[arg(long)]
    pub check: bool,
    /// Find the parameters that the scenario's [fit] names, and print them.
    #[arg(long, conflicts_with_all = ["json", "csv", "explain", "svg", "check"])]
    pub fit: bool,
    /// Print one JSON document.
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// With --json, each stream too.
    #[arg(long = "each-stream", requires = "json")]
    pub streams: bool,
    /// Print a line of comma-separated values for each run.
    #[arg(long)]
    pub csv: bool,
}

/// Values that replace those of a scenario.
#[derive(Debug, Args)]
pub struct SimValues {
    /// Policies to try, in place of the scenario's; `oracle` is the limit: it knows the future.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub policy: Vec<String>,
    /// The Linux release whose readahead `linux` is, with its known departures from its own rules:
    /// 6.1, 6.12, 6.18 or 7.3.
    #[arg(long, value_name = "RELEASE")]
    pub kernel: Option<String>,
    /// Devices to try.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub device: Vec<String>,
    /// Maximum windows to try, such as 128K,512K.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = size)]
    pub read_ahead: Vec<Bytes>,
    /// Sizes of the page cache to try, such as 256M.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = size)]
    pub memory: Vec<Bytes>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    foreread compare --policy linux,safe-2010,none\n  \
    foreread compare --policy linux,safe-2010 --device hdd --html compare.html\n  \
    foreread compare make.frt grep.frt --device hdd,cloud,nvme --memory 128M,1G\n\n\
    Exit status: 0 done, 2 when a workload or an argument can't be used, 64 when something of a \
    trace could not be read.")]
pub struct CompareArguments {
    /// Workloads: scenarios, see docs/scenarios.md, traces, or directories of both [default: the
    /// program's own, w01-sequential-128k to w20-scan-beside-lookups].
    #[arg(value_name = "WORKLOAD")]
    pub workloads: Vec<PathBuf>,
    #[command(flatten)]
    pub values: SimValues,
    #[command(flatten)]
    pub how: InputArguments,
    /// List the cells where these policies lose most against linux, and draw them in --html.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub show: Vec<String>,
    /// Report a quarter of the workloads, drawn with this seed, apart from the others.
    #[arg(long, value_name = "SEED")]
    pub held_out: Option<u64>,
    /// Write a page of charts to this file; it needs no script and no network.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print one JSON document, with every cell.
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print a line of comma-separated values for each cell and policy.
    #[arg(long)]
    pub csv: bool,
}

#[derive(Debug, Args)]
#[command(override_usage = "foreread analyze [OPTIONS] TRACE\n       \
    foreread analyze [OPTIONS] --live DEVICE... [--for TIME | -- COMMAND...]")]
#[command(after_help = "Examples:\n  \
    blktrace -d /dev/sda -o - | blkparse -i - | foreread analyze -\n  \
    foreread analyze sda.txt --process grep --svg sda.svg\n  \
    sudo foreread analyze --live /dev/sda -- dd if=/dev/sda of=/dev/null bs=1M count=100\n\n\
    Exit status: 0 done, 64 when lines could not be read or events were lost, 2 when there is \
    nothing to analyze; with a command, its own where that isn't 0.")]
pub struct AnalyzeArguments {
    /// Output of blkparse; `-` is standard input.
    #[arg(
        value_name = "TRACE",
        required_unless_present = "live",
        conflicts_with = "live"
    )]
    pub trace: Option<PathBuf>,
    /// Watch these disks instead.
    #[arg(long, value_name = "DEVICE", num_args = 1..)]
    pub live: Vec<PathBuf>,
    /// How long to watch, such as 10s; by default until the command ends, or until Ctrl-C.
    #[arg(long = "for", value_name = "TIME", requires = "live", value_parser = time_ns,
        conflicts_with = "command")]
    pub for_ns: Option<u64>,
    /// Save what was seen as blkparse would print it, to analyze it again.
    #[arg(short, long, value_name = "FILE", requires = "live")]
    pub output: Option<PathBuf>,
    /// Only this device, by numbers (8,16), path or name; may be given more than once.
    #[arg(long, value_name = "DEVICE")]
    pub device: Vec<String>,
    /// Only what this process asked for, by name or number; may be given more than once.
    #[arg(long, value_name = "PROCESS")]
    pub process: Vec<String>,
    /// Shortest time in a plug or the scheduler that counts as held back.
    #[arg(long, value_name = "TIME", default_value = "100us", value_parser = time_ns)]
    pub held_back_over: u64,
    /// How many of those that waited longest to tell.
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u16).range(0..=10_000))]
    pub worst: u16,
    /// Draw requests over time and sector, as SVG.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
    /// The command to run while watching.
    #[arg(last = true, value_name = "COMMAND", requires = "live")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sudo foreread doctor\n\n\
    Exit status: 0 when run and replay work fully, 1 when something lacks. Nothing is changed; the \
    recorders are loaded and attached for a moment.")]
pub struct DoctorArguments {
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
    /// Print also each BPF program that this kernel takes: what it is attached to, and what the
    /// kernel's verifier counted.
    #[arg(long = "bpf")]
    pub programs: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  sudo foreread demo                             two to three \
    minutes\n  sudo foreread demo --device cloud --programs grep --svg grep.svg\n  sudo foreread demo \
    --device nfs --set latency_ns=5ms\n\n\
    Exit status: 0 done, 2 when this machine can't have a modelled disk or something failed. The \
    page cache of the whole machine is dropped again and again; nothing else is changed."
)]
pub struct DemoArguments {
    /// The modelled disk.
    #[arg(long, value_name = "NAME", default_value = "hdd",
        value_parser = PossibleValuesParser::new(foreread_model::PRESET_NAMES))]
    pub device: String,
    /// Change a parameter of the disk, such as latency_ns=5ms; an unknown KEY lists all.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// The programs to measure, in this order.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "grep,python,git",
        value_parser = PossibleValuesParser::new(foreread_measure::names::PROGRAM_NAMES))]
    pub programs: Vec<String>,
    /// How many files to copy from this machine, for grep and git to read.
    #[arg(long = "file-count", value_name = "N", default_value_t = 8000,
        value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub files: u64,
    /// Draw the disk's requests over position and time, for the first program, as SVG.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// How `check-kernel` looks at the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ByChoice {
    /// BPF where that works, else residency.
    #[default]
    Auto,
    /// Each folio, window and state, from the tracepoints of Linux 6.18.
    Bpf,
    /// Which pages are cached and mapped after each step.
    Residency,
}

impl From<ByChoice> for foreread_linux_check::By {
    fn from(choice: ByChoice) -> Self {
        match choice {
            ByChoice::Auto => Self::Auto,
            ByChoice::Bpf => Self::Bpf,
            ByChoice::Residency => Self::Residency,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sudo foreread check-kernel                            1,000 programs on ext4, xfs and btrfs\n  \
    sudo foreread check-kernel --seed 7 --program 12      one of them\n  \
    sudo foreread check-kernel --without late-hole        the same model without a known defect\n  \
    foreread check-kernel --method residency --directory .    without BPF and root, on a disk of yours\n\n\
    Exit status: 0 all equal, 1 a program differed, 2 when it can't run here. Files are made and \
    removed, on modelled disks or below DIR; nothing else is changed.")]
pub struct CheckKernelArguments {
    /// How many programs to run on each file system.
    #[arg(long = "count", value_name = "N", default_value_t = 1000,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub programs: u64,
    /// Seed of the random programs.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    /// Run only this program of the seed.
    #[arg(long, value_name = "NUMBER", conflicts_with = "programs")]
    pub program: Option<u64>,
    /// The file systems of the modelled disks.
    #[arg(long = "file-system", value_name = "NAMES", value_delimiter = ',',
        default_value = "ext4,xfs,btrfs",
        value_parser = PossibleValuesParser::new(["ext4", "xfs", "btrfs"]))]
    pub file_systems: Vec<String>,
    /// Run in a directory of this machine instead, with its device's own read_ahead_kb.
    #[arg(long, value_name = "DIR", conflicts_with = "file_systems")]
    pub directory: Option<PathBuf>,
    /// How to look at the kernel.
    #[arg(long = "method", value_enum, default_value_t)]
    pub by: ByChoice,
    /// Known departures of the kernel from its own rule to leave out of the model, or all.
    #[arg(long, value_name = "NAMES", value_delimiter = ',',
        value_parser = PossibleValuesParser::new(
            ["late-hole", "short-history", "history-cap", "eof-mark", "no-hole", "long-fallback",
                "past-end", "all"]))]
    pub without: Vec<String>,
    /// Compare with the model of this release, 6.1, 6.12, 6.18 or 7.3, not of the running kernel.
    #[arg(long, value_name = "RELEASE")]
    pub kernel: Option<String>,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

impl DemoArguments {
    /// The programs, each once.
    pub fn programs(&self) -> Vec<String> {
        let mut programs: Vec<String> = Vec::new();
        for name in &self.programs {
            if !programs.contains(name) {
                programs.push(name.clone());
            }
        }
        programs
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn run_alone_has_the_help_of_run() {
        let help = |mut command: clap::Command| {
            command.build();
            let run = command
                .find_subcommand_mut("run")
                .map(clap::Command::render_long_help);
            run.map(|help| help.to_string())
        };
        let alone = help(RunAlone::command());
        assert!(alone.is_some());
        assert_eq!(alone, help(Arguments::command()));
    }

    /// The list of `help.txt` has each verb once, with the sentence of its own help.
    #[test]
    fn the_help_lists_each_verb_once_by_what_it_is_for() {
        let text = include_str!("help.txt");
        let listed = text.lines().filter_map(|line| line.strip_prefix("  "));
        let listed: Vec<(&str, &str)> = listed
            .filter_map(|line| line.split_once(' '))
            .map(|(verb, about)| (verb, about.trim_start()))
            .collect();
        let command = Arguments::command();
        let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let verbs: Vec<(String, String)> = verbs
            .map(|verb| {
                let about = verb.get_about().map(ToString::to_string);
                (verb.get_name().to_owned(), about.unwrap_or_default())
            })
            .collect();
        let verbs: Vec<(&str, &str)> = verbs.iter().map(|(a, b)| (&**a, &**b)).collect();
        assert_eq!(listed, verbs);
    }
}
