// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is cached around an access.

use crate::ffi;

/// Answers a policy's questions about the page cache of one file.
///
/// Only [`Nearby::is_cached`] must be given. The others count page by page; a cache that knows its
/// runs answers them faster.
pub trait Nearby {
    /// Whether the page is in the cache, up to date or on its way.
    fn is_cached(&self, page: u64) -> bool;

    /// Whether the page is in the cache and some program has read it.
    fn was_read(&self, page: u64) -> bool {
        self.is_cached(page)
    }

    /// Cached pages directly before `index`, counted up to `max`.
    fn cached_before(&self, index: u64, max: u64) -> u64 {
        let pages = (0..index.min(max)).map(|back| index - 1 - back);
        pages.take_while(|page| self.is_cached(*page)).count() as u64
    }

    /// Pages directly before `index` that are not cached, counted up to `max`.
    fn missing_before(&self, index: u64, max: u64) -> u64 {
        let pages = (0..index.min(max)).map(|back| index - 1 - back);
        pages.take_while(|page| !self.is_cached(*page)).count() as u64
    }

    /// Cached pages from `from` on, counted up to `max`.
    fn cached_after(&self, from: u64, max: u64) -> u64 {
        let pages = from..from.saturating_add(max);
        pages.take_while(|page| self.is_cached(*page)).count() as u64
    }

    /// Cached pages among the `max` from `from` on. Any number above 0 will do for some.
    fn cached_within(&self, from: u64, max: u64) -> u64 {
        let mut pages = from..from.saturating_add(max);
        u64::from(pages.any(|page| self.is_cached(page)))
    }
}

/// An empty cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct NothingCached;

impl Nearby for NothingCached {
    fn is_cached(&self, _page: u64) -> bool {
        false
    }

    fn cached_before(&self, _index: u64, _max: u64) -> u64 {
        0
    }

    fn missing_before(&self, index: u64, max: u64) -> u64 {
        index.min(max)
    }

    fn cached_after(&self, _from: u64, _max: u64) -> u64 {
        0
    }

    fn cached_within(&self, _from: u64, _max: u64) -> u64 {
        0
    }
}

/// A cache given as a function from a page to whether it is cached.
#[derive(Clone, Copy, Debug)]
pub struct Cached<F>(pub F);

impl<F: Fn(u64) -> bool> Nearby for Cached<F> {
    fn is_cached(&self, page: u64) -> bool {
        (self.0)(page)
    }
}

/// What the core wants to know, from a cache.
pub(super) fn answer<N: Nearby + ?Sized>(wants: &ffi::Wants, index: u64, nearby: &N) -> ffi::Near {
    let mut near = ffi::Near::default();
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
