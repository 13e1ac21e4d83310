// SPDX-License-Identifier: MIT OR Apache-2.0
//! One walk, as people and programs read it.

use foreread_core::grouped;
use foreread_profile::PAGE_BYTES;
use foreread_watch::detect::{Passed, Suspicion};
use foreread_watch::log::walk_call::Answer;

use super::told_saved::ToldSaved;
use super::walk_report::{CallsReport, FileReport, PassedReport, WalkReport};
use super::walk_story::Story;
use super::{Named, Subject};
use crate::output::{counted, pages, time};
use crate::planner_words::{order_words, why_words};
use crate::text::{escaped, printable};

/// Names that are told of one directory.
const NAMES_MAX: usize = 8;

impl Story {
    pub fn human(&self, subject: &Subject) -> String {
        let mut text = match subject {
            Subject::File(file) if !file.is_directory => format!("{}\n", self.of_file(file)),
            _ => String::new(),
        };
        let walk = self.walk.walk();
        text += &format!(
            "Process {} {} below {} (walk {}, begun at {}).\n",
            self.process,
            if walk.reads() {
                "walks"
            } else {
                "looks at what is"
            },
            printable(self.top()),
            self.number,
            time(self.begun_ns),
        );
        if let Some(suspicion) = &self.suspicion {
            text += &format!("  Suspect since {}.\n", suspect_words(suspicion));
        }
        text += &self.members.human(subject);
        text += &format!(
            "  Confirmed by the lists of directories: it goes {}.\n",
            order_words(walk.order())
        );
        if self.tops.len() > 1 {
            text += "  It went on beside the tree in which it began, and so the walk rose.\n";
        }
        if walk.reads() != self.began_by_reads {
            text += "  At first it only looked at files; since it missed data of some, data are \
                     fetched.\n";
        }
        let tally = walk.tally();
        text += &format!(
            "  So far {} listed and {} of {} fetched ({}): {} used, {} not used; {} not fetched \
             in time.\n",
            counted(tally.directories, "directory", "directories"),
            if walk.reads() { "data" } else { "inodes" },
            counted(tally.fetched_files, "file", "files"),
            pages(tally.fetched_pages),
            grouped(tally.used_files),
            grouped(tally.wasted_files()),
            grouped(tally.missed_files),
        );
        text += &format!(
            "  Up to {} files may be in memory ahead of it, within {}.\n",
            grouped(walk.window_files()),
            pages(walk.budget_bytes() / PAGE_BYTES),
        );
        if let Some((since_start_ns, answer)) = &self.fetch {
            let (at, words) = (time(*since_start_ns), answer_words(answer));
            text += &format!("  Last fetch, at {at}: {words}.\n");
        }
        if let Some((since_start_ns, answer)) = &self.decided
            && !matches!(answer, Answer::Fetch { .. })
        {
            let (at, words) = (time(*since_start_ns), answer_words(answer));
            text += &format!("  Last decision, at {at}: {words}.\n");
        }
        text += &ToldSaved::human(self.saved);
        text
    }

    fn of_file(&self, file: &Named) -> String {
        if self.inode_of(file).is_none() {
            return "It isn't there, and was not listed.".to_owned();
        }
        let what = if self.walk.walk().reads() {
            "Fetched"
        } else {
            "Its inode was fetched"
        };
        let fetched = match self.fetched_ns {
            Some(at) => format!("{what} for process {} at {}", self.process, time(at)),
            None => format!("Not fetched for process {}", self.process),
        };
        let read = match &self.read {
            None => "which wasn't seen to come to it".to_owned(),
            Some(read) => {
                let how = match (read.was_missed, self.fetched_ns) {
                    (true, Some(at)) if at <= read.since_start_ns => "and waited for it to come in",
                    (true, _) => "and missed it",
                    (false, _) => "and found it in memory",
                };
                format!("which came to it at {} {how}", time(read.since_start_ns))
            }
        };
        format!("{fetched}, {read}.")
    }

