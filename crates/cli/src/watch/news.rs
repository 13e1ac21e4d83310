// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a watcher does, for people: a line for each decision, a table of the programs that it reads
//! ahead of now, and at the end a line for each program.
//!
//! In: the notes that the log has as JSON. Out: text. A program is called by its name in `/proc`
//! while its process lives; afterwards only the number is known.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::time::Instant;

use foreread_core::grouped;
use foreread_sys::clock::now_unix_s;
use foreread_watch::log::note::{Note, OfProfile, Streamed, What};
use foreread_watch::saved::{Bounds, Saved, SavedSum};
use foreread_watch::tally::Tally;

use super::saved::{self, ProgramReport};
use crate::output::{self, counted};
use crate::planner_words::{order_words, why_words};
use crate::table::{finished, table};
use crate::text::{escaped, escaped_path, timestamp};

/// Processes whose names are kept: those of ended ones can't be read any more.
const NAMES_MAX: usize = 4096;
/// Programs that are told of at the end, or in the table.
const PROGRAMS_MAX: usize = 10;

/// Keeps names and sums.
pub struct News {
    is_verbose: bool,
    has_times: bool,
    names: HashMap<u32, String>,
    programs: BTreeMap<String, Program>,
    /// The latest estimate of each walk and replay that goes on: by process, and whether it began
    /// by reads.
    saved: HashMap<(u32, bool), Saved>,
    /// What is read ahead of now, by process.
    now: BTreeMap<u32, Now>,
    /// The same of large files. A process may read both.
    streamed: BTreeMap<u32, Now>,
}

/// What was done for a program.
#[derive(Default)]
struct Program {
    /// `None` if there were several.
    process: Option<u32>,
    tally: Tally,
    /// Pages of large files.
    large_file_pages: u64,
    saved: SavedSum,
    ends: u64,
}

impl Program {
    /// Something that was done for one of its processes has ended.
    fn ended(&mut self, process: u32, saved: SavedSum) {
        let is_only = self.ends == 0 || self.process == Some(process);
        self.process = is_only.then_some(process);
        self.ends += 1;
        self.saved = self.saved.and(saved);
    }
}

/// A program that is read ahead of.
struct Now {
    program: String,
    /// The tree or the profile.
    of: String,
    since: Instant,
    files: u64,
    pages: u64,
    saved: Option<Bounds>,
}

impl News {
    pub fn new(is_verbose: bool, has_times: bool) -> Self {
        Self {
            is_verbose,
            has_times,
            names: HashMap::new(),
            programs: BTreeMap::new(),
            saved: HashMap::new(),
            now: BTreeMap::new(),
            streamed: BTreeMap::new(),
        }
    }

    /// Takes what was done, and prints it on standard error where that was asked for.
    pub fn take(&mut self, notes: &[Note]) {
        for note in notes {
            // Only who is told of needs a name.
            if matches!(note.what, What::Called(_)) {
                continue;
            }
            if let What::Saved(saved) = &note.what {
                let key = (note.process, note.began_by_reads);
                self.saved.insert(key, *saved);
            }
            let program = self.name(note.process);
            self.keep_up(note.process, &program, &note.what);
            if let Some(tally) = ended(&note.what) {
                let saved = self.saved.remove(&(note.process, note.began_by_reads));
                let saved = SavedSum::of(saved.as_ref(), tally.used_files);
                let of = self.programs.entry(program.clone()).or_default();
                of.ended(note.process, saved);
                of.tally = of.tally.and(tally);
            }
            if let What::Streamed(streamed) = &note.what
                && streamed.is_over
            {
                let of = self.programs.entry(program.clone()).or_default();
                of.ended(note.process, streamed.saved_sum());
                of.large_file_pages += streamed.fetched_pages;
            }
            if self.is_verbose
                && let Some(words) = words(&note.what)
            {
                let time = match self.has_times {
                    true => format!("{} ", timestamp(now_unix_s())),
                    false => String::new(),
                };
                output::note(&format!("{time}{program} ({}) {words}", note.process));
            }
        }
    }

