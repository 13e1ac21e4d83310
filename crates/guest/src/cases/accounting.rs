// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests of `foreread stat` under this kernel: 23 pages of 23 files in each way, and random
//! programs on three file systems. Every page is compared with residency.

use std::time::Duration;

use foreread_guest::GuestError;

use super::{Beside, Case, PREPARE};
use crate::context::{Context, Row};

pub const CASE: Case = Case {
    name: "accounting",
    about: "`stat`'s tests: 23 pages of 23 files read in each way, N random programs",
    beside: Beside::Another,
    run,
};

/// The tests without random programs take 280 to 400 s.
const REST_SECONDS: u64 = 900;
const SECONDS_A_PROGRAM: u64 = 2;
const ROW: &str = "tests of accounts that are exact";

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let Some(tests) = &context.stat_tests else {
        return Ok(vec![Row::told(
            ROW,
            "skipped: not built; make guests builds them",
        )]);
    };
    let programs = u64::from(context.programs.div_ceil(3));
    let limit = Duration::from_secs(REST_SECONDS + 3 * programs * SECONDS_A_PROGRAM);
    let outcome = context
        .guest(kernel)?
        .file(tests, "stat-tests")
        .time_limit(limit)
        .script(format!(
            "{PREPARE}FOREREAD_STAT_PROGRAMS={programs} ./stat-tests --show-output 2>&1"
        ))
        .run()?;
    let Some(result) = TestResult::of(&outcome.output) else {
        return Err(GuestError::Unexpected(format!(
            "the tests did not end: {}",
            outcome.output.lines().last().unwrap_or("nothing")
        )));
    };
    let skipped = outcome.output.matches("skipped: ").count();
    let value = match skipped {
        0 => format!("{} of {}", result.passed, result.passed + result.failed),
        _ => format!("{} passed, {skipped} of them skipped", result.passed),
    };
    let is_reached = result.failed == 0 && skipped == 0 && result.passed > 0;
    Ok(vec![
        Row::asserted(ROW, "all", value, is_reached).detail(wrong(&outcome.output)),
    ])
}

/// The counts of the test harness.
#[derive(Debug, PartialEq, Eq)]
struct TestResult {
    passed: u64,
    failed: u64,
}

impl TestResult {
    /// Reads the line `test result: ok. 23 passed; 0 failed; ...`.
    fn of(output: &str) -> Option<Self> {
        let line = output
            .lines()
            .find_map(|line| line.strip_prefix("test result: "))?;
        let before = |word: &str| {
            let numbers = line.split(word).next()?;
            numbers.split_whitespace().last()?.parse().ok()
        };
        Some(Self {
            passed: before(" passed")?,
            failed: before(" failed")?,
        })
    }
}

/// Which tests failed, and the first line of each panic.
fn wrong(output: &str) -> String {
    let is_told = |line: &&str| {
        line.ends_with("... FAILED") || line.contains(" panicked at ") || line.contains("skipped: ")
    };
    output
        .lines()
        .filter(is_told)
        .collect::<Vec<_>>()
        .join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_harness_says_how_many_passed() {
        let output = "running 23 tests\ntest ways::a ... FAILED\n\n\
                      test result: FAILED. 22 passed; 1 failed; 0 ignored; finished in 1.00s\n";
        let expected = TestResult {
            passed: 22,
            failed: 1,
        };
        assert_eq!(TestResult::of(output), Some(expected));
        assert_eq!(wrong(output), "test ways::a ... FAILED");
        assert_eq!(TestResult::of("running 23 tests\n"), None);
    }
}
