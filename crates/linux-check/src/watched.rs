// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file watched by BPF: the kernel's changes to it in a step, folio by folio.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Instant;

use foreread_sim::check::{Event, Facts, Placed, Seen, Step, pages_of};

use super::events::{Kind, Told, Watcher};
use super::{CheckError, PATIENCE, Running, failed, is_dropped_by};

/// No folio is larger.
const FOLIO_PAGES: u64 = 512;

/// A file that is watched, and its known state.
pub(super) struct Watched {
    watcher: Watcher,
    /// Folios in the page cache, by the reported events.
    cached: BTreeSet<Placed>,
    /// Events that the kernel had left out when the program began.
    missed_before: u64,
}

impl Watched {
    pub fn new(watcher: Watcher) -> Self {
        Self {
            watcher,
            cached: BTreeSet::new(),
            missed_before: 0,
        }
    }

    /// Watches nothing.
    pub fn rest(&mut self) {
        self.watcher.watch(0);
    }

    /// Watches the file of a program, of which nothing is cached.
    pub fn begin(&mut self, running: &Running) -> Result<Facts, CheckError> {
        let file = running.residency.file();
        let looked = self.watcher.look(file.as_fd().as_raw_fd())?;
        self.cached.clear();
        self.watcher.watch(looked.host);
        self.watcher.drain();
        self.missed_before = self.watcher.missed_events();
        Ok(looked.facts)
    }

    pub fn before_step(&mut self, step: &Step) {
        self.watcher.begin_step(matches!(step, Step::Touch { .. }));
    }

    pub fn after_step(&mut self, step: &Step, running: &Running) -> Result<Seen, CheckError> {
        // Looking at the page cache takes the lock of the mappings, too.
        self.watcher.begin_step(false);
        let told = self.watcher.drain();
        let lost = self.watcher.lost();
        if lost > 0 {
            return Err(CheckError::Lost(lost));
        }
        let mut seen = self.seen(told);
        let mut removed = seen.removed.iter();
        seen.is_unsure |= removed.any(|folio| !is_dropped_by(step, &folio.pages()));
        seen.is_unsure |= !self.settle(running)?;
        for (number, descriptor) in running.descriptors.iter().enumerate() {
            if let Some(file) = descriptor {
                let looked = self.watcher.look(file.as_raw_fd())?;
                seen.remembered[number] = Some(looked.remembered);
            }
        }
        Ok(seen)
    }

    /// Whether the kernel has left out events since the program began; not all of them need be the
    /// program's own.
    pub fn has_missed_events(&self) -> bool {
        self.watcher.missed_events() > self.missed_before
    }

    fn seen(&mut self, told: Vec<Told>) -> Seen {
        let mut seen = Seen::default();
        let mut still_late = BTreeSet::new();
        let mut mapped = None;
        for told in told {
            let folio = Placed {
                index: told.index,
                order: told.order,
            };
            match told.kind {
                Kind::Inserted => {
                    self.cached.insert(folio);
                    seen.inserted.push(folio);
                }
                Kind::Removed => {
                    self.cached.remove(&folio);
                    seen.removed.push(folio);
                }
                Kind::Others => seen.is_unsure = true,
                Kind::Late => {
                    seen.late.insert(told.index);
                    // That was before the wait.
                    mapped = None;
                }
                Kind::StillLate => {
                    still_late.insert(told.index);
                }
                Kind::Mapped => {
                    mapped = Some(told.index..told.index + told.pages);
                    seen.events.push(Event(told.to_string()));
                }
                _ => seen.events.push(Event(told.to_string())),
            }
        }
        // Some arrived between the two looks: fault-around may have found them or not. Where it
        // mapped nothing, it found none.
        if let Some(mapped) = mapped {
            let mut between = seen.late.symmetric_difference(&still_late);
            let reaches = |index: &u64| *index < mapped.end && index + FOLIO_PAGES > mapped.start;
            seen.is_unsure |= between.any(reaches);
        }
        seen.removed.sort_unstable();
        seen.new_pages = pages_of(&seen.inserted);
        seen
    }

    /// Waits until all inserted folios are up to date, so that the next step finds the same at any
    /// speed of the device. False when another process drops pages of the file, as
    /// `/proc/sys/vm/drop_caches` does, or when the kernel has left out events since the program
    /// began.
    fn settle(&self, running: &Running) -> Result<bool, CheckError> {
        let expected = self.cached.iter().map(|f| 1u64 << f.order).sum();
        let started = Instant::now();
        loop {
            let cached = running
                .residency
                .cached_pages(running.file_pages)
                .map_err(failed("look at the page cache"))?;
            // While another CPU reports a drop, the events of this step may come late.
            if !self.watcher.drain().is_empty() {
                return Ok(false);
            }
            if cached == expected {
                return Ok(true);
            }
            if cached > expected && self.has_missed_events() {
                return Ok(false);
            }
            if started.elapsed() > PATIENCE {
                return Err(CheckError::Unsettled { cached, expected });
            }
            std::thread::yield_now();
        }
    }
}
