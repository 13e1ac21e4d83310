// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread try`: a command with cold files, alone and with a replay, measured in turn.
//!
//! In: a command line. Out: both times with their spread, and whether a replay is worth it. Keeps
//! its profile in a temporary directory. Changes nothing but what is cached.

pub mod args;
mod human;
mod json;
mod verdict;

use std::ffi::OsString;
use std::fs;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use foreread_linux_sizing::probe::workload::forget;
use foreread_measure::foreread::Foreread;
use foreread_profile::Profile;
use foreread_sys::interrupt::Interrupt;

use self::args::TryArguments;
use self::verdict::Verdict;
use crate::store;
use crate::{EXIT_PARTLY, output, text};

/// Not worth it, or not clear.
const EXIT_NOT_WORTH_IT: u8 = 1;

/// One round.
#[derive(Clone, Copy, Debug)]
struct Round {
    alone_ns: u64,
    with_ns: u64,
    /// Whether the second one was a replay. `run` turns it off where it doesn't help.
    is_replayed: bool,
    /// Share of the pages that were in memory before the run, in thousandths, though they were
    /// dropped.
    cached_permille: u64,
}

/// All rounds.
struct Trial {
    rounds: Vec<Round>,
    /// Files of the profile that could not be dropped.
    kept_files: u64,
    /// Pages of the profile.
    pages: u64,
    is_interrupted: bool,
}

impl Trial {
    fn verdict(&self) -> Verdict {
        let of = |time: fn(&Round) -> u64| self.rounds.iter().map(time).collect::<Vec<_>>();
        verdict::judge(&of(|round| round.alone_ns), &of(|round| round.with_ns))
    }
}

/// `foreread try`.
pub fn trial(arguments: &TryArguments) -> Result<ExitCode> {
    let foreread = std::env::current_exe().context("cannot tell where foreread is")?;
    let foreread = Foreread::new(&foreread)?;
    // The directory of the profile is removed also after Ctrl-C, which the command gets, too.
    let interrupt = Interrupt::hold().context("cannot hold back signals")?;
    let tried = measure(arguments, &foreread, &interrupt)?;
    if arguments.json {
        text::print_json(&json::TryReport::of(arguments, &tried))?;
    } else {
        text::print(&human::of(arguments, &tried))?;
    }
    Ok(match tried.verdict() {
        _ if tried.is_interrupted => ExitCode::from(EXIT_PARTLY),
        Verdict::Faster => ExitCode::SUCCESS,
        Verdict::Unclear | Verdict::Slower => ExitCode::from(EXIT_NOT_WORTH_IT),
    })
}

fn measure(arguments: &TryArguments, foreread: &Foreread, stop: &Interrupt) -> Result<Trial> {
    let progress = Progress::new(u64::from(arguments.runs) * 2 + 1);
    progress.at("recording");
    let with = words(foreread, &[], &arguments.command);
    run(
        &words(foreread, &["--fresh"], &arguments.command),
        foreread,
        arguments,
    )?;
    let profile = recorded(foreread)?;
    progress.done();
    let mut tried = Trial {
        rounds: Vec::new(),
        kept_files: 0,
        pages: profile.total_pages(),
        is_interrupted: false,
    };
    for round in 0..arguments.runs {
        let mut alone_ns = 0;
        let mut replayed = None;
        // What the first of the two leaves behind, the second meets; so they take turns.
        for is_alone in [round % 2 == 0, round % 2 == 1] {
            if !matches!(stop.take(), Ok(None)) {
                tried.is_interrupted = true;
                return match tried.rounds.is_empty() {
                    true => bail!("interrupted before one round was measured"),
                    false => Ok(tried),
                };
            }
            tried.kept_files = tried.kept_files.max(make_cold(arguments, &profile)?);
            if is_alone {
                progress.at("alone");
                alone_ns = run(&arguments.command, foreread, arguments)?;
            } else {
                progress.at("with a replay");
                replayed = Some((run(&with, foreread, arguments)?, foreread.report()?));
            }
            progress.done();
        }
        if let Some((with_ns, report)) = replayed {
            tried.rounds.push(Round {
                alone_ns,
                with_ns,
                is_replayed: report.mode().starts_with("replayed"),
                cached_permille: report.number("/cached_before_permille"),
            });
        }
    }
    Ok(tried)
}

fn words(foreread: &Foreread, options: &[&str], command: &[OsString]) -> Vec<OsString> {
    let mut words = foreread.before_reporting(options);
    words.extend(command.iter().cloned());
    words
}

/// What the recorded run has stored.
fn recorded(foreread: &Foreread) -> Result<Profile> {
    let trouble = || -> Result<String> { Ok(foreread.report()?.trouble().join("; ")) };
    let stored = fs::read_dir(foreread.state()).context("cannot list the temporary directory")?;
    let mut files = stored.flatten().map(|entry| entry.path());
    let Some(path) = files.find(|path| path.extension().is_some_and(|end| end == "frp")) else {
        bail!(
            "the command could not be recorded: {}",
            trouble().unwrap_or_default()
        );
    };
    store::read(&path)
}

/// Drops what the command reads. Returns how many files could not be dropped.
fn make_cold(arguments: &TryArguments, profile: &Profile) -> Result<u64> {
    if arguments.drop_caches {
        rustix::fs::sync();
        fs::write("/proc/sys/vm/drop_caches", "3")
            .context("cannot drop the caches of the machine")?;
        return Ok(0);
    }
    Ok(forget(profile))
}

/// Runs it to its end. Returns its time in ns.
fn run(words: &[OsString], foreread: &Foreread, arguments: &TryArguments) -> Result<u64> {
    let (program, rest) = words.split_first().context("no command")?;
    let mut command = Command::new(program);
    command
        .args(rest)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    foreread.set_environment(&mut command);
    let begun = Instant::now();
    let status = command.status();
    let took = begun.elapsed();
    let named = || text::escaped_path(program.as_ref());
    let status = status.with_context(|| format!("cannot run {}", named()))?;
    if !status.success() && !arguments.ignore_failure {
        bail!("{}", failed(&arguments.command, status));
    }
    Ok(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX))
}

fn failed(command: &[OsString], status: ExitStatus) -> String {
    let name = command.first().map(OsString::as_os_str).unwrap_or_default();
    format!(
        "{} ended with {status}; --ignore-failure measures it all the same",
        text::escaped_path(name.as_ref())
    )
}

/// How far it is, on a terminal.
struct Progress(indicatif::ProgressBar);

impl Progress {
    fn new(steps: u64) -> Self {
        let bar = output::progress(steps);
        let style = indicatif::ProgressStyle::with_template("{bar:20} {pos}/{len}  {msg}");
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("=> "));
        }
        Self(bar)
    }

    fn at(&self, what: &'static str) {
        self.0.set_message(what);
    }

    fn done(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
