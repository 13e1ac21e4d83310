// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a process that waits for metadata again and again may be walking a directory tree.
//!
//! A lookup that waits is weaker evidence than a missed file. File systems read many inodes at
//! once, so one lookup in a hundred waits, and every program looks up scattered files when it
//! starts. On the other hand a program may look up files with many threads, each in a part of the
//! tree. So the detector computes how unlikely the order is in which the threads go through their
//! directories: `n` names are in order by chance once in `n!` times.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::detect::{Passed, Suspicion};
use crate::log::text;
use crate::memory_budget::ELEMENT_BYTES;
use crate::paths::{common, depth};
use crate::patience::{Patience, forget_oldest};
use crate::table::Table;
use foreread_core::Device;
use serde::{Deserialize, Serialize};

/// Looks that are remembered of a thread.
const RECENT_LOOKS: usize = 32;
/// A thread has gone elsewhere if its path led up this many levels.
const NEAR_LEVELS: usize = 6;
/// By chance, all looks are in order once in this many times (8!), or less often. The value is this
/// large because a program that looks up scattered files is tested again and again, and there are
/// several orders to choose from.
const ODDS_MIN: u64 = 40_320;
/// Threads without a look during this many looks of others are left out.
const LOOKS_TO_FORGET: u64 = 64;
/// Processes that are remembered, and the bytes for them: 64 looks each with paths of 150 bytes.
const PROCESSES_MAX: usize = 256;
const BYTES_MAX: u64 = 4 << 20;
/// Threads that are remembered of a process.
const THREADS_MAX: usize = 64;
/// After a wrong suspicion, this many looks are ignored; twice as many after each further one.
const PATIENCE_LOOKS: u32 = 16;
const PATIENCE_LOOKS_MAX: u32 = 1 << 14;
/// A suspicion that was too early is raised again after `EARLY_LOOKS` looks, up to `EARLY_MAX`
/// times.
const EARLY_LOOKS: u32 = 4;
const EARLY_MAX: u32 = 4;
/// Odds from `ODDS_MIN / EARLY_PART` on lack evidence, but are not wrong.
const EARLY_PART: u64 = 32;

/// A call that waited for metadata.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// The process that made it.
    #[serde(skip)]
    pub process: u32,
    /// Its thread.
    pub thread: u32,
    /// The process that began it.
    pub parent: u32,
    /// The user of the process. Older logs lack it.
    #[serde(default)]
    pub user: u32,
    /// The file system where its path starts.
    #[serde(with = "text::device")]
    pub device: Device,
    /// Path of the directory that it looks in, from the root of that file system.
    #[serde(with = "text::bytes")]
    pub directory: Vec<u8>,
    /// The name there.
    #[serde(with = "text::bytes")]
    pub name: Vec<u8>,
    /// Where the path starts, when it leads down from there by several names.
    #[serde(with = "text::bytes_or_none", default)]
    pub start: Option<Vec<u8>>,
}

#[derive(Debug, Default)]
struct Thread {
    looks: VecDeque<Look>,
    last: u64,
}

#[derive(Debug, Default)]
struct Process {
    threads: HashMap<u32, Thread>,
    /// Those whose looks the last suspicion was about.
    asked: HashMap<u32, Thread>,
    /// Number of times that this suspicion was too early, and looks that are taken before it is
    /// raised again.
    early: u32,
    early_looks: u32,
    /// Looks that pass before it is suspected again.
    patience: Patience,
}

/// All processes.
#[derive(Debug)]
pub struct LookDetector {
    processes: Table<Process>,
    looks: u64,
}

impl Default for LookDetector {
    fn default() -> Self {
        Self {
            processes: Table::new(BYTES_MAX, PROCESSES_MAX),
            looks: 0,
        }
    }
}

impl LookDetector {
    /// Takes a look that waited. Returns the tree that its process may be walking through.
    pub fn waited(&mut self, look: Look) -> Option<Suspicion> {
        if self.is_same(&look) {
            return None;
        }
        self.looks += 1;
        let (process, user, now) = (look.process, look.user, self.looks);
        self.processes.change(process, user, now, |of| {
            let suspicion = of.take(look, now);
            (suspicion, of.bytes())
        })
    }

