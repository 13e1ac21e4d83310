// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each BPF program loaded and attached, and the verifier's counts, compared with the baseline.

use foreread_guest::GuestError;
use serde_json::Value;

use super::{Beside, Case, doctor_report};
use crate::context::{Context, Row};
use crate::verifier::Baseline;

pub const CASE: Case = Case {
    name: "programs",
    about: "each BPF program loaded and attached (`doctor --json`), and the verifier's counts",
    beside: Beside::Anything,
    run,
};

/// Limit of a program's growth over the baseline, in percent: builds by other compilers differ by a
/// few.
const GROWTH_PERCENT: u64 = 10;

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let report = doctor_report(context, kernel)?;
    let surveys: Vec<&Value> = report["programs"]
        .as_array()
        .into_iter()
        .flatten()
        .collect();
    if surveys.is_empty() {
        return Err(GuestError::Unexpected(
            "this foreread's doctor says nothing of programs".to_owned(),
        ));
    }
    let mut rows: Vec<Row> = surveys.iter().map(|survey| attached(survey)).collect();
    let found = Baseline::of(kernel, &surveys);
    rows.push(compare(&context.verifier.of_kernel(kernel), &found));
    context.note_verifier(found);
    Ok(rows)
}

/// Number of programs of one verb that were taken, and the events that are missing.
fn attached(survey: &Value) -> Row {
    let subject = survey["subject"].as_str().unwrap_or("?");
    let count = survey["programs"].as_array().map_or(0, Vec::len);
    let missing: Vec<String> = survey["missing"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|hook| {
            let text = |key: &str| hook[key].as_str().unwrap_or("").to_owned();
            format!("{}: {} ({})", text("hook"), text("loss"), text("reason"))
        })
        .collect();
    let refused = survey["refused"].as_str();
    let value = match refused {
        Some(_) => "refused".to_owned(),
        None if missing.is_empty() => format!("all {count} programs"),
        None => format!("{count} programs, {} hooks missing", missing.len()),
    };
    let detail = refused.map_or_else(|| missing.join("; "), str::to_owned);
    Row::asserted(
        format!("{subject}: loaded and attached"),
        "all",
        value,
        refused.is_none() && missing.is_empty(),
    )
    .detail(detail)
}

fn compare(baseline: &Baseline, found: &Baseline) -> Row {
    let mut worse = Vec::new();
    for (key, before) in &baseline.0 {
        let name = format!("{} {}", key.1, key.2);
        match found.0.get(key) {
            None => worse.push(format!("{name} is not loaded any more")),
            Some(now) => {
                if now.instructions * 100 > before.instructions * (100 + GROWTH_PERCENT) {
                    let (now, before) = (now.instructions, before.instructions);
                    worse.push(format!("{name}: {now} instructions, were {before}"));
                }
                let (deep, was) = (now.stack_bytes(), before.stack_bytes());
                if deep > was {
                    worse.push(format!("{name}: {deep} bytes of stack, were {was}"));
                }
            }
        }
    }
    let programs = found.0.len();
    let largest = found.0.values().map(|counts| counts.instructions).max();
    Row::asserted(
        "verifier: programs, most instructions of one",
        "as in the baseline",
        format!("{programs}, {}", super::grouped(largest.unwrap_or(0))),
        worse.is_empty() && (programs > 0 || baseline.0.is_empty()),
    )
    .detail(worse.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn survey(instructions: u64, stack: &[u64]) -> Value {
        json!({"subject": "watch -- CMD", "refused": null, "missing": [], "programs": [
            {"program": "fr_read", "place": "x", "instructions": instructions, "stack_bytes": stack}
        ]})
    }

    #[test]
    fn more_instructions_or_stack_than_the_baseline_is_a_miss() {
        let before = Baseline::of("6.1", &[&survey(1_000, &[100, 50])]);
        let same = compare(&before, &Baseline::of("6.1", &[&survey(1_050, &[100, 50])]));
        assert_eq!(same.verdict, crate::context::Verdict::Reached, "{same:?}");
        let slow = compare(&before, &Baseline::of("6.1", &[&survey(1_200, &[100, 50])]));
        assert!(
            slow.detail.contains("1200 instructions, were 1000"),
            "{slow:?}"
        );
        let deep = compare(&before, &Baseline::of("6.1", &[&survey(1_000, &[100, 51])]));
        assert!(
            deep.detail.contains("151 bytes of stack, were 150"),
            "{deep:?}"
        );
        let gone = compare(&before, &Baseline::default());
        assert!(gone.detail.contains("not loaded any more"), "{gone:?}");
    }

    #[test]
    fn the_list_reads_back_as_it_was_written() {
        let comment = "# what it is\n#\n";
        let mut baseline = Baseline::of("6.1", &[&survey(1_000, &[100, 50])]);
        let text = baseline.text_below(&format!("{comment}6.1 old old 1 1\n"));
        assert_eq!(
            text,
            format!("{comment}6.1 watch----CMD fr_read 1000 100+50\n")
        );
        assert_eq!(Baseline::parse(&text).unwrap(), baseline);
        baseline.replace(Baseline::of("6.1", &[&survey(2, &[])]));
        assert!(baseline.text_below("").contains(" 2 0\n"));
        assert!(Baseline::parse("6.1 x\n").is_err());
    }

    #[test]
    fn a_refusal_and_a_missing_hook_are_misses() {
        let mut of = survey(1, &[]);
        assert_eq!(attached(&of).value, "all 1 programs");
        of["missing"] = json!([{"hook": "h", "loss": "l", "reason": "r"}]);
        assert_eq!(attached(&of).detail, "h: l (r)");
        of["refused"] = json!("not permitted");
        assert_eq!(attached(&of).value, "refused");
    }
}
