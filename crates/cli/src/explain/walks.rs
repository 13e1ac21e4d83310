// SPDX-License-Identifier: MIT OR Apache-2.0
//! Walks that touch a file or belong to a process; and where there was none.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, Result};
use foreread_watch::detect::{Missed, Suspicion};
use foreread_watch::log::Header;
use foreread_watch::log::detect_call::{DetectCalled, Detectors};
use foreread_watch::log::walk_call::{WalkAgain, WalkCalled};
use foreread_watch::skipped::Skipped;
use serde_json::Value;

use super::Subject;
use super::doubts::{Doubts, DoubtsReport};
use super::told_walk::{Key, Told};
use super::walk_report::WalkReport;
use super::walk_story::Story;
use crate::output::time;

/// A process, and whether it is about its reads, and not its looks.
type Half = (u32, bool);

/// State of the walks, from the lines of the log read so far.
pub struct Walks<'a> {
    subject: &'a Subject,
    /// The watcher whose lines are being read; several may write to one log in turn.
    watch: u32,
    stories: BTreeMap<Key, Story>,
    /// Walks from the notes of the log, and the index of the last walk of each process.
    told: Vec<Told>,
    told_last: HashMap<Half, usize>,
    /// Where each was found to walk last, as a path of ours.
    tops: HashMap<Half, String>,
    suspicions: HashMap<Half, Suspicion>,
    doubts: BTreeMap<(u32, u32), Doubts>,
    /// Watcher and process that missed the file without a walk, and the time of the last miss.
    missed_by: BTreeMap<(u32, u32), u64>,
}

impl<'a> Walks<'a> {
    pub fn new(subject: &'a Subject) -> Self {
        Self {
            subject,
            watch: 0,
            stories: BTreeMap::new(),
            told: Vec::new(),
            told_last: HashMap::new(),
            tops: HashMap::new(),
            suspicions: HashMap::new(),
            doubts: BTreeMap::new(),
            missed_by: BTreeMap::new(),
        }
    }

    /// Takes a line, whatever it is about.
    pub fn take(&mut self, header: &Header<'_>, line: &Value) -> Result<()> {
        let process = header.process;
        let told = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        let reads = line["reads"].as_bool().unwrap_or(true);
        if header.is_start() {
            self.watch += 1;
            self.tops.clear();
            self.told_last.clear();
            self.suspicions.clear();
        }
        match header.what {
            "begun" => {
                self.doubts_of(process).begun();
                self.tops.insert((process, reads), told("top"));
                self.told_last.insert((process, reads), self.told.len());
                self.told.push(Told::begin(process, line));
            }
            "raised" => {
                self.tops.insert((process, reads), told("top"));
            }
            "refused" => self.doubts_of(process).refused(told("directory")),
            "known" => self.doubts_of(process).known(),
            "skipped" => {
                let why = Skipped::of_name(&told("why"));
                self.doubts_of(process).skipped(why);
            }
            "shares" => {
                let leader = line["with"]
                    .as_u64()
                    .and_then(|leader| leader.try_into().ok());
                let leader = leader.context("it has no \"with\", or that is no process")?;
                self.share((leader, reads), process, since_start_ns(line));
            }
            _ => {}
        }
        self.take_told((process, reads), header.what, line);
        self.take_detection(header, line)?;
        self.take_call(header, line)
    }

    /// A process shares the walk that is ahead of another one.
    fn share(&mut self, leader: Half, member: u32, since_start_ns: u64) {
        let Some(told) = self.told_last.get(&leader) else {
            return;
        };
        let told = &mut self.told[*told];
        told.members.push(member, since_start_ns);
        let story = told.calls.and_then(|key| self.stories.get_mut(&key));
        if let Some(story) = story {
            story.members.push(member, since_start_ns);
        }
    }

    fn take_told(&mut self, half: Half, what: &str, line: &Value) {
        if [
            "raised", "ordered", "reads", "listed", "fetched", "withheld", "saved", "ended",
        ]
        .contains(&what)
            && let Some(at) = self.told_last.get(&half)
        {
            let told = &mut self.told[*at];
            let goes_on = told.take(line);
            let saved = told.saved;
            let story = told.calls.and_then(|key| self.stories.get_mut(&key));
            if let Some(story) = story {
                story.saved = saved;
            }
            if !goes_on {
                self.told_last.remove(&half);
            }
        }
    }

