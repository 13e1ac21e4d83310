// SPDX-License-Identifier: MIT OR Apache-2.0
//! One thread that reads one large file: how, how far ahead of it is read, and why.

use std::collections::{BTreeMap, VecDeque};

use foreread_core::grouped;
use foreread_core::policy::{Decision, Reason};
use foreread_watch::stream::FileKey;
use serde::Serialize;

use crate::output::{counted, pages, time};

/// Windows that tell how a thread reads. One alone doesn't: a backward reader that waits for page 0
/// also looks like one that starts there.
const COURSES_RECENT: usize = 8;

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
    /// Courses of the last windows.
    pub courses: Courses,
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

/// Whether what is asked for lies below.
pub fn is_down(decision: &Decision) -> bool {
    matches!(decision.reason, Reason::Reverse | Reason::Backward)
        || decision.repeats().is_some_and(|(_, step)| step < 0)
}

/// Where a window lies, seen from its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    Up,
    Down,
    /// In steps of so many pages, where that is known.
    Steps(Option<i64>),
}

/// Courses of the last windows of a thread.
#[derive(Default)]
pub struct Courses(VecDeque<Course>);

impl Courses {
    /// Counts a decision that has a window.
    pub fn take(&mut self, decision: &Decision) {
        self.take_course(match (decision.reason, decision.repeats()) {
            (Reason::Stride, repeats) => Course::Steps(repeats.map(|(_, step)| step)),
            _ if is_down(decision) => Course::Down,
            _ => Course::Up,
        });
    }

    fn take_course(&mut self, course: Course) {
        if self.0.len() == COURSES_RECENT {
            self.0.pop_front();
        }
        self.0.push_back(course);
    }

    /// The course of most of them; of several such courses, the latest.
    fn usual(&self) -> Option<Course> {
        let times = |course: Course| self.0.iter().filter(|other| **other == course).count();
        self.0.iter().copied().max_by_key(|course| times(*course))
    }
}

impl Story {
    /// How it reads, by the last decisions that had windows.
    fn direction(&self) -> String {
        match self.courses.usual() {
            None => "in no order that was found".to_owned(),
            Some(Course::Steps(Some(step))) => format!("in steps of {step} pages"),
            Some(Course::Steps(None)) => "in steps".to_owned(),
            Some(Course::Down) => "backward".to_owned(),
            Some(Course::Up) => "upward".to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn usual(courses: impl IntoIterator<Item = Course>) -> Option<Course> {
        let mut story = Courses::default();
        courses
            .into_iter()
            .for_each(|course| story.take_course(course));
        story.usual()
    }

    #[test]
    fn one_window_upward_does_not_make_a_backward_reader_an_upward_one() {
        let backward = [Course::Down; 61];
        assert_eq!(usual(backward), Some(Course::Down));
        assert_eq!(
            usual(backward.into_iter().chain([Course::Up])),
            Some(Course::Down)
        );
        let turned = backward.into_iter().chain([Course::Up; 5]);
        assert_eq!(usual(turned), Some(Course::Up));
    }

    #[test]
    fn the_latest_of_several_equal_courses_is_the_usual_one() {
        assert_eq!(usual([]), None);
        let steps = Course::Steps(Some(-8));
        assert_eq!(usual([Course::Up, steps]), Some(steps));
        assert_eq!(usual([steps, Course::Up, Course::Up, steps]), Some(steps));
    }
}
