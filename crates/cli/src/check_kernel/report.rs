// SPDX-License-Identifier: MIT OR Apache-2.0
//! The findings, for people.

use std::fmt::Write as _;

use foreread_core::grouped;
use foreread_core::policy::Limits;
use foreread_sim::check::{Event, Seen, Sight};
use foreread_testbed::FileSystem;

use super::{Found, Outcome, Plan};
use crate::output;
use crate::text::printable;

/// Steps before a difference that are told.
const HISTORY_STEPS: usize = 12;
/// State that residency shows only by its effects in later steps.
pub const NOT_SEEN: [&str; 4] = [
    "marks",
    "sizes of folios",
    "windows over cached pages",
    "states of descriptors",
];

/// All of it, as text.
pub fn human(plan: &Plan, outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    if let Some(outcome) = outcomes.iter().find(|o| o.sight == Sight::Residency) {
        by_residency(&mut text, outcome);
    }
    for outcome in outcomes {
        summary(&mut text, plan, outcome);
        if let Some(found) = &outcome.found {
            difference(&mut text, outcome, found);
        }
    }
    text
}

fn by_residency(text: &mut String, outcome: &Outcome) {
    // Writing to a string can't fail.
    let _ = match &outcome.refusal {
        Some(refusal) => writeln!(text, "By residency, for {}.", printable(refusal)),
        None => writeln!(text, "By residency."),
    };
    let _ = writeln!(
        text,
        "Compared is what is cached and mapped after each step. Not seen, but by what comes of it: \
         {}.",
        NOT_SEEN.join(", ")
    );
    if !outcome.counts_arrivals {
        let _ = writeln!(
            text,
            "This kernel can't count what is under way (cachestat, Linux 6.5): each step waited \
             until nothing changed."
        );
    }
}

fn summary(text: &mut String, plan: &Plan, outcome: &Outcome) {
    let folios = match outcome.sight {
        Sight::Events => format!("{} folios, ", grouped(outcome.folios)),
        Sight::Residency => String::new(),
    };
    // Writing to a string can't fail.
    let _ = writeln!(
        text,
        "{}: {} of {} programs equal (seed {}; {} steps, {folios}{})",
        printable(&outcome.name),
        grouped(outcome.equal),
        grouped(outcome.programs),
        plan.seed,
        grouped(outcome.steps),
        output::pages(outcome.pages),
    );
    if outcome.unsure > 0 {
        let why = match outcome.sight {
            Sight::Events => "reads arrived while faults were taken again",
            Sight::Residency => "pages went that no step dropped, or differences came and went",
        };
        let unsure = grouped(outcome.unsure);
        let _ = writeln!(text, "  {unsure} not proved: {why}, in every run");
    }
    if outcome.unconfirmed > 0 {
        let _ = writeln!(
            text,
            "  differences that a second run did not show, and that are not counted: {}",
            grouped(outcome.unconfirmed)
        );
    }
    let met: Vec<String> = Limits::QUIRKS
        .iter()
        .zip(outcome.met)
        .filter(|(_, programs)| *programs > 0)
        .map(|((name, _), programs)| format!("{name} in {}", grouped(programs)))
        .collect();
    if !met.is_empty() {
        let _ = writeln!(
            text,
            "  known departures of this kernel: {}",
            met.join(", ")
        );
    }
    let without: Vec<&str> = without(plan);
    if !without.is_empty() {
        let _ = writeln!(text, "  the model was run without {}", without.join(", "));
    }
}

/// Departures of the modelled kernel that the model was run without.
fn without(plan: &Plan) -> Vec<&'static str> {
    let left_out = plan.model.policy.quirks() & !plan.model.quirks;
    let left_out = |(_, quirk): &&(&str, u8)| left_out & quirk != 0;
    let names = Limits::QUIRKS.iter().filter(left_out);
    names.map(|(name, _)| *name).collect()
}

fn difference(text: &mut String, outcome: &Outcome, found: &Found) {
    let (program, difference) = (&found.program, &found.difference);
    let (kernel, model) = difference.sides();
    let _ = writeln!(
        text,
        "\n  The first difference: program {} of seed {}, on a file of {} bytes, read_ahead_kb {}.\n  \
         {} of its {} steps show it:\n",
        program.number,
        program.seed,
        program.file_bytes(),
        program.read_ahead_kib,
        found.shrunk.steps.len(),
        program.steps.len(),
    );
    let first = difference.step.saturating_sub(HISTORY_STEPS);
    if first > 0 {
        let _ = writeln!(text, "    ... {first} steps before");
    }
    let steps = found.shrunk.steps.iter().enumerate().skip(first);
    for (number, step) in steps.take(difference.step + 1 - first) {
        let _ = writeln!(text, "    {step}");
        told(text, "kernel", difference.kernel.get(number));
        told(text, "model ", difference.model.get(number));
    }
    let _ = writeln!(
        text,
        "\n  {}:\n    kernel  {kernel}\n    model   {model}\n\n  Again: foreread check-kernel {}{} \
         --seed {} --program {}\n",
        difference.what,
        printable(&place_option(&outcome.name)),
        match outcome.sight {
            Sight::Events => "",
            Sight::Residency => " --method residency",
        },
        program.seed,
        program.number
    );
}

