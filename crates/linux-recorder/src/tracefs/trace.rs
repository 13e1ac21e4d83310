// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the ring buffers hold, taken in as it comes.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::accesses::{Accessed, Accesses, InodeKey};
use super::format::{Decoder, Event, Kind, Life, Touch};
use super::instance::Instance;
use super::lineage::Lineage;
use super::ring::PageLayout;
use foreread_recorder::Counts;

/// Pages of the ring buffer of one CPU that are taken in before the next CPU's.
const PAGES_PER_TURN: usize = 16;

/// Turns in one go: it must come to an end even when the program is faster.
const TURNS_MAX: usize = 4096;

/// Accesses kept until the program is executed; until then there are next to none.
const HELD_MAX: usize = 1 << 16;

/// The ring buffers, one a CPU.
pub(super) struct Cpus {
    /// With the number in tracefs.
    buffers: Vec<(usize, OwnedFd)>,
}

impl Cpus {
    pub(super) fn open(instance: &Instance) -> io::Result<Self> {
        let mut buffers = Vec::new();
        for name in instance.files().list("per_cpu")? {
            let Some(number) = name.strip_prefix("cpu").and_then(|n| n.parse().ok()) else {
                continue;
            };
            let path = format!("per_cpu/{name}/trace_pipe_raw");
            let flags = OFlags::RDONLY | OFlags::NONBLOCK;
            buffers.push((number, instance.files().at(&path, flags)?));
        }
        Ok(Self { buffers })
    }

    pub(super) fn count(&self) -> usize {
        self.buffers.len()
    }

    /// The next page of a CPU; `None` when there is none now.
    pub(super) fn read<'p>(&self, cpu: usize, page: &'p mut [u8]) -> io::Result<Option<&'p [u8]>> {
        loop {
            match rustix::io::read(&self.buffers[cpu].1, &mut *page) {
                Ok(0) | Err(Errno::AGAIN) => return Ok(None),
                Ok(length) => return Ok(Some(&page[..length])),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Events of a CPU that the kernel had no room for.
    fn overrun(&self, cpu: usize, instance: &Instance) -> u64 {
        let path = format!("per_cpu/cpu{}/stats", self.buffers[cpu].0);
        instance
            .files()
            .read(&path)
            .map_or(0, |stats| overrun_in(&stats))
    }
}

/// Events lost, in a `stats` file. `dropped events` counts when the buffer keeps what is old, the
/// others when it doesn't or an interrupt got in the way.
fn overrun_in(stats: &str) -> u64 {
    const LOST: [&str; 3] = ["overrun", "commit overrun", "dropped events"];
    stats
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| LOST.contains(&name.trim()))
        .filter_map(|(_, count)| count.trim().parse::<u64>().ok())
        .sum()
}

/// What a trace is read with.
pub(super) struct TraceSetup {
    pub(super) cpus: Cpus,
    pub(super) layout: PageLayout,
    pub(super) decoder: Decoder,
    /// This thread, by the kernel's own number.
    pub(super) own_tid: i32,
    /// Superblocks of mounted file systems with a disk or server.
    pub(super) disks: HashSet<u32>,
    /// Whether pages count by access, else by their coming into the page cache.
    pub(super) by_access: bool,
}

/// A trace, summed up.
pub(super) struct Trace {
    setup: TraceSetup,
    page: Vec<u8>,
    lineage: Lineage,
    accesses: Accesses,
    held: Vec<Touch>,
    counts: Counts,
    has_lost: bool,
}

impl Trace {
    pub(super) fn new(setup: TraceSetup) -> Self {
        Self {
            page: vec![0; setup.layout.page_bytes],
            lineage: Lineage::new(setup.own_tid),
            accesses: Accesses::default(),
            held: Vec::new(),
            counts: Counts::default(),
            has_lost: false,
            setup,
        }
    }

