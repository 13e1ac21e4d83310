// SPDX-License-Identifier: MIT OR Apache-2.0
//! In which order programs read the pages of files: numbers only, the same in every run.

use foreread_sim::Random;

/// The `thread`th of `threads` parts of `pages` pages that lie one behind the other.
pub fn part(pages: u64, threads: u64, thread: u64) -> impl Iterator<Item = u64> {
    let threads = threads.max(1);
    let border = |thread: u64| {
        let place = u128::from(pages) * u128::from(thread.min(threads)) / u128::from(threads);
        u64::try_from(place).unwrap_or(pages)
    };
    border(thread)..border(thread.saturating_add(1))
}

/// Blocks of `block_pages` pages that `threads` threads take in turn: those of one of them. With
/// large blocks these are tensors, with small ones the slices of the rows of a matrix.
pub fn blocks_in_turn(
    pages: u64,
    block_pages: u64,
    threads: u64,
    thread: u64,
) -> impl Iterator<Item = u64> {
    let block_pages = block_pages.max(1);
    let blocks = thread..pages.div_ceil(block_pages);
    let step = usize::try_from(threads.max(1)).unwrap_or(usize::MAX);
    blocks.step_by(step).flat_map(move |block| {
        let first = block * block_pages;
        first..pages.min(first.saturating_add(block_pages))
    })
}

/// Every `step`th page, and after each `noise_every - 1` of these a random one; without noise where
/// `noise_every` is 0.
pub fn strided(pages: u64, step: u64, noise_every: u64, seed: u64) -> impl Iterator<Item = u64> {
    let mut random = Random::new(seed);
    let step_size = usize::try_from(step.max(1)).unwrap_or(usize::MAX);
    let wanted = (0..pages).step_by(step_size).zip(1_u64..);
    wanted.flat_map(move |(page, count)| {
        let is_noise_due = noise_every > 1 && count.is_multiple_of(noise_every - 1);
        let noise = is_noise_due.then(|| random.below(pages));
        std::iter::once(page).chain(noise)
    })
}

/// `count` pages here and there.
pub fn random(pages: u64, count: u64, seed: u64) -> impl Iterator<Item = u64> {
    let mut random = Random::new(seed);
    (0..count).map(move |_| random.below(pages))
}

/// A read that ends long before its file does, such as of a query with a LIMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlyStop {
    /// Which of the files.
    pub file: usize,
    pub first_page: u64,
    /// One page at least.
    pub pages: u64,
}

/// The most pages that an early stop reads.
pub const EARLY_STOP_PAGES_MAX: u64 = 40;

/// `count` early stops in files that have `pages` pages each.
pub fn early_stops(
    files: usize,
    pages: u64,
    count: u64,
    seed: u64,
) -> impl Iterator<Item = EarlyStop> {
    let mut random = Random::new(seed);
    (0..count).map(move |_| {
        let length = (1 + random.below(EARLY_STOP_PAGES_MAX)).min(pages);
        EarlyStop {
            file: usize::try_from(random.below(files as u64)).unwrap_or(0),
            first_page: random.below(pages - length + 1),
            pages: length,
        }
    })
}

/// A page of one of two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachedOrNot {
    Cached(u64),
    Missed(u64),
}

/// `count` reads here and there in a file that is in memory, of which every `miss_every`th goes to
/// one that isn't.
pub fn mostly_cached(
    cached_pages: u64,
    other_pages: u64,
    count: u64,
    miss_every: u64,
    seed: u64,
) -> impl Iterator<Item = CachedOrNot> {
    let mut random = Random::new(seed);
    (1..=count).map(move |number| match number.is_multiple_of(miss_every) {
        true => CachedOrNot::Missed(random.below(other_pages)),
        false => CachedOrNot::Cached(random.below(cached_pages)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_once(pages: u64, threads: impl Iterator<Item = Vec<u64>>) {
        let mut read: Vec<u64> = threads.flatten().collect();
        read.sort_unstable();
        assert!(read.iter().copied().eq(0..pages), "{pages}: {read:?}");
    }

    #[test]
    fn parts_are_each_page_once_and_nearly_equal() {
        for pages in [0, 1, 7, 8, 1000, 1023] {
            let of = |thread| part(pages, 8, thread).collect::<Vec<_>>();
            all_once(pages, (0..8).map(of));
            let most = (0..8).map(|thread| of(thread).len()).max().unwrap();
            assert!(most as u64 <= pages.div_ceil(8));
        }
        assert!(part(10, 1, 0).eq(0..10));
        assert_eq!(part(u64::MAX, 8, 8).count(), 0);
    }

    #[test]
    fn blocks_in_turn_are_each_page_once() {
        for pages in [0, 1, 16, 130, 4096, 5000] {
            let of = |thread| blocks_in_turn(pages, 16, 8, thread).collect::<Vec<_>>();
            all_once(pages, (0..8).map(of));
        }
        let second: Vec<u64> = blocks_in_turn(64, 4, 8, 1).collect();
        assert_eq!(second, [4, 5, 6, 7, 36, 37, 38, 39]);
        assert_eq!(blocks_in_turn(5, 0, 0, 0).count(), 5);
    }

    #[test]
    fn every_fifth_access_of_a_noisy_stride_is_elsewhere() {
        let read: Vec<u64> = strided(16_000, 16, 5, 1).collect();
        assert_eq!(read.len(), 1250);
        let regular = read.iter().enumerate().filter(|(at, _)| at % 5 != 4);
        assert!(regular.map(|(_, page)| *page).eq((0..16_000).step_by(16)));
        let noise: Vec<u64> = read.iter().skip(4).step_by(5).copied().collect();
        assert!(noise.iter().all(|page| *page < 16_000));
        let on_stride = noise.iter().filter(|page| page.is_multiple_of(16)).count();
        assert!(
            on_stride < noise.len() / 4,
            "{on_stride} of {}",
            noise.len()
        );
        assert!(strided(64, 16, 0, 1).eq([0, 16, 32, 48]));
    }

    #[test]
    fn random_pages_are_everywhere_and_the_same_each_time() {
        let read: Vec<u64> = random(1000, 4000, 7).collect();
        assert!(read.iter().all(|page| *page < 1000));
        assert!(random(1000, 4000, 7).eq(read.iter().copied()));
        for quarter in 0..4 {
            let inside = |page: &&u64| **page / 250 == quarter;
            assert!((800..1200).contains(&read.iter().filter(inside).count()));
        }
    }

    #[test]
    fn early_stops_stay_within_their_files() {
        let stops: Vec<EarlyStop> = early_stops(9, 100, 2000, 3).collect();
        for stop in &stops {
            assert!(stop.file < 9);
            assert!((1..=EARLY_STOP_PAGES_MAX).contains(&stop.pages));
            assert!(stop.first_page + stop.pages <= 100);
        }
        for length in [1, EARLY_STOP_PAGES_MAX] {
            assert!(stops.iter().any(|stop| stop.pages == length));
        }
        assert!(early_stops(2, 1, 50, 3).all(|stop| (stop.first_page, stop.pages) == (0, 1)));
    }

    #[test]
    fn one_read_in_a_hundred_misses() {
        let reads: Vec<CachedOrNot> = mostly_cached(50, 5000, 1000, 100, 2).collect();
        let missed =
            |read: &&CachedOrNot| matches!(read, CachedOrNot::Missed(page) if *page < 5000);
        assert_eq!(reads.iter().filter(missed).count(), 10);
        let cached = |read: &&CachedOrNot| matches!(read, CachedOrNot::Cached(page) if *page < 50);
        assert_eq!(reads.iter().filter(cached).count(), 990);
    }
}
