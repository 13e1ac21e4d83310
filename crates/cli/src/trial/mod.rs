// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread try`: a command with cold files, alone and with a replay, measured in turn.
//!
//! In: a command line. Out: both times with their spread, and whether a replay is worth it. Keeps
//! its profile in a temporary directory. Changes nothing but what is cached.

pub mod args;
mod human;
pub mod json;
mod verdict;

use std::ffi::OsString;
use std::fs;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use foreread_linux_sizing::probe::workload::forget;
use foreread_measure::foreread::Foreread;
use foreread_profile::Profile;
use foreread_sys::interrupt::{Interrupt, restore_mask};

use self::args::TryArguments;
use self::verdict::Verdict;
use crate::progress::Progress;
use crate::store;
use crate::{EXIT_PARTLY, output, text};

/// Not worth it, or not clear.
const EXIT_NOT_WORTH_IT: u8 = 1;

/// One round.
#[derive(Clone, Debug)]
struct Round {
    alone_ns: u64,
    with_ns: u64,
    /// What `run` did in the second one, as its report names it.
    mode: String,
    /// Share of the pages that were in memory before the run, in thousandths, though they were
    /// dropped.
    cached_permille: u64,
}

/// All rounds.
pub struct Trial {
    rounds: Vec<Round>,
    /// Files of the profile that could not be dropped.
    kept_files: u64,
    /// Pages of the profile.
    pages: u64,
    is_interrupted: bool,
}

impl Round {
    fn is_replayed(&self) -> bool {
        self.mode.starts_with("replayed")
    }
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
    let Some(tried) = measure(arguments, &foreread, &interrupt)? else {
        output::note("interrupted before one round was measured");
        return Ok(ExitCode::from(EXIT_PARTLY));
    };
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

/// All rounds up to the first signal; `None` if it came before one was measured.
fn measure(
    arguments: &TryArguments,
    foreread: &Foreread,
    stop: &Interrupt,
) -> Result<Option<Trial>> {
    let progress = Progress::of_steps(u64::from(arguments.runs) * 2 + 1);
    progress.step("recording");
    let with = words(foreread, &[], &arguments.command);
    let recording = words(foreread, &["--fresh"], &arguments.command);
    let run = |words: &[OsString]| run(words, foreread, arguments, stop);
    if run(&recording)?.is_none() {
        return Ok(None);
    }
    let profile = recorded(foreread)?;
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
            tried.kept_files = tried.kept_files.max(make_cold(arguments, &profile)?);
            let (what, words) = match is_alone {
                true => ("alone", &arguments.command),
                false => ("with a replay", &with),
            };
            progress.step(what);
            let Some(time_ns) = run(words)? else {
                tried.is_interrupted = true;
                return Ok((!tried.rounds.is_empty()).then_some(tried));
            };
            match is_alone {
                true => alone_ns = time_ns,
                false => replayed = Some((time_ns, foreread.report()?)),
            }
        }
        if let Some((with_ns, report)) = replayed {
            tried.rounds.push(Round {
                alone_ns,
                with_ns,
                mode: report.mode().to_owned(),
                cached_permille: report.number("/cached_before_permille"),
            });
        }
    }
    Ok(Some(tried))
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

/// Runs it to its end. Returns its time in ns; `None` if a signal came meanwhile, so that its time
/// says nothing.
fn run(
    words: &[OsString],
    foreread: &Foreread,
    arguments: &TryArguments,
    stop: &Interrupt,
) -> Result<Option<u64>> {
    let (program, rest) = words.split_first().context("no command")?;
    let mut command = Command::new(program);
    command
        .args(rest)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    foreread.set_environment(&mut command);
    restore_mask(&mut command);
    let named = || text::escaped_path(program.as_ref());
    let begun = Instant::now();
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run {}", named()))?;
    let ended = stop
        .wait_for(&mut child)
        .with_context(|| format!("cannot wait for {}", named()))?;
    let took = begun.elapsed();
    if ended.is_told {
        return Ok(None);
    }
    if !ended.status.success() && !arguments.ignore_failure {
        bail!("{}", failed(&arguments.command, ended.status));
    }
    Ok(Some(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)))
}

fn failed(command: &[OsString], status: ExitStatus) -> String {
    let name = command.first().map(OsString::as_os_str).unwrap_or_default();
    format!(
        "{} ended with {status}; --ignore-failure measures it all the same",
        text::escaped_path(name.as_ref())
    )
}
