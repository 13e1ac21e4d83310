// SPDX-License-Identifier: MIT OR Apache-2.0
//! The steps of a walk: files and directories in the walk's order, and their positions.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::memory_budget::ELEMENT_BYTES;
use crate::order::{Entry, Order};
use crate::paths::joined;

use super::decision::FileToFetch;

#[derive(Clone, Debug)]
pub(super) enum Step {
    File(FileToFetch),
    /// A directory of which nothing is known yet.
    Unlisted(Vec<u8>),
}

/// Bytes of a step besides its name: the step, the allocation of the name, and the entries of the
/// tables of places and states.
const STEP_BYTES: u64 = size_of::<Step>() as u64 + ELEMENT_BYTES + 52;

/// Bytes that an entry of a listed directory will hold, as a step.
pub(crate) fn step_bytes(name: &[u8]) -> u64 {
    STEP_BYTES + name.len() as u64
}

impl Step {
    fn bytes(&self) -> u64 {
        match self {
            Self::File(file) => step_bytes(&file.name),
            Self::Unlisted(path) => step_bytes(path),
        }
    }
}

/// Steps by their numbers, which go on when the first ones are forgotten.
#[derive(Debug)]
pub(super) struct Steps {
    list: VecDeque<Step>,
    /// Bytes of all of them.
    bytes: u64,
    /// Number of the first step: those before it are forgotten.
    front: u64,
    /// Where files are, by their inode numbers.
    places: HashMap<u64, u64>,
    /// Where the entries of directories begin.
    doors: HashMap<u64, u64>,
}

impl Steps {
    /// Steps for a tree that is not listed yet.
    pub(super) fn below(top: &[u8]) -> Self {
        Self {
            list: VecDeque::from([Step::Unlisted(top.to_vec())]),
            bytes: step_bytes(top),
            front: 0,
            places: HashMap::new(),
            doors: HashMap::new(),
        }
    }

    pub(super) fn front(&self) -> u64 {
        self.front
    }

    /// Bytes that steps, names and tables hold.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes + self.doors.len() as u64 * ELEMENT_BYTES
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn get(&self, number: u64) -> Option<&Step> {
        let at = usize::try_from(number.checked_sub(self.front)?).ok()?;
        self.list.get(at)
    }

    /// The steps from this one on.
    pub(super) fn from(&self, number: u64) -> impl Iterator<Item = &Step> {
        let at = number.checked_sub(self.front);
        let at = at.and_then(|at| usize::try_from(at).ok());
        let all = self.list.len();
        self.list.range(at.unwrap_or(all).min(all)..)
    }

    /// The files from this step on, up to the first unlisted directory.
    pub(super) fn files_from(&self, number: u64) -> impl Iterator<Item = &FileToFetch> {
        self.from(number).map_while(|step| match step {
            Step::File(file) => Some(file),
            Step::Unlisted(_) => None,
        })
    }

    /// Paths of the unlisted directories from this step on.
    pub(super) fn unlisted_from(&self, number: u64) -> impl Iterator<Item = &Vec<u8>> {
        self.from(number).filter_map(|step| match step {
            Step::Unlisted(path) => Some(path),
            Step::File(_) => None,
        })
    }

    /// Number of the step that is this file.
    pub(super) fn place(&self, inode: u64) -> Option<u64> {
        self.places.get(&inode).copied()
    }

    /// Number of the step with which this directory begins.
    pub(super) fn door(&self, inode: u64) -> Option<u64> {
        self.doors.get(&inode).copied()
    }

    pub(super) fn has_file(&self, inode: u64) -> bool {
        self.places.contains_key(&inode)
    }

    /// Whether it is known where this file or directory is.
    pub(super) fn has(&self, inode: u64) -> bool {
        self.has_file(inode) || self.doors.contains_key(&inode)
    }

    /// Replaces unlisted directories by their lists, and removes those that were tried without a
    /// list. Returns the number of the first changed step; `None` if nothing changed.
    pub(super) fn put_in(
        &mut self,
        tried: &[Vec<u8>],
        lists: &HashMap<Vec<u8>, Vec<Entry>>,
        order: Order,
    ) -> Option<u64> {
        let is_done = |step: &Step| match step {
            Step::Unlisted(path) => lists.contains_key(path) || tried.contains(path),
            Step::File(_) => false,
        };
        let at = self.list.iter().position(is_done)?;
        for step in self.list.split_off(at) {
            self.bytes -= step.bytes();
            match step {
                Step::Unlisted(path) if lists.contains_key(&path) => {
                    self.append(path, lists, order);
                }
                Step::Unlisted(path) if tried.contains(&path) => {}
                other => self.push(other),
            }
        }
        let front = self.front;
        for (at, step) in self.list.iter().enumerate().skip(at) {
            if let Step::File(file) = step {
                self.places.insert(file.inode, front + at as u64);
            }
        }
        Some(front + at as u64)
    }

    /// Appends the entries below a directory, in the order of the walk.
    fn append(&mut self, directory: Vec<u8>, lists: &HashMap<Vec<u8>, Vec<Entry>>, order: Order) {
        enum Rest {
            Directory(Vec<u8>, u64),
            File(FileToFetch),
        }
        let mut stack = vec![Rest::Directory(directory, 0)];
        while let Some(rest) = stack.pop() {
            let path = match rest {
                Rest::File(file) => {
                    self.push(Step::File(file));
                    continue;
                }
                Rest::Directory(path, inode) => {
                    self.doors
                        .insert(inode, self.front + self.list.len() as u64);
                    path
                }
            };
            let Some(entries) = lists.get(&path) else {
                self.push(Step::Unlisted(path));
                continue;
            };
            let mut entries = entries.clone();
            order.sort(&mut entries);
            let directory: Arc<[u8]> = path.into();
            stack.extend(entries.into_iter().rev().map(|entry| {
                if entry.is_directory {
                    Rest::Directory(joined(&directory, &entry.name), entry.inode)
                } else {
                    Rest::File(FileToFetch {
                        directory: Arc::clone(&directory),
                        name: entry.name,
                        inode: entry.inode,
                    })
                }
            }));
        }
    }

    fn push(&mut self, step: Step) {
        self.bytes += step.bytes();
        self.list.push_back(step);
    }

    /// Forgets the first `steps` steps and returns them.
    pub(super) fn forget(&mut self, steps: usize) -> Vec<Step> {
        let steps = steps.min(self.list.len());
        let forgotten: Vec<Step> = self.list.drain(..steps).collect();
        // What it has grown to is not needed again.
        if self.list.capacity() > 4 * self.list.len() {
            self.list.shrink_to(2 * self.list.len());
        }
        for step in &forgotten {
            self.bytes -= step.bytes();
            if let Step::File(file) = step {
                self.places.remove(&file.inode);
            }
        }
        self.front += forgotten.len() as u64;
        let front = self.front;
        self.doors.retain(|_, number| *number >= front);
        forgotten
    }
}
