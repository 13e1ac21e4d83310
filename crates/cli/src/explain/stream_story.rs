// SPDX-License-Identifier: MIT OR Apache-2.0
//! One thread that reads one large file: how, how far ahead of it is read, and why.

use std::collections::BTreeMap;

use foreread_core::grouped;
use foreread_core::policy::Decision;
use foreread_watch::stream::FileKey;
use serde::Serialize;

use super::direction::{Directions, is_down};
use crate::output::{counted, pages, time};

/// A thread that reads a file.
#[derive(Default)]
pub struct Story {
    pub process: u32,
    pub accesses: u64,
    /// Accesses to a mapping.
    pub faults: u64,
    pub missed: u64,
    /// Where it was last.
    pub page: u64,
    /// The last decision, and at which page.
    pub last: Option<(u64, Decision)>,
    /// The last one with a window, and the last page that this asked for.
    pub asked: Option<(u64, Decision, u64)>,
    /// Directions of the last windows.
    pub directions: Directions,
    pub reasons: BTreeMap<&'static str, u64>,
    pub windows: u64,
    pub asked_pages: u64,
    /// Pages of the windows that were issued; `fetched_pages` of these were not in memory.
    pub issued_pages: u64,
    pub fetched_pages: u64,
    pub used_pages: u64,
    pub waited: u64,
    pub waited_ns: u64,
}

/// A thread that reads a file, for programs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StoryReport<'a> {
    /// Number of the process.
    process: u32,
    /// Number of the thread.
    thread: u32,
    /// Major and minor number.
    device: String,
    /// Number of the inode.
    inode: u64,
    /// How it reads, in words.
    direction: String,
    accesses: u64,
    /// Accesses to a mapping.
    faults: u64,
    /// Accesses that missed.
    missed: u64,
    /// The page of the last access.
    page: u64,
    /// Pages between there and the end of what was asked for.
    ahead_pages: Option<u64>,
    /// The last decision with a window, in words.
    window: Option<String>,
    /// The last decision, in words.
    decision: Option<String>,
    /// Decisions by the name of their reason.
    reasons: &'a BTreeMap<&'static str, u64>,
    /// Windows that were read ahead.
    windows: u64,
    /// Pages of all windows.
    asked_pages: u64,
    /// Pages of the windows that were in memory already.
    cached_pages: u64,
    /// Pages of the windows that were fetched.
    fetched_pages: u64,
    /// Pages of the windows that a thread used.
    used_pages: u64,
    /// Times that it waited.
    waited: u64,
    waited_ns: u64,
}

impl Story {
    /// How it reads, by the last decisions that had windows.
    fn direction(&self) -> String {
        match self.directions.usual() {
            None => "in no order that was found".to_owned(),
            Some(direction) => direction.to_string(),
        }
    }

    fn kind_words(&self) -> &'static str {
        match self.faults {
            0 => "reads",
            faults if faults == self.accesses => "reads through a mapping",
            _ => "reads, also through a mapping,",
        }
    }

    fn cached_pages(&self) -> u64 {
        self.issued_pages.saturating_sub(self.fetched_pages)
    }

    /// Pages between where it was last and the end of what was asked for.
    fn ahead_pages(&self) -> Option<u64> {
        let (_, decision, furthest) = self.asked.as_ref()?;
        Some(match is_down(decision) {
            true => self.page.saturating_sub(*furthest),
            false => furthest.saturating_sub(self.page),
        })
    }

    pub fn human(&self, file: &FileKey, thread: u32) -> String {
        let mut text = format!(
            "Thread {thread} of process {} {} inode {} of device {} {}: {}, {} of them missed \
             something; it was last at page {}.\n",
            self.process,
            self.kind_words(),
            file.inode,
            file.device,
            self.direction(),
            counted(self.accesses, "access", "accesses"),
            grouped(self.missed),
            grouped(self.page),
        );
        if let (Some(ahead_pages), Some((page, decision, _))) = (self.ahead_pages(), &self.asked) {
            text += &format!(
                "  What was asked for ends {} pages ahead of it.\n  Last window, at page {}: it \
                 {}.\n",
                grouped(ahead_pages),
                grouped(*page),
                decision.explain(),
            );
        }
        if let Some((page, decision)) = self.last.filter(|(_, last)| last.windows().is_empty()) {
            let (page, why) = (grouped(page), decision.explain());
            text += &format!("  Last decision, at page {page}: it {why}.\n");
        }
        let reasons = self
            .reasons
            .iter()
            .map(|(reason, times)| format!("{reason} {}", grouped(*times)));
        text += &format!(
            "  Reasons of all: {}.\n",
            reasons.collect::<Vec<_>>().join(", ")
        );
        text += &format!(
            "  {} asked for, {} together, of which {} were in memory already and {} were fetched; \
             it has come to {}. It waited {}, {} together.\n",
            counted(self.windows, "window", "windows"),
            pages(self.asked_pages),
            pages(self.cached_pages()),
            pages(self.fetched_pages),
            pages(self.used_pages),
            counted(self.waited, "time", "times"),
            time(self.waited_ns),
        );
        text
    }

    /// The same for programs.
    pub fn report(&self, file: &FileKey, thread: u32) -> StoryReport<'_> {
        let window = self.asked.as_ref();
        StoryReport {
            process: self.process,
            thread,
            device: file.device.to_string(),
            inode: file.inode,
            direction: self.direction(),
            accesses: self.accesses,
            faults: self.faults,
            missed: self.missed,
            page: self.page,
            ahead_pages: self.ahead_pages(),
            window: window.map(|(_, decision, _)| decision.explain()),
            decision: self.last.map(|(_, decision)| decision.explain()),
            reasons: &self.reasons,
            windows: self.windows,
            asked_pages: self.asked_pages,
            cached_pages: self.cached_pages(),
            fetched_pages: self.fetched_pages,
            used_pages: self.used_pages,
            waited: self.waited,
            waited_ns: self.waited_ns,
        }
    }
}
