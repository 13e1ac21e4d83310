// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread compare`: policies held against each other over workloads, devices and memory.

mod csv;
mod html;
mod human;
pub mod json;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use foreread_core::policy::Policy;
use foreread_sim::engine::Keep;
use foreread_sim::matrix::{self, BASE, Cell, Matrix, Numbers, ORACLE, Workload};
use foreread_sim::{Contender, Scenario, WORKLOADS};
use foreread_sys::save;
use foreread_trace::ReadOptions;

use crate::EXIT_PARTLY;
use crate::args::CompareArguments;
use crate::sim::scenarios;
use crate::sim::subject::{Played, Subject};
use crate::{runs, text};
use json::CompareReport;

/// Policies that are compared when none is named.
const POLICIES: [Contender; 3] = [
    Contender::Policy(Policy::Linux),
    Contender::Policy(Policy::Safe2010),
    Contender::Policy(Policy::None),
];

/// A matrix that ran, and what of it is to be shown.
pub struct Compared {
    matrix: Matrix,
    /// Places of policies whose worst cells are listed.
    show: Vec<usize>,
    /// By workload: whether it is held out.
    held_out: Option<Vec<bool>>,
}

/// A part of the cells that has a summary of its own.
struct Part {
    /// Its name in reports; empty for all cells.
    name: &'static str,
    held_out: Option<bool>,
}

impl Compared {
    /// All cells, or those held out apart from the rest.
    fn parts(&self) -> Vec<Part> {
        let part = |name, held_out| Part { name, held_out };
        match self.held_out {
            None => vec![part("", None)],
            Some(_) => vec![
                part("not held out", Some(false)),
                part("held out", Some(true)),
            ],
        }
    }

    fn is_in(&self, part: &Part, cell: &Cell) -> bool {
        let held_out = self.held_out.as_ref().map(|held| held[cell.workload]);
        part.held_out.is_none() || part.held_out == held_out
    }

    /// The names of the workloads of a part.
    fn workloads(&self, part: &Part) -> Vec<&str> {
        let held_out = |number: usize| self.held_out.as_ref().map(|held| held[number]);
        let numbered = self.matrix.workloads.iter().enumerate();
        numbered
            .filter(|(number, _)| part.held_out.is_none() || part.held_out == held_out(*number))
            .map(|(_, workload)| &*workload.name)
            .collect()
    }
}

