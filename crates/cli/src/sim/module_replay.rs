// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread sim --replay` of what the kernel module's tracepoints have written: each decision,
//! made again by the core of this program.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use foreread_core::grouped;
use foreread_sim::module_records::{self, Replayed};
use serde::Serialize;

use crate::EXIT_PARTLY;
use crate::output::{counted, note};
use crate::text;

use super::replay::EXIT_DIFFERS;

/// The outcome of a replay of the kernel module's records: `foreread.sim.module-replay/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ModuleReplayReport<'a> {
    schema: &'static str,
    /// Decisions that were made again.
    decisions: u64,
    /// Of these, those that came out the same, bit for bit, with the state after them.
    equal: u64,
    /// Decisions that can't be made again, since an event before them is missing in the records.
    not_replayed: u64,
    /// The same by policy.
    policies: BTreeMap<&'static str, PolicyReport>,
    /// The first decision that came out otherwise: what the module and the core decided.
    differs: Option<&'a str>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PolicyReport {
    /// Decisions that were made again.
    decisions: u64,
    /// Of these, those that came out the same.
    equal: u64,
}

/// Whether a file is text of a tracefs, and not lines of JSON.
pub fn is_module_text(first: &[u8]) -> bool {
    let begin = first.iter().find(|byte| !byte.is_ascii_whitespace());
    begin.is_some_and(|byte| *byte != b'{')
}

/// Makes all decisions of a text again.
pub fn replay(path: &Path, is_json: bool, is_verbose: bool) -> Result<ExitCode> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    // Names of commands may be in any encoding; nothing that is read of a line is.
    let text = String::from_utf8_lossy(&bytes);
    let mut each = String::new();
    let replayed = module_records::replay_each(&text, |told| {
        if is_verbose {
            // Writing to a text does not fail.
            let _ = writeln!(each, "{told}");
        }
    });
    let replayed = replayed.with_context(|| format!("cannot use {}", path.display()))?;
    if replayed.decisions() == 0 && replayed.gaps == 0 {
        bail!(
            "{} has no decisions; they are in /sys/kernel/tracing/trace once \
             /sys/kernel/tracing/events/foreread/enable is 1 and the kernel module has a policy \
             (`foreread kernel set`)",
            path.display()
        );
    }
    match is_json {
        true => text::print_json(&ModuleReplayReport::of(&replayed))?,
        false => text::print(&(each + &human(&replayed)))?,
    }
    if replayed.equal() < replayed.decisions() {
        return Ok(ExitCode::from(EXIT_DIFFERS));
    }
    if replayed.gaps > 0 {
        note(&format!(
            "{} can't be made again: an event before is missing in the records; \
             /sys/kernel/tracing/buffer_size_kb may be too small",
            counted(replayed.gaps, "decision", "decisions")
        ));
        return Ok(ExitCode::from(EXIT_PARTLY));
    }
    Ok(ExitCode::SUCCESS)
}

fn human(replayed: &Replayed) -> String {
    let lines = replayed.by_policy.iter().map(|(policy, (all, equal))| {
        let came_out = match equal == all {
            true => "all the same".to_owned(),
            false => format!("{} the same", grouped(*equal)),
        };
        let all = counted(*all, "decision", "decisions");
        format!("{policy}: {all}, {came_out}\n")
    });
    let mut said: String = lines.collect();
    if let Some(differs) = &replayed.first_difference {
        said += &format!("The first that is not: {differs}\n");
    }
    said
}

impl<'a> ModuleReplayReport<'a> {
    fn of(replayed: &'a Replayed) -> Self {
        let policies = replayed.by_policy.iter().map(|(policy, counts)| {
            let (decisions, equal) = *counts;
            (*policy, PolicyReport { decisions, equal })
        });
        Self {
            schema: "foreread.sim.module-replay/1",
            decisions: replayed.decisions(),
            equal: replayed.equal(),
            not_replayed: replayed.gaps,
            policies: policies.collect(),
            differs: replayed.first_difference.as_deref(),
        }
    }
}
