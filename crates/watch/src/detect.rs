// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a process that misses file after file may be walking a directory tree.
//!
//! The result is a suspicion: [`Orders`](crate::order::Orders) confirm it with the list of the
//! directory.

use std::collections::{HashMap, VecDeque};

use crate::log::text;
use crate::paths::{child_below, common, depth};
use crate::patience::{Patience, forget_oldest};
use foreread_core::Device;
use serde::{Deserialize, Serialize};

/// Files that are remembered of a process: of trees with three files a directory, four directories.
const RECENT_FILES: usize = 12;
/// Files of one directory, or directories in one, that make it suspect. With three, one of three
/// orders fits by chance so often that a Python that imports was walked ahead of.
const FILES_MIN: usize = 4;
/// Files in different directories that make their common ancestor suspect, or all that are
/// remembered.
const SCATTERED_FILES_MIN: usize = 4;
/// Maximum number of levels below that ancestor.
const NEAR_LEVELS: usize = 2;
/// Processes that are remembered.
const PROCESSES_MAX: usize = 1024;
/// After a wrong suspicion, this many misses are ignored; twice as many after each further one.
const PATIENCE_MISSES: u32 = 8;
const PATIENCE_MISSES_MAX: u32 = 4096;

/// A file that was not in memory when a process read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missed {
    /// The process that read it.
    #[serde(skip)]
    pub process: u32,
    /// The thread that did.
    pub thread: u32,
    /// The parent of that process.
    pub parent: u32,
    /// The device of its file system.
    #[serde(with = "text::device")]
    pub device: Device,
    /// Its number there.
    pub inode: u64,
    /// Path of its directory, from the root of the file system.
    #[serde(with = "text::bytes")]
    pub directory: Vec<u8>,
    /// Its name there.
    #[serde(with = "text::bytes")]
    pub name: Vec<u8>,
}

/// A directory tree that a process may be walking through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspicion {
    /// The process.
    #[serde(skip)]
    pub process: u32,
    /// Its parent process.
    #[serde(skip)]
    pub parent: u32,
    /// The file system.
    #[serde(skip)]
    pub device: Device,
    /// The directory, from the root of the file system.
    #[serde(with = "text::bytes")]
    pub directory: Vec<u8>,
    /// The accesses in it or below.
    pub passed: Vec<Passed>,
    /// Where the paths that it came through start, that is of a program that has a list of them.
    #[serde(with = "text::bytes_or_none", default)]
    pub start: Option<Vec<u8>>,
    /// Number of threads of the process that went through it.
    #[serde(with = "text::small")]
    pub threads: usize,
    /// Whether data of files were missed, and not only metadata.
    #[serde(skip)]
    pub reads: bool,
}

/// How a process, or one of its threads, came through a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// The directory, from the root of the file system.
    #[serde(with = "text::bytes")]
    pub directory: Vec<u8>,
    /// Its entries that were come through, in that order, none twice in a row.
    #[serde(with = "text::bytes_list")]
    pub children: Vec<Vec<u8>>,
}

impl Suspicion {
    fn of_files(file: &Missed, directory: &[u8], children: Vec<Vec<u8>>) -> Self {
        let directory = directory.to_vec();
        Self {
            process: file.process,
            parent: file.parent,
            device: file.device,
            directory: directory.clone(),
            passed: vec![Passed {
                directory,
                children,
            }],
            start: None,
            threads: 1,
            reads: true,
        }
    }
}

#[derive(Debug, Default)]
struct Recent {
    files: VecDeque<Missed>,
    /// Misses that pass before it is suspected again.
    patience: Patience,
    last: u64,
}

/// All processes.
#[derive(Debug, Default)]
pub struct Detector {
    processes: HashMap<u32, Recent>,
    misses: u64,
}

impl Detector {
    /// Takes a miss. Returns the tree that its process may be walking through.
    pub fn missed(&mut self, file: Missed) -> Option<Suspicion> {
        self.misses += 1;
        if !self.processes.contains_key(&file.process) {
            forget_oldest(&mut self.processes, PROCESSES_MAX, |recent| recent.last);
        }
        let recent = self.processes.entry(file.process).or_default();
        recent.last = self.misses;
        recent.take(file)
    }

    /// A suspicion was wrong, or following it did not help.
    pub fn was_wrong(&mut self, process: u32) {
        if let Some(recent) = self.processes.get_mut(&process) {
            recent
                .patience
                .was_wrong(PATIENCE_MISSES, PATIENCE_MISSES_MAX);
            recent.files.clear();
        }
    }

    /// A process has ended.
    pub fn ended(&mut self, process: u32) {
        self.processes.remove(&process);
    }

    /// Whether there is a state of this process.
    #[must_use]
    pub fn has_seen(&self, process: u32) -> bool {
        self.processes.contains_key(&process)
    }
}

