// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts the distinct pages that were used, in bounded memory.

use std::collections::HashMap;

use crate::types::FileId;

/// Pages of one entry of the map.
const CHUNK_PAGES: u64 = 64;
/// Most entries: 64 million pages that stand together, or a million that don't.
const CHUNKS_MAX: usize = 1 << 20;
/// Longest access that is looked at chunk by chunk: 4 GiB.
const ACCESS_PAGES_MAX: u64 = 1 << 20;

/// Counts different pages: exactly at first; when they are too many for that, those of every second
/// chunk, of every fourth, and so on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Distinct {
    chunks: HashMap<(FileId, u64), u64>,
    /// A chunk counts when this many low bits of its hash are 0.
    zeros: u32,
    /// Pages of the chunks that count.
    pages: u64,
}

impl Distinct {
    /// These pages were used.
    pub fn add(&mut self, file: FileId, first_page: u64, pages: u64) {
        let end = first_page.saturating_add(pages.min(ACCESS_PAGES_MAX));
        let mut page = first_page;
        while page < end {
            let chunk = page / CHUNK_PAGES;
            let next = (chunk + 1).saturating_mul(CHUNK_PAGES).min(end);
            if counts(file, chunk, self.zeros) {
                self.remember(file, chunk, bits(page % CHUNK_PAGES, next - page));
            }
            page = next;
        }
    }

    /// Number of pages, and whether it is exact.
    pub fn pages(&self) -> (u64, bool) {
        let all = u128::from(self.pages) << self.zeros;
        (u64::try_from(all).unwrap_or(u64::MAX), self.zeros == 0)
    }

    fn remember(&mut self, file: FileId, chunk: u64, bits: u64) {
        let known = self.chunks.entry((file, chunk)).or_default();
        self.pages += u64::from((bits & !*known).count_ones());
        *known |= bits;
        // Chunks may have been chosen such that none goes.
        while self.chunks.len() > CHUNKS_MAX && self.zeros < u64::BITS {
            self.zeros += 1;
            let zeros = self.zeros;
            self.chunks
                .retain(|(file, chunk), _| counts(*file, *chunk, zeros));
            let pages = self
                .chunks
                .values()
                .map(|bits| u64::from(bits.count_ones()));
            self.pages = pages.sum();
        }
    }
}

fn counts(file: FileId, chunk: u64, zeros: u32) -> bool {
    zeros == 0 || mixed(mixed(chunk) ^ u64::from(file.0)).trailing_zeros() >= zeros
}

/// A mask of `count` bits from bit `first` on.
fn bits(first: u64, count: u64) -> u64 {
    let ones = match count {
        CHUNK_PAGES.. => u64::MAX,
        count => (1 << count) - 1,
    };
    ones << first
}

/// A number whose every bit depends on every bit of this one: the finalizer of `splitmix64`.
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_count_once() {
        let mut distinct = Distinct::default();
        distinct.add(FileId(0), 0, 100);
        distinct.add(FileId(0), 50, 100);
        distinct.add(FileId(1), 63, 2);
        distinct.add(FileId(1), 64, 0);
        assert_eq!(distinct.pages(), (152, true));
    }

    #[test]
    fn too_many_to_remember_are_estimated() {
        let mut distinct = Distinct::default();
        let pages = 1_200_000_u32;
        for _ in 0..2 {
            for page in 0..pages {
                distinct.add(FileId(7), u64::from(page) * 64, 1);
            }
        }
        let (estimate, is_exact) = distinct.pages();
        let off = (estimate as f64 / f64::from(pages) - 1.0).abs();
        assert!(!is_exact && off < 0.01, "{estimate}");
        assert!(distinct.chunks.len() <= CHUNKS_MAX);
    }

    #[test]
    fn estimates_of_far_more_pages_hold_too() {
        let mut distinct = Distinct::default();
        for file in 0..400 {
            distinct.add(FileId(file), 0, ACCESS_PAGES_MAX);
        }
        let (estimate, is_exact) = distinct.pages();
        let off = (estimate as f64 / (400 * ACCESS_PAGES_MAX) as f64 - 1.0).abs();
        assert!(!is_exact && off < 0.01, "{estimate}");
    }

    #[test]
    fn hostile_ranges_end() {
        let mut distinct = Distinct::default();
        distinct.add(FileId(0), u64::MAX - 3, u64::MAX);
        distinct.add(FileId(0), 0, u64::MAX);
        assert!(distinct.pages().0 >= ACCESS_PAGES_MAX);
    }
}