    /// Takes in what has come.
    pub(super) fn take(&mut self, instance: &Instance) {
        let mut busy: Vec<usize> = (0..self.setup.cpus.count()).collect();
        for turn in 0..TURNS_MAX {
            let mut lives = Vec::new();
            let mut touches = std::mem::take(&mut self.held);
            busy.retain(|cpu| self.take_pages(*cpu, &mut lives, &mut touches));
            // CPUs take turns, so a child's life may be read before its parent's.
            lives.sort_by_key(|(time_ns, _)| *time_ns);
            for (time_ns, life) in lives {
                self.lineage.note(time_ns, life);
            }
            // So that the reads of a thread that moves between CPUs are in order.
            touches.sort_by_key(|touch| touch.time_ns);
            self.take_touches(touches);
            if busy.is_empty() {
                break;
            }
            // Buffers with so much in them may have been full.
            if turn == 0 && !self.has_lost {
                let cpus = &self.setup.cpus;
                self.has_lost = busy.iter().any(|cpu| cpus.overrun(*cpu, instance) > 0);
            }
        }
    }

    /// Returns whether there may be more.
    fn take_pages(
        &mut self,
        cpu: usize,
        lives: &mut Vec<(u64, Life)>,
        touches: &mut Vec<Touch>,
    ) -> bool {
        let (setup, buffer) = (&self.setup, &mut self.page);
        for _ in 0..PAGES_PER_TURN {
            let page = match setup.cpus.read(cpu, buffer) {
                Ok(Some(page)) => page,
                Ok(None) => return false,
                Err(_) => {
                    // What the page held can't be told.
                    self.counts.lost_records += 1;
                    return false;
                }
            };
            setup.layout.events(page, |time_ns, event| {
                match setup.decoder.decode(time_ns, event) {
                    Some(Event::Touch(touch)) => touches.push(touch),
                    Some(Event::Life(life)) => lives.push((time_ns, life)),
                    None => {}
                }
            });
        }
        true
    }

    fn take_touches(&mut self, mut touches: Vec<Touch>) {
        if self.lineage.start_ns().is_none() {
            self.counts.lost_records += touches.len().saturating_sub(HELD_MAX) as u64;
            touches.truncate(HELD_MAX);
            self.held = touches;
            return;
        }
        for touch in &touches {
            if self.lineage.counts(touch.time_ns, touch.pid) {
                self.take_touch(touch);
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
        if touch.kind != Kind::Added || !self.setup.by_access {
            self.accesses.note(touch);
        }
    }

    /// Forgets processes that have ended, once all that they did has been taken in.
    pub(super) fn settle(&mut self) {
        self.lineage.settle();
    }

    /// Whether a process, by the kernel's own number, is of the program.
    pub(super) fn has(&self, pid: i32) -> bool {
        self.lineage.contains(pid)
    }

    /// Whether events are missing, perhaps forks.
    pub(super) fn has_lost(&self) -> bool {
        self.has_lost
    }

    pub(super) fn by_access(&self) -> bool {
        self.setup.by_access
    }

    /// When the program was executed; `None` before.
    pub(super) fn start_ns(&self) -> Option<u64> {
        self.lineage.start_ns()
    }

    /// Sums so far.
    pub(super) fn counts(&self, instance: &Instance) -> Counts {
        let mut counts = self.counts;
        counts.calls = self.accesses.calls;
        counts.lost_inodes = self.accesses.lost_inodes;
        counts.lost_chunks = self.accesses.lost_chunks;
        let cpus = &self.setup.cpus;
        let overrun = (0..cpus.count()).map(|cpu| cpus.overrun(cpu, instance));
        counts.lost_records += overrun.sum::<u64>();
        counts
    }

    pub(super) fn into_inodes(self) -> HashMap<InodeKey, Accessed> {
        self.accesses.into_inodes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_all_kinds_count() {
        let stats = "entries: 5\noverrun: 3\ncommit overrun: 4\nbytes: 1000\n\
                     oldest event ts:     0.000000\nnow ts:  2093.697255\n\
                     dropped events: 7\nread events: 9\n";
        assert_eq!(overrun_in(stats), 14);
    }
}
