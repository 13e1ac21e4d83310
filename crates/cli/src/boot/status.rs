// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread boot status`: what earlier boots were given, and what that was worth.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use foreread_boot::{Boot, History, Mode, Spread, Stored, Untypical, Verdict, Worth, worth};
use serde::Serialize;

use super::args::StatusArguments;
use super::{EXIT_NOT_ENABLED, standing, state_of};
use crate::output;
use crate::table::{finished, table};
use crate::text;

/// Boots that are listed.
const LISTED: usize = 16;

/// `foreread.boot.status/1`. Times are from the start of init to the target.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StatusJson<'a> {
    schema: &'static str,
    /// Whether boots are recorded.
    enabled: bool,
    /// The stored profile.
    profile: &'a ProfileJson,
    /// The gain of replays up to now.
    verdict: Verdict,
    /// Times of the boots with a replay; null if there are none.
    with: Option<Spread>,
    /// Times of the boots without one; null if there are none.
    without: Option<Spread>,
    saved_ns: Option<i64>,
    faster_pairs_permille: Option<u64>,
    stall_permille: Option<u64>,
    /// The oldest first.
    boots: &'a [Boot],
}

/// The profile of the boot.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProfileJson {
    /// Why there is none that can be used; null if there is.
    pub lacking: Option<String>,
    /// Files and directories.
    pub paths: usize,
    pub pages: u64,
    /// Units that read something.
    pub units: usize,
}

/// How replays of the boot stand.
pub struct BootState {
    pub is_enabled: bool,
    pub profile: ProfileJson,
    pub judged: Worth,
    pub history: History,
}

pub fn status(arguments: &StatusArguments) -> Result<ExitCode> {
    let found = gather(&arguments.root, &mut output::note)?;
    if arguments.json {
        text::print_json(&document(&found))?;
    } else {
        text::print(&human(&found))?;
    }
    Ok(match found.is_enabled {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EXIT_NOT_ENABLED),
    })
}

/// How replays of the boot stand on the system with this root.
pub fn gather(root: &Path, note: &mut dyn FnMut(&str)) -> Result<BootState> {
    let (is_enabled, history) = standing(root, note)?;
    let (profile, stored) = state_of(root).profile();
    let judged = worth(&history);
    let lacking = match stored {
        Stored::Missing => Some("no boot was recorded yet".to_owned()),
        Stored::Unusable(why) => Some(why),
        Stored::Own | Stored::Foreign => None,
    };
    let profile = ProfileJson {
        lacking,
        paths: profile.as_ref().map_or(0, |profile| profile.nodes.len()),
        pages: profile
            .as_ref()
            .map_or(0, foreread_profile::Profile::total_pages),
        units: profile.as_ref().map_or(0, |profile| profile.units.len()),
    };
    Ok(BootState {
        is_enabled,
        profile,
        judged,
        history,
    })
}

/// The document of `foreread boot status --json`.
pub fn document(found: &BootState) -> StatusJson<'_> {
    let judged = &found.judged;
    StatusJson {
        schema: "foreread.boot.status/1",
        enabled: found.is_enabled,
        profile: &found.profile,
        verdict: judged.verdict,
        with: judged.with,
        without: judged.without,
        saved_ns: judged.saved_ns(),
        faster_pairs_permille: judged.faster_pairs_permille,
        stall_permille: judged.stall_permille,
        boots: found.history.boots(),
    }
}

fn human(found: &BootState) -> String {
    let profile = &found.profile;
    let mut said = String::from(match found.is_enabled {
        true => "Enabled.\n",
        false => "Not enabled; `foreread boot enable` does it.\n",
    });
    said += &match &profile.lacking {
        Some(why) => format!("No profile: {why}.\n"),
        None => format!(
            "The profile has {} of {}, needed by {}.\n",
            output::pages(profile.pages),
            output::counted(profile.paths as u64, "path", "paths"),
            output::counted(profile.units as u64, "unit", "units"),
        ),
    };
    said += &verdict(&found.judged);
    said + &boots(&found.history)
}

/// The times of boots with a replay and without, and what follows, a line each.
pub fn verdict(judged: &Worth) -> String {
    let spread = |spread: Option<Spread>| match spread {
        None => "none yet".to_owned(),
        Some(spread) => format!(
            "{} ({} to {}, {})",
            output::time(spread.median_ns),
            output::time(spread.least_ns),
            output::time(spread.most_ns),
            output::counted(spread.boots as u64, "boot", "boots"),
        ),
    };
    let times = format!(
        "To the target: with a replay {}; without {}.\n",
        spread(judged.with),
        spread(judged.without)
    );
    let pairs = judged.faster_pairs_permille.unwrap_or(0) / 10;
    let saved = judged.saved_ns().unwrap_or(0);
    let what = match judged.verdict {
        Verdict::TooFew => "Too few boots to judge: three of each kind are needed.".to_owned(),
        Verdict::Gains => format!(
            "A replay saves {}; it was faster in {pairs} % of all pairs.",
            output::time(saved.unsigned_abs())
        ),
        Verdict::Unclear => {
            format!("Not clear yet: boots with a replay were faster in {pairs} % of all pairs.")
        }
        Verdict::NoGain => match judged.stall_permille {
            Some(stall) if judged.timed().is_none() => format!(
                "Nothing to gain: boots wait for disks for {} % of their time. Replays are off.",
                stall / 10
            ),
            _ => format!(
                "No clear gain: faster in {pairs} % of all pairs. Replays are off, but for one \
                 boot in 16."
            ),
        },
    };
    format!("{times}{what}\n")
}

/// What was done beside a boot, in words.
pub const fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Idle => "left alone",
        Mode::Plain => "timed",
        Mode::Recorded => "recorded",
        Mode::Replayed => "replayed",
        Mode::Refreshed => "refreshed",
    }
}

fn boots(history: &History) -> String {
    if history.boots().is_empty() {
        return String::new();
    }
    let mut rows = table(&["Boot", "Was", "To the target", "Waited", "Note"]);
    for boot in history.boots().iter().rev().take(LISTED) {
        let time = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), output::time);
        rows.add_row(vec![
            text::date(boot.started_unix_s),
            mode(boot.mode).to_owned(),
            time(boot.measured.map(|measured| measured.target_ns)),
            time(boot.measured.and_then(|measured| measured.stall_ns)),
            match (boot.measured, boot.untypical) {
                (None, _) => "did not reach its target".to_owned(),
                (Some(_), untypical) => untypical
                    .as_ref()
                    .map(Untypical::to_string)
                    .unwrap_or_default(),
            },
        ]);
    }
    format!("\n{}", finished(rows, &[0, 1, 4]))
}