    /// The same for programs.
    pub fn report(&self, subject: &Subject) -> WalkReport {
        let walk = self.walk.walk();
        let tally = walk.tally();
        WalkReport {
            process: self.process,
            walk: Some(self.number),
            top: self.top().to_owned(),
            order: Some(walk.order().name()),
            reads: walk.reads(),
            began_by_reads: self.began_by_reads,
            begun_ns: self.begun_ns,
            shared_by: self.members.reports(),
            raised: self.tops.len().saturating_sub(1),
            window_files: Some(walk.window_files()),
            listed_directories: tally.directories,
            fetched_files: tally.fetched_files,
            fetched_pages: tally.fetched_pages,
            used_files: Some(tally.used_files),
            wasted_files: Some(tally.wasted_files()),
            missed_files: Some(tally.missed_files),
            saved: self.saved.map(ToldSaved::report),
            fetch_ns: self
                .fetch
                .as_ref()
                .map(|(since_start_ns, _)| *since_start_ns),
            ended: match &self.decided {
                Some((_, Answer::End { why })) => Some(why.name()),
                _ => None,
            },
            of_calls: Some(self.calls_report(subject)),
        }
    }

    fn calls_report(&self, subject: &Subject) -> CallsReport {
        let (decided, read) = (self.decided.as_ref(), self.read.as_ref());
        let is_file = matches!(subject, Subject::File(_));
        CallsReport {
            suspect_by: self
                .suspicion
                .as_ref()
                .map(|suspicion| suspicion.passed.iter().map(passed_report).collect()),
            budget_bytes: self.walk.walk().budget_bytes(),
            fetch: self.fetch.as_ref().map(|(_, answer)| answer_words(answer)),
            decided_ns: decided.map(|(since_start_ns, _)| *since_start_ns),
            decision: decided.map(|(_, answer)| answer_words(answer)),
            file: is_file.then(|| FileReport {
                fetched_ns: self.fetched_ns,
                read_ns: read.map(|read| read.since_start_ns),
                was_missed: read.map(|read| read.was_missed),
            }),
        }
    }
}

fn passed_report(passed: &Passed) -> PassedReport {
    let children = passed.children.iter().map(|name| escaped(name));
    PassedReport {
        directory: escaped(&passed.directory),
        children: children.collect(),
    }
}

fn suspect_words(suspicion: &Suspicion) -> String {
    let longest = suspicion
        .passed
        .iter()
        .max_by_key(|passed| passed.children.len());
    let children = longest.map_or(&[][..], |passed| &passed.children[..]);
    let names = children.iter().take(NAMES_MAX).map(|name| escaped(name));
    let mut names = names.collect::<Vec<_>>().join(", ");
    if children.len() > NAMES_MAX {
        names += &format!(" and {} more", children.len() - NAMES_MAX);
    }
    let others = match suspicion.passed.len() {
        0 | 1 => String::new(),
        several => format!(
            ", and so through {}",
            counted(several as u64 - 1, "other directory", "other directories")
        ),
    };
    match suspicion.reads {
        true => format!("it missed, one after the other: {names}{others}"),
        false => {
            format!("it waited for metadata of, one after the other: {names}{others}")
        }
    }
}

fn answer_words(answer: &Answer) -> String {
    match answer {
        Answer::List { directories } => {
            let from = directories.first().map(|path| escaped(path));
            format!(
                "lists {}, from {} of its file system on: the program is near to what isn't \
                 listed yet",
                counted(directories.len() as u64, "directory", "directories"),
                from.unwrap_or_default()
            )
        }
        Answer::Fetch {
            inodes,
            budget_bytes,
            ..
        } => format!(
            "fetches {}, {} at most: less than half of the window is in memory ahead of the \
             program",
            counted(inodes.len() as u64, "file", "files"),
            pages(budget_bytes / PAGE_BYTES),
        ),
        Answer::Wait => "waits: enough is in memory ahead of the program, or it goes on outside \
                         of what is known"
            .to_owned(),
        Answer::End { why } => format!("ends: {}", why_words(*why)),
    }
}
