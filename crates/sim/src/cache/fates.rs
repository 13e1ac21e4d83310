// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which pages were fetched, used for the first time, or evicted before, in that order: kept where
//! somebody asks for it, until [`PageCache::take_fates`].

use super::index::LEAF_PAGES;
use super::{FileId, PageCache};

/// What became of a fetched page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// It was in the cache at its first use.
    OnTime,
    /// A program waited for it.
    Late,
    /// It was evicted or dropped before its first use.
    Wasted,
    /// It was fetched and not used until the end of the run.
    Unread,
}

/// Pages of a leaf to which the same happened at once.
#[derive(Clone, Copy, Debug)]
pub struct Met {
    /// The file.
    pub file: FileId,
    /// What became of them; `None` where they were fetched.
    pub fate: Option<Fate>,
    /// The first page of the leaf, and a bit for each page.
    first: u64,
    bits: u64,
}

impl Met {
    /// The pages, a range for each run of them.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let (first, mut left) = (self.first, self.bits);
        std::iter::from_fn(move || {
            let start = u64::from(left.trailing_zeros());
            if left == 0 {
                return None;
            }
            let pages = u64::from((left >> start).trailing_ones());
            let run = u64::MAX.checked_shr(64 - pages as u32).unwrap_or(0) << start;
            left &= !run;
            Some((first + start, first + start + pages))
        })
    }
}

/// The fates of pages since they were taken last; `None` where nobody asks.
#[derive(Clone, Debug, Default)]
pub(super) struct Fates(Option<Vec<Met>>);

impl Fates {
    /// Whether somebody asks.
    #[inline]
    pub fn are_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Pages of a leaf met their fate, or were fetched.
    #[inline]
    pub fn note(&mut self, file: u32, leaf: u64, bits: u64, fate: Option<Fate>) {
        if let Some(fates) = self.0.as_mut().filter(|_| bits != 0) {
            fates.push(Met {
                file: FileId(file),
                fate,
                first: leaf * LEAF_PAGES,
                bits,
            });
        }
    }
}

impl PageCache {
    /// Keeps the fates of pages from now on.
    pub fn keep_fates(&mut self) {
        self.fates.0.get_or_insert_default();
    }

    /// What became of pages since the last call, in order.
    pub fn take_fates(&mut self) -> Vec<Met> {
        self.fates
            .0
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_runs_of_pages() {
        let runs = |bits| {
            let met = Met {
                file: FileId(0),
                fate: Some(Fate::Late),
                first: 640,
                bits,
            };
            met.runs().collect::<Vec<_>>()
        };
        assert_eq!(runs(0), []);
        assert_eq!(runs(u64::MAX), [(640, 704)]);
        assert_eq!(runs(0b1011), [(640, 642), (643, 644)]);
        assert_eq!(runs(1 << 63 | 1), [(640, 641), (703, 704)]);
    }
}
