// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `foreread watch` tells of programs that follow a profile.

use std::path::Path;

use foreread_linux_watch::ProfilesSummary;
use foreread_watch::log::note::OfProfile;
use foreread_watch::tally::Tally;
use serde_json::{Value, json};

use super::fetched::fetched_document;
use crate::output;

/// What a line of the log says.
pub fn line(what: &OfProfile) -> Value {
    match what {
        OfProfile::Refused { profile_file, why } => json!({
            "what": "unmatched",
            "profile": text(profile_file),
            "why": why,
        }),
        OfProfile::Matched {
            profile_file,
            files,
            odds_bits,
            processes,
        } => {
            let files = files.iter().map(|path| String::from_utf8_lossy(path));
            json!({
                "what": "matched",
                "profile": text(profile_file),
                "files": files.collect::<Vec<_>>(),
                "odds_bits": odds_bits,
                "processes": processes,
            })
        }
        OfProfile::Fetched {
            files,
            pages,
            took_ns,
        } => json!({
            "what": "replayed",
            "files": files,
            "pages": pages,
            "took_ns": took_ns,
        }),
        OfProfile::Ended {
            profile_file,
            why,
            tally,
        } => {
            let mut what = document_of(tally);
            what["what"] = "left".into();
            what["profile"] = text(profile_file).into();
            what["why"] = why.name().into();
            what
        }
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn document_of(tally: &Tally) -> Value {
    let mut document = fetched_document(tally);
    document["uncounted_files"] = tally.uncounted_files.into();
    document
}

/// What came of all of them.
pub fn document(summary: &ProfilesSummary) -> Value {
    let mut document = document_of(&summary.tally);
    document["known"] = summary.known.into();
    document["matched"] = summary.matched.into();
    document["unmatched"] = summary.refused.into();
    document
}

/// The same for people; nothing where nobody followed a profile.
pub fn people(summary: &ProfilesSummary, is_dry_run: bool) -> String {
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

    #[test]
    fn it_is_said_only_where_there_was_a_match() {
        let mut summary = ProfilesSummary {
            known: 3,
            ..ProfilesSummary::default()
        };
        assert_eq!(people(&summary, false), "");
        summary.matched = 1;
        summary.tally = Tally {
            fetched_files: 20,
            fetched_pages: 256,
            used_files: 15,
            ..Tally::default()
        };
        assert_eq!(
            people(&summary, false),
            "; 1 profile matched: 20 files fetched (1 MiB), 15 used, 5 wasted"
        );
        summary.matched = 2;
        assert_eq!(people(&summary, true), "; 2 profiles matched");
        assert_eq!(document(&summary)["wasted_files"], 5);
    }
}
