// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts of fetched pages: used, wasted and others.

use std::ops::AddAssign;

/// Pages of one stream, or of several together. Pages are counted for the stream that fetched
/// them; [`Account::accesses`] and [`Account::distinct`] for the one that used them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Asked of the device.
    pub fetched: u64,
    /// In the cache at their first use.
    pub used_on_time: u64,
    /// A program waited for them.
    pub used_late: u64,
    /// Evicted or dropped before their first use.
    pub wasted: u64,
    /// In the cache, and not used yet.
    pub resident_unused: u64,
    /// Asked of the device and not there yet.
    pub in_flight: u64,
    /// Pages that programs used, each time.
    pub accesses: u64,
    /// Different pages that programs used, counted for the stream that used them first.
    pub distinct: u64,
    /// Pages fetched again that had been evicted not long before.
    pub refaults: u64,
    /// Misses of pages that had been fetched and were evicted unread.
    pub thrashes: u64,
}

impl Account {
    /// Whether every fetched page is in exactly one place.
    #[must_use]
    pub fn balances(&self) -> bool {
        let found = self.used_on_time + self.used_late + self.wasted;
        self.fetched == found + self.resident_unused + self.in_flight
    }

    /// Pages fetched for each different page used; `None` when none was used.
    #[must_use]
    pub fn amplification(&self) -> Option<f64> {
        (self.distinct > 0).then(|| self.fetched as f64 / self.distinct as f64)
    }
}

impl AddAssign for Account {
    fn add_assign(&mut self, other: Self) {
        self.fetched += other.fetched;
        self.used_on_time += other.used_on_time;
        self.used_late += other.used_late;
        self.wasted += other.wasted;
        self.resident_unused += other.resident_unused;
        self.in_flight += other.in_flight;
        self.accesses += other.accesses;
        self.distinct += other.distinct;
        self.refaults += other.refaults;
        self.thrashes += other.thrashes;
    }
}
