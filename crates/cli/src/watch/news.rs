// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a watcher does, for people: a line for each decision, and at the end one for each program.
//!
//! In: the notes that the log has as JSON. Out: text. A program is called by its name in `/proc`
//! while its process lives; afterwards only the number is known.

use std::collections::{BTreeMap, HashMap};
use std::fs;

use foreread_core::grouped;
use foreread_sys::clock::now_unix_s;
use foreread_watch::log::note::{Note, OfProfile, What};
use foreread_watch::tally::Tally;

use crate::output::{self, counted};
use crate::planner_words::{order_words, why_words};
use crate::text::{date, escaped, escaped_path};

/// Processes whose names are kept: those of ended ones can't be read any more.
const NAMES_MAX: usize = 4096;
/// Programs that are told of at the end.
const PROGRAMS_MAX: usize = 10;

/// Keeps names and sums.
pub struct News {
    is_verbose: bool,
    has_times: bool,
    names: HashMap<u32, String>,
    programs: BTreeMap<String, Tally>,
}

impl News {
    pub fn new(is_verbose: bool, has_times: bool) -> Self {
        Self {
            is_verbose,
            has_times,
            names: HashMap::new(),
            programs: BTreeMap::new(),
        }
    }

    /// Takes what was done, and prints it on standard error where that was asked for.
    pub fn take(&mut self, notes: &[Note]) {
        for note in notes {
            // Only who is told of needs a name.
            if matches!(note.what, What::Called(_)) {
                continue;
            }
            let program = self.name(note.process);
            if let Some(tally) = ended(&note.what) {
                let sum = self.programs.entry(program.clone()).or_default();
                *sum = sum.and(tally);
            }
            if self.is_verbose
                && let Some(words) = words(&note.what)
            {
                let time = match self.has_times {
                    true => format!("{} ", date(now_unix_s())),
                    false => String::new(),
                };
                output::note(&format!("{time}{program} ({}) {words}", note.process));
            }
        }
    }

    fn name(&mut self, process: u32) -> String {
        if let Some(name) = self.names.get(&process) {
            return name.clone();
        }
        let comm = fs::read(format!("/proc/{process}/comm")).unwrap_or_default();
        let name = match comm.trim_ascii_end() {
            [] => "a program".to_owned(),
            comm => escaped(comm),
        };
        if self.names.len() >= NAMES_MAX {
            self.names.clear();
        }
        self.names.insert(process, name.clone());
        name
    }

    /// What was fetched for each program, those that used most first; empty where nothing was.
    pub fn by_program(&self) -> String {
        let mut programs: Vec<(&String, &Tally)> = self.programs.iter().collect();
        programs.retain(|(_, tally)| tally.fetched_files > 0);
        programs.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.used_files));
        let lines = programs.iter().take(PROGRAMS_MAX);
        lines
            .map(|(program, tally)| format!("  {program}: {}\n", tally_words(tally)))
            .collect()
    }
}

fn ended(what: &What) -> Option<Tally> {
    match what {
        What::Ended { tally, .. } => Some(*tally),
        What::OfProfile(event) => match &**event {
            OfProfile::Ended { tally, .. } => Some(*tally),
            _ => None,
        },
        _ => None,
    }
}

/// What the process does, or what is done for it; `None` for what only a log needs.
fn words(what: &What) -> Option<String> {
    Some(match what {
        What::Begun { top, order } => {
            format!("reads the tree {}, {}", escaped(top), order_words(*order))
        }
        What::Raised { top, order } => {
            format!(
                "goes on in the tree {}, {}",
                escaped(top),
                order_words(*order)
            )
        }
        What::Skipped { why, .. } => format!("is left alone: {}", why.words()),
        What::Shares { leader } => format!("reads the same tree as process {leader}"),
        What::Ended { why, tally } => {
            format!(
                "is done with the tree, {}: {}",
                why_words(*why),
                tally_words(tally)
            )
        }
        What::OfProfile(event) => return of_profile(event),
        _ => return None,
    })
}

fn of_profile(event: &OfProfile) -> Option<String> {
    match event {
        OfProfile::Matched { profile_file, .. } => {
            let name = profile_file.file_stem().unwrap_or_default();
            let name = escaped_path(name.as_ref());
            Some(format!(
                "starts as recorded: the rest of {name} is replayed"
            ))
        }
        OfProfile::Ended { why, tally, .. } => {
            let why = why.name().replace('_', " ");
            Some(format!(
                "is done with its profile ({why}): {}",
                tally_words(tally)
            ))
        }
        OfProfile::Refused { .. } | OfProfile::Fetched { .. } => None,
    }
}

fn tally_words(tally: &Tally) -> String {
    format!(
        "{} fetched ({}), {} used, {} wasted, {} missed",
        counted(tally.fetched_files, "file", "files"),
        output::pages(tally.fetched_pages),
        grouped(tally.used_files),
        grouped(tally.wasted_files()),
        grouped(tally.missed_files),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_watch::order::Order;
    use foreread_watch::walk::Why;

    fn note(what: What) -> Note {
        Note {
            process: std::process::id(),
            began_by_reads: true,
            what,
        }
    }

    #[test]
    fn a_walk_is_told_from_begin_to_end() {
        let begun = What::Begun {
            top: b"/srv/a\nb".to_vec(),
            order: Order::Listed,
        };
        let said = words(&begun).unwrap();
        assert!(said.starts_with("reads the tree /srv/a\\nb, "), "{said}");
        let tally = Tally {
            fetched_files: 653,
            fetched_pages: 1024,
            used_files: 640,
            missed_files: 4,
            ..Tally::default()
        };
        let why = Why::Exited;
        let ended = What::Ended { why, tally };
        let mut news = News::new(false, false);
        news.take(&[note(begun), note(ended.clone()), note(ended)]);
        let said = news.by_program();
        assert_eq!(said.lines().count(), 1, "{said}");
        let sums = ": 1,306 files fetched (8 MiB), 1,280 used, 26 wasted, 8 missed\n";
        assert!(said.ends_with(sums), "{said}");
        assert_eq!(News::new(false, false).by_program(), "");
    }
}