    /// Whether this is the look in which its thread waited last. A call waits once for each block,
    /// and file systems read 32 of them for one inode.
    fn is_same(&self, look: &Look) -> bool {
        let process = self.processes.get(look.process);
        let thread = process.and_then(|process| process.threads.get(&look.thread));
        thread.is_some_and(|thread| thread.looks.back() == Some(look))
    }

    /// A suspicion was wrong, or following it did not help. Returns whether it was the first of its
    /// process.
    pub fn was_wrong(&mut self, process: u32) -> bool {
        let Some(user) = self.processes.user_of(process) else {
            return true;
        };
        self.processes.change(process, user, self.looks, |of| {
            let is_first = of.patience.is_fresh();
            of.patience.was_wrong(PATIENCE_LOOKS, PATIENCE_LOOKS_MAX);
            of.threads = HashMap::new();
            of.asked = HashMap::new();
            of.early = 0;
            (is_first, of.bytes())
        })
    }

    /// The suspicion was wrong, but too many of its waits were in no order, as when a program reads
    /// its settings first. Detection goes on with the waits seen so far.
    pub fn was_too_early(&mut self, process: u32) {
        let Some(of) = self.processes.get_mut(process) else {
            return;
        };
        if of.early == EARLY_MAX {
            self.was_wrong(process);
            return;
        }
        of.early += 1;
        of.early_looks = EARLY_LOOKS;
        for (thread, looks) in std::mem::take(&mut of.asked) {
            if of.threads.len() < THREADS_MAX {
                of.threads.entry(thread).or_insert(looks);
            }
        }
    }

    /// A process has ended.
    pub fn ended(&mut self, process: u32) {
        self.processes.remove(process);
    }

    /// Whether there is a state of this process.
    #[must_use]
    pub fn has_seen(&self, process: u32) -> bool {
        self.processes.get(process).is_some()
    }
}

impl Process {
    /// Bytes of all looks, also of those that the last suspicion was about.
    fn bytes(&self) -> u64 {
        let of_look = |look: &Look| {
            let start = look.start.as_ref().map_or(0, Vec::len);
            let names = (look.directory.len() + look.name.len() + start) as u64;
            names + size_of::<Look>() as u64 + 3 * ELEMENT_BYTES
        };
        let threads = self.threads.values().chain(self.asked.values());
        threads.flat_map(|thread| &thread.looks).map(of_look).sum()
    }

    fn take(&mut self, look: Look, now: u64) -> Option<Suspicion> {
        if self.patience.passes() {
            return None;
        }
        if !self.threads.contains_key(&look.thread) {
            forget_oldest(&mut self.threads, THREADS_MAX, |thread| thread.last);
        }
        let (process, device) = ((look.process, look.parent), look.device);
        let thread = self.threads.entry(look.thread).or_default();
        thread.last = now;
        thread.push(look);
        if self.early_looks > 0 {
            self.early_looks -= 1;
            return None;
        }
        let newest = thread.looks.back()?.directory.clone();
        let suspicion = self.suspicion(process, device, &newest, now)?;
        // The same looks are asked about once.
        self.asked = std::mem::take(&mut self.threads);
        Some(suspicion)
    }

    fn suspicion(
        &self,
        (process, parent): (u32, u32),
        device: Device,
        newest: &[u8],
        now: u64,
    ) -> Option<Suspicion> {
        let awake = self.threads.values();
        let awake = awake.filter(|thread| now - thread.last < LOOKS_TO_FORGET);
        let mut near: Vec<&Thread> = awake
            .filter(|thread| thread.is_near(device, newest))
            .collect();
        // The same looks make the same suspicion.
        near.sort_by_key(|thread| thread.looks.back().map(|look| look.thread));
        let each = near.iter().flat_map(|thread| thread.passed(device));
        let mut passed: Vec<Passed> = each.collect();
        if odds(&passed) < ODDS_MIN {
            passed.extend(passed_by_all(&near));
        }
        if odds(&passed) < ODDS_MIN {
            return None;
        }
        Some(Suspicion {
            process,
            parent,
            device,
            directory: above(&passed)?,
            passed,
            start: self.start(device),
            threads: near.len(),
            reads: false,
        })
    }
}

