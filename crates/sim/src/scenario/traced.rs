// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace as a scenario: its files and programs, with values that the command line may replace.

use std::sync::Arc;

use foreread_core::grouped;
use foreread_core::policy::sizing::DEFAULT_PAGES;
use foreread_core::policy::{Limits, Policy};

use super::{Scenario, SetupError, parts};
use crate::block::QueueRules;
use crate::engine::{FileSetup, ProgramSetup};
use crate::trace::Survey;

/// Memory where nothing else is said, in pages: 256 MiB, as for scenarios.
const MEMORY_PAGES: u64 = 1 << 16;

impl Scenario {
    /// The scenario of a trace: `linux` on `hdd`, unless [`Scenario::set`] says otherwise. `file`
    /// is its name.
    ///
    /// # Errors
    /// [`SetupError::NothingRead`] when nothing in the trace can be simulated.
    pub fn of_trace(file: &str, survey: Arc<Survey>) -> Result<Self, SetupError> {
        if survey.accesses == 0 {
            return Err(SetupError::NothingRead);
        }
        Ok(Self {
            file: file.to_owned(),
            about: about(&survey),
            workload: String::new(),
            is_random: false,
            memory_pages: vec![MEMORY_PAGES],
            cpus: None,
            until_ns: None,
            devices: vec![parts::preset("hdd")?],
            disks: survey.disks as u64,
            queues: vec![(String::new(), QueueRules::default())],
            policies: vec![Policy::Linux.into()],
            read_ahead_pages: vec![DEFAULT_PAGES],
            capacity_cap: false,
            limits: Limits::new(0, DEFAULT_PAGES),
            kernel: None,
            files: Vec::new(),
            programs: Vec::new(),
            counts: vec![1],
            expectations: Vec::new(),
            fit: None,
            trace: Some(survey),
        })
    }

    /// The trace that this scenario is of.
    #[must_use]
    pub fn trace(&self) -> Option<&Arc<Survey>> {
        self.trace.as_ref()
    }
}

fn about(survey: &Survey) -> String {
    let counted = |count: u64, one: &str, several: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{} {several}", grouped(count)),
    };
    let threads = survey.programs.iter().map(|program| program.threads).sum();
    format!(
        "Trace, {}: {} of {} by {} in {}.",
        survey.source,
        counted(survey.accesses, "access", "accesses"),
        counted(survey.files.len() as u64, "file", "files"),
        counted(threads, "thread", "threads"),
        counted(survey.programs.len() as u64, "process", "processes"),
    )
}

/// Its files and programs.
pub(super) fn setups(survey: &Survey) -> (Vec<FileSetup>, Vec<ProgramSetup>) {
    let files = survey.files.iter().map(|file| FileSetup {
        name: file.name.clone(),
        bytes: file.bytes,
        disk: file.disk,
        offset_bytes: file.offset_bytes,
        extent_step_bytes: 0,
        extents: Arc::clone(&file.extents),
        cached: None,
    });
    let programs = survey.programs.iter().map(|program| ProgramSetup {
        threads: program.threads,
        phases: Vec::new(),
        ..ProgramSetup::new(&program.name, Vec::new())
    });
    (files.collect(), programs.collect())
}
