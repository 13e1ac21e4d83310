// SPDX-License-Identifier: MIT OR Apache-2.0
//! The oracle: it knows the future reads of each thread and reads their pages ahead, within bounds
//! of memory and of the requests to a disk. Pages that are missing when they are needed are
//! requested at once, or when it is their thread's turn. `docs/sim.md` says more.
//!
//! It takes each future access once, in the order of need, and adds the uncached pages to a batch.
//! A batch goes to the disks when these have few requests left.

mod ahead;
mod batch;
mod fetch;
mod foresee;
mod room;

use std::collections::{BTreeMap, BTreeSet};

use super::foresight::{Foresight, Turns};
use super::setup::Setup;
use crate::cache::StreamId;
use ahead::{Ahead, Coming};
use batch::{Batch, Run};
use room::Room;

impl Setup {
    /// The runs of which the one with the least stall counts: this one under a policy, several
    /// under the oracle.
    #[must_use]
    pub fn tries(&self) -> Vec<Self> {
        if self.foresight.is_none() {
            return vec![self.clone()];
        }
        let is_written = self
            .programs
            .iter()
            .any(|program| !program.phases.is_empty());
        let threads: u64 = self.programs.iter().map(|program| program.threads).sum();
        let is_worth = |foresight: &&Foresight| match foresight.turns {
            Turns::ByNeed => true,
            Turns::OneByOne => is_written && threads > 1,
        };
        let tried = Foresight::ALL.iter().filter(is_worth);
        let with = |foresight: &Foresight| Self {
            foresight: Some(*foresight),
            ..self.clone()
        };
        tried.map(with).collect()
    }
}

/// The oracle of a run.
#[derive(Debug)]
pub(super) struct Oracle {
    foresight: Foresight,
    threads: Vec<Ahead>,
    /// Threads with something to look at, by turn and time of need.
    looking: BTreeSet<(u64, u64, usize)>,
    /// By thread: its turn, and its entry in `looking`.
    turns: Vec<u64>,
    entries: Vec<Option<(u64, u64, usize)>>,
    /// The access of a trace that is looked at next, and its thread.
    traced: Option<(usize, Coming)>,
    /// Pages read ahead that their threads have not come past.
    ahead_pages: u64,
    /// By turn and thread: batches that threads wait for out of turn.
    held: BTreeMap<(u64, usize), Batch>,
    /// The run that was requested last.
    last: Option<Run>,
    /// Threads that want something of a disk that has enough to do.
    blocked: Vec<usize>,
    /// By program and file: who the pages are for, before it is opened.
    streams: BTreeMap<(usize, usize), StreamId>,
    room: Room,
    /// By disk: where the last batch ended.
    heads: Vec<u64>,
}

impl Oracle {
    /// The one of a setup that has one.
    pub fn of(setup: &Setup, is_traced: bool) -> Option<Self> {
        let foresight = setup.foresight?;
        let mut oracle = Self {
            foresight,
            threads: Vec::new(),
            looking: BTreeSet::new(),
            turns: Vec::new(),
            entries: Vec::new(),
            traced: None,
            ahead_pages: 0,
            held: BTreeMap::new(),
            last: None,
            blocked: Vec::new(),
            streams: BTreeMap::new(),
            room: Room::new(&setup.disk, &setup.queue),
            heads: vec![0; setup.disks.max(1)],
        };
        for (number, program) in setup.programs.iter().enumerate() {
            for thread in 0..program.threads.max(1) {
                let ahead = Ahead::new(number, program, thread);
                oracle.turns.push(0);
                oracle.threads.push(ahead);
                oracle.entries.push(None);
            }
        }
        if foresight.turns == Turns::OneByOne {
            oracle.take_turns(setup);
        }
        if !is_traced {
            for thread in 0..oracle.threads.len() {
                oracle.enter(thread);
            }
        }
        Some(oracle)
    }

    /// Threads come one after the other, those that keep a disk busy least first.
    fn take_turns(&mut self, setup: &Setup) {
        let in_all = |(number, thread): (usize, &Ahead)| {
            let program = &setup.programs[thread.program];
            let cost = thread.cost_pages(program, &setup.files, self.room.hole_pages);
            (cost, number)
        };
        let mut order: Vec<_> = self.threads.iter().enumerate().map(in_all).collect();
        order.sort_unstable();
        for (turn, (_, number)) in order.into_iter().enumerate() {
            self.turns[number] = turn as u64;
        }
    }

    /// The stream of a file that it has read of for a program that did not open it yet.
    pub fn stream(&self, program: usize, file: usize) -> Option<StreamId> {
        self.streams.get(&(program, file)).copied()
    }

    /// A thread has something to look at.
    fn enter(&mut self, thread: usize) {
        self.leave(thread);
        let entry = (self.turns[thread], self.threads[thread].due_ns(), thread);
        self.looking.insert(entry);
        self.entries[thread] = Some(entry);
    }

    fn leave(&mut self, thread: usize) {
        if let Some(entry) = self.entries[thread].take() {
            self.looking.remove(&entry);
        }
    }
}
