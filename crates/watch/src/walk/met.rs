// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts the files that a program reads on its walk, and whether fetching them helped.

use std::collections::HashSet;

use crate::paths::is_within;
use crate::window::Window;

use super::ahead::AHEAD_FILES_MIN;
use super::decision::{Met, Why};
use super::{State, Walk};

/// After this many files read or passed, the use of the fetched files is reviewed.
pub(super) const FILES_PER_REVIEW: u64 = 256;
/// At least one of this many read files must be a fetched one.
const READS_PER_USE_MAX: u64 = 8;
/// Files read elsewhere, without one of this tree between them, that end the walk.
pub(super) const STRAYS_MAX: u32 = 4;
/// If data of this many files are read, and not only inodes, the program counts as one that reads.
const READS_MIN: u32 = 3;
/// If this many files in a row were visited before and are missed again, they are no longer in
/// memory, nor are the other visited files. A single file may be one that is too large to be
/// fetched whole.
pub(super) const GONE_MIN: u32 = 8;
/// Inodes that were looked at and aren't listed yet.
const LOOKED_BEFORE_MAX: usize = 1 << 16;

impl Walk {
    /// The program has read a file from memory.
    pub fn hit(&mut self, inode: u64) -> Met {
        match self.states.get(&inode) {
            // Its inode was fetched; its data was in memory before.
            _ if !self.reads => return Met::Known,
            Some(State::Fetched) => {
                self.tally.used_files += 1;
                self.read_fetched_files += 1;
                self.read_files += 1;
            }
            // The program reads a file after it missed it. A file that was in memory before the
            // walk is no gain either.
            Some(State::Used | State::Missed) => return Met::Known,
            None if self.steps.has_file(inode) => self.read_files += 1,
            None => {}
        }
        self.met(inode)
    }

    /// The program has read a file that was not in memory.
    pub fn missed(&mut self, directory: &[u8], inode: u64) -> Met {
        if !self.is_below(directory) {
            return Met::Outside;
        }
        if !self.reads {
            self.read_while_looking += u32::from(self.steps.has_file(inode));
            if self.read_while_looking < READS_MIN {
                return Met::Known;
            }
            self.turn_to_reads();
        }
        self.read_files += 1;
        self.comes_late_to(inode);
        // One that is under way is waited for, and so was of use: it counts when it is there.
        if self.states.get(&inode) != Some(&State::Fetched) {
            self.was_late(inode);
        }
        let met = self.find(inode);
        self.review();
        match met {
            true => Met::Known,
            false => Met::Below,
        }
    }

    /// The program has looked at something, and may have waited for metadata.
    pub fn looked(&mut self, inode: u64, is_late: bool) -> Met {
        if self.reads {
            return Met::Known;
        }
        if is_late {
            self.comes_late_to(inode);
        }
        match self.states.get(&inode) {
            Some(State::Fetched) => {
                self.tally.used_files += 1;
                self.read_fetched_files += 1;
                self.read_files += 1;
            }
            Some(State::Used | State::Missed) => return Met::Known,
            None if is_late => {
                self.read_files += 1;
                if self.steps.door(inode).is_none() {
                    self.was_late(inode);
                }
            }
            None if self.steps.has_file(inode) => self.read_files += 1,
            None => {}
        }
        if self.looked_before.len() < LOOKED_BEFORE_MAX && !self.steps.has(inode) {
            self.looked_before.insert(inode);
        }
        self.met(inode)
    }

    /// Its program waits for metadata in this directory. Where in it isn't known.
    pub fn waits_in(&mut self, directory: &[u8]) -> Met {
        match self.is_below(directory) {
            true => Met::Known,
            false => Met::Outside,
        }
    }

    fn is_below(&mut self, directory: &[u8]) -> bool {
        if is_within(&self.top, directory) {
            self.strays = 0;
            return true;
        }
        self.strays += 1;
        if self.strays > STRAYS_MAX {
            self.over = Some(Why::Left);
        }
        false
    }

    /// Counts a late access to a file that was visited before. After several of them in a row, all
    /// visited files count as evicted or dropped: a process goes through the tree once more.
    fn comes_late_to(&mut self, inode: u64) {
        match self.states.get(&inode) {
            Some(State::Used | State::Missed) => self.gone_files += 1,
            Some(State::Fetched) => {}
            None => self.gone_files = 0,
        }
        if self.gone_files == GONE_MIN {
            self.gone_files = 0;
            self.states.clear();
            self.fetch_from_here();
        }
    }

    /// Restarts fetching at the cursors: the files fetched ahead are gone, or of no use.
    pub(super) fn fetch_from_here(&mut self) {
        for cursor in self.cursors.all() {
            cursor.next = cursor.reached;
        }
    }

    /// The file was not fetched when the program reached it.
    fn was_late(&mut self, inode: u64) {
        self.tally.missed_files += 1;
        self.states.insert(inode, State::Missed);
        if !self.has_grown {
            self.window.grow();
            self.has_grown = true;
        }
    }

    fn met(&mut self, inode: u64) -> Met {
        if self.steps.has_file(inode) && self.states.get(&inode) != Some(&State::Missed) {
            self.states.insert(inode, State::Used);
        }
        let is_known = self.find(inode);
        self.review();
        match is_known {
            true => Met::Known,
            false => Met::Below,
        }
    }

    /// Switches from fetching inodes to fetching data.
    fn turn_to_reads(&mut self) {
        self.reads = true;
        self.looked_before = HashSet::new();
        self.window = Window::new(self.budget_bytes);
        let fetched = self
            .states
            .values()
            .filter(|state| **state == State::Fetched);
        // Those that are being fetched just now are not counted yet.
        let fetched = fetched.count() as u64;
        self.tally.fetched_files = self.tally.fetched_files.saturating_sub(fetched);
        // Files that the program looked at before are not visited again, so their states stay.
        self.states.retain(|_, state| *state != State::Fetched);
        self.fetch_from_here();
    }

    fn review(&mut self) {
        if self.passed_files >= FILES_PER_REVIEW {
            if self.passed_unread_files * 2 > self.passed_files {
                self.window.shrink();
            }
            self.passed_files = 0;
            self.passed_unread_files = 0;
        }
        if self.read_files >= FILES_PER_REVIEW {
            let is_unused = self.read_fetched_files * READS_PER_USE_MAX < self.read_files;
            if is_unused && self.tally.fetched_files >= AHEAD_FILES_MIN {
                self.over = Some(Why::Unused);
            }
            self.read_files = 0;
            self.read_fetched_files = 0;
        }
    }
}
