// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's search for holes, with its defect (page_cache_next_miss, page_cache_prev_miss).
//!
//! Both walk the xarray with xas_next() or xas_prev(). The first of these calls loads the entry of
//! the page where the search begins. When that page is inside a large folio, xas_descend() moves
//! the *slot* to the folio's first page and leaves the *index* where it is. From then on slot and
//! index are stepped together, and stay apart: the slot is looked at, the index is reported. They
//! meet again only where the walk enters another node, because the slot there is computed from the
//! index.

use super::folio::Slab;
use super::index::Index;

/// XA_CHUNK_SHIFT: a node has 64 slots.
const CHUNK_SHIFT: u32 = 6;
const CHUNK_SIZE: u64 = 1 << CHUNK_SHIFT;
/// From here on a tree has one slot in use: there are no more pages.
const SHIFT_MAX: u32 = 60;

/// `struct xa_state` over the pages of a file.
pub(super) struct Walk<'a> {
    pages: &'a Index,
    folios: &'a Slab,
    /// xa_index.
    index: u64,
    /// xa_offset.
    offset: u64,
    /// xa_node: its first page, and its shift.
    base: u64,
    shift: u32,
}

impl<'a> Walk<'a> {
    pub fn new(pages: &'a Index, folios: &'a Slab) -> Self {
        Self {
            pages,
            folios,
            index: 0,
            offset: 0,
            base: 0,
            shift: 0,
        }
    }

    /// page_cache_next_miss().
    pub fn next_miss(&mut self, index: u64, max: u64) -> u64 {
        for scanned in 0..max {
            let present = match scanned {
                0 => self.load(index),
                _ => self.next(),
            };
            if !present {
                return self.index;
            }
            if self.index == 0 {
                return 0;
            }
        }
        index.saturating_add(max)
    }

    /// page_cache_prev_miss(); all ones where everything back to page 0 is there.
    pub fn prev_miss(&mut self, index: u64, max: u64) -> u64 {
        for scanned in 0..max {
            let present = match scanned {
                0 => self.load(index),
                _ => self.previous(),
            };
            if !present || self.index == u64::MAX {
                break;
            }
        }
        self.index
    }

    /// The order of the folio that holds a page.
    fn order(&self, page: u64) -> Option<u32> {
        let id = self.pages.folio(page)?;
        Some(self.folios.get(id).order.into())
    }

    /// xas_load(): a sibling slot leads to its folio's first one.
    fn load(&mut self, index: u64) -> bool {
        self.index = index;
        let Some(id) = self.pages.folio(index) else {
            return false;
        };
        let folio = self.folios.get(id);
        self.shift = u32::from(folio.order) / CHUNK_SHIFT * CHUNK_SHIFT;
        self.base = index >> (self.shift + CHUNK_SHIFT) << (self.shift + CHUNK_SHIFT);
        self.offset = (folio.index - self.base) >> self.shift;
        true
    }

    /// The slot that the index has in this node (get_offset).
    fn slot_of_index(&self) -> u64 {
        self.index >> self.shift & (CHUNK_SIZE - 1)
    }

    /// xas_next().
    fn next(&mut self) -> bool {
        self.index = self.index.wrapping_add(1);
        let in_step = self.shift == 0 && self.offset != CHUNK_SIZE - 1;
        if in_step || self.offset != self.slot_of_index() {
            self.offset += 1;
        }
        while self.offset == CHUNK_SIZE {
            let Some(slot) = self.climb() else {
                return false;
            };
            self.offset = slot + 1;
        }
        self.entry()
    }

    /// xas_prev().
    fn previous(&mut self) -> bool {
        self.index = self.index.wrapping_sub(1);
        let in_step = self.shift == 0 && self.offset != 0;
        let mut offset = Some(self.offset);
        if in_step || self.offset != self.slot_of_index() {
            offset = self.offset.checked_sub(1);
        }
        while offset.is_none() {
            let Some(slot) = self.climb() else {
                return false;
            };
            offset = slot.checked_sub(1);
        }
        self.offset = offset.unwrap_or(0);
        self.entry()
    }

    /// To the node above; the slot of this one in it.
    fn climb(&mut self) -> Option<u64> {
        if self.shift >= SHIFT_MAX - CHUNK_SHIFT {
            return None;
        }
        self.shift += CHUNK_SHIFT;
        let slot = self.base >> self.shift & (CHUNK_SIZE - 1);
        self.base = self.base >> (self.shift + CHUNK_SHIFT) << (self.shift + CHUNK_SHIFT);
        Some(slot)
    }

    /// Whether the slot has a folio. Below a node the slot is the index's.
    fn entry(&mut self) -> bool {
        loop {
            let page = self.base + (self.offset << self.shift);
            let order = self.order(page);
            if self.shift == 0 || order.is_some_and(|order| order >= self.shift) {
                return order.is_some();
            }
            self.base = page;
            self.shift -= CHUNK_SHIFT;
            self.offset = self.slot_of_index();
        }
    }
}