    fn keep_up(&mut self, process: u32, program: &str, what: &What) {
        let begun = match what {
            What::Begun { top, .. } | What::Raised { top, .. } => Some(escaped(top)),
            What::Streamed(streamed) => return self.keep_up_streamed(process, program, streamed),
            What::OfProfile(event) => match &**event {
                OfProfile::Matched { profile_file, .. } => {
                    let name = profile_file.file_stem().unwrap_or_default();
                    Some(format!("profile {}", escaped_path(name.as_ref())))
                }
                _ => None,
            },
            _ => None,
        };
        if let Some(of) = begun {
            let now = self.now.entry(process).or_insert_with(|| Now {
                program: program.to_owned(),
                of: String::new(),
                since: Instant::now(),
                files: 0,
                pages: 0,
                saved: None,
            });
            now.of = of;
        }
        if let (What::Saved(saved), Some(now)) = (what, self.now.get_mut(&process)) {
            now.saved = Some(saved.time);
        }
        if let (Some((files, pages)), Some(now)) = (fetched(what), self.now.get_mut(&process)) {
            now.files += files;
            now.pages += pages;
        }
        if ended(what).is_some() {
            self.now.remove(&process);
        }
    }

    /// The sums of a process that reads large files.
    fn keep_up_streamed(&mut self, process: u32, program: &str, streamed: &Streamed) {
        if streamed.is_over {
            self.streamed.remove(&process);
            return;
        }
        let before = self.streamed.get(&process);
        let now = Now {
            program: program.to_owned(),
            of: escaped(&streamed.file),
            since: before.map_or_else(Instant::now, |before| before.since),
            files: 1,
            pages: streamed.fetched_pages,
            saved: streamed.saved.as_ref().map(|saved| saved.time),
        };
        self.streamed.insert(process, now);
    }

    /// A table of what is read ahead of now, the latest first; empty where that is nothing.
    pub fn table(&self) -> String {
        if self.now.is_empty() && self.streamed.is_empty() {
            return String::new();
        }
        let mut rows = table(&[
            "program", "process", "for", "files", "data", "saved", "reads",
        ]);
        let mut all: Vec<(&u32, &Now)> = self.now.iter().chain(&self.streamed).collect();
        all.sort_by_key(|(_, now)| std::cmp::Reverse(now.since));
        for (process, now) in all.iter().take(PROGRAMS_MAX) {
            rows.add_row([
                now.program.clone(),
                process.to_string(),
                format!("{} s", now.since.elapsed().as_secs()),
                grouped(now.files),
                output::pages(now.pages),
                now.saved
                    .as_ref()
                    .map_or_else(|| "-".to_owned(), saved::short),
                now.of.clone(),
            ]);
        }
        let more = match all.len().saturating_sub(PROGRAMS_MAX) {
            0 => String::new(),
            more => format!("and {more} more\n"),
        };
        finished(rows, &[0, 6]) + &more
    }

    fn name(&mut self, process: u32) -> String {
        // It may have executed another program since.
        let comm = fs::read(format!("/proc/{process}/comm")).unwrap_or_default();
        let name = match (comm.trim_ascii_end(), self.names.get(&process)) {
            ([], Some(name)) => return name.clone(),
            ([], None) => "a program".to_owned(),
            (comm, _) => escaped(comm),
        };
        if self.names.len() >= NAMES_MAX && !self.names.contains_key(&process) {
            self.names.clear();
        }
        self.names.insert(process, name.clone());
        name
    }

    /// What was fetched for each program, those that used most first; empty where nothing was.
    pub fn by_program(&self) -> String {
        let line = |(name, of): (&String, &Program)| {
            let process = match of.process {
                Some(process) => format!(" ({process})"),
                None => String::new(),
            };
            let saved = match saved::words(&of.saved) {
                words if words.is_empty() => words,
                words => format!("; {words}"),
            };
            let files = (of.tally.fetched_files > 0).then(|| tally_words(&of.tally));
            let large = large_file_words(of.large_file_pages);
            let fetched: Vec<String> = files.into_iter().chain(large).collect();
            format!("  {name}{process}: {}{saved}\n", fetched.join("; "))
        };
        self.first_programs().map(line).collect()
    }

    /// The same for programs.
    pub fn programs(&self) -> Vec<ProgramReport> {
        let report = |(name, of): (&String, &Program)| {
            ProgramReport::of(name, of.process, &of.tally, of.large_file_pages, &of.saved)
        };
        self.first_programs().map(report).collect()
    }