impl Process {
    /// Where the paths of most threads start, that is of a program that has a list of them.
    fn start(&self, device: Device) -> Option<Vec<u8>> {
        let newest = self
            .threads
            .values()
            .filter_map(|thread| thread.looks.back());
        let mut starts: HashMap<&[u8], usize> = HashMap::new();
        for look in newest.filter(|look| look.device == device) {
            if let Some(start) = &look.start {
                *starts.entry(start).or_default() += 1;
            }
        }
        let most = starts.into_iter().max_by_key(|(_, threads)| *threads);
        let most = most.filter(|(_, threads)| threads * 2 > self.threads.len());
        most.map(|(start, _)| start.to_vec())
    }
}

/// Children, by directory, that were passed by threads which share a list: the first threads began
/// with the first part of it.
fn passed_by_all(threads: &[&Thread]) -> Vec<Passed> {
    let mut newest: Vec<&Look> = threads.iter().filter_map(|t| t.looks.back()).collect();
    newest.sort_by_key(|look| look.thread);
    passed(newest.into_iter())
}

/// Children, by directory, that a sequence of looks passed.
fn passed<'a>(looks: impl Iterator<Item = &'a Look>) -> Vec<Passed> {
    let mut passed: Vec<Passed> = Vec::new();
    for look in looks {
        note(&mut passed, &look.directory, &look.name);
        for (directory, name) in levels_above(&look.directory) {
            note(&mut passed, directory, name);
        }
    }
    passed.retain(|passed| passed.children.len() >= 2);
    passed
}

/// The directory that holds all of these; `None` of nothing.
#[must_use]
pub fn above(passed: &[Passed]) -> Option<Vec<u8>> {
    let mut directories = passed.iter().map(|passed| passed.directory.as_slice());
    let first = directories.next()?;
    Some(directories.fold(first, common).to_vec())
}

/// Returns n if all of these are in order by chance once in n times. The same names in several
/// directories are no chance: a program that imports packages looks for the same few files in each.
#[must_use]
pub fn odds(passed: &[Passed]) -> u64 {
    let mut names = HashSet::new();
    let distinct = passed.iter().filter(|one| names.insert(&one.children));
    let of = |passed: &Passed| (1..=passed.children.len() as u64).fold(1, u64::saturating_mul);
    distinct.map(of).fold(1, u64::saturating_mul)
}

/// The verdict of an order on a suspicion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It is no more than chance.
    Chance,
    /// An order, but with too little evidence so far.
    TooEarly,
    /// It is more than chance.
    Convincing,
}

/// The verdict on an order that explains the directories `explained` and does not explain
/// `unexplained` more.
#[must_use]
pub fn verdict(explained: &[Passed], unexplained: usize) -> Verdict {
    let odds = odds(explained);
    if unexplained * 4 > explained.len() {
        Verdict::Chance
    } else if odds >= ODDS_MIN {
        Verdict::Convincing
    } else if odds >= ODDS_MIN / EARLY_PART {
        Verdict::TooEarly
    } else {
        Verdict::Chance
    }
}

impl Thread {
    fn push(&mut self, look: Look) {
        if self.looks.len() == RECENT_LOOKS {
            self.looks.pop_front();
        }
        self.looks.push_back(look);
    }

    /// Whether it was last near a directory.
    fn is_near(&self, device: Device, directory: &[u8]) -> bool {
        let newest = self.looks.back();
        newest.is_some_and(|look| look.device == device && are_near(&look.directory, directory))
    }

    /// Children, by directory, that the thread has passed since it was elsewhere.
    fn passed(&self, device: Device) -> Vec<Passed> {
        let Some(newest) = self.looks.back() else {
            return Vec::new();
        };
        let is_here =
            |look: &&Look| look.device == device && are_near(&look.directory, &newest.directory);
        let since = self.looks.iter().rev().take_while(is_here).count();
        passed(self.looks.range(self.looks.len() - since..))
    }
}

fn are_near(one: &[u8], other: &[u8]) -> bool {
    let above = common(one, other);
    !above.is_empty() && depth(one).min(depth(other)) <= depth(above) + NEAR_LEVELS
}

/// The directories above one, each with the name that leads to it.
fn levels_above(directory: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut at = directory;
    let levels = std::iter::from_fn(move || {
        let slash = at.iter().rposition(|byte| *byte == b'/')?;
        let (above, name) = (&at[..slash], &at[slash + 1..]);
        at = above;
        Some((above, name))
    });
    levels.take(NEAR_LEVELS)
}

