// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread demo`: what it is worth, on a modelled disk.

mod fill;
mod human;
pub mod json;
mod picture;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use foreread_measure::cold::{self, ColdPlan, ColdStarts, Stage};
use foreread_measure::disk::{Layout, ModelledDisk, preset};
use foreread_measure::programs::Program;
use foreread_measure::sample::Rounds;
use foreread_model::DiskParameters;
use foreread_testbed::{Lacking, Testbed};

use crate::args::DemoArguments;
use crate::progress::Progress;
use crate::{EXIT_FAILURE, output, text};
use fill::{Filled, Tree};
use picture::Panel;

/// The kernel alone and the first run once: they take long, and vary by a few per cent only. The
/// second run and the cached one are short.
const PLAN: ColdPlan = ColdPlan {
    pairs: Some(Rounds {
        min: 1,
        max: 1,
        time: Duration::ZERO,
    }),
    second_runs: 3,
    cached_runs: 3,
    trace: true,
};

/// Steps that measuring a program reports.
const STEPS_A_PROGRAM: u64 = 1 + PLAN.cached_runs as u64 + 2 + PLAN.second_runs as u64;

/// Result of the demo.
pub struct Result {
    device: String,
    parameters: DiskParameters,
    tree: Tree,
    measured: Vec<(Program, ColdStarts)>,
    /// Parts that were left out or went otherwise, a sentence each.
    notes: Vec<String>,
}

/// `foreread demo`.
pub fn demo(arguments: &DemoArguments) -> anyhow::Result<ExitCode> {
    let parameters = parameters(arguments)?;
    if let Some(path) = &arguments.svg {
        check_writable(path)?;
    }
    if let Err(lacking) = Testbed::available() {
        say_what_it_would_show(arguments, &parameters, &lacking);
        return Ok(ExitCode::from(EXIT_FAILURE));
    }
    let result = measure(arguments, parameters)?;
    if arguments.json {
        text::print_json(&json::DemoReport::of(&result))?;
    } else {
        text::print(&human::report(&result))?;
    }
    if let Some(path) = &arguments.svg {
        draw(&result, path)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn parameters(arguments: &DemoArguments) -> anyhow::Result<DiskParameters> {
    let mut parameters = preset(&arguments.device)?;
    for assignment in &arguments.set {
        parameters.set_assignment(assignment)?;
    }
    Ok(parameters)
}

/// Said now rather than after minutes.
fn check_writable(path: &Path) -> anyhow::Result<()> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    if path.is_dir() || !parent.is_dir() {
        bail!(
            "cannot write the picture to {}: name a file in a directory that exists",
            text::escaped_path(path)
        );
    }
    Ok(())
}

fn say_what_it_would_show(
    arguments: &DemoArguments,
    parameters: &DiskParameters,
    lacking: &Lacking,
) {
    let remedy = match lacking {
        Lacking::Root => "; run: sudo foreread demo",
        _ => "",
    };
    output::note(&format!("{lacking}{remedy}"));
    eprint!("{}", what_it_would_show(arguments, parameters));
}

fn what_it_would_show(arguments: &DemoArguments, parameters: &DiskParameters) -> String {
    format!(
        "With that, the demo would copy {} files of this machine to a modelled disk, {}\n\
         ({}), start {} from there with the page cache\n\
         empty, three ways (the kernel alone, the first `foreread run`, the second), and show for\n\
         each the three times, how much faster the second run was, and how near it came to the\n\
         limit: the least time in which that disk can deliver what the program reads.\n\
         Nothing was measured and nothing was changed.\n",
        foreread_core::grouped(arguments.files),
        arguments.device,
        human::disk(parameters),
        arguments.programs().join(", "),
    )
}

fn measure(arguments: &DemoArguments, parameters: DiskParameters) -> anyhow::Result<Result> {
    let names = arguments.programs();
    let executable = own_executable()?;
    let measuring = STEPS_A_PROGRAM * names.len() as u64;
    let progress = Progress::of_steps(fill::steps(names.len()) + measuring);
    let mut disk = ModelledDisk::start(parameters, Layout::Ext4)?;
    let Filled {
        tree,
        programs,
        mut notes,
    } = fill::fill(&mut disk, arguments.files, &names, &progress)?;
    progress.skip(STEPS_A_PROGRAM * (names.len() - programs.len()) as u64);
    let mut measured = Vec::new();
    for program in programs {
        let mut stage = |stage| progress.step(&format!("{}: {}", program.name(), in_words(stage)));
        let starts = cold::measure(&disk, &program, &executable, &PLAN, &mut stage)
            .with_context(|| format!("cannot measure {}", program.title()))?;
        notes.extend(trouble(&program, &starts));
        measured.push((program, starts));
    }
    Ok(Result {
        device: arguments.device.clone(),
        parameters: disk.testbed().parameters(),
        tree,
        measured,
        notes,
    })
}

fn own_executable() -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe().context("cannot find the foreread executable")?;
    if !path.is_file() {
        bail!(
            "{} is not there any more; start the demo again",
            text::escaped_path(&path)
        );
    }
    Ok(path)
}

