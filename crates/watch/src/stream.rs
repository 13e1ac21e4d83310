// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams in large files: turns windows that the policy asks for into ranges to read.
//!
//! Input: [`Ask`], a window with its repetitions. Output: merged ranges in pages of 4 KiB, and
//! after the fetch the pages that were read for each ask. No I/O.

use foreread_core::Device;

/// Identifies a file, also after the kernel has dropped its inode from memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileKey {
    /// Inode number.
    pub inode: u64,
    /// Device number of the file system.
    pub device: Device,
    /// Inode generation: differs when the inode number is used again.
    pub generation: u32,
}

/// A window that the policy asks for, and its repetitions. In pages of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// Process number of the reader.
    pub process: u32,
    /// Its thread.
    pub thread: u32,
    /// The file that it reads.
    pub file: FileKey,
    /// The disk, by the key of the BPF map of disks; 0 if it is not known.
    pub disk: u64,
    /// Break-even: reading this many pages takes as long as one request without pages.
    pub even_pages: u32,
    /// The same while the disk is busy.
    pub busy_pages: u32,
    /// First page.
    pub start_page: u64,
    /// Pages of the window.
    pub pages: u64,
    /// From the start of one repetition to the start of the next.
    pub step_pages: u64,
    /// Number of repetitions after the window itself.
    pub repeats: u32,
    /// Whether the reader goes backward. Repetitions then go backward as well.
    pub is_down: bool,
    /// Whether the file has a write lease, which opening it would break.
    pub is_leased: bool,
}

impl Ask {
    /// Pages of the window and all repetitions.
    #[must_use]
    pub fn all_pages(&self) -> u64 {
        self.ranges()
            .fold(0, |sum, (_, pages)| sum.saturating_add(pages))
    }

    /// The ranges to read, as (first page, pages), in the order of need. Repetitions before the
    /// start of the file are left out. Adjacent repetitions are merged.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let touch = self.repeats > 0 && !self.is_down && self.step_pages == self.pages;
        let (repeats, pages) = match touch {
            true => (
                0,
                self.pages
                    .saturating_mul(u64::from(self.repeats).saturating_add(1)),
            ),
            false => (self.repeats, self.pages),
        };
        (0..=u64::from(repeats)).filter_map(move |number| {
            let away = self.step_pages.checked_mul(number)?;
            let start = match self.is_down {
                true => self.start_page.checked_sub(away)?,
                false => self.start_page.checked_add(away)?,
            };
            (pages > 0).then_some((start, pages))
        })
    }
}

/// The ranges to read for several asks, as (first page, pages), in ascending order. Adjacent ranges
/// are merged: threads that read the rows of one table by turns ask for adjacent pieces.
#[must_use]
pub fn merged(asks: &[Ask]) -> Vec<(u64, u64)> {
    joined(&mut asks.iter().flat_map(Ask::ranges).collect::<Vec<_>>())
}

/// Sorts ranges and merges adjacent ones.
#[must_use]
pub fn joined(ranges: &mut [(u64, u64)]) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
    for &mut (start, pages) in ranges {
        match merged.last_mut() {
            Some((first, so_far)) if start <= first.saturating_add(*so_far) => {
                *so_far = (*so_far).max(start.saturating_add(pages) - *first);
            }
            _ => merged.push((start, pages)),
        }
    }
    merged
}

/// A range that was fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchedRange {
    /// First page.
    pub start_page: u64,
    /// Number of pages.
    pub pages: u64,
    /// Number of these pages that were not cached. It is not known which ones.
    pub read_pages: u64,
}

