// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests which BPF programs of each verb this kernel accepts.

use std::fmt::Write as _;

use foreread_bpf::{ProgramMet, Survey};
use foreread_sys::rights::{Capabilities, Capability};
use serde::Serialize;

use super::Check;

/// One check a verb: what it can't do here, and why.
pub fn checks(surveys: &[Survey]) -> Vec<Check> {
    surveys.iter().map(check).collect()
}

fn check(survey: &Survey) -> Check {
    let name = survey.subject;
    let missing = match &survey.outcome {
        Ok(missing) => missing,
        Err(reason) => return Check::lacking(name, reason, remedy()),
    };
    if missing.is_empty() {
        let count = survey.programs.iter().filter(|p| p.place.is_some()).count();
        return Check::ok(name, format!("all {count} programs"));
    }
    let losses = missing
        .iter()
        .map(|hook| format!("{}, for {}", hook.loss, hook.reason));
    let found = format!("without {}", losses.collect::<Vec<_>>().join("; "));
    Check::lacking(name, found, remedy()).unneeded_if(true)
}

/// Without rights, the advice is to run as root: only then are other gaps known.
fn remedy() -> &'static str {
    let may = Capabilities::of_self();
    if may.has(Capability::SysAdmin) || may.has(Capability::Bpf) {
        "see the reason; the rest works without it"
    } else {
        "run with sudo"
    }
}

/// A table of all programs.
pub fn human(surveys: &[Survey]) -> String {
    let mut text = String::new();
    for survey in surveys {
        // Writing to a string can't fail.
        let _ = writeln!(text, "\n{}", survey.subject);
        for met in &survey.programs {
            let ProgramMet {
                program,
                place,
                instructions,
                ..
            } = met;
            let place = place
                .as_deref()
                .unwrap_or("run by another program or by us");
            let _ = writeln!(
                text,
                "  {program:24} {instructions:>8} instructions, stack {:>9}  {place}",
                stack(met)
            );
        }
    }
    text
}

/// Bytes of a program's functions, of the first ones.
fn stack(met: &ProgramMet) -> String {
    let depths: Vec<String> = met.stack_bytes.iter().map(u64::to_string).collect();
    depths.join("+")
}

/// The BPF programs of a verb: `programs` of `foreread.doctor/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SurveyReport<'a> {
    /// The verb, and which of its objects.
    subject: &'static str,
    /// Why the kernel refuses all of them.
    refused: Option<&'a str>,
    /// Programs that this kernel refuses.
    missing: Vec<MissingReport<'a>>,
    /// Programs that the kernel has taken.
    programs: Vec<ProgramReport<'a>>,
}

/// A hook that this kernel lacks.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MissingReport<'a> {
    /// Where in the kernel it would run.
    hook: &'static str,
    /// The events that are not seen without it.
    loss: &'static str,
    /// What the kernel said.
    reason: &'a str,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ProgramReport<'a> {
    /// Name of the program.
    program: &'a str,
    /// The hook in words; none where user space or another program runs it.
    place: Option<&'a str>,
    /// Instructions that the verifier looked at.
    instructions: u64,
    /// Stack of each function, in bytes.
    stack_bytes: &'a [u64],
}

impl<'a> SurveyReport<'a> {
    pub fn of(survey: &'a Survey) -> Self {
        let missing = survey.outcome.iter().flatten();
        let missing = missing.map(|hook| MissingReport {
            hook: hook.hook,
            loss: hook.loss,
            reason: &hook.reason,
        });
        let programs = survey.programs.iter().map(|met| ProgramReport {
            program: &met.program,
            place: met.place.as_deref(),
            instructions: met.instructions,
            stack_bytes: &met.stack_bytes,
        });
        Self {
            subject: survey.subject,
            refused: survey.outcome.as_ref().err().map(String::as_str),
            missing: missing.collect(),
            programs: programs.collect(),
        }
    }
}
