// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same accounts kept page by page, in the plainest way, as a reference for the counters of the
//! kernel's programs in tests.

use std::collections::HashMap;
use std::hash::Hash;

use crate::account::{Counters, Counts};

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    InFlight,
    Unused,
    Used,
}

/// Pages, of which only those that were fetched are known.
pub struct Ledger<Page> {
    pages: HashMap<Page, State>,
    counters: Counters,
}

impl<Page> Default for Ledger<Page> {
    fn default() -> Self {
        Self {
            pages: HashMap::new(),
            counters: Counters::default(),
        }
    }
}

impl<Page: Hash + Eq> Ledger<Page> {
    /// A page is asked for.
    pub fn fetch(&mut self, page: Page) {
        self.drop_page(&page);
        self.counters.fetched += 1;
        self.pages.insert(page, State::InFlight);
    }

    /// It is there.
    pub fn arrive(&mut self, page: &Page) {
        if let Some(state) = self.pages.get_mut(page).filter(|s| **s == State::InFlight) {
            *state = State::Unused;
            self.counters.arrived += 1;
        }
    }

    /// A program uses the page. A page that isn't there is waited for.
    pub fn use_page(&mut self, page: &Page) {
        match self.pages.get(page) {
            Some(State::InFlight) => self.counters.used_late += 1,
            Some(State::Unused) => self.counters.used_on_time += 1,
            Some(State::Used) | None => return,
        }
        self.arrive(page);
        if let Some(state) = self.pages.get_mut(page) {
            *state = State::Used;
        }
    }

    /// It leaves memory.
    pub fn drop_page(&mut self, page: &Page) {
        self.arrive(page);
        if self.pages.remove(page) == Some(State::Unused) {
            self.counters.wasted += 1;
        }
    }

    /// The counts of all pages.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts::new(self.counters).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_ends_once() {
        let mut ledger = Ledger::default();
        (0..6).for_each(|page| ledger.fetch(page));
        ledger.use_page(&0);
        (0..5).for_each(|page| ledger.arrive(&page));
        ledger.use_page(&1);
        ledger.use_page(&1);
        ledger.use_page(&99);
        ledger.drop_page(&1);
        ledger.drop_page(&2);
        ledger.drop_page(&2);
        let counts = ledger.counts();
        let counters = counts.counters();
        assert_eq!((counters.fetched, counters.wasted), (6, 1));
        assert_eq!((counters.used_on_time, counters.used_late), (1, 1));
        assert_eq!((counts.resident_unused(), counts.in_flight()), (2, 1));
    }

    #[test]
    fn a_page_that_is_fetched_again_counts_again() {
        let mut ledger = Ledger::default();
        for _ in 0..3 {
            ledger.fetch(7);
            ledger.arrive(&7);
        }
        let counts = ledger.counts();
        assert_eq!(
            (counts.counters().fetched, counts.counters().wasted),
            (3, 2)
        );
        assert_eq!(counts.resident_unused(), 1);
    }
}
