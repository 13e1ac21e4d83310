// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each BPF program loaded and attached, and what the verifier counted, held against the baseline.

use std::collections::BTreeMap;

use foreread_guest::GuestError;
use serde_json::Value;

use super::{Case, doctor_report};
use crate::context::{Context, Row};

pub const CASE: Case = Case {
    name: "programs",
    about: "each BPF program loaded and attached (`doctor --json`), and the verifier's counts",
    is_alone: false,
    run,
};

/// A program may take so much more than the baseline, in percent: builds by other compilers differ
/// by a few.
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

/// How many programs of one verb were taken, and what of it is missing.
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

/// What the verifier counted for one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    instructions: u64,
    /// As the verifier prints it: bytes of each function.
    stack: String,
}

impl Counts {
    /// Of all functions together: no call path takes more.
    fn stack_bytes(&self) -> u64 {
        self.stack
            .split('+')
            .filter_map(|part| part.parse::<u64>().ok())
            .sum()
    }
}

/// The counts by (kernel, subject, program).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline(BTreeMap<(String, String, String), Counts>);

impl Baseline {
    /// Reads `tests/guest/verifier.list`.
    pub fn parse(text: &str) -> Result<Self, GuestError> {
        let mut baseline = Self::default();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = || GuestError::Unexpected(format!("`{line}` is no line of verifier.list"));
            let [kernel, subject, program, instructions, stack] =
                line.split_whitespace().collect::<Vec<_>>()[..]
            else {
                return Err(wrong());
            };
            let counts = Counts {
                instructions: instructions.parse().map_err(|_| wrong())?,
                stack: stack.to_owned(),
            };
            baseline
                .0
                .insert((kernel.into(), subject.into(), program.into()), counts);
        }
        Ok(baseline)
    }

    /// Of one kernel, from what doctor said.
    fn of(kernel: &str, surveys: &[&Value]) -> Self {
        let mut baseline = Self::default();
        for survey in surveys {
            let subject = survey["subject"].as_str().unwrap_or("?").replace(' ', "-");
            for program in survey["programs"].as_array().into_iter().flatten() {
                let stack = program["stack_bytes"].as_array().into_iter().flatten();
                let stack: Vec<String> = stack.map(Value::to_string).collect();
                let name = program["program"].as_str().unwrap_or("?");
                let counts = Counts {
                    instructions: program["instructions"].as_u64().unwrap_or(0),
                    stack: if stack.is_empty() {
                        "0".into()
                    } else {
                        stack.join("+")
                    },
                };
                baseline
                    .0
                    .insert((kernel.into(), subject.clone(), name.into()), counts);
            }
        }
        baseline
    }

    fn of_kernel(&self, kernel: &str) -> Self {
        let of_kernel = self.0.iter().filter(|(key, _)| key.0 == kernel);
        Self(
            of_kernel
                .map(|(key, counts)| (key.clone(), counts.clone()))
                .collect(),
        )
    }

    /// Replaces what is known of the kernels in `other`.
    pub fn replace(&mut self, other: Self) {
        let kernels: Vec<&String> = other.0.keys().map(|key| &key.0).collect();
        self.0.retain(|key, _| !kernels.contains(&&key.0));
        self.0.extend(other.0);
    }

    /// The text of the list below the comment lines of `text`.
    pub fn text_below(&self, text: &str) -> String {
        let comments = text.lines().take_while(|line| line.starts_with('#'));
        let mut new: String = comments.map(|line| format!("{line}\n")).collect();
        for ((kernel, subject, program), counts) in &self.0 {
            let Counts {
                instructions,
                stack,
            } = counts;
            new.push_str(&format!(
                "{kernel} {subject} {program} {instructions} {stack}\n"
            ));
        }
        new
    }
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
