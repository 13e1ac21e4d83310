// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time that windows in large files saved a process, as lines of the log have it.

use foreread_core::grouped;
use foreread_watch::log::Header;
use foreread_watch::saved::streams::StreamsSaved;
use serde::Serialize;
use serde_json::Value;

use super::Subject;
use super::told_saved::bounds_of;
use crate::output::pages;
use crate::text::escaped;
use crate::watch::saved::{StreamsSavedReport, time, time_words};

/// Entries that are kept.
const STREAMED_MAX: usize = 1024;

/// A process that was read ahead of in large files, until it paused or ended.
struct One {
    process: u32,
    file: String,
    found_pages: u64,
    fetched_pages: u64,
    saved: Option<StreamsSaved>,
}

/// Those that `explain` names for its subject.
pub struct Streamed<'a> {
    subject: &'a Subject,
    all: Vec<One>,
}

/// One of them, for programs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StreamedReport<'a> {
    /// The process.
    process: u32,
    /// The path of the last of these files.
    file: &'a str,
    /// Pages that it found in memory, or on their way.
    found_pages: u64,
    /// Pages that were fetched for it.
    fetched_pages: u64,
    /// The time saved; null if too little is known.
    saved: Option<StreamsSavedReport>,
}

impl<'a> Streamed<'a> {
    pub fn new(subject: &'a Subject) -> Self {
        Self {
            subject,
            all: Vec::new(),
        }
    }

    /// Takes a line, whatever it is about.
    pub fn take(&mut self, header: &Header<'_>, line: &Value) {
        // Sums so far are replaced by those at the end.
        let is_over = header.what == "streamed" && line["is_over"] == true;
        if !is_over || self.all.len() >= STREAMED_MAX {
            return;
        }
        let one = One {
            process: header.process,
            file: line["file"].as_str().unwrap_or_default().to_owned(),
            found_pages: line["found_pages"].as_u64().unwrap_or_default(),
            fetched_pages: line["fetched_pages"].as_u64().unwrap_or_default(),
            saved: saved_of(line),
        };
        let is_asked_for = match self.subject {
            Subject::Process(process) => one.process == *process,
            Subject::File(file) => String::from_utf8_lossy(&file.path) == one.file,
        };
        if is_asked_for {
            self.all.push(one);
        }
    }

    pub fn is_known(&self) -> bool {
        !self.all.is_empty()
    }

    pub fn human(&self) -> String {
        self.all.iter().map(One::human).collect()
    }

    pub fn reports(&self) -> Vec<StreamedReport<'_>> {
        self.all.iter().map(One::report).collect()
    }
}

impl One {
    fn report(&self) -> StreamedReport<'_> {
        StreamedReport {
            process: self.process,
            file: &self.file,
            found_pages: self.found_pages,
            fetched_pages: self.fetched_pages,
            saved: self.saved.as_ref().map(StreamsSavedReport::of),
        }
    }

    fn human(&self) -> String {
        let saved = match &self.saved {
            None => "time saved not known".to_owned(),
            Some(saved) => format!(
                "{}: it waited {} for pages on their way, and would have waited {} with the \
                 kernel's readahead alone{}",
                time_words(&saved.time),
                time(saved.waited_ns),
                time(saved.alone_wait_ns),
                match saved.threads_percent {
                    0..150 => String::new(),
                    percent => format!(
                        ", in {} threads at the same time",
                        percent.saturating_add(50) / 100
                    ),
                },
            ),
        };
        format!(
            "Process {} was read ahead of in {}: {} fetched, {} pages found in memory; {saved}.\n",
            self.process,
            escaped(self.file.as_bytes()),
            pages(self.fetched_pages),
            grouped(self.found_pages),
        )
    }
}

fn saved_of(line: &Value) -> Option<StreamsSaved> {
    Some(StreamsSaved {
        time: bounds_of(line)?,
        waited_ns: line["waited_ns"].as_u64()?,
        alone_wait_ns: line["alone_wait_ns"].as_u64()?,
        threads_percent: line["threads_percent"].as_u64()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_reader_of_large_files_is_told_of_with_the_time_saved() {
        let subject = Subject::Process(7);
        let mut streamed = Streamed::new(&subject);
        let mut line = json!({
            "schema": foreread_watch::log::SCHEMA, "since_start_ns": 5, "process": 7,
            "what": "streamed", "reads": true, "is_over": true, "file": "/srv/mod\nel", "found_pages": 2000,
            "fetched_pages": 1024, "saved_ns": 300_000_000, "saved_low_ns": 200_000_000,
            "saved_high_ns": 400_000_000, "waited_ns": 20_000_000,
            "alone_wait_ns": 1_220_000_000, "threads_percent": 398,
        });
        let mut take = |line: &Value| {
            let header = Header::of(line).unwrap();
            streamed.take(&header, line);
        };
        take(&line);
        line["saved_ns"] = json!("x");
        take(&line);
        line["process"] = json!(8);
        take(&line);
        let said = streamed.human();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(
            lines,
            [
                "Process 7 was read ahead of in /srv/mod\\nel: 4 MiB fetched, 2,000 pages found in \
                 memory; about 300 ms saved (200 ms to 400 ms): it waited 20 ms for pages on \
                 their way, and would have waited 1.22 s with the kernel's readahead alone, in 4 \
                 threads at the same time.",
                "Process 7 was read ahead of in /srv/mod\\nel: 4 MiB fetched, 2,000 pages found in \
                 memory; time saved not known.",
            ]
        );
        assert_eq!(streamed.reports().len(), 2);
    }
}
