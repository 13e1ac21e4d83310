// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread check-kernel`: whether this machine's kernel reads ahead as the model says.

pub mod json;
mod place;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use foreread_core::policy::{Fit, Kernel as Release, Limits};
use foreread_linux_check::{CheckError, Kernel};
use foreread_sim::check::{
    Checked, Difference, Machine, Model, Program, Sight, check, generate, shrink,
};
use foreread_sys::memory::has_lru_generations;
use foreread_testbed::FileSystem;
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::CheckKernelArguments;
use crate::{output, text};

/// The kernel and the model differ.
const EXIT_DIFFERENT: u8 = 1;
/// Programs that are run to find a shorter one.
const SHRINK_TRIES_MAX: usize = 500;

/// Where programs read.
enum Place {
    /// A modelled disk with this file system.
    Modelled(FileSystem),
    /// A directory of this machine.
    Directory(PathBuf),
}

/// The first program of a place whose decisions differ.
struct Found {
    program: Program,
    /// The shortest part of it that differs, and where.
    shrunk: Program,
    difference: Difference,
}

/// Result of all programs on one file system.
pub struct Outcome {
    name: String,
    sight: Sight,
    /// Why the sight is residency, when that was not asked for.
    refusal: Option<String>,
    /// Whether the arrival of what was read could be counted.
    counts_arrivals: bool,
    programs: u64,
    equal: u64,
    /// Programs whose timing could not be told; nothing was proved of them.
    unsure: u64,
    /// Runs that were repeated because the timing of one could not be told.
    repeated: u64,
    /// Differences that the next run of the program did not show.
    unconfirmed: u64,
    steps: u64,
    folios: u64,
    pages: u64,
    /// Programs that met each of [`Limits::QUIRKS`].
    met: [u64; Limits::QUIRKS.len()],
    found: Option<Found>,
}

/// The programs to run, and the model to compare the kernel with.
pub struct Plan {
    seed: u64,
    numbers: std::ops::Range<u64>,
    model: Model,
}

/// `foreread check-kernel`.
pub fn check_kernel(arguments: &CheckKernelArguments) -> Result<ExitCode> {
    let (release, fit) = match &arguments.kernel {
        Some(name) => (name.parse()?, Fit::Modelled),
        None => Release::of_release(&json::kernel_release()),
    };
    let plan = Plan {
        seed: arguments.seed,
        numbers: match arguments.program {
            Some(number) => number..number.saturating_add(1),
            None => 0..arguments.programs,
        },
        model: model(release, &arguments.without),
    };
    let (places, mut notes) = places(arguments)?;
    notes.extend(other_release(&json::kernel_release(), release, fit));
    let bar = bar((plan.numbers.end - plan.numbers.start) * places.len() as u64);
    let mut outcomes = Vec::new();
    for place in &places {
        let run = |name: &str, kernel: &mut Kernel<'_>| play(name, kernel, &plan, &bar);
        outcomes.push(place.with_kernel(arguments.by.into(), run)?);
    }
    bar.finish_and_clear();
    for note in &notes {
        output::note(note);
    }
    if arguments.json {
        text::print_json(&json::CheckKernelReport::of(&plan, &outcomes, &notes))?;
    } else {
        text::print(&report::human(&plan, &outcomes))?;
    }
    let is_equal = outcomes.iter().all(|o| o.equal == o.programs);
    Ok(if is_equal {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(EXIT_DIFFERENT)
    })
}

/// A note for a kernel release that is not modelled exactly.
fn other_release(running: &str, release: Release, fit: Fit) -> Option<String> {
    let known = match fit {
        Fit::Modelled => return None,
        Fit::Between => "none of those that are modelled",
        Fit::Newer => "newer than those that are modelled",
        Fit::Unknown => "not called as releases of Linux are",
    };
    Some(format!(
        "this kernel, {running}, is {known}; it is compared with the model of Linux {release}, and \
         what changed between the two shows as a difference, too"
    ))
}

/// The model of a kernel with its departures, but for those named.
fn model(release: Release, without: &[String]) -> Model {
    let named = Limits::QUIRKS.iter().filter(|(name, _)| {
        let all = |word: &String| word == "all" || word == name;
        without.iter().any(all)
    });
    let left_out = named.fold(0, |all, (_, quirk)| all | quirk);
    let whole = Model::of(release.policy);
    Model {
        quirks: whole.quirks & !left_out,
        has_generations: has_lru_generations(),
        ..whole
    }
}

/// Where to run, and what is left out, a sentence each.
fn places(arguments: &CheckKernelArguments) -> Result<(Vec<Place>, Vec<String>)> {
    if let Some(directory) = &arguments.directory {
        if !directory.is_dir() {
            bail!("{} is not a directory", text::escaped_path(directory));
        }
        return Ok((vec![Place::Directory(directory.clone())], Vec::new()));
    }
    foreread_testbed::Testbed::available()
        .context("cannot make a modelled disk; as root, --directory DIR does without one")?;
    let mut notes = Vec::new();
    let mut places = Vec::new();
    for file_system in FileSystem::ALL {
        if !arguments
            .file_systems
            .iter()
            .any(|name| name == file_system.name())
        {
            continue;
        }
        match file_system.available() {
            Ok(()) => places.push(Place::Modelled(file_system)),
            Err(lacking) => notes.push(format!("left out {}: {lacking}", file_system.name())),
        }
    }
    if places.is_empty() {
        bail!("no file system to run on: {}", notes.join("; "));
    }
    Ok((places, notes))
}

