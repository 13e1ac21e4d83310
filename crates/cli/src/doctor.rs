// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread doctor`: what this machine allows and lacks, with the remedy for each.

mod kernel;
mod place;
mod programs;
mod recorders;

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use foreread_bpf::Survey;
use serde::Serialize;

use crate::args::DoctorArguments;
use crate::text;
use programs::SurveyReport;
use recorders::Recorders;

/// Something that `run` or `replay` needs doesn't work.
const EXIT_LACKING: u8 = 1;

/// How something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It works.
    Ok,
    /// It doesn't, and run or replay are the worse for it.
    Lacking,
    /// It doesn't, and nothing that is in use needs it.
    Unneeded,
}

impl Status {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Lacking => "lacking",
            Self::Unneeded => "unneeded",
        }
    }
}

/// One thing that was looked at.
pub struct Check {
    /// For programs as well as for people.
    pub name: String,
    pub status: Status,
    /// The finding, a sentence.
    pub found: String,
    /// Advice, if there is any.
    pub remedy: Option<String>,
}

impl Check {
    fn ok(name: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            status: Status::Ok,
            found: found.into(),
            remedy: None,
        }
    }

    fn lacking(
        name: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let (name, found, remedy) = (name.into(), found.into(), Some(remedy.into()));
        Self {
            name,
            status: Status::Lacking,
            found,
            remedy,
        }
    }

    /// Lacking, but for what isn't needed here.
    fn unneeded_if(mut self, unneeded: bool) -> Self {
        if unneeded && self.status == Status::Lacking {
            self.status = Status::Unneeded;
        }
        self
    }
}

/// What this machine allows and lacks.
pub struct Examined {
    recorders: Recorders,
    pub checks: Vec<Check>,
    surveys: Vec<Survey>,
}

/// Tries what `run` and `replay` need. Programs are loaded into the kernel for a moment.
pub fn examine() -> Examined {
    let recorders = Recorders::probe();
    let mut checks = vec![kernel::privileges(), kernel::version(), kernel::btf()];
    checks.extend(recorders.checks());
    let surveys = foreread_linux_doctor::surveys();
    checks.extend(programs::checks(&surveys));
    checks.extend([
        kernel::io_uring(),
        kernel::cachestat(),
        kernel::resolve_cached(),
    ]);
    checks.extend([kernel::pressure(), kernel::memory()]);
    checks.extend(place::file_systems());
    checks.push(place::state_directory());
    checks.push(place::testbed());
    Examined {
        recorders,
        checks,
        surveys,
    }
}

impl Examined {
    /// Whether nothing is lacking that `run` or `replay` needs.
    pub fn is_whole(&self) -> bool {
        self.lacking().next().is_none()
    }

    /// What is lacking.
    pub fn lacking(&self) -> impl Iterator<Item = &Check> {
        let checks = self.checks.iter();
        checks.filter(|check| check.status == Status::Lacking)
    }

    /// The document of `foreread doctor --json`.
    pub fn document(&self) -> DoctorReport<'_> {
        DoctorReport {
            schema: "foreread.doctor/1",
            works_fully: self.is_whole(),
            recorder: self.recorders.in_use(),
            bpf_recorder_start_ns: self.recorders.bpf_start_ns(),
            checks: self.checks.iter().map(CheckReport::of).collect(),
            programs: self.surveys.iter().map(SurveyReport::of).collect(),
        }
    }
}

/// `foreread doctor`.
pub fn doctor(arguments: &DoctorArguments) -> Result<ExitCode> {
    let examined = examine();
    let is_whole = examined.is_whole();
    if arguments.json {
        text::print_json(&examined.document())?;
    } else {
        text::print(&human(&examined.checks, &examined.recorders, is_whole))?;
        if arguments.programs {
            text::print(&programs::human(&examined.surveys))?;
        }
    }
    Ok(if is_whole {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(EXIT_LACKING)
    })
}

fn human(checks: &[Check], recorders: &Recorders, is_whole: bool) -> String {
    let width = checks
        .iter()
        .map(|check| check.name.chars().count())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for Check {
        name,
        status,
        found,
        remedy,
    } in checks
    {
        // Writing to a string can't fail.
        let _ = writeln!(text, "{:9} {name:width$}  {found}", status.name());
        if let Some(remedy) = remedy {
            let _ = writeln!(text, "{:9} {:width$}  remedy: {remedy}", "", "");
        }
    }
    let lacking = checks
        .iter()
        .filter(|check| check.status == Status::Lacking)
        .count();
    let end = if is_whole {
        "run and replay work fully".to_owned()
    } else {
        format!("{lacking} lacking, see the remedies")
    };
    let _ = writeln!(text, "\n{}; {end}", recorders.sentence());
    text
}

/// Rights and features that this machine has and lacks: `foreread.doctor/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DoctorReport<'a> {
    schema: &'static str,
    /// Whether nothing that `run` or `replay` needs is lacking.
    works_fully: bool,
    /// The recorder that `run` uses.
    recorder: Option<&'static str>,
    /// Time that the BPF recorder takes to start.
    bpf_recorder_start_ns: Option<u64>,
    /// In the order of the table.
    checks: Vec<CheckReport<'a>>,
    /// BPF programs, by task.
    programs: Vec<SurveyReport<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CheckReport<'a> {
    /// What was looked at.
    name: &'a str,
    /// `ok`, `lacking` or `unneeded`.
    status: &'static str,
    /// What was found.
    found: &'a str,
    /// A remedy, in words; null if there is none, or if none is needed.
    remedy: Option<&'a str>,
}

impl<'a> CheckReport<'a> {
    fn of(check: &'a Check) -> Self {
        Self {
            name: &check.name,
            status: check.status.name(),
            found: &check.found,
            remedy: check.remedy.as_deref(),
        }
    }
}
