// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts of each stream besides its pages.

use foreread_core::Latencies;
use foreread_core::policy::Reason;

use crate::cache::Account;

/// Counts of one stream, or of several together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Its pages.
    pub pages: Account,
    /// Calls of read(2), or steps through a mapping.
    pub calls: u64,
    /// Time that the program waited for pages.
    pub stall_ns: u64,
    /// Durations of calls.
    pub latencies: Latencies,
    /// Requests that the disk served.
    pub requests: u64,
    /// Their bytes.
    pub request_bytes: u64,
    /// Requests that did not start where the one before them on the same disk ended.
    pub seeks: u64,
    /// Windows that were issued and read something.
    pub windows: u64,
    /// Their pages.
    pub window_pages: u64,
    /// Decisions by reason, in the order of [`Reason::ALL`].
    pub reasons: Vec<u64>,
}

impl Stats {
    pub(super) fn count_reason(&mut self, reason: Reason) {
        if self.reasons.is_empty() {
            self.reasons.resize(Reason::ALL.len(), 0);
        }
        self.reasons[reason as usize] += 1;
    }

    /// Decisions for this reason.
    #[must_use]
    pub fn reason(&self, reason: Reason) -> u64 {
        self.reasons.get(reason as usize).copied().unwrap_or(0)
    }

    /// Adds another stream's.
    pub fn merge(&mut self, other: &Self) {
        self.pages += other.pages;
        self.calls += other.calls;
        self.stall_ns += other.stall_ns;
        self.latencies.merge(&other.latencies);
        self.requests += other.requests;
        self.request_bytes += other.request_bytes;
        self.seeks += other.seeks;
        self.windows += other.windows;
        self.window_pages += other.window_pages;
        if self.reasons.len() < other.reasons.len() {
            self.reasons.resize(other.reasons.len(), 0);
        }
        for (mine, theirs) in self.reasons.iter_mut().zip(&other.reasons) {
            *mine += theirs;
        }
    }
}
