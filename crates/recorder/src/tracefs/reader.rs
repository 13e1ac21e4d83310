// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds up the accesses of the program from the pages of all ring buffers.
//!
//! The caller reads a few pages of each CPU in turn and ends the turn; only then are the events of
//! all CPUs in order.

use std::collections::{HashMap, HashSet};

use super::accesses::{Accessed, Accesses, InodeKey};
use super::format::{Decoder, Event, Kind, Life, Touch};
use super::lineage::Lineage;
use super::ring_page::PageLayout;
use crate::counts::Counts;

/// Accesses kept until the program is executed; until then there are next to none.
const HELD_MAX: usize = 1 << 16;

/// How to read a trace.
#[derive(Debug)]
pub struct ReaderSetup {
    /// Layout of the pages of the ring buffers.
    pub layout: PageLayout,
    /// Decoder of the events.
    pub decoder: Decoder,
    /// The thread whose child is the program, by the kernel's own number.
    pub own_tid: i32,
    /// Superblocks of mounted file systems with a disk or server.
    pub disks: HashSet<u32>,
    /// Whether pages count by access, else by their coming into the page cache.
    pub by_access: bool,
    /// Pages of 4 KiB in a page of the kernel.
    pub unit: u64,
}

/// A trace, added up as far as it was read.
#[derive(Debug)]
pub struct TraceReader {
    setup: ReaderSetup,
    lineage: Lineage,
    accesses: Accesses,
    /// Forks, execs and exits of the turn that is being read.
    lives: Vec<(u64, Life)>,
    /// Accesses of the same turn, and accesses held until the program is executed.
    touches: Vec<Touch>,
    counts: Counts,
}

impl TraceReader {
    /// Nothing has been read yet.
    #[must_use]
    pub fn new(setup: ReaderSetup) -> Self {
        Self {
            lineage: Lineage::new(setup.own_tid),
            accesses: Accesses::new(setup.unit),
            lives: Vec::new(),
            touches: Vec::new(),
            counts: Counts::default(),
            setup,
        }
    }

    /// Takes in a page of the ring buffer of one CPU.
    pub fn take_page(&mut self, page: &[u8]) {
        let Self {
            setup,
            lives,
            touches,
            ..
        } = self;
        setup.layout.events(page, |time_ns, event| {
            match setup.decoder.decode(time_ns, event) {
                Some(Event::Touch(touch)) => touches.push(touch),
                Some(Event::Life(life)) => lives.push((time_ns, life)),
                None => {}
            }
        });
    }

    /// Counts a page that couldn't be read as one lost event, since what it held can't be told.
    pub fn miss_page(&mut self) {
        self.counts.lost_records += 1;
    }

    /// Ends a turn: all CPUs were read, so events can be put in order.
    pub fn end_turn(&mut self) {
        // CPUs take turns, so a child's life may be read before its parent's.
        self.lives.sort_by_key(|(time_ns, _)| *time_ns);
        for (time_ns, life) in self.lives.drain(..) {
            self.lineage.note(time_ns, life);
        }
        // So that the reads of a thread that moves between CPUs are in order.
        self.touches.sort_by_key(|touch| touch.time_ns);
        self.take_touches();
    }

    fn take_touches(&mut self) {
        if self.lineage.start_ns().is_none() {
            self.counts.lost_records += self.touches.len().saturating_sub(HELD_MAX) as u64;
            self.touches.truncate(HELD_MAX);
            return;
        }
        for touch in std::mem::take(&mut self.touches) {
            if self.lineage.counts(touch.time_ns, touch.pid) {
                self.take_touch(&touch);
            }
        }
    }

    fn take_touch(&mut self, touch: &Touch) {
        if touch.kind == Kind::Added {
            let pages = touch.end - touch.start;
            if !self.setup.disks.contains(&touch.device) {
                // The page cache of block devices is on no mount.
                self.counts.missed_metadata_pages += pages;
                return;
            }
            self.counts.missed_pages += pages;
        }
        if touch.kind == Kind::Added && self.setup.by_access {
            self.accesses.note_added(touch);
        } else {
            self.accesses.note(touch);
        }
    }

    /// Forgets processes that have ended, once all that they did has been taken in.
    pub fn settle(&mut self) {
        self.lineage.settle();
    }

    /// Whether a process, by the kernel's own number, is of the program.
    #[must_use]
    pub fn has(&self, pid: i32) -> bool {
        self.lineage.contains(pid)
    }

    /// Whether pages count by access, else by their coming into the page cache.
    #[must_use]
    pub fn by_access(&self) -> bool {
        self.setup.by_access
    }

    /// When the program was executed; `None` before.
    #[must_use]
    pub fn start_ns(&self) -> Option<u64> {
        self.lineage.start_ns()
    }

    /// Sums so far, without the events that the ring buffers had no room for.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            calls: self.accesses.calls,
            lost_inodes: self.accesses.lost_inodes,
            lost_chunks: self.accesses.lost_chunks,
            ..self.counts
        }
    }

    /// Accesses by inode.
    #[must_use]
    pub fn into_inodes(self) -> HashMap<InodeKey, Accessed> {
        self.accesses.into_inodes()
    }
}
