// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which pages of one file are cached, and in which folios.
//!
//! Leaves of 64 pages, as in the kernel's page tree, each with bitmaps, so that runs and holes are
//! found 64 pages at a time. A leaf exists while a page of it is cached or was lately.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

/// Pages of a leaf.
pub(super) const LEAF_PAGES: u64 = 64;

/// 64 pages of a file.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    /// Cached, up to date or on their way.
    pub present: u64,
    /// Cached, and used by a program.
    pub used: u64,
    /// Cached, and mapped into a program.
    pub mapped: u64,
    /// Not cached any more; the slot says since when.
    pub shadow: u64,
    /// The folio of a cached page; when a page was evicted, for a shadow.
    pub slots: [u32; 64],
}

impl Leaf {
    const EMPTY: Self = Self {
        present: 0,
        used: 0,
        mapped: 0,
        shadow: 0,
        slots: [0; 64],
    };

    /// The folio of its page number `at`, below [`LEAF_PAGES`], when that is cached.
    pub fn folio(&self, at: u64) -> Option<u32> {
        (self.present >> at & 1 == 1).then(|| self.slots[at as usize])
    }
}

/// A multiplicative hash: leaves are looked up, never listed, so its order reaches no result.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LeafHasher(u64);

impl Hasher for LeafHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// Leaves found lately, by the low bits of their number: a stream comes back to the same few.
const FOUND: usize = 16;

/// Leaves whose bits of pages ever touched are kept together: few, as most files are small.
const TOUCHED: usize = 32;

/// The pages of one file.
#[derive(Clone, Debug)]
pub(super) struct Index {
    /// Where in the slab a leaf is.
    places: HashMap<u64, u32, BuildHasherDefault<LeafHasher>>,
    slab: Vec<Leaf>,
    free: Vec<u32>,
    /// Number and place; a number that no leaf can have where there is none.
    found: [Cell<(u64, u32)>; FOUND],
    /// A bit for each page that a program ever used, by leaf; only parts that have any.
    touched: Vec<[u64; TOUCHED]>,
    /// Where in `touched` a part is.
    touched_places: HashMap<u64, u32, BuildHasherDefault<LeafHasher>>,
    /// The part that was touched last, and its place.
    touched_last: (u64, u32),
    /// No page from here on was ever cached.
    end: u64,
}

/// The bits from `first` to before `end` of a leaf; both within 0 to 64.
pub(super) fn bits(first: u64, end: u64) -> u64 {
    let below = |at: u64| if at >= 64 { u64::MAX } else { (1 << at) - 1 };
    below(end) & !below(first)
}

/// A range of pages cut at the borders of leaves: the leaf's number and the bits in it.
pub(super) fn pieces(start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
    let first = start / LEAF_PAGES;
    let leaves = if start < end {
        first..(end - 1) / LEAF_PAGES + 1
    } else {
        0..0
    };
    leaves.map(move |leaf| {
        let base = leaf * LEAF_PAGES;
        let low = start.saturating_sub(base);
        (leaf, bits(low, (end - base).min(LEAF_PAGES)))
    })
}

/// The bits that a folio has in each of its leaves: folios are aligned to their size.
#[inline]
pub(super) fn folio_bits(index: u64, order: u8) -> u64 {
    // Most folios are pages, and this is most of their cost.
    if order == 0 {
        return 1 << (index % LEAF_PAGES);
    }
    let pages = 1u64 << u32::from(order).min(LEAF_PAGES.trailing_zeros());
    u64::MAX >> (LEAF_PAGES - pages) << (index % LEAF_PAGES)
}

/// The leaves of a folio.
pub(super) fn folio_leaves(index: u64, order: u8) -> Range<u64> {
    let first = index / LEAF_PAGES;
    first..first + (1 << u32::from(order).saturating_sub(LEAF_PAGES.trailing_zeros()))
}

impl Default for Index {
    fn default() -> Self {
        Self {
            places: HashMap::default(),
            slab: Vec::new(),
            free: Vec::new(),
            found: std::array::from_fn(|_| Cell::new((u64::MAX, 0))),
            touched: Vec::new(),
            touched_places: HashMap::default(),
            touched_last: (u64::MAX, 0),
            end: 0,
        }
    }
}

impl Index {
    #[inline]
    fn place(&self, leaf: u64) -> Option<usize> {
        let (number, place) = self.found[leaf as usize % FOUND].get();
        if number == leaf {
            return Some(place as usize);
        }
        self.look_up(leaf)
    }

