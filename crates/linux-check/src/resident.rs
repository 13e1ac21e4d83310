// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file of which only residency is observed: the pages that are cached after each step.

use std::time::{Duration, Instant};

use foreread_sim::check::{Event, Facts, Run, Seen, Step, runs};
use foreread_sys::cache::{cached_pages, has_cachestat};

use super::device::Device;
use super::{CheckError, PATIENCE, Running, failed, is_dropped_by};

/// Without cachestat(2), time without a change after which all pages count as arrived.
const QUIET: Duration = Duration::from_millis(5);
/// The same in the run that confirms or denies a difference. On two busy cores a request waits
/// longer than [`QUIET`] for the worker that issues it or that completes its pages. It is not in
/// flight for the device then. In a guest with a quarter of a core, this happened in a tenth of the
/// programs.
const QUIET_IN_DOUBT: Duration = Duration::from_millis(100);

/// Observations of the file of a program.
pub(super) struct Resident {
    has_cachestat: bool,
    quiet: Duration,
    folio_order_max: Option<u8>,
    device: Option<Device>,
    /// For each page, whether it was cached after the last step.
    is_cached: Vec<bool>,
}

impl Resident {
    pub fn new() -> Self {
        Self {
            has_cachestat: has_cachestat(),
            quiet: QUIET,
            folio_order_max: None,
            device: None,
            is_cached: Vec::new(),
        }
    }

    pub fn counts_arrivals(&self) -> bool {
        self.has_cachestat
    }

    pub fn without_cachestat(&mut self) {
        self.has_cachestat = false;
    }

    /// Waits longer where a difference is doubted.
    pub fn take_care(&mut self, is_doubted: bool) {
        self.quiet = if is_doubted { QUIET_IN_DOUBT } else { QUIET };
    }

    /// Whether the largest folio of the file system is known.
    pub fn knows_folio_order(&self) -> bool {
        self.folio_order_max.is_some()
    }

    /// The largest folio of the file system, which was [measured](super::folio_order).
    pub fn set_folio_order_max(&mut self, order: u8) {
        self.folio_order_max = Some(order);
    }

    /// Looks at the file of a program, of which nothing is cached.
    pub fn begin(&mut self, running: &Running) -> Result<Facts, CheckError> {
        let device = Device::of(running.residency.file())?;
        let facts = Facts {
            ra_pages: device.ra_pages()?,
            io_pages: device.io_pages()?,
            folio_order_max: self.folio_order_max.unwrap_or(0),
        };
        self.device = Some(device);
        self.is_cached = vec![false; running.file_pages as usize];
        Ok(facts)
    }

    pub fn after_step(&mut self, step: &Step, running: &Running) -> Result<Seen, CheckError> {
        let is_cached = self.settle(running)?;
        let before = std::mem::replace(&mut self.is_cached, is_cached);
        let now = &self.is_cached;
        let changes = (0u64..).zip(before.iter().zip(now));
        let new = runs(
            changes
                .clone()
                .filter(|(_, (was, is))| !**was && **is)
                .map(|c| c.0),
        );
        let gone = runs(changes.filter(|(_, (was, is))| **was && !**is).map(|c| c.0));
        let pages = (0u64..).zip(now);
        let mut events = Vec::new();
        events.extend(told("read", &new));
        events.extend(told("dropped", &gone));
        Ok(Seen {
            new_pages: new.iter().map(|run| run.1).sum(),
            cached: runs(pages.filter(|(_, is)| **is).map(|(page, _)| page)),
            is_unsure: !gone
                .iter()
                .all(|run| is_dropped_by(step, &(run.0..run.0 + run.1))),
            events,
            ..Seen::default()
        })
    }

    /// Waits until all pages in flight have arrived, so that the next step starts from the same
    /// state at any speed of the device. Returns for each page whether it is cached.
    pub fn settle(&self, running: &Running) -> Result<Vec<bool>, CheckError> {
        let started = Instant::now();
        let mut last: Option<(Vec<bool>, Instant)> = None;
        loop {
            // Counted first: nothing comes in after the call that asked for it has returned.
            let expected = self.count(running)?;
            let is_cached = running
                .residency
                .is_cached(running.file_pages)
                .map_err(failed("look at the page cache"))?;
            let cached = is_cached.iter().filter(|is_cached| **is_cached).count() as u64;
            let has_settled = match (expected, &last) {
                (Some(expected), _) => cached == expected,
                (None, Some((before, since))) => {
                    *before == is_cached && since.elapsed() >= self.quiet
                }
                (None, None) => false,
            };
            if has_settled {
                return Ok(is_cached);
            }
            if started.elapsed() > PATIENCE {
                return Err(CheckError::Unsettled {
                    cached,
                    expected: expected.unwrap_or(cached),
                });
            }
            let is_busy = expected.is_none() && self.device.as_ref().is_some_and(Device::is_busy);
            match &last {
                Some((before, _)) if *before == is_cached && !is_busy => {}
                _ => last = Some((is_cached, Instant::now())),
            }
            std::thread::yield_now();
        }
    }

    /// Pages in the page cache, those that have not arrived included.
    fn count(&self, running: &Running) -> Result<Option<u64>, CheckError> {
        if !self.has_cachestat {
            return Ok(None);
        }
        let count = cached_pages(running.residency.file(), 0, running.file_pages);
        count.map(Some).map_err(failed("count cached pages"))
    }
}

fn told(what: &str, runs: &[Run]) -> Option<Event> {
    let runs: Vec<String> = runs
        .iter()
        .map(|(at, pages)| format!("{at}+{pages}"))
        .collect();
    (!runs.is_empty()).then(|| Event(format!("{what} {}", runs.join(" "))))
}
