// SPDX-License-Identifier: MIT OR Apache-2.0
//! Misses of a process for which no walk runs, and why none was started.

use foreread_watch::log::detect_call::DetectCalled;
use foreread_watch::skipped::Skipped;
use serde::Serialize;

use crate::output::{counted, time};
use crate::text::printable;

/// Counts for one process.
#[derive(Default)]
pub struct Doubts {
    misses: u64,
    looks: u64,
    last_ns: u64,
    suspicions: u64,
    /// Walks that were begun.
    begun: u64,
    /// Suspicions that fitted no order, and the last directory of those.
    refused: u64,
    refused_in: String,
    /// Suspicions of where it was walked ahead of already.
    known: u64,
    /// Times that it was left alone, and the last reason.
    skipped: u64,
    skipped_for: Option<Skipped>,
}

/// A process without a walk ahead of it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DoubtsReport {
    /// Number of the process.
    process: u32,
    missed_files: u64,
    /// Times that it waited for metadata.
    waited_for_metadata: u64,
    /// When it last missed a file or waited, since the watcher started.
    last_ns: u64,
    /// Suspicions of a walk.
    suspicions: u64,
    /// Suspicions that started a walk.
    begun: u64,
    /// Suspicions that fitted no order.
    refused: u64,
    /// Suspicions of a walk that had already begun.
    known: u64,
    /// Suspicions of programs for which nothing may be fetched.
    skipped: u64,
    /// The last reason for that.
    skipped_for: Option<&'static str>,
    /// All other suspicions.
    not_followed: u64,
}

impl Doubts {
    /// Takes a call of a detector.
    pub fn take(&mut self, what: &DetectCalled, since_start_ns: u64) {
        match what {
            DetectCalled::Missed { .. } => self.misses += 1,
            DetectCalled::Waited { .. } => self.looks += 1,
            // It is raised again with more, or was wrong.
            DetectCalled::TooEarly => {
                self.suspicions = self.suspicions.saturating_sub(1);
                return;
            }
            DetectCalled::WasWrong { .. } | DetectCalled::WasRight { .. } | DetectCalled::Ended => {
                return;
            }
        }
        self.last_ns = since_start_ns;
        self.suspicions += u64::from(what.suspicion().is_some());
    }

    pub fn begun(&mut self) {
        self.begun += 1;
    }

    pub fn refused(&mut self, directory: String) {
        self.refused += 1;
        self.refused_in = directory;
    }

    pub fn known(&mut self) {
        self.known += 1;
    }

    pub fn skipped(&mut self, why: Option<Skipped>) {
        self.skipped += 1;
        self.skipped_for = why;
    }

    /// Whether there is anything to say.
    pub fn is_any(&self) -> bool {
        self.misses + self.looks + self.refused + self.known + self.skipped > 0
    }

    /// Suspicions that led to nothing and of which nothing else is said.
    fn passed_over(&self) -> u64 {
        self.suspicions
            .saturating_sub(self.begun + self.refused + self.known + self.skipped)
    }

    /// As sentences.
    pub fn human(&self, process: u32) -> String {
        let mut text = String::new();
        let last = time(self.last_ns);
        let times = |number| counted(number, "time", "times");
        if self.misses + self.looks > 0 {
            let missed = format!("missed {}", counted(self.misses, "file", "files"));
            let waited = format!("waited {} for metadata", times(self.looks));
            let did = match (self.misses, self.looks) {
                (_, 0) => missed,
                (0, _) => waited,
                _ => format!("{missed} and {waited}"),
            };
            text += &format!(
                "While no walk was ahead of process {process}, it {did}, last at {last}.\n"
            );
            if self.suspicions == 0 {
                text += "  That was too little to suspect a walk, or in no order.\n";
            }
        }
        let who = match text.is_empty() {
            true => format!("Process {process}"),
            false => "  It".to_owned(),
        };
        if self.refused > 0 {
            text += &format!(
                "{who} was suspected of a walk {} without being on one: what it came through is in \
                 none of the orders of a walk, last in {}.\n",
                times(self.refused),
                printable(&self.refused_in),
            );
        }
        if self.known > 0 {
            text += &format!(
                "{who} was suspected {} of the walk that was ahead of it already.\n",
                times(self.known)
            );
        }
        if self.skipped > 0 {
            let why = self.skipped_for.map(Skipped::words);
            text += &format!(
                "{who} was skipped {}, last because {}.\n",
                times(self.skipped),
                why.unwrap_or("of a reason that is not known here")
            );
        }
        if self.passed_over() > 0 {
            text += &format!(
                "  {} a suspicion was not followed: the program or the directory is excluded, four \
                 walks were on, or watching ended first.\n",
                times(self.passed_over())
            );
        }
        text
    }

    /// The same for programs.
    pub fn report(&self, process: u32) -> DoubtsReport {
        DoubtsReport {
            process,
            missed_files: self.misses,
            waited_for_metadata: self.looks,
            last_ns: self.last_ns,
            suspicions: self.suspicions,
            begun: self.begun,
            refused: self.refused,
            known: self.known,
            skipped: self.skipped,
            skipped_for: self.skipped_for.map(Skipped::name),
            not_followed: self.passed_over(),
        }
    }
}
