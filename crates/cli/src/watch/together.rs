// SPDX-License-Identifier: MIT OR Apache-2.0
//! Notes and report of `foreread watch` about programs that follow a profile.

use std::borrow::Cow;

use foreread_linux_watch::ProfilesSummary;
use foreread_watch::log::note::OfProfile;
use serde::Serialize;

use super::fetched::ProfileTallyReport;
use crate::output;

/// An event of a program that follows a profile, as a line of the log has it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "what")]
pub enum ProfileEvent<'a> {
    /// The program does not match the profile, or nothing is to be done.
    #[serde(rename = "unmatched")]
    Unmatched { profile: Cow<'a, str>, why: &'a str },
    /// The program matches the profile, the rest of which is replayed.
    #[serde(rename = "matched")]
    Matched {
        /// Name or path of the profile.
        profile: Cow<'a, str>,
        /// The files that it was matched by, in the order in which they were missed.
        files: Vec<Cow<'a, str>>,
        /// The chance of a wrong match is one in two to the power of this.
        odds_bits: u32,
        /// The program, and those of its children that missed the files.
        processes: &'a [u32],
    },
    /// A window of the profile was fetched.
    #[serde(rename = "replayed")]
    Replayed {
        files: u64,
        /// Pages that came in.
        pages: u64,
        took_ns: u64,
    },
    /// The replay has ended.
    #[serde(rename = "left")]
    Left {
        /// Name or path of the profile.
        profile: Cow<'a, str>,
        /// The reason, in words.
        why: &'static str,
        #[serde(flatten)]
        tally: ProfileTallyReport,
    },
}

impl<'a> ProfileEvent<'a> {
    pub fn of(event: &'a OfProfile) -> Self {
        match event {
            OfProfile::Refused { profile_file, why } => Self::Unmatched {
                profile: profile_file.to_string_lossy(),
                why,
            },
            OfProfile::Matched {
                profile_file,
                files,
                odds_bits,
                processes,
            } => {
                let files = files.iter().map(|path| String::from_utf8_lossy(path));
                Self::Matched {
                    profile: profile_file.to_string_lossy(),
                    files: files.collect(),
                    odds_bits: *odds_bits,
                    processes,
                }
            }
            OfProfile::Fetched {
                files,
                pages,
                took_ns,
            } => Self::Replayed {
                files: *files,
                pages: *pages,
                took_ns: *took_ns,
            },
            OfProfile::Ended {
                profile_file,
                why,
                tally,
            } => Self::Left {
                profile: profile_file.to_string_lossy(),
                why: why.name(),
                tally: ProfileTallyReport::of(tally),
            },
        }
    }
}

/// All programs that followed a profile.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProfilesReport {
    /// Counts of all replays that have ended.
    #[serde(flatten)]
    tally: ProfileTallyReport,
    /// Profiles in the store.
    known: u64,
    /// Programs that matched a profile.
    matched: u64,
    /// Programs that seemed to match one, but did not.
    unmatched: u64,
}

impl ProfilesReport {
    pub fn of(summary: &ProfilesSummary) -> Self {
        Self {
            tally: ProfileTallyReport::of(&summary.tally),
            known: summary.known,
            matched: summary.matched,
            unmatched: summary.refused,
        }
    }
}

/// The text of the report; empty if no program followed a profile.
pub fn human(summary: &ProfilesSummary, is_dry_run: bool) -> String {
    let matched = match summary.matched {
        0 => return String::new(),
        1 => "; 1 profile matched".to_owned(),
        matched => format!("; {matched} profiles matched"),
    };
    let tally = &summary.tally;
    match is_dry_run {
        true => matched,
        false => format!(
            "{matched}: {} files fetched ({}), {} used, {} wasted",
            tally.fetched_files,
            output::pages(tally.fetched_pages),
            tally.used_files,
            tally.wasted_files(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;
    use foreread_watch::tally::Tally;

    #[test]
    fn it_is_said_only_where_there_was_a_match() {
        let mut summary = ProfilesSummary {
            known: 3,
            ..ProfilesSummary::default()
        };
        assert_eq!(human(&summary, false), "");
        summary.matched = 1;
        summary.tally = Tally {
            fetched_files: 20,
            fetched_pages: 256,
            used_files: 15,
            ..Tally::default()
        };
        assert_eq!(
            human(&summary, false),
            "; 1 profile matched: 20 files fetched (1 MiB), 15 used, 5 wasted"
        );
        summary.matched = 2;
        assert_eq!(human(&summary, true), "; 2 profiles matched");
        let document = text::json(&ProfilesReport::of(&summary));
        assert_eq!(document["wasted_files"], 5);
    }
}
