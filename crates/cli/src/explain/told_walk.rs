// SPDX-License-Identifier: MIT OR Apache-2.0
//! One walk, where its calls aren't known: what was noted of what it did.

use foreread_core::grouped;
use foreread_watch::order::Order;
use foreread_watch::walk::Why;
use serde_json::Value;

use super::members::Members;
use super::told_saved::ToldSaved;
use super::walk_report::WalkReport;
use super::{Subject, newest_top};
use crate::output::{counted, pages, time};
use crate::planner_words::{order_words, why_words};
use crate::text::printable;

/// A watcher (several may write to one log in turn), a process, and the number of the walk.
pub type Key = (u32, u32, u64);

/// A walk as far as it is told.
#[derive(Default)]
pub struct Told {
    process: u32,
    began_by_reads: bool,
    reads: bool,
    /// The last one first.
    tops: Vec<String>,
    order: Option<Order>,
    begun_ns: u64,
    listed_directories: u64,
    fetched_files: u64,
    fetched_pages: u64,
    window_files: Option<u64>,
    /// Files and directories that the process may not read itself.
    withheld: u64,
    fetch_ns: Option<u64>,
    ended: Option<Ended>,
    pub saved: Option<ToldSaved>,
    pub members: Members,
    /// Which one it is where its calls are known, from which more is told.
    pub calls: Option<Key>,
}

struct Ended {
    since_start_ns: u64,
    why: Option<Why>,
    used_files: u64,
    wasted_files: u64,
    missed_files: u64,
}

impl Told {
    /// With the line that says that it has begun.
    pub fn begin(process: u32, line: &Value) -> Self {
        let reads = line["reads"].as_bool().unwrap_or(true);
        let mut told = Self {
            process,
            began_by_reads: reads,
            reads,
            begun_ns: count(line, "since_start_ns"),
            ..Self::default()
        };
        told.go(line);
        told
    }

    fn go(&mut self, line: &Value) {
        if let Some(top) = line["top"].as_str() {
            self.tops.insert(0, top.to_owned());
        }
        let order = line["order"].as_str();
        let order = Order::ALL.into_iter().find(|one| Some(one.name()) == order);
        self.order = order.or(self.order);
    }

    /// Takes a later line of it; whether it goes on.
    pub fn take(&mut self, line: &Value) -> bool {
        let since_start_ns = count(line, "since_start_ns");
        match line["what"].as_str() {
            Some("raised" | "ordered") => self.go(line),
            Some("reads") => self.reads = true,
            Some("listed") => self.listed_directories += count(line, "directories"),
            Some("fetched") => {
                self.fetched_files += count(line, "files");
                self.fetched_pages += count(line, "pages");
                self.window_files = line["window_files"].as_u64();
                self.fetch_ns = Some(since_start_ns);
            }
            Some("withheld") => {
                self.withheld += count(line, "files") + count(line, "directories");
            }
            Some("saved") => self.saved = ToldSaved::of(line),
            Some("ended") => {
                let why = line["why"].as_str();
                self.ended = Some(Ended {
                    since_start_ns,
                    why: Why::ALL.into_iter().find(|one| Some(one.name()) == why),
                    used_files: count(line, "used_files"),
                    wasted_files: count(line, "wasted_files"),
                    missed_files: count(line, "missed_files"),
                });
                return false;
            }
            _ => {}
        }
        true
    }

    /// Whether it is the process's, who may share it, or has come to the tree that the file is in.
    pub fn touches(&self, subject: &Subject) -> bool {
        subject.is_of(self.process, &self.tops) || self.members.has(subject)
    }

    fn top(&self) -> &str {
        newest_top(&self.tops)
    }

    pub fn human(&self, subject: &Subject) -> String {
        let mut text = format!(
            "Process {} {} below {} (begun at {}).\n",
            self.process,
            match self.reads {
                true => "walks",
                false => "looks at what is",
            },
            printable(self.top()),
            time(self.begun_ns),
        );
        if let Some(order) = self.order {
            let words = order_words(order);
            text += &format!("  Confirmed by the lists of directories: it goes {words}.\n");
        }
        text += &self.members.human(subject);
        if self.tops.len() > 1 {
            text += "  It went on beside the tree in which it began, and so the walk rose.\n";
        }
        text += &format!(
            "  {} listed, and {} of {} fetched ({})",
            counted(self.listed_directories, "directory", "directories"),
            match self.reads {
                true => "data",
                false => "inodes",
            },
            counted(self.fetched_files, "file", "files"),
            pages(self.fetched_pages),
        );
        if let Some(at) = self.fetch_ns {
            text += &format!(", last at {}", time(at));
        }
        if let Some(files) = self.window_files {
            let files = counted(files, "file", "files");
            text += &format!("; up to {files} may be in memory ahead of it");
        }
        text += ".\n";
        if self.withheld > 0 {
            let withheld = counted(self.withheld, "file or directory", "files and directories");
            text += &format!("  Left out {withheld} that the program may not read itself.\n");
        }
        match &self.ended {
            None => text += "  It goes on.\n",
            Some(ended) => {
                text += &format!(
                    "  Ended at {}: {}. {} used, {} not used; {} not fetched in time.\n",
                    time(ended.since_start_ns),
                    ended.why.map_or("it isn't said why", why_words),
                    counted(ended.used_files, "file", "files"),
                    grouped(ended.wasted_files),
                    grouped(ended.missed_files),
                );
            }
        }
        text += &ToldSaved::human(self.saved);
        if let Subject::File(file) = subject
            && !file.is_directory
        {
            text += "  Which files it fetched is in a log only: `foreread watch --log`.\n";
        }
        text
    }

    /// The same for programs.
    pub fn report(&self) -> WalkReport {
        let ended = self.ended.as_ref();
        WalkReport {
            process: self.process,
            walk: None,
            top: self.top().to_owned(),
            order: self.order.map(Order::name),
            reads: self.reads,
            began_by_reads: self.began_by_reads,
            begun_ns: self.begun_ns,
            shared_by: self.members.reports(),
            raised: self.tops.len().saturating_sub(1),
            window_files: self.window_files,
            listed_directories: self.listed_directories,
            fetched_files: self.fetched_files,
            fetched_pages: self.fetched_pages,
            used_files: ended.map(|ended| ended.used_files),
            wasted_files: ended.map(|ended| ended.wasted_files),
            missed_files: ended.map(|ended| ended.missed_files),
            fetch_ns: self.fetch_ns,
            saved: self.saved.map(|saved| saved.report()),
            ended: ended.and_then(|ended| ended.why).map(Why::name),
            of_calls: None,
        }
    }
}

fn count(line: &Value, name: &str) -> u64 {
    line[name].as_u64().unwrap_or_default()
}
