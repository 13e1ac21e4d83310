// SPDX-License-Identifier: MIT OR Apache-2.0
//! What became of the pages that the kernel module had read, and its watchdog.

use std::time::Duration;

use foreread_core::grouped;
use foreread_guest::{GuestError, Lab, Outcome};

use super::module::{Results, complaints_row, guest_of_readers, of, results};
use super::{Beside, Case};
use crate::context::{Context, GUEST_SCRIPTS, Row};

pub const CASE: Case = Case {
    name: "module-accounts",
    about: "`foreread.ko`: each page that it reads is accounted for; its watchdog takes bad policies away",
    beside: Beside::Another,
    run,
};

/// A program runs under ten policies on two file systems, each time in two ways.
const SECONDS_A_PROGRAM: u64 = 40;
/// Policies that read files in little memory.
const POLICIES: usize = 9;
/// The policy that leaves some misses to the kernel.
const DECLINING: &str = "-linux-2.6.13";
/// What the script's function `module_watchdog` looks for, in its order.
const VERDICTS: [&str; 7] = [
    "waste is found",
    "said once",
    "stock is back",
    "a written policy holds",
    "slow decisions are found",
    "late reads are found",
    "an ordinary reader is left alone",
];

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let lab = Lab::build_module()?;
    let (programs, seed) = (context.recorded, context.seed);
    let script = format!(
        "set -u
. ./module.sh
module_prepare
module_accounts {programs} {seed}
module_pressure
module_watchdog
module_log
"
    );
    let outcome = guest_of_readers(&lab, kernel)?
        .file(format!("{GUEST_SCRIPTS}/accounts.py"), "accounts.py")
        .time_limit(Duration::from_secs(
            600 + u64::from(programs) * SECONDS_A_PROGRAM,
        ))
        .script(script)
        .run()?;
    let results = results(&outcome.file("results")?);
    Ok(vec![
        accounts(&outcome, &results)?,
        pressure(&results),
        watchdog(&outcome, &results)?,
        held(&results),
        complaints_row(
            &results,
            "unloaded while pages are held: complaints of the kernel, caches left",
        ),
    ])
}

/// Programs whose pages were accounted for as what they read and what lay in memory demand.
fn accounts(outcome: &Outcome, results: &Results) -> Result<Row, GuestError> {
    let (right, all) = match of(results, "accounts") {
        [right, all] => (*right, *all),
        _ => (0, 0),
    };
    let text = outcome.file("accounts")?;
    let wrong = text.lines().find(|line| !line.ends_with(" right"));
    Ok(Row::asserted(
        "programs whose pages are accounted for",
        "all",
        format!("{} of {}", grouped(right), grouped(all)),
        right == all && all > 0,
    )
    .detail(wrong.unwrap_or_default().to_owned()))
}

/// Each page of the files was used once, although reclaim took pages all the time.
fn pressure(results: &Results) -> Row {
    let runs: Vec<(&String, &Vec<u64>)> = results
        .iter()
        .filter(|(name, _)| name.starts_with("pressure-"))
        .collect();
    let is_exact =
        |(name, numbers): &&(&String, &Vec<u64>)| is_exact(numbers, name.ends_with(DECLINING));
    let exact = runs.iter().filter(is_exact).count();
    let reclaimed = of(results, "reclaimed").first().copied().unwrap_or(0);
    let told: Vec<String> = runs
        .iter()
        .map(|(name, numbers)| format!("{name} {numbers:?}"))
        .collect();
    Row::asserted(
        "policies with exact accounts while reclaim takes pages",
        format!("{POLICIES} of {POLICIES}"),
        format!("{exact} of {}", runs.len()),
        exact == POLICIES && runs.len() == POLICIES && reclaimed > 0,
    )
    .detail(format!(
        "{} pages reclaimed; used, of, fetched, wasted, adds up, gone: {}",
        grouped(reclaimed),
        told.join(", ")
    ))
}

/// Pages used, pages of the files, pages fetched, wasted, whether the account adds up, and misses
/// of pages that were evicted unread. A policy that declines leaves some of these to the kernel,
/// which reads the page alone: the module has not fetched it.
fn is_exact(numbers: &[u64], declines: bool) -> bool {
    matches!(numbers, [used, pages, fetched, wasted, 1, thrashed]
        if used <= pages
            && pages - used <= if declines { *thrashed } else { 0 }
            && *fetched == used + wasted)
}

fn watchdog(outcome: &Outcome, results: &Results) -> Result<Row, GuestError> {
    let found = of(results, "watchdog");
    let missed: Vec<&str> = VERDICTS
        .iter()
        .enumerate()
        .filter(|(at, _)| found.get(*at) != Some(&1))
        .map(|(_, name)| *name)
        .collect();
    Ok(Row::asserted(
        "watchdog",
        "all of what it must do",
        format!("{} of {}", VERDICTS.len() - missed.len(), VERDICTS.len()),
        missed.is_empty(),
    )
    .detail(format!(
        "missed: {missed:?}; {}",
        outcome
            .file("verdicts")?
            .lines()
            .collect::<Vec<_>>()
            .join("; ")
    )))
}

/// Pages that the module held when it was unloaded.
fn held(results: &Results) -> Row {
    let held = of(results, "unloaded-held").first().copied().unwrap_or(0);
    Row::asserted(
        "unloaded while pages are held: pages held",
        "some",
        grouped(held),
        held > 0,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Verdict;

    #[test]
    fn a_page_that_is_counted_twice_is_a_miss() {
        assert!(is_exact(&[7_381, 7_381, 8_000, 619, 1, 0], false));
        assert!(!is_exact(&[7_382, 7_381, 8_001, 619, 1, 9], true));
        let too_few = [7_375, 7_381, 7_494, 119, 1, 6];
        assert!(!is_exact(&too_few, false), "used pages were wasted");
        assert!(is_exact(&too_few, true), "the kernel has read them");
        assert!(!is_exact(&[7_375, 7_381, 7_494, 119, 1, 5], true));
        assert!(
            !is_exact(&[7_381, 7_381, 8_000, 619, 0, 0], false),
            "does not add up"
        );
        let few = pressure(&results("pressure-linux 9 9 9 0 1 0\nreclaimed 5\n"));
        assert_eq!(few.verdict, Verdict::Missed, "one policy of nine");
        let text: String = (0..POLICIES)
            .map(|number| format!("pressure-{number} 9 9 12 3 1 0\n"))
            .collect();
        let idle = pressure(&results(&text));
        assert_eq!(idle.verdict, Verdict::Missed, "nothing was reclaimed");
        let good = pressure(&results(&format!("{text}reclaimed 5\n")));
        assert_eq!(good.verdict, Verdict::Reached);
    }
}
