// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides which files a walk fetches next, and how far ahead of its program.

use std::collections::HashSet;

use crate::cursor::Cursor;

use super::decision::{Decision, FileToFetch};
use super::steps::Step;
use super::{State, Walk};

/// Directories that are listed in one go.
pub(super) const LISTS_MAX: usize = 64;
/// Limit of files fetched ahead of a program that reads, since they are wasted if it goes
/// elsewhere. It is this many, or `AHEAD_FILES_PER_USED` times the files that it has used already,
/// whichever is more. Three files are in order by chance about once in twenty times, and a program
/// that reads here and there is checked often.
pub(super) const AHEAD_FILES_MIN: u64 = 64;
const AHEAD_FILES_PER_USED: u64 = 4;

/// Bytes of the files of one fetch, with their places in the read plan. Files with long names are
/// fetched in smaller parts, since plans are held several times.
const FETCH_BYTES_MAX: u64 = 3 << 20;
/// Bytes of a file in a read plan, besides its name.
const PLANNED_BYTES: u64 = 160;

/// Files to fetch, each once.
#[derive(Debug, Default)]
struct Files {
    bytes: u64,
    list: Vec<FileToFetch>,
    inodes: HashSet<u64>,
}

impl Walk {
    /// Decides the next action.
    pub fn decide(&mut self) -> Decision {
        if let Some(why) = self.over {
            return Decision::End(why);
        }
        self.find_next();
        let window = self.ahead_max();
        let counting = self.cursors.counting().map(|cursor| *cursor);
        let mut cursors: Vec<Cursor> = counting.collect();
        let share = window / (cursors.len() as u64).max(1);
        // The cursor that is nearest to the end of its fetched files comes first.
        cursors.sort_by_key(Cursor::ahead);
        let mut files = Files::default();
        for cursor in &cursors {
            // The next files fit once half of these are used: a batch that is worth its order.
            if cursor.ahead() < share.div_ceil(2) {
                self.gather(cursor.next, share - cursor.ahead(), &mut files);
            }
        }
        if !files.list.is_empty() {
            let ahead = cursors.iter().map(Cursor::ahead).sum();
            return Decision::Fetch(files.list, self.window.bytes_left(ahead));
        }
        let unlisted = cursors.iter().find(|cursor| {
            cursor.ahead() <= share
                && matches!(self.steps.get(cursor.next), Some(Step::Unlisted(_)))
        });
        // Without one, it may go on outside.
        unlisted.map_or(Decision::Wait, |cursor| {
            let unlisted = self.steps.unlisted_from(cursor.next);
            Decision::List(unlisted.take(LISTS_MAX).cloned().collect())
        })
    }

    /// Files that may be ahead of the program now.
    fn ahead_max(&self) -> u64 {
        let window = self.window.files();
        if !self.reads {
            return window;
        }
        let used = self.tally.used_files.saturating_mul(AHEAD_FILES_PER_USED);
        window.min(used.max(AHEAD_FILES_MIN))
    }

    /// Moves cursors past the files that are fetched ahead of them.
    fn find_next(&mut self) {
        let (steps, states) = (&self.steps, &self.states);
        for cursor in self.cursors.all() {
            let known = steps.files_from(cursor.next);
            let known = known.take_while(|file| states.contains_key(&file.inode));
            cursor.next += known.count() as u64;
        }
    }

    fn gather(&self, next: u64, files_max: u64, files: &mut Files) {
        let ahead = self.steps.files_from(next);
        let unknown = ahead.filter(|file| !self.states.contains_key(&file.inode));
        let files_max = usize::try_from(files_max).unwrap_or(usize::MAX);
        for file in unknown.take(files_max) {
            if files.bytes > FETCH_BYTES_MAX {
                return;
            }
            if files.inodes.insert(file.inode) {
                files.bytes += PLANNED_BYTES + file.name.len() as u64;
                files.list.push(file.clone());
            }
        }
    }

    /// These files are being fetched from now on: a file that was missed before no longer counts as
    /// missed.
    pub fn fetching(&mut self, files: &[FileToFetch]) {
        for file in files {
            self.states.insert(file.inode, State::Fetched);
        }
    }

    /// `files` files were requested, and `pages` pages came in for them.
    pub fn fetched(&mut self, files: u64, pages: u64) {
        self.tally.fetched_files += files;
        self.tally.fetched_pages += pages;
        self.window.fetched(files, pages);
        self.has_grown = false;
    }

    /// These files were to be fetched, and are not, or not all of them; `pages` pages came in.
    pub fn stopped_fetching(&mut self, files: &[FileToFetch], pages: u64) {
        self.tally.fetched_pages += pages;
        for file in files {
            match self.states.get(&file.inode) {
                Some(State::Fetched) => drop(self.states.remove(&file.inode)),
                // It came in, and was read before the fetch was stopped.
                Some(State::Used) => self.tally.fetched_files += 1,
                _ => {}
            }
        }
        self.fetch_from_here();
    }
}
