// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams in large files: who reads how, how far ahead is read, and why.

use std::collections::{BTreeMap, HashMap};

use anyhow::Result;
use foreread_core::policy::{Access, Kind};
use foreread_watch::log::Header;
use foreread_watch::log::stream_call::{Called, Decided, Remembered};
use foreread_watch::stream::FileKey;
use serde_json::Value;

use super::direction::is_down;
use super::stream_story::{Story, StoryReport};
use super::{Number, Subject};

/// Upper bound of pages that were asked for and not yet used, over all files.
const ASKED_PAGES_MAX: usize = 1 << 21;

/// A watcher (several may write to one log in turn), a file, and a thread.
type Who = (u32, FileKey, u32);

/// State of the streams, from the lines of the log read so far.
pub struct Streams<'a> {
    subject: &'a Subject,
    watch: u32,
    stories: BTreeMap<Who, Story>,
    /// For each page that was asked for and not yet used, the thread it was asked for.
    ahead: HashMap<FileKey, BTreeMap<u64, u32>>,
    ahead_pages: usize,
    /// The number of the last call of each disk.
    calls: HashMap<u64, u64>,
    lost: bool,
}

impl<'a> Streams<'a> {
    pub fn new(subject: &'a Subject) -> Self {
        Self {
            subject,
            watch: 0,
            stories: BTreeMap::new(),
            ahead: HashMap::new(),
            ahead_pages: 0,
            calls: HashMap::new(),
            lost: false,
        }
    }

    /// Takes a line, whatever it is about.
    pub fn take(&mut self, header: &Header<'_>, line: &Value) -> Result<()> {
        if header.is_start() {
            self.watch += 1;
            self.calls.clear();
            self.ahead.clear();
            self.ahead_pages = 0;
        }
        let Some(call) = header.call::<Remembered>(line)? else {
            return Ok(());
        };
        let last = self.calls.insert(call.disk, call.number).unwrap_or(0);
        self.lost |= call.number != last + 1;
        match call.what {
            Called::Access(decided) => self.access(call.process, &decided),
            Called::Waited {
                file,
                thread,
                waited_ns,
                ..
            } => {
                let story = self.story(file, thread);
                story.waited += 1;
                story.waited_ns = story.waited_ns.saturating_add(waited_ns);
            }
            Called::Issued {
                file,
                thread,
                pages,
                read_pages,
            } => {
                let story = self.story(file, thread);
                story.issued_pages = story.issued_pages.saturating_add(pages);
                story.fetched_pages = story.fetched_pages.saturating_add(read_pages);
            }
            Called::Done(_) | Called::Turns => {}
        }
        Ok(())
    }

    fn access(&mut self, process: u32, decided: &Decided) {
        let (access, decision) = (&decided.access, &decided.decision);
        self.come_to(decided.file, access.index, access.req_pages.max(1));
        let watch = self.watch;
        let who = (watch, decided.file, access.thread);
        let story = self.stories.entry(who).or_default();
        story.process = process;
        story.accesses += 1;
        let is_miss = access.kind == Kind::FaultMiss || access.flags & Access::MISSED != 0;
        story.missed += u64::from(is_miss);
        let is_fault = matches!(
            access.kind,
            Kind::FaultMiss | Kind::FaultMark | Kind::FaultHit
        );
        story.faults += u64::from(is_fault);
        story.page = access.index;
        *story.reasons.entry(decision.reason.name()).or_default() += 1;
        story.last = Some((access.index, *decision));
        let mut furthest = None;
        for window in decision.every_window(&decided.limits) {
            let (start, size) = (window.start(), u64::from(window.size()));
            story.windows += 1;
            story.asked_pages = story.asked_pages.saturating_add(size);
            furthest = Some(match is_down(decision) {
                true => start,
                false => start.saturating_add(size),
            });
            let room = ASKED_PAGES_MAX.saturating_sub(self.ahead_pages);
            let ahead = self.ahead.entry(decided.file).or_default();
            let before = ahead.len();
            let ends = start.saturating_add(size.min(room as u64));
            ahead.extend((start..ends).map(|page| (page, access.thread)));
            self.ahead_pages += ahead.len() - before;
        }
        if let Some(furthest) = furthest {
            story.directions.take(decision.into());
            story.asked = Some((access.index, *decision, furthest));
        }
    }

    fn story(&mut self, file: FileKey, thread: u32) -> &mut Story {
        self.stories.entry((self.watch, file, thread)).or_default()
    }

    /// Counts pages that were asked for and are read now as used.
    fn come_to(&mut self, file: FileKey, page: u64, pages: u64) {
        let Some(ahead) = self.ahead.get_mut(&file) else {
            return;
        };
        let ends = page.saturating_add(pages);
        while let Some((used, thread)) = ahead.range(page..ends).next().map(|(p, t)| (*p, *t)) {
            ahead.remove(&used);
            self.ahead_pages -= 1;
            if let Some(story) = self.stories.get_mut(&(self.watch, file, thread)) {
                story.used_pages += 1;
            }
        }
    }

    fn touching(&self) -> impl Iterator<Item = (&Who, &Story)> {
        let touches = |((_, file, _), story): &(&Who, &Story)| match self.subject {
            Subject::Process(process) => story.process == *process,
            Subject::File(named) => named.number == Some(number_of(file)),
        };
        self.stories.iter().filter(touches)
    }

    pub fn is_known(&self) -> bool {
        self.touching().next().is_some()
    }

    /// Whether calls are missing.
    pub fn has_lost(&self) -> bool {
        self.lost && self.is_known()
    }

    pub fn human(&self) -> String {
        let touching = self.touching();
        touching
            .map(|((_, file, thread), story)| story.human(file, *thread))
            .collect()
    }

    /// The same for programs.
    pub fn reports(&self) -> Vec<StoryReport<'_>> {
        let touching = self.touching();
        touching
            .map(|((_, file, thread), story)| story.report(file, *thread))
            .collect()
    }
}

pub fn number_of(file: &FileKey) -> Number {
    Number {
        device: (file.device.major, file.device.minor),
        inode: file.inode,
    }
}