fn note(all: &mut Vec<Passed>, directory: &[u8], child: &[u8]) {
    let passed = match all.iter().position(|passed| passed.directory == directory) {
        Some(at) => &mut all[at],
        None => {
            all.push(Passed {
                directory: directory.to_vec(),
                children: Vec::new(),
            });
            let last = all.len() - 1;
            &mut all[last]
        }
    };
    if passed.children.last().map(Vec::as_slice) != Some(child) {
        passed.children.push(child.to_vec());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn look(thread: u32, directory: &str, name: &str) -> Look {
        Look {
            process: 1,
            thread,
            parent: 0,
            user: 0,
            device: Device::default(),
            directory: directory.into(),
            name: name.into(),
            start: None,
        }
    }

    fn play(looks: &[(u32, &str, &str)]) -> Option<Suspicion> {
        let mut detector = LookDetector::default();
        let mut last = None;
        for (thread, directory, name) in looks {
            last = detector.waited(look(*thread, directory, name)).or(last);
        }
        last
    }

    #[test]
    fn names_in_each_directory_that_a_thread_comes_through_make_them_suspect() {
        let eight = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| (1, "/t", name));
        assert_eq!(play(&eight[..7]), None);
        let found = play(&eight).unwrap();
        assert_eq!(found.directory, b"/t");
        assert!(!found.reads);
        assert_eq!(found.passed[0].children.concat(), b"abcdefgh");
        // Two of `t`, four of `a`, five of `x`, four of `b`: once in 2! * 4! * 5! * 4! times.
        let deep = [
            (1, "/t/a", "x"),
            (1, "/t/a/x", "1"),
            (1, "/t/a/x", "2"),
            (1, "/t/a/x", "3"),
            (1, "/t/a/x", "4"),
            (1, "/t/a/x", "5"),
            (1, "/t/a", "y"),
            (1, "/t/a", "z"),
            (1, "/t/a", "zz"),
            (1, "/t/b", "1"),
            (1, "/t/b", "2"),
            (1, "/t/b", "3"),
        ];
        assert_eq!(play(&deep), None);
        let found = play(&[&deep[..], &[(1, "/t/b", "4")]].concat()).unwrap();
        assert_eq!(found.directory, b"/t");
        assert_eq!(found.passed.len(), 4);
    }

    #[test]
    fn what_several_threads_came_through_counts_together() {
        // Two threads come through five names each; they and a third one began in the order of
        // their numbers.
        let looks: Vec<(u32, String)> = (0..11).map(|n| (n / 5, format!("/t/{}", n / 5))).collect();
        let mut detector = LookDetector::default();
        let mut found = None;
        for (at, (thread, directory)) in looks.iter().enumerate() {
            assert_eq!(found, None, "{at}");
            found = detector.waited(look(*thread, directory, &at.to_string()));
        }
        let found = found.unwrap();
        assert_eq!((found.directory.as_slice(), found.threads), (&b"/t"[..], 3));
        assert_eq!(odds(&found.passed), 120 * 120 * 6);
    }

    #[test]
    fn the_same_names_in_many_directories_convince_nobody() {
        let of = |package: u32| Passed {
            directory: format!("/t/{package}").into_bytes(),
            children: ["__init__.py", "__pycache__"].map(Vec::from).to_vec(),
        };
        let packages: Vec<Passed> = (0..32).map(of).collect();
        assert_eq!(odds(&packages), 2);
        assert_eq!(verdict(&packages, 1), Verdict::Chance);
    }

    #[test]
    fn threads_that_share_a_list_need_but_one_each() {
        let at = |order: [u32; 8]| {
            let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
            let looks: Vec<(u32, String)> = order
                .into_iter()
                .zip(names)
                .map(|(thread, name)| (thread, format!("/t/{name}/x")))
                .collect();
            let looks: Vec<(u32, &str, &str)> =
                looks.iter().map(|(t, d)| (*t, d.as_str(), "1")).collect();
            play(&looks)
        };
        let names = |found: Option<Suspicion>| {
            let found = found.unwrap();
            String::from_utf8(found.passed[0].children.concat()).unwrap()
        };
        assert_eq!(names(at([11, 12, 13, 14, 15, 16, 17, 18])), "abcdefgh");
        // In which order is for the list of the directory to say.
        let swapped = [15, 12, 13, 14, 11, 16, 17, 18];
        assert_eq!(names(at(swapped)), "ebcdafgh");
    }

    #[test]
    fn what_is_far_apart_or_elsewhere_is_not_together() {
        let far = ["/t/1/2/3/4/5/6/7/8", "/u/1/2/3/4/5/6/7/8"];
        let far: Vec<(u32, &str, &str)> = (0..20).map(|n| (1, far[n % 2], "x")).collect();
        assert_eq!(play(&far), None);
        let roots: Vec<(u32, &str, &str)> = ["/a", "/b", "/c", "/d", "/e", "/f"]
            .map(|root| (1, root, "x"))
            .to_vec();
        assert_eq!(play(&roots), None);
    }

    #[test]
    fn a_call_that_waits_for_many_blocks_counts_once() {
        let mut detector = LookDetector::default();
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let mut found = None;
        for (thread, name) in (11..).zip(names) {
            assert_eq!(found, None, "{name}");
            for _ in 0..32 {
                let of_one = detector.waited(look(thread, "/t", name));
                found = found.or(of_one);
            }
        }
        // All eight are awake.
        assert_eq!(found.unwrap().threads, 8);
    }

    #[test]
    fn what_came_too_early_counts_on() {
        let mut detector = LookDetector::default();
        let mut suspicions = Vec::new();
        for n in 100..200 {
            if let Some(found) = detector.waited(look(1, "/a", &n.to_string())) {
                suspicions.push((n - 100, found.passed[0].children.len()));
                detector.was_too_early(1);
            }
        }
        let early: Vec<(i32, usize)> = (0..=4).map(|n| (7 + 5 * n, 8 + 5 * n as usize)).collect();
        assert_eq!(suspicions[..5], early);
        // Not for ever: then it was wrong.
        assert_eq!(suspicions[5], (7 + 5 * 4 + 16 + 8, 8));
    }

    #[test]
    fn what_is_in_order_convinces_when_there_is_enough_of_it() {
        let of = |directory: &str, names: usize| Passed {
            directory: directory.into(),
            children: (0..names).map(|n| vec![b'a' + n as u8]).collect(),
        };
        let four = |names: usize| ["/a", "/b", "/c", "/d"].map(|at| of(at, names));
        assert_eq!(verdict(&[of("/a", 8)], 0), Verdict::Convincing);
        assert_eq!(verdict(&[of("/a", 7)], 0), Verdict::TooEarly);
        assert_eq!(verdict(&[of("/a", 6)], 0), Verdict::Chance);
        // A directory in no order weighs as much as four in order.
        assert_eq!(verdict(&[of("/a", 8)], 1), Verdict::Chance);
        let alike = [four(8).as_slice(), &[of("/e", 2)]].concat();
        assert_eq!(verdict(&alike, 1), Verdict::Convincing);
        assert_eq!(verdict(&alike, 2), Verdict::Chance);
    }

    #[test]
    fn after_a_wrong_suspicion_more_and_more_looks_pass() {
        let mut detector = LookDetector::default();
        let mut suspicions = Vec::new();
        for n in 0..300 {
            if detector.waited(look(1, "/a", &n.to_string())).is_some() {
                suspicions.push(n);
                detector.was_wrong(1);
            }
        }
        assert_eq!(
            suspicions,
            [7, 7 + 16 + 8, 31 + 32 + 8, 71 + 64 + 8, 143 + 128 + 8]
        );
    }

    proptest! {
        #[test]
        fn memory_is_bounded_and_what_is_suspect_lies_above_what_was_seen(
            looks in prop::collection::vec(
                (0u32..400, 0u32..100, "(/[ab]){0,4}", "[x-z]"), 0..3000)
        ) {
            let mut detector = LookDetector::default();
            for (process, thread, directory, name) in looks {
                let look = look(thread, &directory, &name);
                let look = Look { process: process / 390 * process, ..look };
                if let Some(found) = detector.waited(look) {
                    prop_assert!(odds(&found.passed) >= ODDS_MIN);
                    for passed in &found.passed {
                        prop_assert!(passed.directory.starts_with(&found.directory));
                    }
                }
                prop_assert!(detector.processes.len() <= PROCESSES_MAX);
                prop_assert!(detector.processes.bytes() <= BYTES_MAX);
                let threads = detector.processes.values().map(|process| process.threads.len());
                prop_assert!(threads.max() <= Some(THREADS_MAX));
            }
        }
    }
}