fn place_option(name: &str) -> String {
    if FileSystem::ALL.iter().any(|known| known.name() == name) {
        format!("--file-system {name}")
    } else {
        format!("--directory {name}")
    }
}

fn told(text: &mut String, who: &str, seen: Option<&Seen>) {
    for Event(event) in seen.map(|seen| &seen.events).into_iter().flatten() {
        let _ = writeln!(text, "        {who}  {event}");
    }
}

#[cfg(test)]
mod tests {
    use super::super::json::CheckKernelReport;
    use super::*;
    use crate::text;
    use foreread_core::policy::Policy;
    use foreread_sim::check::{Facts, Machine, Model, Modelled, check, generate};
    use serde_json::{Value, json};

    /// A kernel with all departures against a model without: the report of the first difference.
    fn example() -> (Plan, Outcome) {
        let plan = Plan {
            seed: 1,
            numbers: 0..300,
            model: Model::linux(0),
        };
        let facts = Facts {
            ra_pages: 32,
            io_pages: 320,
            folio_order_max: 9,
        };
        let mut outcome = Outcome::new("ext4", Sight::Events);
        for number in plan.numbers.clone() {
            let program = generate(plan.seed, number);
            let mut kernel = Modelled::new(Model::of(Policy::Linux)).with_facts(facts);
            let Ok(_) = kernel.begin(&program);
            let Ok(checked) = check(&mut kernel, &program, plan.model);
            outcome.count(&checked);
            if let (None, Some(difference)) = (&outcome.found, checked.difference) {
                outcome.found = Some(Found {
                    shrunk: program.clone(),
                    program,
                    difference,
                });
            }
        }
        (plan, outcome)
    }

    #[test]
    fn a_difference_is_told_with_its_history_and_how_to_repeat_it() {
        let (plan, outcome) = example();
        assert!(outcome.equal < outcome.programs, "none differs");
        let number = outcome.found.as_ref().expect("a difference").program.number;
        let text = human(&plan, &[outcome]);
        let again = format!("foreread check-kernel --file-system ext4 --seed 1 --program {number}");
        assert!(text.contains(&again), "{text}");
        assert!(
            text.contains("kernel  ") && text.contains("model   "),
            "{text}"
        );
        let without = "without late-hole, eof-mark, short-history, history-cap";
        assert!(text.contains(without), "{text}");
    }

    #[test]
    fn what_residency_cannot_show_is_said_with_why_it_was_used() {
        let (plan, mut outcome) = example();
        outcome.sight = Sight::Residency;
        outcome.refusal = Some("BPF was\nrefused".to_owned());
        outcome.counts_arrivals = false;
        (outcome.unsure, outcome.unconfirmed) = (2, 3);
        let outcomes = [outcome];
        let text = human(&plan, &outcomes);
        for part in [
            "By residency, for BPF was",
            "Not seen, but by what comes of it: marks, sizes of folios, ",
            "cachestat",
            "2 not proved: pages went that no step dropped, or differences came and went, in every run",
            "not counted: 3",
            "--file-system ext4 --method residency --seed 1",
        ] {
            assert!(text.contains(part), "{part} is not in:\n{text}");
        }
        let folios = format!("{} folios", grouped(outcomes[0].folios));
        assert!(!text.contains(&folios), "{text}");
        let document = text::json(&CheckKernelReport::of(&plan, &outcomes, &[]));
        let place = &document["places"][0];
        assert_eq!(place["by"], "residency");
        assert_eq!(place["folios"], Value::Null);
        assert_eq!(place["unconfirmed_differences"], 3);
        assert_eq!(place["counts_arrivals"], false);
        assert_eq!(place["not_seen"].as_array().map(Vec::len), Some(4));
    }

    #[test]
    fn the_document_says_the_same() {
        let (plan, outcome) = example();
        let equal = outcome.equal;
        let (outcomes, notes) = ([outcome], ["a note".to_owned()]);
        let document = text::json(&CheckKernelReport::of(&plan, &outcomes, &notes));
        assert_eq!(document["schema"], "foreread.check-kernel/1");
        assert_eq!(document["equal"], false);
        assert_eq!(document["places"][0]["equal_programs"], equal);
        assert!(document["places"][0]["first_difference"]["steps"].is_array());
        assert_eq!(document["modelled_kernel"], "6.18");
        assert_eq!(document["modelled_departures"], json!([]));
    }
}
