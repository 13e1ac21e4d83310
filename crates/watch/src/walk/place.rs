// SPDX-License-Identifier: MIT OR Apache-2.0
//! The position of a walk's program in its tree, and the removal of steps far behind it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::order::Entry;
use crate::paths::{child_below, common};

use super::steps::Step;
use super::{Above, State, Walk};

/// Steps behind the program that are kept, for programs that don't go quite in order.
pub(super) const STEPS_BEHIND: usize = 4096;
/// Steps that are kept at most, wherever its program is.
const STEPS_MAX: usize = 1 << 19;
/// Limit of remembered reads and looks whose files are not listed yet.
const UNPLACED_MAX: usize = 128;

impl Walk {
    /// Directories as they are listed. One that was tried and isn't here can't be.
    pub fn listed(&mut self, tried: &[Vec<u8>], lists: &HashMap<Vec<u8>, Vec<Entry>>) {
        self.tally.directories += lists.len() as u64;
        if let Some(from) = self.steps.put_in(tried, lists, self.order) {
            self.find_places(from);
        }
    }

    /// Marks the steps from here on that were visited, and finds the program's present position.
    fn find_places(&mut self, from: u64) {
        for step in self.steps.from(from) {
            if let Step::File(file) = step
                && self.looked_before.remove(&file.inode)
            {
                self.states.insert(file.inode, State::Used);
            }
        }
        let steps = &self.steps;
        for cursor in self.cursors.all() {
            if cursor.reached > from {
                let place = steps.place(cursor.inode).map(|number| number + 1);
                let place = place.or_else(|| steps.door(cursor.inode));
                cursor.reached = place.unwrap_or(cursor.reached);
                cursor.next = cursor.reached;
            }
        }
        for inode in std::mem::take(&mut self.unplaced) {
            self.find(inode);
        }
    }

    /// Goes to where an inode is; whether that is known.
    pub(super) fn find(&mut self, inode: u64) -> bool {
        if let Some(number) = self.steps.place(inode) {
            self.come_to(number, number + 1, inode);
        } else if let Some(door) = self.steps.door(inode) {
            self.come_to(door, door, inode);
        } else {
            if self.unplaced.len() == UNPLACED_MAX {
                self.unplaced.pop_front();
            }
            self.unplaced.push_back(inode);
            return false;
        }
        true
    }

    fn come_to(&mut self, number: u64, reached: u64, inode: u64) {
        self.strays = 0;
        let moved = self.cursors.come_to(number, reached, inode);
        for passed in std::iter::once(moved.passed).chain(moved.left) {
            let unread = self.unread(passed);
            self.passed_files += unread;
            self.passed_unread_files += unread;
        }
        self.passed_files += reached - number;
        let directory = match self.steps.get(number) {
            Some(Step::File(file)) => Some(Arc::clone(&file.directory)),
            _ => None,
        };
        if let Some(directory) = directory
            && let Some(last) = self.last_directory.replace(Arc::clone(&directory))
            && moved.is_jump
        {
            let above = common(&last, &directory);
            let names = child_below(above, &last).zip(child_below(above, &directory));
            self.jump = names.map(|(old, new)| (above.to_vec(), [old.to_vec(), new.to_vec()]));
        }
        self.forget();
    }

    /// Fetched files of these steps that the program has not read.
    fn unread(&self, steps: Range<u64>) -> u64 {
        let unread = steps.filter(|number| match self.steps.get(*number) {
            Some(Step::File(file)) => self.states.get(&file.inode) == Some(&State::Fetched),
            _ => false,
        });
        unread.count() as u64
    }

    /// Forgets steps that lie far behind.
    fn forget(&mut self) {
        if let Some(too_many) = self.steps.len().checked_sub(STEPS_MAX) {
            let front = self.steps.front() + (too_many + STEPS_BEHIND * 2) as u64;
            self.cursors.give_up_before(front);
        }
        let behind = self.cursors.hindmost().saturating_sub(self.steps.front());
        let behind = usize::try_from(behind).unwrap_or(usize::MAX);
        let Some(far) = behind.checked_sub(STEPS_BEHIND * 2) else {
            return;
        };
        for step in self.steps.forget(far + STEPS_BEHIND) {
            if let Step::File(file) = step {
                self.states.remove(&file.inode);
            }
        }
    }

    /// A jump of the program: it continued far from its last position. Returns the directory that
    /// holds both, and the names in it that lead to the old place and to the new one. Each jump is
    /// returned once.
    pub fn jumped(&mut self) -> Option<Above> {
        self.jump.take()
    }
}
