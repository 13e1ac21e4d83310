// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the ring buffers of a trace instance as they fill.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;

use foreread_recorder::Counts;
use foreread_recorder::tracefs::{Accessed, InodeKey, ReaderSetup, TraceReader, lost_events};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::instance::Instance;

/// Pages of the ring buffer of one CPU that are taken in before the next CPU's.
const PAGES_PER_TURN: usize = 16;

/// Turns in one go: it must come to an end even when the program is faster.
const TURNS_MAX: usize = 4096;

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
            .map_or(0, |stats| lost_events(&stats))
    }
}

/// A trace as it is read.
pub(super) struct Trace {
    cpus: Cpus,
    page: Vec<u8>,
    reader: TraceReader,
    has_lost: bool,
}

impl Trace {
    pub(super) fn new(cpus: Cpus, setup: ReaderSetup) -> Self {
        Self {
            cpus,
            page: vec![0; setup.layout.page_bytes],
            reader: TraceReader::new(setup),
            has_lost: false,
        }
    }

    /// Takes in the events that have come.
    pub(super) fn take(&mut self, instance: &Instance) {
        let mut busy: Vec<usize> = (0..self.cpus.count()).collect();
        for turn in 0..TURNS_MAX {
            busy.retain(|cpu| self.take_pages(*cpu));
            self.reader.end_turn();
            if busy.is_empty() {
                break;
            }
            // Buffers with so much in them may have been full.
            if turn == 0 && !self.has_lost {
                let mut full = busy.iter();
                self.has_lost = full.any(|cpu| self.cpus.overrun(*cpu, instance) > 0);
            }
        }
    }

    /// Returns whether there may be more.
    fn take_pages(&mut self, cpu: usize) -> bool {
        for _ in 0..PAGES_PER_TURN {
            match self.cpus.read(cpu, &mut self.page) {
                Ok(Some(page)) => self.reader.take_page(page),
                Ok(None) => return false,
                Err(_) => {
                    self.reader.miss_page();
                    return false;
                }
            }
        }
        true
    }

    /// Accesses as far as they were read.
    pub(super) fn reader(&self) -> &TraceReader {
        &self.reader
    }

    /// Forgets processes that have ended, once all that they did has been taken in.
    pub(super) fn settle(&mut self) {
        self.reader.settle();
    }

    /// Whether events are missing, perhaps forks.
    pub(super) fn has_lost(&self) -> bool {
        self.has_lost
    }

    /// Sums so far.
    pub(super) fn counts(&self, instance: &Instance) -> Counts {
        let mut counts = self.reader.counts();
        let overrun = (0..self.cpus.count()).map(|cpu| self.cpus.overrun(cpu, instance));
        counts.lost_records += overrun.sum::<u64>();
        counts
    }

    pub(super) fn into_inodes(self) -> HashMap<InodeKey, Accessed> {
        self.reader.into_inodes()
    }
}
