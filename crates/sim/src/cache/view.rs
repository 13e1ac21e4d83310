// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a policy may ask of the cache of one file.

use foreread_core::policy::Nearby;

use super::index::{Index, LEAF_PAGES};

/// The cached pages of one file, for [`foreread_core::policy::Policy::decide`].
#[derive(Clone, Copy, Debug)]
pub struct FileView<'a>(&'a Index);

impl<'a> FileView<'a> {
    pub(super) fn new(index: &'a Index) -> Self {
        Self(index)
    }
}

impl Nearby for FileView<'_> {
    fn is_cached(&self, page: u64) -> bool {
        self.0.folio(page).is_some()
    }

    fn was_read(&self, page: u64) -> bool {
        let leaf = self.0.leaf(page / LEAF_PAGES);
        leaf.is_some_and(|leaf| leaf.present & leaf.used & 1 << (page % LEAF_PAGES) != 0)
    }

    fn cached_before(&self, index: u64, max: u64) -> u64 {
        self.0.run_before(index, max, true)
    }

    fn missing_before(&self, index: u64, max: u64) -> u64 {
        self.0.run_before(index, max, false)
    }

    fn cached_after(&self, from: u64, max: u64) -> u64 {
        self.0.run_after(from, max, true)
    }

    fn cached_within(&self, from: u64, max: u64) -> u64 {
        u64::from(self.0.any(from, from.saturating_add(max)))
    }
}
