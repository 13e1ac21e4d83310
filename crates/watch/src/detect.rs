// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a process that misses file after file may be walking a directory tree.
//!
//! The result is a suspicion: [`Orders`](crate::order::Orders) confirm it with the list of the
//! directory.

use std::collections::VecDeque;

use crate::log::text;
use crate::memory_budget::ELEMENT_BYTES;
use crate::paths::{child_below, common, depth};
use crate::patience::Patience;
use crate::table::Table;
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
/// Processes that are remembered, and the bytes for them: twelve files each with paths of 200
/// bytes.
const PROCESSES_MAX: usize = 1024;
const BYTES_MAX: u64 = 3 << 20;
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
    /// The user of that process. Older logs lack it.
    #[serde(default)]
    pub user: u32,
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
}

/// All processes.
#[derive(Debug)]
pub struct Detector {
    processes: Table<Recent>,
    misses: u64,
}

impl Default for Detector {
    fn default() -> Self {
        Self {
            processes: Table::new(BYTES_MAX, PROCESSES_MAX),
            misses: 0,
        }
    }
}

impl Detector {
    /// Takes a miss. Returns the tree that its process may be walking through.
    pub fn missed(&mut self, file: Missed) -> Option<Suspicion> {
        self.misses += 1;
        let (process, user) = (file.process, file.user);
        self.processes.change(process, user, self.misses, |recent| {
            let suspicion = recent.take(file);
            (suspicion, recent.bytes())
        })
    }

    /// A suspicion was wrong, or following it did not help. Returns whether it was the first of its
    /// process.
    pub fn was_wrong(&mut self, process: u32) -> bool {
        let Some(user) = self.processes.user_of(process) else {
            return true;
        };
        self.processes.change(process, user, self.misses, |recent| {
            let is_first = recent.patience.is_fresh();
            recent
                .patience
                .was_wrong(PATIENCE_MISSES, PATIENCE_MISSES_MAX);
            recent.files.clear();
            (is_first, recent.bytes())
        })
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

impl Recent {
    fn bytes(&self) -> u64 {
        let of_file = |file: &Missed| {
            let names = (file.directory.len() + file.name.len()) as u64;
            names + size_of::<Missed>() as u64 + 2 * ELEMENT_BYTES
        };
        self.files.iter().map(of_file).sum()
    }

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
            user: 0,
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
                // Every seventh has a path of two kilobytes.
                let directory = match process % 7 {
                    0 => format!("{directory}/{}", "x".repeat(2000)),
                    _ => directory,
                };
                let file = Missed { process, user: process % 3, ..miss(&directory, &name) };
                if let Some(found) = detector.missed(file.clone()) {
                    prop_assert!(file.directory.starts_with(&found.directory));
                    prop_assert!(found.passed[0].children.len() >= FILES_MIN);
                }
                prop_assert!(detector.processes.len() <= PROCESSES_MAX);
                prop_assert!(detector.processes.bytes() <= BYTES_MAX);
            }
        }
    }
}