/// Problems that `foreread run` reported, each once.
fn trouble(program: &Program, starts: &ColdStarts) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    let runs = starts.first.iter().chain(&starts.second);
    for report in runs.filter_map(|start| start.report.as_ref()) {
        for trouble in report.trouble() {
            let note = format!("{}: {}.", program.name(), text::printable(trouble));
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    let replayed = |start: &cold::Start| {
        let mode = start.report.as_ref().map(|report| report.mode());
        mode.is_some_and(|mode| mode.starts_with("replayed"))
    };
    let without = starts
        .second
        .iter()
        .filter(|start| !replayed(start))
        .count();
    if without > 0 {
        notes.push(format!(
            "{}: {without} of {} second runs went without replay.",
            program.name(),
            starts.second.len()
        ));
    }
    notes
}

/// Draws the first program that was measured.
fn draw(result: &Result, path: &Path) -> anyhow::Result<()> {
    let Some((program, starts)) = result.measured.first() else {
        bail!("no program was measured, so there is nothing to draw");
    };
    let starts = cold::median_start(&starts.kernel).zip(cold::median_start(&starts.second));
    let (kernel, second) = starts.context("there is nothing to draw")?;
    let title = format!(
        "What the disk was asked to read: {}, cold, on {}",
        program.title(),
        result.device
    );
    let panels = [
        Panel {
            name: "the kernel alone",
            start: kernel,
        },
        Panel {
            name: "foreread run, the second time",
            start: second,
        },
    ];
    std::fs::write(path, picture::picture(&title, &panels))
        .with_context(|| format!("cannot write {}", text::escaped_path(path)))
}

fn in_words(stage: Stage) -> &'static str {
    match stage {
        Stage::Needed => "what it reads",
        Stage::Cached => "with everything in memory",
        Stage::Kernel => "cold, the kernel alone",
        Stage::First => "cold, the first run, which is recorded",
        Stage::Second => "cold, a second run, with replay",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use foreread_measure::cold::Start;
    use foreread_measure::sample::Sample;

    /// A result of one program: kernel alone, first and second run, and the limit, in ms.
    pub fn example(times_ms: &[u64; 3], limit_ms: u64) -> Result {
        let start = |ms: u64| Start {
            wall_ns: ms * 1_000_000,
            processor_ns: 0,
            began_ns: 0,
            disk: foreread_model::Counters::default(),
            trace: Vec::new(),
            report: None,
        };
        let starts = times_ms.map(|ms| vec![start(ms)]);
        let [kernel, first, second] = starts;
        let measured = ColdStarts {
            needed_bytes: 139_000_000,
            disk_ns: limit_ms * 1_000_000,
            cached: Sample::of_ns([1_000_000]),
            kernel,
            first,
            second,
        };
        let program = Program::grep("tree", 8000).expect("grep is everywhere");
        Result {
            device: "hdd".to_owned(),
            parameters: DiskParameters::preset("hdd").expect("a preset"),
            tree: Tree {
                files: 8000,
                bytes: 139_000_000,
                sources: vec![("/usr/include".into(), 7990), ("/etc".into(), 10)],
            },
            measured: vec![(program, measured)],
            notes: Vec::new(),
        }
    }

    fn arguments(words: &[&str]) -> DemoArguments {
        let words = ["foreread", "demo"].iter().chain(words);
        match crate::args::Arguments::parse_from(words).verb {
            crate::args::Verb::Demo(arguments) => arguments,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn parameters_can_be_set_one_by_one() {
        let set = arguments(&["--device", "usb", "--set", "latency_ns=3ms"]);
        let parameters = parameters(&set).unwrap();
        assert_eq!(parameters.latency_ns, 3_000_000);
        assert_eq!(parameters.bandwidth_bytes_per_s, 25_000_000);
        let wrong = arguments(&["--set", "latency=3ms"]);
        let error = super::parameters(&wrong).unwrap_err().to_string();
        assert!(error.contains("latency_ns"), "{error}");
    }

    #[test]
    fn a_picture_that_cannot_be_written_is_refused_at_once() {
        let error = check_writable(Path::new("/no/such/directory/a.svg")).unwrap_err();
        assert!(error.to_string().contains("/no/such/directory"), "{error}");
        assert!(check_writable(Path::new("/")).is_err());
        assert!(check_writable(Path::new("a.svg")).is_ok());
    }

    #[test]
    fn what_would_be_shown_holds_no_figures_of_results() {
        let text = what_it_would_show(
            &arguments(&["--programs", "git,git,grep"]),
            &DiskParameters::preset("hdd").unwrap(),
        );
        assert!(
            text.contains("8,000 files") && text.contains("start git, grep"),
            "{text}"
        );
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
        assert!(!text.contains("times faster"), "{text}");
    }

    #[test]
    fn second_runs_without_replay_are_told() {
        let result = example(&[10, 10, 10], 1);
        let (program, starts) = &result.measured[0];
        let notes = trouble(program, starts);
        assert_eq!(notes, ["grep: 1 of 1 second runs went without replay."]);
    }
}
