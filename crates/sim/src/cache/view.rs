// SPDX-License-Identifier: MIT OR Apache-2.0
//! The view of the cache of one file that a policy may query.

use foreread_core::policy::{Limits, Nearby};

use super::folio::Slab;
use super::index::{Index, LEAF_PAGES};
use super::walk::Walk;

/// The cached pages of one file, for [`foreread_core::policy::Policy::decide`].
#[derive(Clone, Copy, Debug)]
pub struct FileView<'a> {
    pages: &'a Index,
    folios: &'a Slab,
    /// `Limits::QUIRK_*`: where to answer as a kernel does that errs.
    quirks: u8,
}

impl<'a> FileView<'a> {
    /// The quirks that are the view's: their answers depend on folios.
    pub(crate) const QUIRKS: u8 = Limits::QUIRK_LATE_HOLE | Limits::QUIRK_SHORT_HISTORY;

    pub(super) fn new(pages: &'a Index, folios: &'a Slab) -> Self {
        Self {
            pages,
            folios,
            quirks: 0,
        }
    }

    /// The same with the answers of a kernel that has these quirks (`Limits::QUIRK_*`).
    #[must_use]
    pub fn with_quirks(self, quirks: u8) -> Self {
        Self { quirks, ..self }
    }
}

impl Nearby for FileView<'_> {
    fn is_cached(&self, page: u64) -> bool {
        self.pages.folio(page).is_some()
    }

    fn was_read(&self, page: u64) -> bool {
        let leaf = self.pages.leaf(page / LEAF_PAGES);
        leaf.is_some_and(|leaf| leaf.present & leaf.used & 1 << (page % LEAF_PAGES) != 0)
    }

    fn cached_before(&self, index: u64, max: u64) -> u64 {
        if self.quirks & Limits::QUIRK_SHORT_HISTORY == 0 || index == 0 {
            return self.pages.run_before(index, max, true);
        }
        let mut walk = Walk::new(self.pages, self.folios);
        let miss = walk.prev_miss(index - 1, max.saturating_add(1));
        index.wrapping_sub(miss).wrapping_sub(1).min(max)
    }

    fn missing_before(&self, index: u64, max: u64) -> u64 {
        self.pages.run_before(index, max, false)
    }

    fn cached_after(&self, from: u64, max: u64) -> u64 {
        if self.quirks & Limits::QUIRK_LATE_HOLE == 0 {
            return self.pages.run_after(from, max, true);
        }
        let miss = Walk::new(self.pages, self.folios).next_miss(from, max);
        miss.saturating_sub(from).min(max)
    }

    fn cached_within(&self, from: u64, max: u64) -> u64 {
        u64::from(self.pages.any(from, from.saturating_add(max)))
    }
}
