// SPDX-License-Identifier: MIT OR Apache-2.0
//! The subject of a simulation: a scenario, or a trace in its place.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use foreread_core::grouped;
use foreread_sim::Scenario;
use foreread_sim::engine::{Keep, Outcome, Setup, Simulation};
use foreread_sim::trace::Survey;
use foreread_trace::{ReadError, ReadOptions};

use super::scenarios;
use crate::output::note;
use crate::trace::findings;
use crate::trace::input::Input;

/// Size of one read of a trace, in bytes.
const BUFFER_BYTES: usize = 1 << 16;

/// A scenario, and how its programs are simulated.
pub struct Subject {
    pub scenario: Scenario,
    pub played: Played,
}

/// How programs are simulated.
pub enum Played {
    /// As the scenario says.
    Written,
    /// As a trace says.
    Traced(TraceFile),
}

/// A trace that is read for each simulation.
pub struct TraceFile {
    path: PathBuf,
    options: ReadOptions,
    survey: Arc<Survey>,
    /// Whether all of it could be read.
    is_whole: bool,
}

impl Subject {
    /// The scenario or the trace of a file: what is not called `.toml` is a trace if it looks like
    /// one.
    pub fn read(path: &Path, options: ReadOptions) -> Result<Self> {
        let is_toml = path
            .extension()
            .is_some_and(|extension| extension == "toml");
        if options.format.is_none() && (is_toml || !is_trace(path, options)?) {
            return Ok(Self {
                scenario: scenarios::read(path)?,
                played: Played::Written,
            });
        }
        let name = path.display().to_string();
        let mut input = Input::open(path, options)?;
        let survey = Survey::read(&mut *input.events).with_context(|| name.clone())?;
        let found = input.events.findings().clone();
        drop(input);
        findings::tell(&name, &found);
        tell_aside(&name, &survey);
        let survey = Arc::new(survey);
        let scenario = Scenario::of_trace(&name, Arc::clone(&survey));
        Ok(Self {
            scenario: scenario.map_err(|what| anyhow!("{name}: {what}"))?,
            played: Played::Traced(TraceFile {
                path: path.to_owned(),
                options,
                survey,
                is_whole: found.is_whole(),
            }),
        })
    }
}

impl Played {
    /// One run; under the oracle several, of which the one with the least stall counts.
    pub fn run(&self, setup: &Setup, keep: Keep) -> Result<Outcome> {
        let mut best: Option<Outcome> = None;
        for setup in setup.tries() {
            let outcome = self.run_once(setup, keep)?;
            let stall_ns = outcome.total.stall_ns;
            if best
                .as_ref()
                .is_none_or(|best| stall_ns < best.total.stall_ns)
            {
                best = Some(outcome);
            }
        }
        best.context("there is nothing to simulate")
    }

    fn run_once(&self, setup: Setup, keep: Keep) -> Result<Outcome> {
        let Self::Traced(trace) = self else {
            return Ok(Simulation::new(setup, keep).run());
        };
        let name = || trace.path.display().to_string();
        let file = File::open(&trace.path).with_context(|| format!("cannot read {}", name()))?;
        let input = BufReader::with_capacity(BUFFER_BYTES, file);
        let events = foreread_trace::open(input, trace.options).with_context(name)?;
        let simulation = Simulation::of_trace(setup, keep, &trace.survey, events);
        simulation.run_trace().with_context(name)
    }

    /// Whether all of what was to be read could be.
    pub fn is_whole(&self) -> bool {
        match self {
            Self::Written => true,
            Self::Traced(trace) => trace.is_whole,
        }
    }
}

/// Whether a file, which is read more than once if it is, looks like a trace.
fn is_trace(path: &Path, options: ReadOptions) -> Result<bool> {
    let cannot = || format!("cannot read {}", path.display());
    if path == Path::new("-") {
        bail!("a trace is read once for each simulation: save it to a file first");
    }
    let metadata = fs::metadata(path).with_context(cannot)?;
    if metadata.is_dir() {
        bail!("{}: it is a directory, not a scenario or a trace", cannot());
    }
    if !metadata.is_file() {
        bail!(
            "{}: it is no file, and a trace is read once for each simulation",
            cannot()
        );
    }
    let file = File::open(path).with_context(cannot)?;
    Ok(!matches!(
        foreread_trace::open(file, options),
        Err(ReadError::UnknownFormat)
    ))
}

/// Reports the accesses of a trace that are not simulated.
fn tell_aside(name: &str, survey: &Survey) {
    let aside = &survey.aside;
    let lines = [
        (
            aside.direct,
            "accesses go past the page cache and are not simulated",
        ),
        (
            aside.ahead,
            "requests were readahead's; the simulation makes its own",
        ),
        (
            aside.cut,
            "accesses are longer than 2 GiB and are cut there",
        ),
    ];
    for (count, what) in lines.iter().filter(|(count, _)| *count > 0) {
        note(&format!("{name}: {} {what}", grouped(*count)));
    }
}
