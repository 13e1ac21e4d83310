// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trial for programs: `foreread.try/1`.

use serde::Serialize;

use super::args::TryArguments;
use super::verdict::Verdict;
use super::{Round, Trial};

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TryReport {
    schema: &'static str,
    /// Name and arguments.
    command: Vec<String>,
    /// `faster`, `unclear` or `slower` with a replay.
    verdict: &'static str,
    /// Whether a signal ended it.
    interrupted: bool,
    /// Whether all caches of the machine were dropped before each run, or only the files.
    dropped_all_caches: bool,
    /// Pages of 4 KiB that the command reads.
    pages: u64,
    /// Files that could not be dropped.
    kept_files: u64,
    /// In the order in which they ran.
    rounds: Vec<RoundReport>,
}

/// One run alone and one with a replay.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RoundReport {
    alone_ns: u64,
    with_ns: u64,
    /// What `run` did in the second run, as in `foreread.run/1`.
    mode: String,
    /// Share of the pages that were in memory before the run with a replay.
    cached_before_permille: u64,
}

impl TryReport {
    pub fn of(arguments: &TryArguments, tried: &Trial) -> Self {
        let words = arguments.command.iter();
        Self {
            schema: "foreread.try/1",
            command: words.map(|word| word.to_string_lossy().into()).collect(),
            verdict: match tried.verdict() {
                Verdict::Faster => "faster",
                Verdict::Unclear => "unclear",
                Verdict::Slower => "slower",
            },
            interrupted: tried.is_interrupted,
            dropped_all_caches: arguments.drop_caches,
            pages: tried.pages,
            kept_files: tried.kept_files,
            rounds: tried.rounds.iter().map(RoundReport::of).collect(),
        }
    }
}

impl RoundReport {
    fn of(round: &Round) -> Self {
        Self {
            alone_ns: round.alone_ns,
            with_ns: round.with_ns,
            mode: round.mode.clone(),
            cached_before_permille: round.cached_permille,
        }
    }
}
