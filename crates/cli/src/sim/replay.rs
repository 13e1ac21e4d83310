// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread sim --replay`: the decisions of a log of `watch`, made again from the same events.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use foreread_core::grouped;
use foreread_watch::log::replay::{Differs, Made, Replay, Replayed};
use serde::Serialize;

use crate::EXIT_PARTLY;
use crate::output::{counted, note};
use crate::text;
use crate::watch::log_lines;

const SCHEMA: &str = "foreread.sim.replay/1";
/// Another decision than that of the log.
pub const EXIT_DIFFERS: u8 = 1;
/// The planner whose counts are not in an object of their own.
const UNNESTED: &str = "streams";

/// Replays a log to its end, or to the first decision that differs, or call that was lost.
pub fn replay(path: &Path, is_json: bool) -> Result<ExitCode> {
    let mut replay = Replay::default();
    let mut last = Made::Same;
    log_lines::each_line(path, |line| {
        last = replay.take(line)?;
        Ok(last == Made::Same)
    })?;
    let replayed = replay.replayed();
    let calls: u64 = replayed.iter().map(|of| of.calls).sum();
    if calls == 0 && !matches!(last, Made::Lost(_)) {
        bail!(
            "{} has no calls of the policy or of walks; they are in what `foreread watch --log` \
             writes when something is read that isn't in memory",
            path.display()
        );
    }
    match is_json {
        true => text::print_json(&ReplayReport::of(&replayed, &last))?,
        false => text::print(&human(&replayed, &last))?,
    }
    Ok(match last {
        Made::Same => ExitCode::SUCCESS,
        Made::Other(_) => ExitCode::from(EXIT_DIFFERS),
        Made::Lost(lost) => {
            note(&format!(
                "{} was lost when the log was written; what comes after it can't be replayed",
                which(&lost.who, lost.number)
            ));
            ExitCode::from(EXIT_PARTLY)
        }
    })
}

fn which(who: &str, number: u64) -> String {
    format!("call {number} of {who}")
}

fn human(replayed: &[Replayed], last: &Made) -> String {
    if let Made::Other(differs) = last {
        return format!(
            "{}: the log has {}; now it is {}\n",
            which(&differs.who, differs.number),
            differs.logged,
            differs.made
        );
    }
    let parts = replayed.iter().filter(|of| of.calls > 0).map(|of| {
        let counts = of
            .counts
            .iter()
            .map(|([one, many], count)| counted(*count, one, many));
        let counts: Vec<String> = counts.collect();
        format!(
            "{} in {} calls of {}",
            counts.join(", "),
            grouped(of.calls),
            of.name
        )
    });
    let parts: Vec<String> = parts.collect();
    match parts.is_empty() {
        true => "nothing to replay\n".to_owned(),
        false => format!("{}: all the same\n", parts.join("; ")),
    }
}

/// A log that was replayed, up to the first answer that differs or the first call that is lost.
#[derive(Serialize)]
pub struct ReplayReport<'a> {
    schema: &'static str,
    /// The first call that is not in the log.
    lost: Option<String>,
    /// Its number.
    lost_from: Option<u64>,
    /// The first answer that is not that of the log.
    differs: Option<DiffersReport<'a>>,
    /// Counts of [`UNNESTED`].
    #[serde(flatten)]
    unnested: Option<CountsReport>,
    /// Counts of the other planners, by name.
    #[serde(flatten)]
    nested: BTreeMap<&'static str, CountsReport>,
}

/// Counts of all planners of one kind.
#[derive(Serialize)]
struct CountsReport {
    /// Calls that were made again.
    calls: u64,
    /// Results of these calls, by the plural of their name.
    #[serde(flatten)]
    counts: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DiffersReport<'a> {
    /// The call, in words.
    which: String,
    /// Number of the decision, from 1.
    number: u64,
    /// The fields that differ, as the log has them.
    logged: &'a str,
    /// The same fields as they are now.
    made: &'a str,
}

impl<'a> ReplayReport<'a> {
    fn of(replayed: &[Replayed], last: &'a Made) -> Self {
        let (lost, differs) = match last {
            Made::Same => (None, None),
            Made::Lost(lost) => (Some(lost), None),
            Made::Other(differs) => (None, Some(differs)),
        };
        let counts = replayed.iter().map(|of| (of.name, CountsReport::of(of)));
        let (unnested, nested): (BTreeMap<_, _>, _) =
            counts.partition(|(name, _)| *name == UNNESTED);
        Self {
            schema: SCHEMA,
            lost: lost.map(|lost| which(&lost.who, lost.number)),
            lost_from: lost.map(|lost| lost.number),
            differs: differs.map(DiffersReport::of),
            unnested: unnested.into_values().next(),
            nested,
        }
    }
}

impl CountsReport {
    fn of(replayed: &Replayed) -> Self {
        let counts = replayed.counts.iter();
        Self {
            calls: replayed.calls,
            counts: counts.map(|([_, many], count)| (*many, *count)).collect(),
        }
    }
}

impl<'a> DiffersReport<'a> {
    fn of(differs: &'a Differs) -> Self {
        Self {
            which: which(&differs.who, differs.number),
            number: differs.number,
            logged: &differs.logged,
            made: &differs.made,
        }
    }
}

/// A [`ReplayReport`] with the planners and counts that there are, for its schema.
#[cfg(test)]
pub mod described {
    use super::DiffersReport;

    /// A log that was replayed, up to the first answer that differs or the first call that is lost.
    #[derive(schemars::JsonSchema)]
    #[allow(dead_code)]
    pub struct Replay {
        /// The first call that is not in the log.
        lost: Option<String>,
        /// Its number.
        lost_from: Option<u64>,
        /// The first answer that is not that of the log.
        differs: Option<DiffersReport<'static>>,
        /// Calls about streams that were made again.
        #[schemars(skip_serializing_if = "Option::is_none")]
        calls: Option<u64>,
        /// Decisions about streams.
        #[schemars(skip_serializing_if = "Option::is_none")]
        decisions: Option<u64>,
        /// Windows of streams.
        #[schemars(skip_serializing_if = "Option::is_none")]
        windows: Option<u64>,
        /// Planners that detect traversals.
        #[schemars(skip_serializing_if = "Option::is_none")]
        detectors: Option<Detectors>,
        /// Planners of traversals.
        #[schemars(skip_serializing_if = "Option::is_none")]
        walks: Option<Walks>,
        /// Planners of profile replays.
        #[schemars(skip_serializing_if = "Option::is_none")]
        replays: Option<Replays>,
    }

    #[derive(schemars::JsonSchema)]
    #[allow(dead_code)]
    pub struct Detectors {
        /// Calls that were made again.
        calls: u64,
        /// Directories that seemed to be traversed.
        suspicions: u64,
    }

    #[derive(schemars::JsonSchema)]
    #[allow(dead_code)]
    pub struct Walks {
        /// Calls that were made again.
        calls: u64,
        /// Traversals.
        walks: u64,
        /// Decisions about them.
        decisions: u64,
    }

    #[derive(schemars::JsonSchema)]
    #[allow(dead_code)]
    pub struct Replays {
        /// Calls that were made again.
        calls: u64,
        /// Profile replays.
        replays: u64,
        /// Decisions about them.
        decisions: u64,
    }
}
