// SPDX-License-Identifier: MIT OR Apache-2.0
//! One walk: where it goes, what it does, and what it did for a file. As words: `walk_words`.

use foreread_watch::detect::Suspicion;
use foreread_watch::log::walk_call::{Answer, WalkAgain, WalkCall, WalkCalled};
use foreread_watch::order::Lists;

use super::members::Members;
use super::told_saved::ToldSaved;
use super::{Named, Subject, newest_top};

/// A walk as far as the log has it.
pub struct Story {
    pub process: u32,
    pub number: u64,
    /// Whether it began because the process missed data of files.
    pub began_by_reads: bool,
    /// As paths of ours, the last one first.
    pub tops: Vec<String>,
    pub suspicion: Option<Suspicion>,
    pub members: Members,
    pub walk: WalkAgain,
    calls: u64,
    pub has_lost: bool,
    pub begun_ns: u64,
    pub decided: Option<(u64, Answer)>,
    /// The last decision to fetch.
    pub fetch: Option<(u64, Answer)>,
    /// Number of the file, as it was listed.
    inode: Option<u64>,
    pub fetched_ns: Option<u64>,
    pub read: Option<Read>,
    pub saved: Option<ToldSaved>,
}

/// How a program came to a file.
pub struct Read {
    pub since_start_ns: u64,
    pub was_missed: bool,
}

impl Story {
    /// `None` of a call that begins no walk.
    pub fn begin(call: &WalkCall, since_start_ns: u64) -> Option<Self> {
        let walk = WalkAgain::begin(&call.what)?;
        Some(Self {
            process: 0,
            number: call.walk,
            began_by_reads: walk.walk().reads(),
            tops: Vec::new(),
            suspicion: None,
            members: Members::default(),
            walk,
            calls: 0,
            has_lost: false,
            begun_ns: since_start_ns,
            decided: None,
            fetch: None,
            inode: None,
            fetched_ns: None,
            read: None,
            saved: None,
        })
    }

    /// Sets the process that walks, and the suspicion that started the walk.
    pub fn after(self, process: u32, suspicion: Option<&Suspicion>) -> Self {
        Self {
            process,
            suspicion: suspicion.cloned(),
            ..self
        }
    }

    /// Takes a call; `top` is where it goes now.
    pub fn take(&mut self, subject: &Subject, call: &WalkCall, since_start_ns: u64, top: &str) {
        self.has_lost |= call.number != self.calls + 1;
        self.calls = call.number;
        self.walk.make(&call.what);
        if let (Subject::File(file), WalkCalled::Listed { lists, .. }) = (subject, &call.what) {
            self.inode = self.listed_inode(&file.path, lists).or(self.inode);
        }
        match &call.what {
            // Where only the order is another one, the top stays.
            WalkCalled::Begin { .. } | WalkCalled::Raise { .. }
                if self.tops.first().map(String::as_str) != Some(top) =>
            {
                self.tops.insert(0, top.to_owned());
            }
            WalkCalled::Decide(answer) => {
                if matches!(answer, Answer::Fetch { .. }) {
                    self.fetch = Some((since_start_ns, answer.clone()));
                }
                self.decided = Some((since_start_ns, answer.clone()));
            }
            _ => {}
        }
        if let Subject::File(file) = subject
            && let Some(inode) = self.inode_of(file)
        {
            self.take_of_file(inode, &call.what, since_start_ns);
        }
    }

    fn take_of_file(&mut self, file: u64, what: &WalkCalled, since_start_ns: u64) {
        match what {
            WalkCalled::Fetching { .. } if self.was_asked_for(file) => {
                self.fetched_ns.get_or_insert(since_start_ns);
            }
            // Not all of them came in.
            WalkCalled::StoppedFetching { .. } if self.was_asked_for(file) => {
                self.fetched_ns = self.fetched_ns.filter(|_| self.read.is_some());
            }
            WalkCalled::Hit { inode, .. } if *inode == file => self.was_read(since_start_ns, false),
            WalkCalled::Missed { inode, .. } if *inode == file => {
                self.was_read(since_start_ns, true);
            }
            WalkCalled::Looked { inode, is_late, .. } if *inode == file => {
                self.was_read(since_start_ns, *is_late);
            }
            _ => {}
        }
    }

    fn was_asked_for(&self, file: u64) -> bool {
        let asked = self.fetch.as_ref().map(|(_, answer)| answer);
        matches!(asked, Some(Answer::Fetch { inodes, .. }) if inodes.contains(&file))
    }

    fn was_read(&mut self, since_start_ns: u64, was_missed: bool) {
        self.read.get_or_insert(Read {
            since_start_ns,
            was_missed,
        });
    }

    /// Number of a file, where one of these lists has it.
    fn listed_inode(&self, path: &[u8], lists: &Lists) -> Option<u64> {
        let below = path.strip_prefix(self.tops.first()?.as_bytes())?;
        let inside = [self.walk.walk().top(), below].concat();
        let slash = inside.iter().rposition(|byte| *byte == b'/')?;
        let (directory, name) = (&inside[..slash], &inside[slash + 1..]);
        let list = lists.get(directory)?;
        let entry = list.iter().find(|entry| entry.name == name);
        entry.map(|entry| entry.inode)
    }

    /// Number of a file: it may be another one now, or not there any more.
    pub fn inode_of(&self, file: &Named) -> Option<u64> {
        self.inode.or(file.number.map(|number| number.inode))
    }

    /// Whether it is the process's, who may share it, or has come to the tree that the file is in.
    pub fn touches(&self, subject: &Subject) -> bool {
        subject.is_of(self.process, &self.tops) || self.members.has(subject)
    }

    /// Where it goes now.
    pub fn top(&self) -> &str {
        newest_top(&self.tops)
    }
}
