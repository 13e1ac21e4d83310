// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts of each kernel's verifier for each BPF program: the baseline in
//! `tests/guest/verifier.list`, and the counts of now.

use std::collections::BTreeMap;

use foreread_guest::GuestError;
use serde_json::Value;

/// Counts of the verifier for one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Instructions that it looked at.
    pub instructions: u64,
    /// As the verifier prints it: bytes of each function.
    stack: String,
}

impl Counts {
    /// Sum over all functions, in bytes; no call path uses more.
    pub fn stack_bytes(&self) -> u64 {
        self.stack
            .split('+')
            .filter_map(|part| part.parse::<u64>().ok())
            .sum()
    }
}

/// The counts by (kernel, subject, program).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline(pub BTreeMap<(String, String, String), Counts>);

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

    /// The baseline of one kernel, from doctor's report.
    pub fn of(kernel: &str, surveys: &[&Value]) -> Self {
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

    /// The part of one kernel.
    pub fn of_kernel(&self, kernel: &str) -> Self {
        let of_kernel = self.0.iter().filter(|(key, _)| key.0 == kernel);
        Self(
            of_kernel
                .map(|(key, counts)| (key.clone(), counts.clone()))
                .collect(),
        )
    }

    /// Replaces the entries of the kernels in `other`.
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
