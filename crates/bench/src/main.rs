// SPDX-License-Identifier: MIT OR Apache-2.0
//! `make bench`: the benefit and the cost of Foreread, measured on modelled disks, beside the
//! targets.
#![forbid(unsafe_code)]

mod context;
mod inside;
mod reader;
mod report;
mod sections;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use foreread_measure::MeasureError;
use foreread_measure::disk::preset;
use foreread_measure::names::is_known;
use foreread_testbed::Testbed;

use context::{Context, FILES, MINUTES, PROCESSES};
use sections::SectionName;

/// Measures what Foreread is worth and what it costs, on modelled disks, and says of each number
/// whether it reached what it should be.
#[derive(Debug, Parser)]
#[command(
    name = "foreread-bench",
    version,
    max_term_width = 100,
    args_conflicts_with_subcommands = true,
    after_help = "Exit status: 0 when everything was measured, whatever came of it; 2 when something \
                  could not be. Needs root. Drops the page cache of the whole machine again and again."
)]
struct Arguments {
    #[command(subcommand)]
    inside: Option<Inside>,
    /// Only these sections.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<SectionName>,
    /// Only these disks, in `cold`, `agreement`, `watch`, `together`, `streams` and for the first
    /// runs in `recording`; by default hdd, usb, cloud and nvme, in `together` hdd and cloud, in
    /// `streams` those of each program.
    #[arg(long, value_delimiter = ',')]
    devices: Vec<String>,
    /// Only these programs, in `cold` (grep, python, git), `agreement` (those, sqlite, mapped),
    /// `watch` (grep, tar, cp, find), `many-files` (grep, find) and `streams` (the first column of
    /// its table).
    #[arg(long, value_delimiter = ',')]
    programs: Vec<String>,
    /// Keep the traces of `agreement` there, and the lists of requests.
    #[arg(long, value_name = "DIRECTORY")]
    keep: Option<PathBuf>,
    /// The programs that make images, for `image`, as scripts/image-tools.sh unpacks them there; by
    /// default those of this machine.
    #[arg(long, value_name = "DIRECTORY")]
    image_tools: Option<PathBuf>,
    /// How many minutes `churn` goes on.
    #[arg(long, value_name = "N", default_value_t = MINUTES, value_parser = minutes)]
    minutes: f64,
    /// How many processes `many-processes` has exist at once.
    #[arg(long, value_name = "N", default_value_t = PROCESSES, value_parser = processes)]
    processes: usize,
    /// How many files `many-files` has programs go through.
    #[arg(long, value_name = "N", default_value_t = FILES, value_parser = files)]
    files: usize,
    /// Fewer rounds: a third of the time, and more noise.
    #[arg(long)]
    quick: bool,
    /// Write everything that was measured to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The foreread to measure; by default the one beside this program.
    #[arg(long, value_name = "FILE")]
    foreread: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Inside {
    /// Times something from inside, for the bench itself.
    #[command(hide = true)]
    Inside(inside::InsideArguments),
    /// Reads parts of large files, for the bench itself.
    #[command(hide = true)]
    Reader(reader::ReaderArguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.inside {
        Some(Inside::Inside(inside)) => inside::inside(inside),
        Some(Inside::Reader(reader)) => reader::read(reader),
        None => bench(&arguments).map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|error| {
        eprintln!("foreread-bench: {error}");
        ExitCode::from(2)
    })
}

fn bench(arguments: &Arguments) -> Result<(), MeasureError> {
    for device in &arguments.devices {
        preset(device)?;
    }
    for program in &arguments.programs {
        if !is_known(program) {
            return Err(MeasureError::NoSuchProgram(program.clone()));
        }
    }
    Testbed::available()?;
    let foreread = match &arguments.foreread {
        Some(path) => path.clone(),
        None => own_path()?.with_file_name("foreread"),
    };
    let mut context = Context::new(foreread, own_path()?, arguments.quick)?;
    context.choose_devices(&arguments.devices);
    context.programs.clone_from(&arguments.programs);
    context.keep.clone_from(&arguments.keep);
    context.image_tools.clone_from(&arguments.image_tools);
    context.churn_minutes = arguments.minutes;
    context.processes = arguments.processes;
    context.files = arguments.files;
    let names = if arguments.only.is_empty() {
        SectionName::USUAL.to_vec()
    } else {
        arguments.only.clone()
    };
    let mut minutes: f64 = names.iter().map(|name| name.minutes(arguments.quick)).sum();
    if names.contains(&SectionName::Churn) {
        minutes += arguments.minutes - MINUTES;
    }
    eprintln!("foreread-bench: takes about {} minutes", minutes.ceil());
    let mut measured = Vec::new();
    for name in names {
        let section = name.measure(&mut context)?;
        println!("{}", section.text());
        measured.push(section);
    }
    if let Some(path) = &arguments.json {
        let text = format!("{:#}\n", report::document(&measured));
        let what = format!("write {}", path.display());
        std::fs::write(path, text).map_err(MeasureError::system(what))?;
    }
    Ok(())
}

/// From a second to a week.
fn minutes(text: &str) -> Result<f64, String> {
    let number = text
        .parse()
        .ok()
        .filter(|number| (0.01..=10_080.0).contains(number));
    number.ok_or_else(|| format!("{text}: not a number of minutes, such as 2 or 0.5"))
}

/// As many as Linux has numbers for.
fn processes(text: &str) -> Result<usize, String> {
    let number = text.parse().ok();
    let number = number.filter(|number| (1..=4_194_304).contains(number));
    number.ok_or_else(|| format!("{text}: not a number of processes, such as 10000"))
}

/// As many as fit into the memory of a machine.
fn files(text: &str) -> Result<usize, String> {
    let number = text.parse().ok();
    let number = number.filter(|number| (1..=10_000_000).contains(number));
    number.ok_or_else(|| format!("{text}: not a number of files, such as 1000000"))
}

fn own_path() -> Result<PathBuf, MeasureError> {
    std::env::current_exe().map_err(MeasureError::system("find this program's own file"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
        let only = Arguments::parse_from(["foreread-bench", "--only", "file-systems,load"]).only;
        assert_eq!(only, [SectionName::FileSystems, SectionName::Load]);
        assert!(Arguments::try_parse_from(["foreread-bench", "--only", "speed"]).is_err());
    }

    #[test]
    fn a_wrong_name_is_refused_before_anything_is_measured() {
        for (option, value) in [("--devices", "floppy"), ("--programs", "emacs")] {
            let arguments = Arguments::parse_from(["foreread-bench", option, value]);
            let error = bench(&arguments).unwrap_err().to_string();
            assert!(error.contains(value), "{error}");
        }
    }
}
