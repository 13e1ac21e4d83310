// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of the C core on a state, a decision or a device, as methods of these types. The
//! modules of the types do not depend on the core's functions, which depend on them.

use super::decision::{Decision, Reason, Window};
use super::limits::Limits;
use super::memory::{Budget, Device, Done};
use super::nearby::{Near, Nearby, Wants};
use super::state::{Advice, State};
use crate::ffi;

impl Reason {
    /// Its name, as in tables: `initial`, `context`, ...
    #[must_use]
    pub fn name(self) -> &'static str {
        ffi::reason_name(self as u32).unwrap_or_default()
    }
}

impl Decision {
    /// A decision that the core made elsewhere, such as in BPF, from the bytes of its `struct
    /// fr_decision`. `None` if there are not 96 bytes, or if the reason is unknown.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        ffi::decision_from(bytes)
    }

    /// The windows to issue, in this order, each repetition of the last one apart. `limits` are
    /// those of the decision.
    pub fn every_window<'a>(&'a self, limits: &'a Limits) -> impl Iterator<Item = Window> + 'a {
        (0..).map_while(|number| ffi::decision_window(self, limits, number))
    }
}

impl State {
    /// The state of a file just opened on a device with these limits.
    #[must_use]
    pub fn open(limits: &Limits) -> Self {
        let mut state = Self::ZERO;
        ffi::open(&mut state, limits);
        state
    }

    /// posix_fadvise(2), but for `WILLNEED`.
    pub fn advise(&mut self, advice: Advice, limits: &Limits) {
        ffi::advise(self, limits, advice as u32);
    }

    /// lseek(2).
    pub fn seek(&mut self) {
        ffi::seek(self);
    }

    /// A read(2) returned with the file position at `end_bytes`.
    pub fn read_done(&mut self, end_bytes: u64) {
        ffi::read_done(self, end_bytes);
    }

    /// Fault-around mapped `pages` cached pages besides the faulting one.
    pub fn fault_mapped(&mut self, pages: u64) {
        ffi::fault_mapped(self, pages);
    }
}

impl Device {
    /// One that has a head to move, and of which nothing was measured.
    #[must_use]
    pub fn that_turns() -> Self {
        let mut device = Self::default();
        ffi::device_turns(&mut device);
        device
    }

    /// A request is done.
    pub fn done(&mut self, done: &Done) {
        ffi::device_done(self, done);
    }

    /// Break-even: number of pages that cost as much as a request, 4 to 1024.
    #[must_use]
    pub fn even_pages(&self) -> u32 {
        ffi::device_even_pages(self, 0)
    }
}

impl Budget {
    /// Adds the changes of a decision that was made on a copy: `before` and `after` it.
    pub fn merge(&mut self, before: &Self, after: &Self) {
        ffi::budget_merge(self, before, after);
    }
}

/// Answers the core's questions from a cache.
pub(super) fn answer<N: Nearby + ?Sized>(wants: &Wants, index: u64, nearby: &N) -> Near {
    let mut near = Near::default();
    if wants.before_max > 0 {
        near.before_pages = nearby.cached_before(index, wants.before_max);
    }
    if wants.gap_max > 0 {
        near.gap_pages = nearby.missing_before(index, wants.gap_max);
    }
    if wants.after_max > 0 {
        near.after_pages = nearby.cached_after(wants.after_from, wants.after_max);
    }
    if wants.around_max > 0 {
        near.around_pages = nearby.cached_within(wants.around_from, wants.around_max);
    }
    if wants.probing != 0 {
        let (mut probe, mut page) = (ffi::Probe::default(), 0);
        ffi::probe_begin(&mut probe, wants, &near, index);
        while ffi::probe_next(&probe, &mut page) != 0 {
            ffi::probe_answer(&mut probe, u32::from(nearby.was_read(page)));
        }
        ffi::probe_end(&probe, &mut near);
    }
    near
}
