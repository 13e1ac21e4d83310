// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trial as text: two times with their spread, and in words whether a replay is worth it.

use foreread_measure::sample::Sample;

use super::args::TryArguments;
use super::verdict::Verdict;
use super::{Round, Trial};
use crate::output::{counted, pages, time};
use crate::table::{finished, table};
use crate::text::command_line_of;

/// Share of cached pages from which a run counts as warm, in thousandths.
const WARM_PERMILLE: u64 = 100;

pub fn of(arguments: &TryArguments, tried: &Trial) -> String {
    let mut rows = table(&["cold", "median", "least", "most", "runs"]);
    for (name, of) in columns() {
        let sample = Sample::of_ns(tried.rounds.iter().map(of));
        let at = |share| time(sample.quantile(share).round() as u64);
        rows.add_row([
            name.to_owned(),
            at(0.5),
            at(0.0),
            at(1.0),
            sample.len().to_string(),
        ]);
    }
    finished(rows, &[0]) + "\n" + &verdict(arguments, tried) + &doubts(tried)
}

type Column = (&'static str, fn(&Round) -> u64);

fn columns() -> [Column; 2] {
    [
        ("alone", |round| round.alone_ns),
        ("with a replay", |round| round.with_ns),
    ]
}

fn verdict(arguments: &TryArguments, tried: &Trial) -> String {
    let [alone_ns, with_ns] =
        columns().map(|(_, of)| Sample::of_ns(tried.rounds.iter().map(of)).median());
    let command = command_line_of(&arguments.command);
    match tried.verdict() {
        Verdict::Faster => format!(
            "Worth it: {:.1} times as fast from a cold disk. From now on:\n\
             sudo foreread run -- {command}\n",
            alone_ns / with_ns.max(1.0)
        ),
        Verdict::Slower => format!(
            "Not worth it: a replay makes it {:.1} times as slow.\n",
            with_ns / alone_ns.max(1.0)
        ),
        Verdict::Unclear => "Not worth it, or not clear: the times differ no more than they \
                             spread. More rounds tell more: --runs 20\n"
            .to_owned(),
    }
}

/// What makes the times say less than they seem to.
fn doubts(tried: &Trial) -> String {
    let mut text = String::new();
    let most_cached = tried.rounds.iter().map(|round| round.cached_permille).max();
    let most_cached = most_cached.unwrap_or(0);
    if most_cached >= WARM_PERMILLE {
        text += &format!(
            "Up to {} % of its {} could not be dropped from memory: another program has them \
             mapped, or they are not yet written.\n",
            most_cached / 10,
            pages(tried.pages)
        );
    }
    if tried.kept_files > 0 {
        text += &format!(
            "{} could not be opened to drop them.\n",
            counted(tried.kept_files, "file", "files")
        );
    }
    let others = tried.rounds.iter().filter(|round| !round.is_replayed());
    let (again, plain): (Vec<_>, Vec<_>) = others.partition(|round| round.mode == "recorded");
    for (runs, why) in [
        (
            plain,
            "nothing was replayed: `run` found that it doesn't help",
        ),
        (again, "it was recorded again: it read something else"),
    ] {
        if !runs.is_empty() {
            let runs = counted(runs.len() as u64, "run", "runs");
            text += &format!("In {runs} {why}.\n");
        }
    }
    text
}
