// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread analyze`: where the block layer held reads back.

mod human;
pub mod json;
mod live;
mod picture;

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use foreread_blocktrace::{Analysis, Device, Options, ReadError, Reader, Report};
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::AnalyzeArguments;
use crate::{named_device, output, text};

/// Bad lines that are told one by one.
const TOLD_MAX: usize = 5;
/// Requests in a picture; more of them is black.
const DRAWN_MAX: usize = 10_000;

/// The analysis of one trace, and counts of the lines that it could not use.
pub struct Analyzed {
    source: String,
    report: Report,
    held_over_ns: u64,
    lines: u64,
    bad_lines: u64,
    notes: Vec<String>,
}

/// `foreread analyze`.
pub fn analyze(arguments: &AnalyzeArguments) -> Result<ExitCode> {
    let options = options(arguments)?;
    let (analyzed, status) = match &arguments.trace {
        Some(path) => (from_text(path, options)?, None),
        None => match live::watch(arguments, options)? {
            Ok(watched) => (watched.analyzed, watched.status),
            Err(code) => return Ok(code),
        },
    };
    tell(arguments, &analyzed)?;
    if let Some(status) = status.filter(|status| !status.success()) {
        foreread_sys::child::end_as(status);
    }
    let is_whole = analyzed.bad_lines == 0 && analyzed.report.counts.lost == 0;
    Ok(match is_whole {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(crate::EXIT_PARTLY),
    })
}

fn tell(arguments: &AnalyzeArguments, analyzed: &Analyzed) -> Result<()> {
    if let Some(path) = &arguments.svg {
        std::fs::write(path, picture::of(analyzed))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    for note in &analyzed.notes {
        output::note(note);
    }
    match arguments.json {
        true => text::print_json(&json::AnalyzeReport::of(analyzed)),
        false => text::print(&human::of(analyzed)),
    }
}

fn options(arguments: &AnalyzeArguments) -> Result<Options> {
    let devices = arguments.device.iter().map(|name| device(name));
    Ok(Options {
        devices: devices.collect::<Result<_>>()?,
        processes: arguments.process.clone(),
        held_over_ns: arguments.held_back_over,
        worst: usize::from(arguments.worst),
        kept: match arguments.svg {
            Some(_) => DRAWN_MAX,
            None => 0,
        },
    })
}

/// A device of this machine; by its numbers also one of another machine.
fn device(name: &str) -> Result<Device> {
    if let Ok(numbers) = name.parse() {
        return Ok(numbers);
    }
    let device = named_device::block_device(name).with_context(|| {
        let name = text::printable(name);
        format!("{name} is no block device here; as numbers it is MAJOR,MINOR, as in the trace")
    })?;
    let (major, minor) = (device.major, device.minor);
    Ok(Device { major, minor })
}

fn from_text(path: &Path, options: Options) -> Result<Analyzed> {
    if path == Path::new("-") {
        return read(
            "standard input",
            BufReader::new(io::stdin().lock()),
            options,
        );
    }
    let source = text::escaped_path(path);
    let file = File::open(path).with_context(|| format!("cannot read {source}"))?;
    let bar = bar(file.metadata().map_or(0, |metadata| metadata.len()));
    let analyzed = read(&source, BufReader::new(bar.wrap_read(file)), options);
    bar.finish_and_clear();
    analyzed
}

/// Hides itself where stderr is no terminal.
fn bar(bytes: u64) -> ProgressBar {
    let bar = output::progress(bytes);
    if let Ok(style) = ProgressStyle::with_template("{bar:20} {bytes}/{total_bytes}  {elapsed}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

fn read(source: &str, input: impl BufRead, options: Options) -> Result<Analyzed> {
    let held_over_ns = options.held_over_ns;
    let mut analysis = Analysis::new(options);
    let mut reader = Reader::new(input);
    let mut notes = Vec::new();
    for event in reader.by_ref() {
        match event {
            Ok(event) => analysis.event(event),
            Err(ReadError::Line { line, error }) => {
                if notes.len() < TOLD_MAX {
                    notes.push(format!("{source}:{line}: {error}"));
                }
            }
            Err(error) => bail!("{source}: {error}"),
        }
    }
    let bad_lines = reader.bad_lines();
    if bad_lines > notes.len() as u64 {
        let more = bad_lines - notes.len() as u64;
        notes.push(format!("{source}: {more} more lines could not be read"));
    }
    let report = analysis.finish();
    if report.span_ns.is_none() {
        bail!(
            "{source}: no event of a block trace is in it{}",
            of_those_wanted(reader.lines())
        );
    }
    Ok(Analyzed {
        source: source.to_owned(),
        report,
        held_over_ns,
        lines: reader.lines(),
        bad_lines,
        notes,
    })
}

fn of_those_wanted(lines: u64) -> String {
    match lines {
        0 => ": it is empty".to_owned(),
        lines => format!(", in {lines} lines, or none of the device that was asked for"),
    }
}
