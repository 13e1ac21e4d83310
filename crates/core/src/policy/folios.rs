// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a window becomes folios and requests.

use super::decision::Window;
use super::limits::Limits;
use crate::ffi;

/// A folio to insert into the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folio {
    /// Its first page.
    pub index: u64,
    /// It has 2^`order` pages.
    pub order: u8,
    /// Whether reaching it is to cause the next window.
    pub marked: bool,
    /// Whether it does not continue the request before it.
    pub starts_request: bool,
}

impl Folio {
    /// Number of pages in it.
    #[must_use]
    pub fn pages(&self) -> u64 {
        1 << self.order
    }
}

/// The folios of a window, in order.
///
/// When a page of a folio is cached already, or there is no memory, call [`Folios::refuse`] before
/// asking for the next one. Large folios then end, and the rest goes page by page around the cached
/// pages, as in the kernel.
#[derive(Clone, Debug)]
pub struct Folios {
    issue: ffi::Issue,
    last: ffi::Folio,
}

impl Window {
    /// How it is issued, folio by folio; `limits` are those of the decision.
    #[must_use]
    pub fn folios(&self, limits: &Limits) -> Folios {
        Folios::new(self, limits)
    }
}

impl Folios {
    fn new(window: &Window, limits: &Limits) -> Self {
        let mut issue = ffi::Issue::default();
        ffi::issue_begin(&mut issue, window, limits);
        let last = ffi::Folio::default();
        Self { issue, last }
    }

    /// The folio given last was not inserted.
    pub fn refuse(&mut self) {
        ffi::issue_refuse(&mut self.issue, &self.last);
    }
}

impl Iterator for Folios {
    type Item = Folio;

    #[inline]
    fn next(&mut self) -> Option<Folio> {
        (ffi::issue_next(&mut self.issue, &mut self.last) != 0).then_some(Folio {
            index: self.last.index,
            order: self.last.order,
            marked: self.last.marked != 0,
            starts_request: self.last.starts_request != 0,
        })
    }
}