/// `foreread compare`.
pub fn compare(arguments: &CompareArguments) -> Result<ExitCode> {
    let mut overrides = scenarios::overrides(&arguments.values)?;
    if overrides.policies.is_empty() {
        overrides.policies = POLICIES.to_vec();
    }
    overrides.policies = with_base(&overrides.policies);
    let show = shown(&arguments.show, &overrides.policies)?;
    let (mut workloads, played) = read(&arguments.workloads, arguments.how.options())?;
    for workload in &mut workloads {
        workload.set(&overrides).map_err(|what| anyhow!("{what}"))?;
    }
    // Before anything runs: a matrix takes minutes.
    if let Some(path) = &arguments.html {
        // It names the traces that are compared.
        save::append(path).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let matrix = run(workloads, &played, overrides.policies)?;
    let compared = Compared {
        held_out: arguments.held_out.map(|seed| matrix.held_out(seed)),
        matrix,
        show,
    };
    if let Some(path) = &arguments.html {
        save::write(path, html::page(&compared).as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if arguments.json {
        text::print_json(&CompareReport::of(&compared))?;
    } else if arguments.csv {
        text::print(&csv::of(&CompareReport::of(&compared)))?;
    } else {
        text::print(&human::of(&compared))?;
    }
    if !played.iter().all(Played::is_whole) {
        return Ok(ExitCode::from(EXIT_PARTLY));
    }
    Ok(ExitCode::SUCCESS)
}

/// The policies to compare, each once. `linux`, the base, comes first even if it was not named.
fn with_base(policies: &[Contender]) -> Vec<Contender> {
    let mut once = vec![Contender::Policy(Policy::Linux)];
    for policy in policies {
        if !once.contains(policy) {
            once.push(*policy);
        }
    }
    once
}

/// The places of the policies whose cells are to be shown.
fn shown(names: &[String], policies: &[Contender]) -> Result<Vec<usize>> {
    let place = |name: &String| {
        let policy: Contender = name.parse()?;
        let place = policies.iter().position(|other| *other == policy);
        place.with_context(|| format!("--show {name}: it is none of the policies to compare"))
    };
    let places = names.iter().map(place).collect::<Result<BTreeSet<_>>>()?;
    Ok(places.into_iter().collect())
}

/// The program's own workloads, in the order of their names.
fn own() -> Result<Vec<Workload>> {
    let mut texts = WORKLOADS.to_vec();
    texts.sort_by_cached_key(|(name, _)| in_counting_order(name));
    let parsed = texts.into_iter().map(|(name, text)| {
        Ok(Workload {
            name: name.to_owned(),
            scenario: Scenario::parse(name, text)?,
        })
    });
    parsed.collect()
}

/// The workloads of files and directories, each named by its file, and how each is played. Without
/// any, the program's own.
fn read(paths: &[PathBuf], options: ReadOptions) -> Result<(Vec<Workload>, Vec<Played>)> {
    if paths.is_empty() {
        let own = own()?;
        let played = own.iter().map(|_| Played::Written).collect();
        return Ok((own, played));
    }
    let mut workloads: Vec<Workload> = Vec::new();
    let mut played = Vec::new();
    for path in files(paths)? {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if workloads.iter().any(|workload| workload.name == name) {
            bail!("two workloads are called {name}: name one of the files otherwise");
        }
        let subject = Subject::read(&path, options)?;
        played.push(subject.played);
        workloads.push(Workload {
            name: name.into_owned(),
            scenario: subject.scenario,
        });
    }
    Ok((workloads, played))
}

/// The files that paths name, those of a directory in the order of their names.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let mut inside = workload_files(path)?;
        if inside.is_empty() {
            bail!(
                "{} holds no scenario and no trace: no file NAME.toml or NAME.frt",
                path.display()
            );
        }
        inside.sort_by_cached_key(|path| in_counting_order(&path.to_string_lossy()));
        files.append(&mut inside);
    }
    Ok(files)
}

/// Sorts `stops-8` before `stops-64`: texts and the numbers between them.
fn in_counting_order(name: &str) -> Vec<(String, u64)> {
    let pieces = name.split_inclusive(|c: char| c.is_ascii_digit());
    let mut order: Vec<(String, u64)> = Vec::new();
    for piece in pieces {
        let (text, digit) = match piece.char_indices().next_back() {
            Some((at, c)) if c.is_ascii_digit() => (&piece[..at], c.to_digit(10)),
            _ => (piece, None),
        };
        if !text.is_empty() || order.is_empty() {
            order.push((text.to_owned(), 0));
        }
        if let (Some(digit), Some((_, number))) = (digit, order.last_mut()) {
            *number = number.saturating_mul(10).saturating_add(digit.into());
        }
    }
    order
}

fn workload_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let cannot = || format!("cannot read {}", directory.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml" || extension == "frt")
        {
            files.push(path);
        }
    }
    Ok(files)
}

fn run(workloads: Vec<Workload>, played: &[Played], policies: Vec<Contender>) -> Result<Matrix> {
    let all = matrix::runs(&workloads);
    let numbers = runs::all(all.len(), |number| {
        let (workload, run) = &all[number];
        let setup = workloads[*workload].scenario.setup(run);
        let outcome = played[*workload].run(&setup, Keep::default())?;
        Ok(Numbers::of(&outcome, &setup))
    })?;
    let numbers = numbers.into_iter().collect::<Result<Vec<_>>>()?;
    Ok(Matrix::new(workloads, policies, numbers))
}

/// Where a cell is, besides its workload and device: what differs between cells of those.
fn place_of(compared: &Compared, cell: &Cell) -> String {
    let scenario = &compared.matrix.workloads[cell.workload].scenario;
    let run = &cell.run;
    let mut words = vec![crate::sim::human::kib(run.memory_pages)];
    if scenario.read_ahead_pages.len() > 1 {
        let window = crate::sim::human::kib(u64::from(run.read_ahead_pages));
        words.push(format!("window {window}"));
    }
    if scenario.queues.len() > 1 {
        words.push(scenario.queues[run.queue].0.clone());
    }
    if scenario.counts.len() > 1 {
        words.push(format!("{} programs", run.count));
    }
    words.join(", ")
}

/// A policy that charts are about: those to be shown, else the first that is neither what all are
/// held against nor the oracle.
fn subjects(compared: &Compared) -> Vec<usize> {
    if !compared.show.is_empty() {
        return compared.show.clone();
    }
    let mut policies = compared.matrix.policies.iter();
    let rival = policies.position(|policy| ![BASE, ORACLE].contains(&policy.name()));
    vec![rival.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_are_in_the_order_of_their_numbers() {
        let mut names = [
            "w3-64.toml",
            "w3-1024k.toml",
            "w3-8.toml",
            "w10-1.toml",
            "",
            "7",
        ];
        names.sort_by_cached_key(|name| in_counting_order(name));
        let sorted = [
            "",
            "7",
            "w3-8.toml",
            "w3-64.toml",
            "w3-1024k.toml",
            "w10-1.toml",
        ];
        assert_eq!(names, sorted);
    }
}
