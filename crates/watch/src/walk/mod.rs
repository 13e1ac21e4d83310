// SPDX-License-Identifier: MIT OR Apache-2.0
//! A walk through a directory tree, and the distance of its fetches ahead of the program.
//!
//! The caller asks for the next action ([`Walk::decide`]), carries it out, and reports the result
//! and the program's accesses. A walk does no I/O, so its answers follow from these calls alone.

mod ahead;
mod decision;
mod met;
mod place;
mod steps;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::cursor::Cursors;
use crate::memory_budget::ELEMENT_BYTES;
use crate::order::Order;
use crate::paths::{child_below, common, depth};
use crate::tally::Tally;
use crate::window::Window;

pub use decision::{Above, Decision, FileToFetch, Met, Why};
use steps::Steps;
pub(crate) use steps::step_bytes;

/// Levels that the top may rise at once.
const RISE_LEVELS: usize = 3;

/// The state of a file that the walk knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Fetched,
    Used,
    Missed,
}

/// One process on its way through one tree.
#[derive(Debug)]
pub struct Walk {
    top: Vec<u8>,
    order: Order,
    window: Window,
    budget_bytes: u64,
    /// Whether its program reads files, or only looks at them.
    reads: bool,
    steps: Steps,
    cursors: Cursors,
    states: HashMap<u64, State>,
    tally: Tally,
    /// Since the last review: files read, of them fetched ones.
    read_files: u64,
    read_fetched_files: u64,
    /// Since the last review: fetched files that the program passed, of them unread ones.
    passed_files: u64,
    passed_unread_files: u64,
    /// Whether the window has grown since the last fetch.
    has_grown: bool,
    /// Files that were come to before and were missed again, in a row.
    gone_files: u32,
    strays: u32,
    /// Inode numbers of the files visited last that are not listed yet.
    unplaced: VecDeque<u64>,
    /// The directory of the file visited last.
    last_directory: Option<Arc<[u8]>>,
    jump: Option<Above>,
    /// Inode numbers of files that the program looked at before they were listed.
    looked_before: HashSet<u64>,
    /// Files of which data was missed, while only inodes are fetched.
    read_while_looking: u32,
    over: Option<Why>,
}

impl Walk {
    /// A walk below `top`, of which nothing is listed yet.
    #[must_use]
    pub fn new(top: &[u8], order: Order, budget_bytes: u64) -> Self {
        Self {
            top: top.to_vec(),
            order,
            window: Window::new(budget_bytes),
            budget_bytes,
            reads: true,
            steps: Steps::below(top),
            cursors: Cursors::default(),
            states: HashMap::new(),
            tally: Tally::default(),
            read_files: 0,
            read_fetched_files: 0,
            passed_files: 0,
            passed_unread_files: 0,
            has_grown: false,
            gone_files: 0,
            strays: 0,
            unplaced: VecDeque::new(),
            last_directory: None,
            jump: None,
            looked_before: HashSet::new(),
            read_while_looking: 0,
            over: None,
        }
    }

    /// The same of a program that only looks at files, as far as is known.
    #[must_use]
    pub fn of_looks(top: &[u8], order: Order, budget_bytes: u64) -> Self {
        Self {
            reads: false,
            window: Window::of_inodes(budget_bytes),
            ..Self::new(top, order, budget_bytes)
        }
    }

    /// Whether the data of files are to be fetched, and not only their inodes.
    #[must_use]
    pub fn reads(&self) -> bool {
        self.reads
    }

    /// Whether it has not ended.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.over.is_none()
    }

    /// The directory below which it goes.
    #[must_use]
    pub fn top(&self) -> &[u8] {
        &self.top
    }

    /// The order in which it goes.
    #[must_use]
    pub fn order(&self) -> Order {
        self.order
    }

    /// Most bytes that may be in memory ahead of the program.
    #[must_use]
    pub fn budget_bytes(&self) -> u64 {
        self.budget_bytes
    }

    /// Files and pages fetched so far, and their use.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Bytes of our own memory that it holds.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        let others = self.states.len() + self.looked_before.len();
        self.steps.bytes() + others as u64 * ELEMENT_BYTES
    }

    /// Files that may be in memory ahead of the program.
    #[must_use]
    pub fn window_files(&self) -> u64 {
        self.window.files()
    }

    /// The directory to which the top may rise, if the program reads in `directory` outside of the
    /// tree; `None` if it may not rise. Returned with the names in it that lead to the old top and
    /// to the new place.
    #[must_use]
    pub fn rise(&self, directory: &[u8]) -> Option<Above> {
        let above = common(&self.top, directory);
        // From there a program may go down to any depth before it reaches a file.
        if depth(&self.top) > depth(above) + RISE_LEVELS {
            return None;
        }
        let names = [
            child_below(above, &self.top)?.to_vec(),
            child_below(above, directory)?.to_vec(),
        ];
        Some((above.to_vec(), names))
    }

    /// Continues below a directory further up, in this order.
    pub fn raise(&mut self, top: &[u8], order: Order) {
        self.top = top.to_vec();
        self.order = order;
        // Where they are is found again when it is listed.
        self.unplaced = self.cursors.all().map(|cursor| cursor.inode).collect();
        self.cursors = Cursors::default();
        self.strays = 0;
        self.steps = Steps::below(top);
    }

    /// Ends it.
    pub fn end_for(&mut self, why: Why) {
        self.over.get_or_insert(why);
    }
}