/// Number of pages that were read for each ask. A page of several asks counts for the first of
/// them. The pages read of a range are shared in proportion to the pages that each ask has of it.
/// The sum is the number of pages that were read.
#[must_use]
pub fn read_pages_of(asks: &[Ask], fetched: &[FetchedRange]) -> Vec<u64> {
    let mut credited = vec![0u64; asks.len()];
    for range in fetched.iter().filter(|range| range.read_pages > 0) {
        let end = range.start_page.saturating_add(range.pages);
        let mut left = vec![(range.start_page, end)];
        let mut claimed: Vec<u64> = asks.iter().map(|ask| claim(ask, &mut left)).collect();
        if claimed.iter().all(|pages| *pages == 0)
            && let Some(first) = claimed.first_mut()
        {
            // The ask for this range is not in the list any more.
            *first = 1;
        }
        let all: u128 = claimed.iter().map(|pages| u128::from(*pages)).sum();
        let (mut so_far, mut given) = (0u128, 0u64);
        for (credited, claimed) in credited.iter_mut().zip(claimed) {
            so_far += u128::from(claimed);
            let due = u128::from(range.read_pages) * so_far;
            let due = due.checked_div(all).unwrap_or(0) as u64;
            *credited = credited.saturating_add(due - given);
            given = due;
        }
    }
    credited
}

/// Removes the pages of an ask from `left`, ranges as (first page, end). Returns their number.
fn claim(ask: &Ask, left: &mut Vec<(u64, u64)>) -> u64 {
    let mut claimed = 0u64;
    for (start, pages) in ask.ranges() {
        let end = start.saturating_add(pages);
        let mut rest = Vec::with_capacity(left.len() + 1);
        for &(from, to) in left.iter() {
            let (first, last) = (from.max(start), to.min(end));
            if first >= last {
                rest.push((from, to));
                continue;
            }
            claimed = claimed.saturating_add(last - first);
            rest.extend(
                [(from, first), (last, to)]
                    .into_iter()
                    .filter(|(a, b)| a < b),
            );
        }
        *left = rest;
    }
    claimed
}

