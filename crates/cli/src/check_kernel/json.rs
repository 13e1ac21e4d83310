// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON report of `check-kernel`: `foreread.check-kernel/1`. `docs/check-kernel.md` describes the
//! fields.

use std::collections::BTreeMap;

use foreread_core::policy::{Kernel, Limits};
use foreread_sim::check::{Seen, Sight};
use serde::Serialize;

use super::report::NOT_SEEN;
use super::{Found, Outcome, Plan};

/// Programs on this kernel and on the model.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CheckKernelReport<'a> {
    schema: &'static str,
    /// Whether all programs were equal in all places.
    equal: bool,
    /// The release of the running kernel.
    kernel: String,
    /// Seed of the random programs.
    seed: u64,
    /// The number of the first program.
    first_program: u64,
    /// The kernel that the model is of.
    modelled_kernel: Option<&'static str>,
    /// The known departures that the model was run with.
    modelled_departures: Vec<&'static str>,
    /// Remarks for people, a sentence each.
    notes: &'a [String],
    /// File systems on which they ran.
    places: Vec<PlaceReport<'a>>,
}

/// A file system or a directory on which programs were run.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PlaceReport<'a> {
    /// Name of the file system.
    name: &'a str,
    /// `bpf` or `residency`.
    by: &'static str,
    /// State that residency can't show.
    not_seen: &'static [&'static str],
    /// Why BPF was refused.
    bpf_refusal: Option<&'a str>,
    /// Whether the kernel counts pages that are on their way.
    counts_arrivals: bool,
    /// Programs that ran.
    programs: u64,
    /// Programs whose requests were as the model says.
    equal_programs: u64,
    /// Programs whose runs were all unsure.
    unproved_programs: u64,
    /// Runs that were repeated because something else disturbed them.
    repeated_runs: u64,
    /// Differences that the next run did not show.
    unconfirmed_differences: u64,
    /// Steps that were compared.
    steps: u64,
    /// Folios that the kernel inserted; none by residency.
    folios: Option<u64>,
    /// Pages that came into the page cache.
    pages: u64,
    /// Programs that met each known departure, by its name.
    programs_by_departure: BTreeMap<&'static str, u64>,
    /// The first program that differs, made as short as possible; null if none does.
    first_difference: Option<FoundReport>,
}

/// The first difference, in the smallest program that shows it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FoundReport {
    /// The number of the program.
    program: u64,
    file_bytes: u64,
    read_ahead_kib: u64,
    /// Up to the step that differs.
    steps: Vec<StepReport>,
    /// The kind of the difference.
    what: String,
    /// The differing step on either side.
    kernel: String,
    /// Name of the model that it was held against.
    model: String,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StepReport {
    /// What the program did.
    step: String,
    /// Events on either side.
    kernel: Vec<String>,
    /// Requests of the model, one a line.
    model: Vec<String>,
}

impl<'a> CheckKernelReport<'a> {
    pub fn of(plan: &Plan, outcomes: &'a [Outcome], notes: &'a [String]) -> Self {
        Self {
            schema: "foreread.check-kernel/1",
            equal: outcomes
                .iter()
                .all(|outcome| outcome.equal == outcome.programs),
            kernel: kernel_release(),
            seed: plan.seed,
            first_program: plan.numbers.start,
            modelled_kernel: modelled_kernel(plan),
            modelled_departures: names_of(plan.model.quirks),
            notes,
            places: outcomes.iter().map(PlaceReport::of).collect(),
        }
    }
}

/// The release of the running kernel.
pub fn kernel_release() -> String {
    let name = rustix::system::uname();
    name.release().to_string_lossy().into_owned()
}

/// The kernel that the model is of.
fn modelled_kernel(plan: &Plan) -> Option<&'static str> {
    let mut kernels = Kernel::ALL.into_iter();
    let kernel = kernels.find(|kernel| kernel.policy == plan.model.policy);
    kernel.map(|kernel| kernel.name)
}

fn names_of(quirks: u8) -> Vec<&'static str> {
    let set = Limits::QUIRKS
        .iter()
        .filter(|(_, quirk)| quirks & quirk != 0);
    set.map(|(name, _)| *name).collect()
}

impl<'a> PlaceReport<'a> {
    fn of(outcome: &'a Outcome) -> Self {
        let met = Limits::QUIRKS.iter().zip(outcome.met);
        Self {
            name: &outcome.name,
            by: match outcome.sight {
                Sight::Events => "bpf",
                Sight::Residency => "residency",
            },
            not_seen: match outcome.sight {
                Sight::Events => &[],
                Sight::Residency => &NOT_SEEN,
            },
            bpf_refusal: outcome.refusal.as_deref(),
            counts_arrivals: outcome.counts_arrivals,
            programs: outcome.programs,
            equal_programs: outcome.equal,
            unproved_programs: outcome.unsure,
            repeated_runs: outcome.repeated,
            unconfirmed_differences: outcome.unconfirmed,
            steps: outcome.steps,
            folios: (outcome.sight == Sight::Events).then_some(outcome.folios),
            pages: outcome.pages,
            programs_by_departure: met.map(|((name, _), programs)| (*name, programs)).collect(),
            first_difference: outcome.found.as_ref().map(FoundReport::of),
        }
    }
}

impl FoundReport {
    fn of(found: &Found) -> Self {
        let (kernel, model) = found.difference.sides();
        let steps = found.shrunk.steps.iter().enumerate();
        let steps = steps
            .take(found.difference.step + 1)
            .map(|(number, step)| StepReport {
                step: step.to_string(),
                kernel: events(found.difference.kernel.get(number)),
                model: events(found.difference.model.get(number)),
            });
        Self {
            program: found.program.number,
            file_bytes: found.program.file_bytes(),
            read_ahead_kib: found.program.read_ahead_kib,
            steps: steps.collect(),
            what: found.difference.what.to_string(),
            kernel,
            model,
        }
    }
}

fn events(seen: Option<&Seen>) -> Vec<String> {
    let events = seen.map(|seen| &seen.events).into_iter().flatten();
    events.map(ToString::to_string).collect()
}