impl Recent {
    fn take(&mut self, file: Missed) -> Option<Suspicion> {
        if self.patience.passes() {
            return None;
        }
        if self.files.back() == Some(&file) {
            return None;
        }
        if self.files.len() == RECENT_FILES {
            self.files.pop_front();
        }
        self.files.push_back(file);
        let suspicion = self
            .of_one_directory()
            .or_else(|| self.of_several(SCATTERED_FILES_MIN))
            .or_else(|| self.of_several(RECENT_FILES))?;
        // The same files are asked about once.
        self.files.pop_front();
        Some(suspicion)
    }

    fn of_one_directory(&self) -> Option<Suspicion> {
        let newest = self.files.back()?;
        let beside = self
            .files
            .iter()
            .filter(|file| (file.device, &file.directory) == (newest.device, &newest.directory));
        let mut children: Vec<Vec<u8>> = beside.map(|file| file.name.clone()).collect();
        children.dedup();
        (children.len() >= FILES_MIN)
            .then(|| Suspicion::of_files(newest, &newest.directory, children))
    }

    fn of_several(&self, files: usize) -> Option<Suspicion> {
        let newest = self.files.back()?;
        let last = self.files.len().checked_sub(files)?;
        let files: Vec<&Missed> = self.files.range(last..).collect();
        if files.iter().any(|file| file.device != newest.device) {
            return None;
        }
        let above = files
            .iter()
            .fold(newest.directory.as_slice(), |above, file| {
                common(above, &file.directory)
            });
        let is_near = |file: &&Missed| depth(&file.directory) <= depth(above) + NEAR_LEVELS;
        if !files.iter().all(is_near) {
            return None;
        }
        let of_file = |file: &&Missed| {
            let child = child_below(above, &file.directory);
            child.map_or_else(|| file.name.clone(), <[u8]>::to_vec)
        };
        let mut children: Vec<Vec<u8>> = files.iter().map(of_file).collect();
        children.dedup();
        (children.len() >= FILES_MIN).then(|| Suspicion::of_files(newest, above, children))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn miss(directory: &str, name: &str) -> Missed {
        Missed {
            process: 1,
            thread: 1,
            parent: 0,
            device: Device::default(),
            inode: 1,
            directory: directory.into(),
            name: name.into(),
        }
    }

    fn play(files: &[(&str, &str)]) -> Option<Suspicion> {
        let mut detector = Detector::default();
        let mut last = None;
        for (directory, name) in files {
            last = detector.missed(miss(directory, name)).or(last);
        }
        last
    }

    #[test]
    fn four_files_of_a_directory_make_it_suspect() {
        let files = [
            ("/a", "1"),
            ("/b", "x"),
            ("/a", "2"),
            ("/a", "3"),
            ("/a", "4"),
        ];
        let found = play(&files).unwrap();
        assert_eq!(found.directory, b"/a");
        assert_eq!(found.passed[0].children, [b"1", b"2", b"3", b"4"]);
        assert!(play(&[("/a", "1"), ("/a", "2"), ("/a", "3"), ("/a", "3")]).is_none());
    }

    #[test]
    fn a_few_files_of_each_directory_make_what_is_above_suspect() {
        let directories = ["/t/a", "/t/b", "/t/c", "/t/d"];
        let files = directories.map(|of| ["1", "2", "3"].map(|name| (of, name)));
        let found = play(files.as_flattened()).unwrap();
        assert_eq!(found.directory, b"/t");
        assert_eq!(found.passed[0].children, [b"a", b"b", b"c", b"d"]);
    }

    #[test]
    fn files_of_near_directories_make_what_is_above_suspect() {
        let near = ["/t/a", "/t/b", "/t/c/d", "/t/e"].map(|of| (of, "1"));
        let found = play(&near).unwrap();
        assert_eq!(found.directory, b"/t");
        assert_eq!(found.passed[0].children, [b"a", b"b", b"c", b"e"]);
        let far = [
            ("/t/a/b/c", "1"),
            ("/t/b", "1"),
            ("/t/c", "1"),
            ("/t/d", "1"),
            ("/u/e/f", "1"),
        ];
        assert!(play(&far).is_none());
    }

    #[test]
    fn after_a_wrong_suspicion_more_and_more_misses_pass() {
        let mut detector = Detector::default();
        let mut suspicions = Vec::new();
        for n in 0..200 {
            if detector.missed(miss("/a", &n.to_string())).is_some() {
                suspicions.push(n);
                detector.was_wrong(1);
            }
        }
        assert_eq!(
            suspicions,
            [3, 3 + 8 + 4, 15 + 16 + 4, 35 + 32 + 4, 71 + 64 + 4]
        );
    }

    proptest! {
        #[test]
        fn memory_is_bounded_and_what_is_suspect_lies_above_the_newest(
            files in prop::collection::vec((0u32..2000, "(/[ab]){0,4}", "[xyz]"), 0..3000)
        ) {
            let mut detector = Detector::default();
            for (process, directory, name) in files {
                let file = Missed { process, ..miss(&directory, &name) };
                if let Some(found) = detector.missed(file.clone()) {
                    prop_assert!(file.directory.starts_with(&found.directory));
                    prop_assert!(found.passed[0].children.len() >= FILES_MIN);
                }
                prop_assert!(detector.processes.len() <= PROCESSES_MAX);
            }
        }
    }
}
