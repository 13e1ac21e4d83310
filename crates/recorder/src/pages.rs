// SPDX-License-Identifier: MIT OR Apache-2.0
//! A set of pages of one file, with a time of first need for each chunk of 64.

use std::collections::BTreeMap;

use foreread_profile::PAGE_BYTES;

use crate::recording::{CHUNK_PAGES, Chunk};

/// Pages of one file, with a time of first need for each chunk of 64.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// Most files have no further chunk, and then nothing is allocated.
    first: Chunk,
    rest: BTreeMap<u64, Chunk>,
}

impl Pages {
    /// Adds the pages from `start` to before `end`, needed at `time_ns`; returns how many chunks
    /// are new.
    pub fn set(&mut self, start: u64, end: u64, time_ns: u64) -> u64 {
        let mut fresh = 0;
        let mut at = start;
        while at < end {
            let (index, from) = (at / CHUNK_PAGES, at % CHUNK_PAGES);
            let to = (end - index * CHUNK_PAGES).min(CHUNK_PAGES);
            let bits = (u64::MAX >> (CHUNK_PAGES - (to - from))) << from;
            let chunk = if index == 0 {
                &mut self.first
            } else {
                self.rest.entry(index).or_insert_with(|| {
                    fresh += 1;
                    Chunk::default()
                })
            };
            chunk.need_ns = if chunk.used == 0 {
                time_ns
            } else {
                chunk.need_ns.min(time_ns)
            };
            chunk.used |= bits;
            at = (index + 1).saturating_mul(CHUNK_PAGES);
        }
        fresh
    }

    /// Adds the resident pages of a part of a file that starts at byte `at_bytes`. As `mincore`
    /// does, `found` tells of each page of the kernel in a byte; such a page has `unit` pages of
    /// 4 KiB. They have no time of need.
    pub fn set_resident(&mut self, found: &[u8], at_bytes: u64, file_bytes: u64, unit: u64) {
        let base = at_bytes / PAGE_BYTES;
        let end_page = file_bytes.div_ceil(PAGE_BYTES);
        let mut index = 0;
        for run in found.chunk_by(|a, b| a & 1 == b & 1) {
            let from = index;
            index += run.len() as u64;
            if run[0] & 1 == 1 {
                let end = (base + index * unit).min(end_page);
                self.set(base + from * unit, end, 0);
            }
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first.used == 0 && self.rest.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.chunks()
            .map(|(_, chunk)| u64::from(chunk.used.count_ones()))
            .sum()
    }

    /// First page of the last chunk that has any.
    #[must_use]
    pub fn last_chunk_start(&self) -> u64 {
        self.rest
            .last_key_value()
            .map_or(0, |(index, _)| index * CHUNK_PAGES)
    }

    /// The chunks that have any, each with its number.
    pub fn chunks(&self) -> impl Iterator<Item = (u64, &Chunk)> {
        let first = (self.first.used != 0).then_some((0, &self.first));
        first
            .into_iter()
            .chain(self.rest.iter().map(|(index, chunk)| (*index, chunk)))
    }

    fn chunks_mut(&mut self) -> impl Iterator<Item = &mut Chunk> {
        std::iter::once(&mut self.first).chain(self.rest.values_mut())
    }

    /// All of them, needed at one time.
    #[must_use]
    pub fn at(mut self, need_ns: u64) -> Self {
        self.chunks_mut().for_each(|chunk| chunk.need_ns = need_ns);
        self
    }

    /// The same with times from `start_ns` on; 0 stands for never.
    #[must_use]
    pub fn since(mut self, start_ns: u64) -> Self {
        self.chunks_mut()
            .for_each(|chunk| chunk.need_ns = chunk.need_ns.saturating_sub(start_ns).max(1));
        self
    }

    /// Those before page `end`, the end of the file: a read asks for more than there is.
    #[must_use]
    pub fn clipped(mut self, end: u64) -> Self {
        let last = end / CHUNK_PAGES;
        let mask = (1u64 << (end % CHUNK_PAGES)) - 1;
        self.rest.retain(|index, chunk| {
            if *index == last {
                chunk.used &= mask;
            }
            *index <= last && chunk.used != 0
        });
        if last == 0 {
            self.first.used &= mask;
        }
        self
    }

    /// Adds those of another; the earlier need counts.
    pub fn join(&mut self, other: &Self) {
        for (index, chunk) in other.chunks() {
            let own = if index == 0 {
                &mut self.first
            } else {
                self.rest.entry(index).or_default()
            };
            own.need_ns = if own.used == 0 {
                chunk.need_ns
            } else {
                own.need_ns.min(chunk.need_ns)
            };
            own.used |= chunk.used;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_set_across_chunks_and_cut_at_the_end() {
        let mut pages = Pages::default();
        assert_eq!(pages.set(60, 200, 9), 3);
        assert_eq!(pages.set(0, 1, 12), 0);
        assert_eq!(pages.set(130, 140, 5), 0);
        assert_eq!(pages.count(), 141);
        assert_eq!(pages.first.need_ns, 9);
        assert_eq!(pages.rest[&2].need_ns, 5);
        let mut cut = pages.clone().clipped(128);
        assert_eq!(cut.count(), 69);
        assert_eq!(pages.clone().clipped(62).count(), 3);
        assert_eq!(pages.clone().clipped(1000).count(), 141);
        cut.join(&pages);
        assert_eq!(cut.count(), 141);
        assert!(pages.clipped(0).is_empty());
    }

    #[test]
    fn runs_of_resident_pages_end_with_the_file() {
        for unit in [1, 4] {
            let mut pages = Pages::default();
            let page_bytes = unit * PAGE_BYTES;
            // The last page of the kernel is half full.
            let file_bytes = 4 * page_bytes - page_bytes / 2;
            pages.set_resident(&[1, 0, 0x81, 1], 0, file_bytes, unit);
            assert_eq!(pages.count(), file_bytes.div_ceil(PAGE_BYTES) - unit);
        }
    }
}
