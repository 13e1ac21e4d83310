// SPDX-License-Identifier: MIT OR Apache-2.0
//! Derives late arrivals from the mapped pages: for machines on which only residency is seen.

use std::collections::BTreeSet;

use super::modelled::Modelled;
use super::program::Step;
use super::seen::{Placed, Run, Seen};

impl Modelled {
    /// One step, in which folios arrive as late as `mapped` shows: the pages that are mapped after
    /// the same step on the machine. A fault that is taken again maps the pages that it read in, as
    /// far as they have arrived. So a page that is not mapped had not arrived.
    pub fn step_as_mapped(&mut self, step: &Step, mapped: &[Run]) -> Seen {
        let none_late = BTreeSet::new();
        if !matches!(step, Step::Touch { .. }) {
            return self.step_with(step, &none_late);
        }
        let mut prompt = self.clone();
        let seen = prompt.step_with(step, &none_late);
        if seen.mapped == mapped {
            *self = prompt;
            return seen;
        }
        let inserted = seen.inserted.iter();
        let late = inserted.filter(|folio| !is_mapped(folio, mapped));
        let late = late.map(|folio| folio.index).collect();
        self.step_with(step, &late)
    }
}

/// Whether any page of a folio is.
fn is_mapped(folio: &Placed, mapped: &[Run]) -> bool {
    let pages = folio.pages();
    let mut runs = mapped.iter();
    runs.any(|(start, length)| *start < pages.end && start + length > pages.start)
}
