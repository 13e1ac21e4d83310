// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams inside of large files: what the policy asks for, as ranges to read.

use crate::line::Device;

/// A file, whatever becomes of its memory in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileKey {
    /// Its number.
    pub inode: u64,
    /// Of its file system.
    pub device: Device,
    /// Tells it from others that had its number before.
    pub generation: u32,
}

/// What the policy asks for: a window, and repetitions of it. In pages of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// Who reads.
    pub process: u32,
    /// And which of its threads.
    pub thread: u32,
    /// Of which file.
    pub file: FileKey,
    /// The disk, as the kernel's side knows it; 0 none that it can see.
    pub disk: u64,
    /// Pages that cost the disk as much as a request does.
    pub even_pages: u32,
    /// The same when it has more to do.
    pub busy_pages: u32,
    /// First page.
    pub start_page: u64,
    /// Pages.
    pub pages: u64,
    /// From the start of one repetition to the start of the next.
    pub step_pages: u64,
    /// How often once more.
    pub repeats: u32,
    /// Whether its reader goes down, and with it the repetitions.
    pub is_down: bool,
}

impl Ask {
    /// Pages of all of it.
    #[must_use]
    pub fn all_pages(&self) -> u64 {
        self.ranges()
            .fold(0, |sum, (_, pages)| sum.saturating_add(pages))
    }

    /// What to read, as (first page, pages), in the order of need. Repetitions that leave the file
    /// at its start are left out; those that touch are one.
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

/// What to read for several that are asked for at once, as (first page, pages), upward: those that
/// touch are one. Threads that read the rows of one table by turns ask for pieces that make up the
/// whole.
#[must_use]
pub fn merged(asks: &[Ask]) -> Vec<(u64, u64)> {
    joined(&mut asks.iter().flat_map(Ask::ranges).collect::<Vec<_>>())
}

/// Ranges, upward: those that touch are one.
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

/// The calls that read a range, of so many pages at most, as (first page, pages). Of a reader that
/// goes down, what it comes to first is last in the range, and so is read first.
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

    proptest! {
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
