// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread sim`: every combination of a scenario, in virtual time.

mod explain;
pub mod human;
pub mod json;
pub mod module_replay;
mod picture;
pub mod replay;
pub mod scenarios;
pub mod subject;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use foreread_sim::engine::{Keep, Outcome};
use foreread_sim::scenario::{Checked, Combination};
use foreread_sim::{Contender, Scenario};
use foreread_sys::save;

use crate::EXIT_PARTLY;
use crate::args::SimArguments;
use crate::output::report;
use crate::{runs, text};
use subject::{Played, Subject};

/// A negative answer: a row that `--check` asked for is not reached.
const EXIT_NOT_REACHED: u8 = 1;
/// The beginning of a file, by which its kind is known.
const FIRST_BYTES: u64 = 64;

/// A scenario or a trace that ran.
pub struct Ran {
    scenario: Scenario,
    runs: Vec<Combination>,
    outcomes: Vec<Outcome>,
    checked: Vec<Checked>,
}

/// Whether a file to replay is of the kernel module's tracepoints, not of `watch`.
fn is_of_module(path: &Path) -> Result<bool> {
    let cannot = || format!("cannot read {}", path.display());
    let mut first = Vec::new();
    let file = File::open(path).with_context(cannot)?;
    let begin = file.take(FIRST_BYTES).read_to_end(&mut first);
    begin.with_context(cannot)?;
    Ok(module_replay::is_module_text(&first))
}

/// `foreread sim`.
pub fn sim(arguments: &SimArguments) -> Result<ExitCode> {
    if let Some(log) = &arguments.replay {
        return match is_of_module(log)? {
            true => module_replay::replay(log, arguments.json, arguments.verbose),
            false => replay::replay(log, arguments.json),
        };
    }
    let scenario = arguments.scenario.as_deref();
    let scenario = scenario.context("a scenario or --replay is needed")?;
    let read = Subject::read(scenario, arguments.how.options())?;
    let (mut scenario, played) = (read.scenario, read.played);
    scenario
        .set(&scenarios::overrides(&arguments.values)?)
        .map_err(|what| anyhow!("{what}"))?;
    let shows_decisions = arguments.explain.is_some() || arguments.svg.is_some();
    if shows_decisions && scenario.policies.contains(&Contender::Oracle) {
        bail!("--access and --svg show what policies decide at accesses; the oracle decides ahead");
    }
    if arguments.fit {
        return fit(scenario);
    }
    let ran = run(scenario, &played, arguments)?;
    if let Some(path) = &arguments.svg {
        // It names the files of a trace.
        save::write(path, picture::of(&ran).as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(call) = arguments.explain {
        let calls = ran.outcomes.iter().map(|outcome| outcome.total.calls);
        if ran.outcomes.iter().all(|o| o.explanation.is_none()) {
            let calls = calls.max().unwrap_or(0);
            bail!("there is no access {call}: accesses are numbered from 1 to {calls} here");
        }
    }
    if arguments.json {
        text::print_json(&json::SimReport::of(&ran, arguments.streams))?;
    } else if arguments.csv {
        text::print(&human::csv(&ran))?;
    } else if arguments.explain.is_some() {
        text::print(&explain::of(&ran))?;
    } else {
        text::print(&human::of(&ran))?;
    }
    let reached = |row: &Checked| row.reached;
    if arguments.check && !ran.checked.iter().all(reached) {
        return Ok(ExitCode::from(EXIT_NOT_REACHED));
    }
    if !played.is_whole() {
        return Ok(ExitCode::from(EXIT_PARTLY));
    }
    Ok(ExitCode::SUCCESS)
}

fn run(scenario: Scenario, played: &Played, arguments: &SimArguments) -> Result<Ran> {
    let keep = Keep {
        explain_call: arguments.explain,
        windows: arguments.svg.is_some(),
        ..Keep::default()
    };
    let runs = scenario.combinations();
    let outcomes = runs::all(runs.len(), |number| {
        played.run(&scenario.setup(&runs[number]), keep)
    })?;
    let outcomes = outcomes.into_iter().collect::<Result<Vec<_>>>()?;
    let checked = scenario.check(&runs, &outcomes);
    Ok(Ran {
        scenario,
        runs,
        outcomes,
        checked,
    })
}

/// `--fit`: the parameters as lines for the scenario.
fn fit(mut scenario: Scenario) -> Result<ExitCode> {
    let fitted = scenario.fit().with_context(|| scenario.file.clone())?;
    let mut lines = String::new();
    for (name, value) in &fitted.parameters {
        lines += &match name.as_str() {
            "cpu_per_page" => format!("{name} = \"{value}ns\"\n"),
            _ => format!("{name} = {value}\n"),
        };
    }
    text::print(&lines)?;
    report(&format!(
        "fitted in {} runs; the rows are off by {:.1} % in the mean",
        fitted.runs,
        (fitted.error.exp() - 1.0) * 100.0
    ));
    Ok(ExitCode::SUCCESS)
}