/// Splits a range into calls of at most `call_pages_max` pages, as (first page, pages). For a
/// backward reader, calls are issued from the end of the range.
pub fn calls(
    (start_page, pages): (u64, u64),
    call_pages_max: u64,
    is_down: bool,
) -> impl Iterator<Item = (u64, u64)> {
    let most = call_pages_max.max(1);
    let pages = pages.min(u64::MAX - start_page);
    let count = pages.div_ceil(most);
    (0..count).map(move |number| {
        let skipped = number * most;
        let length = most.min(pages - skipped);
        match is_down {
            true => (start_page + (pages - skipped - length), length),
            false => (start_page + skipped, length),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn ask(start_page: u64, pages: u64, step_pages: u64, repeats: u32, is_down: bool) -> Ask {
        Ask {
            start_page,
            pages,
            step_pages,
            repeats,
            is_down,
            ..Ask::default()
        }
    }

    #[test]
    fn windows_are_repeated_up_and_down() {
        let ranges = |ask: Ask| ask.ranges().collect::<Vec<_>>();
        assert_eq!(ranges(ask(10, 2, 0, 0, false)), [(10, 2)]);
        assert_eq!(
            ranges(ask(10, 2, 16, 2, false)),
            [(10, 2), (26, 2), (42, 2)]
        );
        assert_eq!(ranges(ask(20, 2, 16, 2, true)), [(20, 2), (4, 2)]);
        assert_eq!(ranges(ask(10, 2, 2, 3, false)), [(10, 8)]);
        assert_eq!(ranges(ask(10, 0, 2, 3, false)), []);
    }

    #[test]
    fn calls_begin_where_the_reader_comes_first() {
        let of = |is_down| calls((100, 10), 4, is_down).collect::<Vec<_>>();
        assert_eq!(of(false), [(100, 4), (104, 4), (108, 2)]);
        assert_eq!(of(true), [(106, 4), (102, 4), (100, 2)]);
    }

    fn fetched(start_page: u64, pages: u64, read_pages: u64) -> FetchedRange {
        FetchedRange {
            start_page,
            pages,
            read_pages,
        }
    }

    #[test]
    fn who_asked_for_what_was_cached_has_read_nothing() {
        let asks = [ask(0, 8, 0, 0, false), ask(8, 8, 0, 0, false)];
        assert_eq!(read_pages_of(&asks, &[fetched(0, 16, 16)]), [8, 8]);
        let parts = [fetched(0, 8, 8), fetched(8, 8, 0)];
        assert_eq!(read_pages_of(&asks, &parts), [8, 0]);
        assert_eq!(read_pages_of(&asks, &[fetched(4, 8, 3)]), [1, 2]);
    }

    #[test]
    fn what_two_asked_for_counts_once() {
        let asks = [ask(0, 8, 0, 0, false), ask(4, 8, 0, 0, false)];
        assert_eq!(read_pages_of(&asks, &[fetched(0, 12, 12)]), [8, 4]);
        assert_eq!(read_pages_of(&asks, &[fetched(100, 4, 3)]), [3, 0]);
        assert_eq!(read_pages_of(&[], &[fetched(0, 4, 4)]), [0u64; 0]);
    }

    proptest! {
        #[test]
        fn all_that_was_read_counts_for_somebody(
            asks in prop::collection::vec(
                (0u64..50, 0u64..8, 0u64..20, 0u32..5, any::<bool>()), 1..8
            ),
            ranges in prop::collection::vec((0u64..60, 1u64..20, 0u64..20), 0..8),
        ) {
            let asks = asks.into_iter().map(|(a, b, c, d, e)| ask(a, b, c, d, e));
            let asks: Vec<Ask> = asks.collect();
            let ranges = ranges.into_iter().map(|(a, b, c)| fetched(a, b, c.min(b)));
            let ranges: Vec<FetchedRange> = ranges.collect();
            let read: u64 = ranges.iter().map(|range| range.read_pages).sum();
            prop_assert_eq!(read_pages_of(&asks, &ranges).iter().sum::<u64>(), read);
        }

        #[test]
        fn calls_read_each_page_once(
            start_page in any::<u64>(), pages in 0u64..300, most in 0u64..50,
            is_down in any::<bool>()
        ) {
            let mut all: Vec<(u64, u64)> = calls((start_page, pages), most, is_down).collect();
            prop_assert!(all.iter().all(|(_, pages)| (1..=most.max(1)).contains(pages)));
            if is_down {
                all.reverse();
            }
            let mut at = start_page;
            for (start, pages) in all {
                prop_assert_eq!(start, at);
                at += pages;
            }
            prop_assert_eq!(at, start_page.saturating_add(pages));
        }

        #[test]
        fn merged_ranges_are_the_same_pages_once(
            asks in prop::collection::vec(
                (0u64..50, 0u64..8, 0u64..20, 0u32..5, any::<bool>()), 0..8
            )
        ) {
            let asks = asks.into_iter().map(|(a, b, c, d, e)| ask(a, b, c, d, e));
            let asks: Vec<Ask> = asks.collect();
            let pages = |ranges: &mut dyn Iterator<Item = (u64, u64)>| -> Vec<u64> {
                ranges.flat_map(|(start, pages)| start..start + pages).collect()
            };
            let wanted: BTreeSet<u64> =
                pages(&mut asks.iter().flat_map(Ask::ranges)).into_iter().collect();
            let merged = merged(&asks);
            prop_assert!(merged.windows(2).all(|two| two[0].0 + two[0].1 < two[1].0));
            let wanted: Vec<u64> = wanted.into_iter().collect();
            prop_assert_eq!(pages(&mut merged.into_iter()), wanted);
        }

        #[test]
        fn any_bits_are_ranges(
            start_page in any::<u64>(), pages in any::<u64>(), step_pages in any::<u64>(),
            repeats in 0u32..200, is_down in any::<bool>()
        ) {
            let ask = ask(start_page, pages, step_pages, repeats, is_down);
            prop_assert!(ask.ranges().count() <= repeats as usize + 1);
            prop_assert!(ask.ranges().all(|(_, pages)| pages > 0));
            prop_assert!(merged(&[ask]).len() <= repeats as usize + 1);
        }
    }
}
