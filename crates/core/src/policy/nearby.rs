// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the page cache around an access.

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

/// Facts about the page cache that a policy needs for a decision: `struct fr_wants`. A maximum of 0
/// means that it does not need the fact.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Count cached pages directly before the access, at most this many.
    pub before_max: u64,
    /// Count missing pages directly before the access, at most this many.
    pub gap_max: u64,
    /// Where counting forward starts.
    pub after_from: u64,
    /// Count cached pages from there on, at most this many.
    pub after_max: u64,
    /// First page of a range in which any cached page matters.
    pub around_from: u64,
    /// Pages of that range.
    pub around_max: u64,
    /// Pages of history to probe.
    pub history_max: u64,
    /// How to probe it; 0 for not at all.
    pub probing: u32,
    /// 0.
    pub reserved: u32,
}

/// The answers to [`Wants`]: `struct fr_near`, a summary of the cache near an access.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Near {
    /// Cached pages directly before the access.
    pub before_pages: u64,
    /// Missing pages directly before the access.
    pub gap_pages: u64,
    /// Cached pages from [`Wants::after_from`] on.
    pub after_pages: u64,
    /// Cached pages in the range around; any number above 0 means some.
    pub around_pages: u64,
    /// Length of the history that probes found.
    pub history_pages: u64,
    /// Pages probed.
    pub sampled: u32,
    /// Number of probed pages that had been read.
    pub sampled_hits: u32,
}
