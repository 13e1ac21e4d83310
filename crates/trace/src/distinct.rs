// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many different pages were used, in bounded memory.

use std::collections::HashMap;

use crate::types::FileId;

/// Pages of one entry of the map.
const CHUNK_PAGES: u64 = 64;
/// Most entries: 64 million pages that stand together, or a million that don't.
const CHUNKS_MAX: usize = 1 << 20;
/// Registers of the estimate, as a power of two; it is within 2 % nearly always.
const REGISTERS_LOG: u32 = 14;
/// Longest access that is looked at page by page: 4 GiB.
const ACCESS_PAGES_MAX: u64 = 1 << 20;

/// Counts different pages: exactly at first, as an estimate when they are too many for that.
#[derive(Clone, Debug)]
pub(crate) struct Distinct {
    chunks: HashMap<(FileId, u64), u64>,
    is_exact: bool,
    count: u64,
    registers: Vec<u8>,
}

impl Default for Distinct {
    fn default() -> Self {
        Self {
            chunks: HashMap::new(),
            is_exact: true,
            count: 0,
            registers: vec![0; 1 << REGISTERS_LOG],
        }
    }
}

impl Distinct {
    /// These pages were used.
    pub fn add(&mut self, file: FileId, first_page: u64, pages: u64) {
        let end = first_page.saturating_add(pages.min(ACCESS_PAGES_MAX));
        let mut page = first_page;
        while page < end {
            let chunk = page / CHUNK_PAGES;
            let next = (chunk + 1).saturating_mul(CHUNK_PAGES).min(end);
            let bits = bits(page % CHUNK_PAGES, next - page);
            if self.is_exact {
                self.remember(file, chunk, bits);
            } else {
                self.estimate(file, chunk, bits);
            }
            page = next;
        }
    }

    /// How many, and whether that is exact.
    pub fn pages(&self) -> (u64, bool) {
        if self.is_exact {
            return (self.count, true);
        }
        // HyperLogLog, as in Flajolet et al. 2007; with this many pages no correction applies.
        let registers = self.registers.len() as f64;
        let sum: f64 = self
            .registers
            .iter()
            .map(|rank| 0.5_f64.powi(i32::from(*rank)))
            .sum();
        let alpha = 0.7213 / (1.0 + 1.079 / registers);
        ((alpha * registers * registers / sum) as u64, false)
    }

    fn remember(&mut self, file: FileId, chunk: u64, bits: u64) {
        let known = self.chunks.entry((file, chunk)).or_default();
        self.count += u64::from((bits & !*known).count_ones());
        *known |= bits;
        if self.chunks.len() > CHUNKS_MAX {
            self.is_exact = false;
            for ((file, chunk), bits) in std::mem::take(&mut self.chunks) {
                self.estimate(file, chunk, bits);
            }
        }
    }

    fn estimate(&mut self, file: FileId, chunk: u64, mut bits: u64) {
        while bits != 0 {
            let page = chunk * CHUNK_PAGES + u64::from(bits.trailing_zeros());
            bits &= bits - 1;
            let hash = mixed(mixed(page) ^ u64::from(file.0));
            let at = (hash >> (64 - REGISTERS_LOG)) as usize;
            let rank = (hash << REGISTERS_LOG)
                .leading_zeros()
                .min(64 - REGISTERS_LOG) as u8
                + 1;
            self.registers[at] = self.registers[at].max(rank);
        }
    }
}

/// So many bits from this one on.
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
        assert!(!is_exact && off < 0.04, "{estimate}");
        assert!(distinct.chunks.is_empty());
    }

    #[test]
    fn hostile_ranges_end() {
        let mut distinct = Distinct::default();
        distinct.add(FileId(0), u64::MAX - 3, u64::MAX);
        distinct.add(FileId(0), 0, u64::MAX);
        assert!(distinct.pages().0 >= ACCESS_PAGES_MAX);
    }
}