    fn first_programs(&self) -> impl Iterator<Item = (&String, &Program)> {
        let mut programs: Vec<(&String, &Program)> = self.programs.iter().collect();
        programs.retain(|(_, of)| of.tally.fetched_files > 0 || of.large_file_pages > 0);
        programs
            .sort_by_key(|(_, of)| std::cmp::Reverse((of.tally.used_files, of.large_file_pages)));
        programs.into_iter().take(PROGRAMS_MAX)
    }
}

/// Files and pages that were fetched.
fn fetched(what: &What) -> Option<(u64, u64)> {
    match what {
        What::Fetched { files, pages, .. } => Some((*files, *pages)),
        What::OfProfile(event) => match &**event {
            OfProfile::Fetched { files, pages, .. } => Some((*files, *pages)),
            _ => None,
        },
        _ => None,
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
        What::Streamed(streamed) if streamed.is_over => {
            let parts = large_file_words(streamed.fetched_pages)
                .into_iter()
                .chain(Some(saved::words(&streamed.saved_sum())).filter(|words| !words.is_empty()));
            let parts: Vec<String> = parts.collect();
            format!("has read {}: {}", escaped(&streamed.file), parts.join("; "))
        }
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

/// `None` if there were none.
fn large_file_words(pages: u64) -> Option<String> {
    (pages > 0).then(|| format!("{} of large files fetched", output::pages(pages)))
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
    use foreread_watch::saved::streams::StreamsSaved;
    use foreread_watch::walk::Why;

    fn note(what: What) -> Note {
        Note {
            process: std::process::id(),
            began_by_reads: true,
            owner: None,
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
        assert_eq!(news.table(), "");
        let fetched = What::Fetched {
            files: 12,
            pages: 256,
            window_files: 40,
            took_ns: 1,
        };
        news.take(&[note(begun), note(fetched)]);
        let table = news.table();
        let row = table.lines().nth(1).unwrap();
        let process = std::process::id().to_string();
        for cell in [process.as_str(), "12", "1 MiB", "/srv/a\\nb"] {
            assert!(row.contains(cell), "{cell}: {table}");
        }
        news.take(&[note(ended.clone()), note(ended)]);
        assert_eq!(news.table(), "");
        let said = news.by_program();
        assert_eq!(said.lines().count(), 1, "{said}");
        let sums = "): 1,306 files fetched (8 MiB), 1,280 used, 26 wasted, 8 missed; time saved \
                    not known\n";
        assert!(said.ends_with(sums), "{said}");
        assert_eq!(News::new(false, false).by_program(), "");
    }
    #[test]
    fn who_reads_large_files_is_in_the_table_until_it_pauses_and_in_the_sums_then() {
        let streamed = |is_over| {
            let time = Bounds {
                best_ns: 2_000_000_000,
                low_ns: 1_000_000_000,
                high_ns: 3_000_000_000,
            };
            note(What::Streamed(Box::new(Streamed {
                file: b"/srv/mod\nel".to_vec(),
                found_pages: 2000,
                fetched_pages: 1024,
                is_over,
                saved: Some(StreamsSaved {
                    time,
                    ..StreamsSaved::default()
                }),
            })))
        };
        let mut news = News::new(false, false);
        news.take(&[streamed(false), streamed(false)]);
        let table = news.table();
        assert_eq!(table.lines().count(), 2, "{table}");
        for cell in ["4 MiB", "2.00 s", "/srv/mod\\nel"] {
            assert!(table.contains(cell), "{cell}: {table}");
        }
        assert_eq!(news.by_program(), "");
        news.take(&[streamed(true)]);
        assert_eq!(news.table(), "");
        let said = news.by_program();
        let sums = "): 4 MiB of large files fetched; about 2.00 s saved (1.00 s to 3.00 s)\n";
        assert!(said.ends_with(sums), "{said}");
        let programs = crate::text::json(&news.programs());
        assert_eq!(programs[0]["large_file_pages"], 1024, "{programs}");
        let said = words(&streamed(true).what).unwrap();
        assert!(said.starts_with("has read /srv/mod\\nel: 4 MiB"), "{said}");
        assert_eq!(words(&streamed(false).what), None);
    }
}