/// Hides itself where stderr is no terminal.
fn bar(programs: u64) -> ProgressBar {
    let bar = output::progress(programs);
    if let Ok(style) = ProgressStyle::with_template("{bar:20} {pos}/{len}  {msg}  {elapsed}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

fn play(
    name: &str,
    kernel: &mut Kernel<'_>,
    plan: &Plan,
    bar: &ProgressBar,
) -> Result<Outcome, CheckError> {
    bar.set_message(name.to_owned());
    let mut outcome = Outcome::new(name, kernel.sight());
    outcome.refusal = kernel.refusal().map(ToString::to_string);
    outcome.counts_arrivals = kernel.counts_arrivals();
    for number in plan.numbers.clone() {
        let program = generate(plan.seed, number);
        let checked = check(kernel, &program, plan.model)?;
        outcome.count(&checked);
        if let (None, Some(difference)) = (&outcome.found, checked.difference) {
            outcome.found = Some(shortest(kernel, program, difference, plan.model)?);
        }
        bar.inc(1);
    }
    Ok(outcome)
}

fn shortest(
    kernel: &mut Kernel<'_>,
    program: Program,
    difference: Difference,
    model: Model,
) -> Result<Found, CheckError> {
    // Steps after the difference cannot have caused it.
    let mut steps = program.steps.clone();
    steps.truncate(difference.step + 1);
    let shrunk = shrink(&program.with_steps(steps), SHRINK_TRIES_MAX, |shorter| {
        Ok::<_, CheckError>(check(kernel, shorter, model)?.difference.is_some())
    })?;
    let again = check(kernel, &shrunk, model)?.difference;
    Ok(match again {
        Some(difference) => Found {
            program,
            shrunk,
            difference,
        },
        // It comes and goes; then the whole program is told.
        None => Found {
            shrunk: program.clone(),
            program,
            difference,
        },
    })
}

impl Outcome {
    fn new(name: &str, sight: Sight) -> Self {
        Self {
            name: name.to_owned(),
            sight,
            refusal: None,
            counts_arrivals: true,
            programs: 0,
            equal: 0,
            unsure: 0,
            repeated: 0,
            unconfirmed: 0,
            steps: 0,
            folios: 0,
            pages: 0,
            met: [0; Limits::QUIRKS.len()],
            found: None,
        }
    }

    fn count(&mut self, checked: &Checked) {
        self.programs += 1;
        self.unsure += u64::from(checked.is_unsure);
        self.equal += u64::from(!checked.is_unsure && checked.difference.is_none());
        self.repeated += checked.tries.saturating_sub(1) as u64;
        self.unconfirmed += checked.unconfirmed as u64;
        self.steps += checked.steps as u64;
        self.folios += checked.folios;
        self.pages += checked.pages;
        for (met, (_, quirk)) in self.met.iter_mut().zip(Limits::QUIRKS) {
            *met += u64::from(checked.misled & quirk != 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(running: &str) -> Option<String> {
        let (release, fit) = Release::of_release(running);
        other_release(running, release, fit)
    }

    #[test]
    fn another_kernel_than_the_modelled_ones_is_noted_in_one_line() {
        for same in [
            "6.1.0-13-amd64",
            "6.12.3",
            "6.18.44-fc",
            "6.18-rc1",
            "7.3.4",
        ] {
            assert_eq!(noted(same), None, "{same}");
        }
        for (other, compared) in [
            ("6.6.30", "Linux 6.1,"),
            ("6.180", "Linux 6.18,"),
            (
                "7.4.0",
                "newer than those that are modelled; it is compared with",
            ),
            ("9.0.0", "Linux 7.3,"),
            ("", "Linux 7.3,"),
        ] {
            let note = noted(other).unwrap_or_default();
            assert!(note.contains(compared), "{other}: {note}");
            assert!(!note.contains('\n'), "{note}");
        }
    }

    #[test]
    fn departures_are_left_out_by_name() {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let quirks = |name: &str, without: &[&str]| {
            let release = name.parse().expect("a release");
            model(release, &names(without)).quirks
        };
        assert_eq!(quirks("6.18", &[]), Limits::QUIRKS_6_18);
        assert_eq!(quirks("6.1", &["all"]), 0);
        assert_eq!(
            quirks("6.18", &["late-hole", "eof-mark", "past-end"]),
            Limits::QUIRK_SHORT_HISTORY | Limits::QUIRK_HISTORY_CAP
        );
        assert_eq!(quirks("7.3", &["late-hole"]), Limits::QUIRK_SHORT_HISTORY);
    }
}