    #[inline(never)]
    fn look_up(&self, leaf: u64) -> Option<usize> {
        let place = *self.places.get(&leaf)?;
        self.found[leaf as usize % FOUND].set((leaf, place));
        Some(place as usize)
    }

    #[inline]
    pub fn leaf(&self, leaf: u64) -> Option<&Leaf> {
        self.place(leaf).map(|place| &self.slab[place])
    }

    #[inline]
    pub fn leaf_mut(&mut self, leaf: u64) -> Option<&mut Leaf> {
        self.place(leaf).map(|place| &mut self.slab[place])
    }

    #[inline]
    pub fn leaf_made(&mut self, leaf: u64) -> &mut Leaf {
        let place = self.place(leaf).unwrap_or_else(|| self.make_leaf(leaf));
        &mut self.slab[place]
    }

    #[inline(never)]
    fn make_leaf(&mut self, leaf: u64) -> usize {
        self.end = self.end.max((leaf + 1).saturating_mul(LEAF_PAGES));
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.slab.push(Leaf::EMPTY);
                (self.slab.len() - 1) as u32
            }
        };
        self.places.insert(leaf, place);
        self.slab[place as usize] = Leaf::EMPTY;
        place as usize
    }

    /// Puts a folio in, all of whose pages are not cached; the slot of its first page that has a
    /// shadow, if any.
    #[inline]
    pub fn put(&mut self, index: u64, order: u8, id: u32) -> Option<u32> {
        if order == 0 {
            // This takes a third of the time of the general way, and most folios are pages.
            let (leaf, at) = (self.leaf_made(index / LEAF_PAGES), index % LEAF_PAGES);
            let slot = &mut leaf.slots[at as usize];
            let evicted_at = (leaf.shadow >> at & 1 == 1).then_some(*slot);
            *slot = id;
            leaf.shadow &= !(1 << at);
            leaf.present |= 1 << at;
            return evicted_at;
        }
        self.put_large(index, order, id)
    }

    fn put_large(&mut self, index: u64, order: u8, id: u32) -> Option<u32> {
        let bits = folio_bits(index, order);
        let (first, end) = (bits.trailing_zeros(), 64 - bits.leading_zeros());
        let mut evicted_at = None;
        for leaf in folio_leaves(index, order) {
            let leaf = self.leaf_made(leaf);
            if leaf.shadow & bits != 0 {
                let at = (leaf.shadow & bits).trailing_zeros() as usize;
                evicted_at = evicted_at.or(Some(leaf.slots[at]));
            }
            leaf.slots[first as usize..end as usize].fill(id);
            leaf.shadow &= !bits;
            leaf.present |= bits;
        }
        evicted_at
    }

    /// Gives a leaf's memory back when nothing is in it.
    pub fn tidy(&mut self, leaf: u64) {
        let is_empty = |leaf: &Leaf| leaf.present == 0 && leaf.shadow == 0;
        if self.leaf(leaf).is_some_and(is_empty) {
            self.free.extend(self.places.remove(&leaf));
            self.found[leaf as usize % FOUND].set((u64::MAX, 0));
        }
    }

    /// No page from here on was ever cached.
    pub fn end(&self) -> u64 {
        self.end
    }

    #[inline]
    fn present(&self, leaf: u64) -> u64 {
        self.leaf(leaf).map_or(0, |leaf| leaf.present)
    }

    /// The folio of a cached page.
    pub fn folio(&self, page: u64) -> Option<u32> {
        self.leaf(page / LEAF_PAGES)?.folio(page % LEAF_PAGES)
    }

    /// Whether any page of the range is cached.
    pub fn any(&self, start: u64, end: u64) -> bool {
        pieces(start, end).any(|(leaf, bits)| self.present(leaf) & bits != 0)
    }

    /// Whether any page of a folio that is to be made is cached.
    pub fn any_of_folio(&self, index: u64, order: u8) -> bool {
        let bits = folio_bits(index, order);
        folio_leaves(index, order).any(|leaf| self.present(leaf) & bits != 0)
    }

    /// Pages from `from` on that are cached (or not), counted up to `max`.
    pub fn run_after(&self, from: u64, max: u64, cached: bool) -> u64 {
        let end = from.saturating_add(max);
        let mut at = from;
        while at < end {
            let wanted = self.present(at / LEAF_PAGES) ^ if cached { 0 } else { u64::MAX };
            let offset = at % LEAF_PAGES;
            let run = u64::from((wanted >> offset).trailing_ones()).min(LEAF_PAGES - offset);
            at += run;
            if offset + run < LEAF_PAGES {
                break;
            }
        }
        at.min(end) - from
    }

    /// Pages directly before `index` that are cached (or not), counted up to `max`.
    pub fn run_before(&self, index: u64, max: u64, cached: bool) -> u64 {
        let end = index.saturating_sub(max);
        let mut at = index;
        while at > end {
            let wanted = self.present((at - 1) / LEAF_PAGES) ^ if cached { 0 } else { u64::MAX };
            let offset = (at - 1) % LEAF_PAGES;
            let run = u64::from((wanted << (63 - offset)).leading_ones()).min(offset + 1);
            at -= run;
            if run < offset + 1 {
                break;
            }
        }
        index - at.max(end)
    }

    /// Notes that a program used pages of a leaf. Returns how many of them were used for the first
    /// time ever.
    pub fn touch(&mut self, leaf: u64, bits: u64) -> u64 {
        let (part, at) = (leaf / TOUCHED as u64, leaf as usize % TOUCHED);
        if self.touched_last.0 != part {
            self.touched_last = (part, self.touched_place(part));
        }
        let part = &mut self.touched[self.touched_last.1 as usize];
        let first = bits & !part[at];
        part[at] |= bits;
        first.count_ones().into()
    }

    fn touched_place(&mut self, part: u64) -> u32 {
        let touched = &mut self.touched;
        *self.touched_places.entry(part).or_insert_with(|| {
            touched.push([0; TOUCHED]);
            (touched.len() - 1) as u32
        })
    }

    /// Runs of cached pages in order, as first page and length, within the first `file_pages`.
    pub fn runs(&self, file_pages: u64) -> Vec<(u64, u64)> {
        let mut leaves: Vec<u64> = self.places.keys().copied().collect();
        leaves.sort_unstable();
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for leaf in leaves {
            let mut at = leaf * LEAF_PAGES;
            let end = (at + LEAF_PAGES).min(file_pages);
            while at < end {
                at += self.run_after(at, end - at, false);
                let pages = self.run_after(at, end - at, true);
                match runs.last_mut() {
                    Some(last) if last.0 + last.1 == at => last.1 += pages,
                    _ if pages > 0 => runs.push((at, pages)),
                    _ => {}
                }
                at += pages;
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(pages: &[u64]) -> Index {
        let mut index = Index::default();
        for page in pages {
            index.leaf_made(page / 64).present |= 1 << (page % 64);
        }
        index
    }

    #[test]
    fn runs_cross_leaves() {
        let pages: Vec<u64> = (60..200).collect();
        let index = index(&pages);
        assert_eq!(index.run_after(60, 1000, true), 140);
        assert_eq!(index.run_after(60, 70, true), 70);
        assert_eq!(index.run_after(0, 1000, false), 60);
        assert_eq!(index.run_after(200, 1000, false), 1000);
        assert_eq!(index.run_before(200, 1000, true), 140);
        assert_eq!(index.run_before(200, 10, true), 10);
        assert_eq!(index.run_before(60, 1000, false), 60);
        assert_eq!(index.run_before(300, 1000, false), 100);
        assert_eq!(index.run_before(0, 1000, true), 0);
        assert_eq!(index.runs(u64::MAX), [(60, 140)]);
        assert_eq!(index.runs(100), [(60, 40)]);
    }

    #[test]
    fn pieces_cover_a_range() {
        let all: u32 = pieces(10, 200).map(|(_, bits)| bits.count_ones()).sum();
        assert_eq!(all, 190);
        assert_eq!(pieces(64, 128).collect::<Vec<_>>(), [(1, u64::MAX)]);
        assert_eq!(pieces(5, 5).count(), 0);
    }

    #[test]
    fn a_folio_has_the_same_bits_in_each_leaf() {
        for order in 0..10 {
            for number in 0..9 {
                let index = number << order;
                let by_range: Vec<_> = pieces(index, index + (1 << order)).collect();
                let bits = folio_bits(index, order);
                let by_order: Vec<_> = folio_leaves(index, order).map(|l| (l, bits)).collect();
                assert_eq!(by_order, by_range);
            }
        }
    }

    #[test]
    fn a_page_is_touched_for_the_first_time_once() {
        let mut index = Index::default();
        assert_eq!(index.touch(3, 0b111), 3);
        assert_eq!(index.touch(3, 0b1110), 1);
    }
}