    fn doubts_of(&mut self, process: u32) -> &mut Doubts {
        self.doubts.entry((self.watch, process)).or_default()
    }

    fn take_detection(&mut self, header: &Header<'_>, line: &Value) -> Result<()> {
        let Some(call) = header.call::<Detectors>(line)? else {
            return Ok(());
        };
        let since_start_ns = since_start_ns(line);
        self.doubts_of(call.process)
            .take(&call.what, since_start_ns);
        if let DetectCalled::Missed { file, .. } = &call.what
            && self.is_subject(file)
        {
            let key = (self.watch, call.process);
            self.missed_by.insert(key, since_start_ns);
        }
        if let Some(suspicion) = call.what.suspicion() {
            let half = (call.process, suspicion.reads);
            self.suspicions.insert(half, suspicion.clone());
        }
        Ok(())
    }

    fn is_subject(&self, file: &Missed) -> bool {
        let Subject::File(named) = self.subject else {
            return false;
        };
        let device = (file.device.major, file.device.minor);
        let number = named.number;
        number.is_some_and(|number| number.device == device && number.inode == file.inode)
    }

    fn take_call(&mut self, header: &Header<'_>, line: &Value) -> Result<()> {
        let Some(call) = header.call::<WalkAgain>(line)? else {
            return Ok(());
        };
        let process = header.process;
        let since_start_ns = since_start_ns(line);
        let key = (self.watch, process, call.walk);
        if let WalkCalled::Begin { reads, .. } = call.what
            && let Some(story) = Story::begin(&call, since_start_ns)
        {
            let mut story = story.after(process, self.suspicions.get(&(process, reads)));
            if let Some(told) = self.told_last.get(&(process, reads)) {
                let told = &mut self.told[*told];
                told.calls = Some(key);
                story.members = told.members.clone();
            }
            self.stories.insert(key, story);
        }
        if let Some(story) = self.stories.get_mut(&key) {
            let top = self.tops.get(&(process, story.began_by_reads));
            let top = top.map_or("", String::as_str);
            story.take(self.subject, &call, since_start_ns, top);
        }
        Ok(())
    }

    fn touching(&self) -> impl Iterator<Item = &Story> {
        let touches = |story: &&Story| story.touches(self.subject);
        self.stories.values().filter(touches)
    }

    /// The same where its calls aren't known.
    fn told_touching(&self) -> impl Iterator<Item = &Told> {
        let told = self.told.iter().filter(|told| told.calls.is_none());
        told.filter(|told| told.touches(self.subject))
    }

    /// Processes without a walk that are part of the report.
    fn doubtful(&self) -> impl Iterator<Item = (u32, &Doubts)> {
        let is_told = |key: &(u32, u32)| match self.subject {
            Subject::Process(process) => key.1 == *process,
            Subject::File(_) => self.missed_by.contains_key(key),
        };
        let doubts = self.doubts.iter();
        let told = doubts.filter(move |(key, doubts)| is_told(key) && doubts.is_any());
        told.map(|((_, process), doubts)| (*process, doubts))
    }

    pub fn is_known(&self) -> bool {
        self.touching().next().is_some()
            || self.told_touching().next().is_some()
            || self.doubtful().next().is_some()
    }

    /// Whether calls are missing.
    pub fn has_lost(&self) -> bool {
        self.touching().any(|story| story.has_lost)
    }

    pub fn human(&self) -> String {
        let stories = self.touching().map(|story| story.human(self.subject));
        let mut text: String = stories.collect();
        text.extend(self.told_touching().map(|told| told.human(self.subject)));
        for ((_, process), at) in &self.missed_by {
            text += &format!(
                "Process {process} missed it at {}, when no walk was ahead of that.\n",
                time(*at)
            );
        }
        let doubtful = self.doubtful();
        text.extend(doubtful.map(|(process, doubts)| doubts.human(process)));
        text
    }

    /// The same for programs.
    pub fn reports(&self) -> Vec<WalkReport> {
        let report = |story: &Story| story.report(self.subject);
        let told = self.told_touching().map(Told::report);
        self.touching().map(report).chain(told).collect()
    }

    /// Processes that had no walk ahead of them, for programs.
    pub fn without_walk(&self) -> Vec<DoubtsReport> {
        let doubtful = self.doubtful();
        doubtful
            .map(|(process, doubts)| doubts.report(process))
            .collect()
    }
}

fn since_start_ns(line: &Value) -> u64 {
    line["since_start_ns"].as_u64().unwrap_or_default()
}
