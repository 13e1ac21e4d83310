// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads pieces by place within windows of need, ahead of the program.
//!
//! Input: pieces, the speed of the device, and the pieces that are cached by now. Output: each
//! piece once.
//!
//! A single sort by place is the fastest way to read all pieces, but the pieces that are needed
//! first may come last. systemd's readahead lost 5 to 7 seconds of a boot that way (its commit
//! 94243ef299). A sort by need alone seeks for every piece. So the pieces are cut by need into
//! windows, and sorted by place inside each.

use foreread_profile::{NodeId, PAGE_BYTES};

/// Pages of one file that lie together on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The file.
    pub node: NodeId,
    /// First page in the file.
    pub start_page: u64,
    /// Number of pages.
    pub pages: u64,
    /// When the first of them is needed, from the start of the program.
    pub need_ns: u64,
    /// Where they lie on the device, in bytes; the inode number or any other order where unknown.
    pub place_bytes: u64,
}

/// The speed at which a device read metadata, which shows whether it is rotational.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Service {
    /// Mean time for each separate piece, requests under way at once.
    pub piece_ns: u64,
}

/// A piece that takes longer than this needed a seek. 2 ms is below any disk's seek with its half
/// turn. It is above a request of a slow stick (1.2 ms) or a cloud volume (0.3 ms at 3,000 requests
/// a second).
const SEEK_NS_MIN: u64 = 2_000_000;

impl Service {
    /// A disk with a head, or one that must be taken for such.
    pub const HEAD: Self = Self {
        piece_ns: SEEK_NS_MIN,
    };

    /// Whether a head must be moved for each piece.
    #[must_use]
    pub fn has_head(self) -> bool {
        self.piece_ns >= SEEK_NS_MIN
    }

    /// Sizes of windows for the device. A rotational disk gets two seconds of reading at once,
    /// since every further window costs a sweep. On other disks order matters little. The first
    /// window is as large as one submission, to stay ahead of the program. Windows grow to 32 MiB,
    /// to let neighbours merge.
    #[must_use]
    pub fn windows(self) -> Windows {
        match self.has_head() {
            true => Windows::of(256 << 20),
            false => Windows {
                first_bytes: 1 << 20,
                max_bytes: 32 << 20,
                follow_program: true,
            },
        }
    }
}

/// How pieces are cut into windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// The first one, and the first one after the program was found to be ahead.
    pub first_bytes: u64,
    /// They double up to this.
    pub max_bytes: u64,
    /// Whether it is worth the while to find out where the program is, and to go on from there.
    pub follow_program: bool,
}

impl Windows {
    /// All of the same size, in the order of need wherever the program is.
    #[must_use]
    pub fn of(bytes: u64) -> Self {
        Self {
            first_bytes: bytes,
            max_bytes: bytes,
            follow_program: false,
        }
    }
}

/// After this many cached pieces in a row, the rest of a window is left for later.
const CACHED_IN_A_ROW: usize = 16;

/// Pieces left to a program that moves on: those that it reads by itself while a batch of 64 is
/// prepared. On an emulated processor they were 13, and fewer on a real one, where a read takes as
/// long but its preparation a tenth.
const LEFT_TO_PROGRAM: usize = 16;

/// Pieces to be read, and in which order. Each comes out once.
#[derive(Debug)]
pub struct Queue {
    windows: Windows,
    window_bytes: u64,
    /// The current window, by place; the next one is the last.
    window: Vec<Piece>,
    /// Pieces after the window, by descending need: the piece that is needed first is the last.
    by_need: Vec<Piece>,
    /// Pieces that the program seems to have read by itself. They are read at the end, in case it
    /// has not.
    passed: Vec<Piece>,
    /// Whether `passed` is being read.
    is_last_pass: bool,
    /// Pieces for which there is no budget, by descending need.
    over_budget: Vec<Piece>,
    /// Pages of the budget that pieces turned out not to need.
    free_pages: u64,
    /// Pages of the budget that pieces have taken.
    taken_pages: u64,
    cached_in_a_row: usize,
}

impl Queue {
    /// A queue of these pieces, up to a budget. The pieces that are needed first fill it, with the
    /// beginning of the last piece. The others follow as far as pages are [freed](Self::free).
    #[must_use]
    pub fn new(mut pieces: Vec<Piece>, windows: Windows, budget_bytes: u64) -> Self {
        pieces.sort_unstable_by_key(need);
        pieces.reverse();
        let mut queue = Self {
            windows,
            window_bytes: windows.first_bytes,
            window: Vec::new(),
            by_need: Vec::new(),
            passed: Vec::new(),
            is_last_pass: false,
            over_budget: pieces,
            free_pages: budget_bytes / PAGE_BYTES,
            taken_pages: 0,
            cached_in_a_row: 0,
        };
        queue.admit();
        queue
    }

    /// Gives pages back to the budget: they were cached already, or could not be read.
    pub fn free(&mut self, pages: u64) {
        self.free_pages += pages;
        self.taken_pages = self.taken_pages.saturating_sub(pages);
    }

    /// Pages of the budget that were not given back.
    #[must_use]
    pub fn taken_pages(&self) -> u64 {
        self.taken_pages
    }

    /// Pages for which there is no budget up to now.
    #[must_use]
    pub fn over_budget_pages(&self) -> u64 {
        self.over_budget.iter().map(|piece| piece.pages).sum()
    }

    /// Takes pieces that are next by need, as far as the budget goes.
    fn admit(&mut self) {
        if self.over_budget.is_empty() || self.free_pages == 0 {
            return;
        }
        let mut admitted = Vec::new();
        while let Some(mut piece) = self.over_budget.pop() {
            let pages = piece.pages.min(self.free_pages);
            if pages < piece.pages {
                self.over_budget.push(Piece {
                    place_bytes: piece.place_bytes.saturating_add(pages * PAGE_BYTES),
                    start_page: piece.start_page + pages,
                    pages: piece.pages - pages,
                    ..piece
                });
            }
            self.free_pages -= pages;
            self.taken_pages += pages;
            piece.pages = pages;
            if pages > 0 {
                admitted.push(piece);
            }
            if self.free_pages == 0 {
                break;
            }
        }
        admitted.reverse();
        // They are needed after all others.
        admitted.append(&mut self.by_need);
        self.by_need = admitted;
    }

    /// The next piece. `is_cached` is asked about few: at the beginning of a window, to find where
    /// the program is.
    pub fn next(&mut self, is_cached: impl FnMut(&Piece) -> bool) -> Option<Piece> {
        if self.window.is_empty() {
            self.fill_window(is_cached);
        }
        self.window.pop()
    }

    /// Tells whether the last piece was found cached as a whole; not called where that isn't known.
    /// Many in a row mean that the program is ahead, or that they were in memory from the start.
    pub fn tell(&mut self, is_cached: bool) {
        self.cached_in_a_row = if is_cached {
            self.cached_in_a_row + 1
        } else {
            0
        };
        if self.cached_in_a_row == CACHED_IN_A_ROW && self.follows_program() {
            self.window.sort_unstable_by_key(need);
            self.by_need.extend(self.window.drain(..).rev());
            self.window_bytes = self.windows.first_bytes;
        }
    }

    /// Number of consecutive pieces right before the next one that were reported as cached.
    #[must_use]
    pub fn cached_in_a_row(&self) -> usize {
        self.cached_in_a_row
    }

    /// All that is still to come, in no order.
    pub fn rest(&self) -> impl Iterator<Item = &Piece> {
        let later = self.by_need.iter().chain(&self.passed);
        self.window.iter().chain(later)
    }

    fn follows_program(&self) -> bool {
        self.windows.follow_program && !self.is_last_pass
    }

    fn fill_window(&mut self, mut is_cached: impl FnMut(&Piece) -> bool) {
        if self.by_need.is_empty() && self.passed.is_empty() {
            self.admit();
        }
        if self.follows_program() {
            let mut passed = self.passed_by(&mut is_cached);
            if passed > 0 {
                // Pieces that were in memory from the start look the same as pieces that the
                // program has read. If the program is there, it has gone on since.
                let next = self.by_need.iter().rev().nth(passed);
                if next.is_some_and(is_cached) {
                    passed += LEFT_TO_PROGRAM;
                }
                let left = self.by_need.len().saturating_sub(passed);
                self.passed.extend(self.by_need.drain(left..).rev());
                self.window_bytes = self.windows.first_bytes;
            }
        }
        if self.by_need.is_empty() {
            self.is_last_pass = true;
            self.passed.reverse();
            self.by_need = std::mem::take(&mut self.passed);
            self.window_bytes = self.windows.max_bytes;
        }
        let left = self.by_need.len() - window_length(&self.by_need, self.window_bytes);
        self.window = self.by_need.split_off(left);
        self.window
            .sort_unstable_by_key(|p| (p.place_bytes, p.node, p.start_page));
        self.window.reverse();
        self.window_bytes = self
            .window_bytes
            .saturating_mul(2)
            .min(self.windows.max_bytes);
    }

    /// Number of the next pieces, by need, that the program has read already. It reads in the order
    /// of need, more or less. So a search with doubling steps finds a piece that it has not read,
    /// and one with halving steps finds the first such piece.
    fn passed_by(&self, mut is_cached: impl FnMut(&Piece) -> bool) -> usize {
        let pieces = &self.by_need;
        let mut is_read = |at: usize| is_cached(&pieces[pieces.len() - 1 - at]);
        let (mut read, mut unread) = (0, pieces.len());
        let mut step = 1;
        while read < unread {
            let at = (read + step - 1).min(unread - 1);
            if is_read(at) {
                read = at + 1;
                // Halves once the end is known, doubles before.
                step = if unread < pieces.len() {
                    (unread - read).div_ceil(2)
                } else {
                    step * 2
                };
            } else {
                unread = at;
                step = (unread - read).div_ceil(2);
            }
        }
        read
    }
}

/// Sort key by need; pieces of equal need are in the order of the device.
fn need(piece: &Piece) -> (u64, u64, NodeId, u64) {
    (
        piece.need_ns,
        piece.place_bytes,
        piece.node,
        piece.start_page,
    )
}

/// Number of pieces at the end of the list that form the first window: at least one, if there is
/// one.
fn window_length(pieces: &[Piece], window_bytes: u64) -> usize {
    let mut bytes = 0u64;
    let over = pieces.iter().rev().position(|piece| {
        bytes = bytes.saturating_add(piece.pages.saturating_mul(PAGE_BYTES));
        bytes > window_bytes
    });
    over.unwrap_or(pieces.len()).max(1).min(pieces.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn piece(node: u32, need_ns: u64, place_bytes: u64) -> Piece {
        Piece {
            node: NodeId(node),
            start_page: 0,
            pages: 1,
            need_ns,
            place_bytes,
        }
    }

    fn nodes(pieces: &[Piece]) -> Vec<u32> {
        pieces.iter().map(|p| p.node.0).collect()
    }

    /// All pieces in their order, with windows of one size; and the pages left out.
    fn order(pieces: &mut Vec<Piece>, window_bytes: u64, budget_bytes: u64) -> u64 {
        let windows = Windows::of(window_bytes);
        let mut queue = Queue::new(std::mem::take(pieces), windows, budget_bytes);
        let left_out = queue.over_budget_pages();
        *pieces = std::iter::from_fn(|| queue.next(|_| panic!("nobody is to be asked"))).collect();
        left_out
    }

    const FOLLOWING: Windows = Windows {
        first_bytes: 4 * PAGE_BYTES,
        max_bytes: 16 * PAGE_BYTES,
        follow_program: true,
    };

    /// Pieces of a page that are needed one after the other, and lie the other way round.
    fn in_need(count: u32) -> Vec<Piece> {
        let piece = |n: u32| piece(n, n.into(), (count - n).into());
        (0..count).map(piece).collect()
    }

    #[test]
    fn cached_pieces_take_nothing_of_the_budget() {
        const BUDGET_PAGES: u64 = 10;
        let windows = Windows::of(4 * PAGE_BYTES);
        let mut queue = Queue::new(in_need(30), windows, BUDGET_PAGES * PAGE_BYTES);
        assert_eq!(queue.over_budget_pages(), 20);
        let (mut seen, mut fetched) = (Vec::new(), 0);
        while let Some(piece) = queue.next(|_| false) {
            let is_cached = piece.node.0 % 2 == 0;
            match is_cached {
                true => queue.free(piece.pages),
                false => fetched += piece.pages,
            }
            seen.push(piece.node.0);
        }
        seen.sort_unstable();
        assert_eq!(fetched, BUDGET_PAGES);
        // What is needed first has it.
        assert!(seen.iter().copied().eq(0..seen.len() as u32), "{seen:?}");
        assert_eq!(queue.taken_pages(), BUDGET_PAGES);
        assert_eq!(queue.over_budget_pages(), 30 - seen.len() as u64);
    }

    #[test]
    fn windows_grow_while_the_program_is_behind() {
        let mut queue = Queue::new(in_need(60), FOLLOWING, u64::MAX);
        let mut asked = Vec::new();
        while queue
            .next(|piece| {
                asked.push(piece.node.0);
                false
            })
            .is_some()
        {
            queue.tell(false);
        }
        // First pieces of windows of 4, 8, 16, 16 and the rest.
        assert_eq!(asked, [0, 4, 12, 28, 44]);
    }

    #[test]
    fn a_program_that_is_ahead_is_overtaken() {
        let mut queue = Queue::new(in_need(1000), FOLLOWING, u64::MAX);
        let (mut probes, mut reached) = (0, 300);
        let mut largest_unread = 1000;
        let first = queue.next(|piece| {
            probes += 1;
            // It goes on while it is looked for.
            reached += u32::from(piece.node.0 == largest_unread);
            let is_read = piece.node.0 < reached;
            if !is_read {
                largest_unread = piece.node.0;
            }
            is_read
        });
        let node = first.map(|piece| piece.node.0);
        let begin = 300 + LEFT_TO_PROGRAM as u32;
        assert_eq!(node, Some(begin + 3), "the last of four by need lies first");
        assert!(probes < 24, "{probes}");
        // It goes on and leaves a window behind.
        for _ in 0..3 {
            queue.tell(false);
            assert!(queue.next(|_| false).is_some());
        }
        queue.tell(false);
        // Pieces that are cached from the start are passed; the pieces after them are not left out.
        let next = queue.next(|piece| piece.node.0 < 800);
        assert_eq!(next.map(|piece| piece.node.0), Some(800 + 3));
        assert_eq!(queue.rest().count(), 1000 - 5);
    }

    #[test]
    fn a_window_that_the_program_has_read_is_left() {
        let windows = Windows {
            first_bytes: 400 * PAGE_BYTES,
            max_bytes: 400 * PAGE_BYTES,
            ..FOLLOWING
        };
        let mut queue = Queue::new(in_need(500), windows, u64::MAX);
        let mut read = 0;
        while queue.next(|piece| read > 0 && piece.node.0 < 450).is_some() {
            read += 1;
            if queue.rest().count() < 500 - CACHED_IN_A_ROW {
                break;
            }
            queue.tell(true);
        }
        assert_eq!(read, CACHED_IN_A_ROW + 1);
        assert_eq!(queue.passed.len(), 450 - CACHED_IN_A_ROW);
    }

    #[test]
    fn when_the_program_has_read_all_each_is_looked_at_once_more() {
        let mut queue = Queue::new(in_need(100), FOLLOWING, u64::MAX);
        let mut seen = Vec::new();
        while let Some(piece) = queue.next(|_| true) {
            seen.push(piece.node.0);
            queue.tell(true);
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn one_window_is_sorted_by_place() {
        let mut pieces = vec![piece(1, 0, 900), piece(2, 1, 100), piece(3, 2, 500)];
        assert_eq!(order(&mut pieces, u64::MAX, u64::MAX), 0);
        assert_eq!(nodes(&pieces), [2, 3, 1]);
    }

    #[test]
    fn what_is_needed_first_stays_in_the_first_window() {
        let mut pieces = vec![
            piece(1, 30, 100),
            piece(2, 0, 900),
            piece(3, 10, 800),
            piece(4, 20, 50),
        ];
        order(&mut pieces, 2 * PAGE_BYTES, u64::MAX);
        assert_eq!(nodes(&pieces), [3, 2, 4, 1]);
    }

    #[test]
    fn the_budget_drops_what_is_needed_last() {
        let mut pieces = vec![piece(1, 30, 1), piece(2, 0, 2), piece(3, 10, 3)];
        let left_out = order(&mut pieces, u64::MAX, 2 * PAGE_BYTES);
        assert_eq!(left_out, 1);
        assert_eq!(nodes(&pieces), [2, 3]);
    }

    #[test]
    fn a_piece_larger_than_the_budget_is_begun() {
        let large = |node, need_ns| Piece {
            pages: 100,
            ..piece(node, need_ns, 0)
        };
        // The small one is needed last: that it would fit is no reason to put it first.
        let mut pieces = vec![piece(1, 3, 0), large(2, 1), large(3, 2)];
        let left_out = order(&mut pieces, u64::MAX, 130 * PAGE_BYTES);
        assert_eq!(left_out, 71);
        let sizes: Vec<_> = pieces.iter().map(|p| (p.node.0, p.pages)).collect();
        assert_eq!(sizes, [(2, 100), (3, 30)]);
    }

    #[test]
    fn a_device_with_a_head_gets_the_wide_window() {
        let window = |piece_ns| Service { piece_ns }.windows().max_bytes;
        // A request of a cloud volume, of a slow stick; half a turn of a disk with its seek.
        assert_eq!(window(330_000), window(1_200_000));
        assert!(window(5_000_000) > window(1_200_000));
        assert_eq!(window(0), window(1));
        assert_eq!(window(u64::MAX), window(5_000_000));
    }

    #[test]
    fn a_window_smaller_than_a_piece_still_moves_on() {
        let mut pieces = vec![piece(1, 0, 9), piece(2, 1, 8)];
        order(&mut pieces, 0, u64::MAX);
        assert_eq!(nodes(&pieces), [1, 2]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_twice(
            given in prop::collection::vec((0u64..50, any::<u64>(), any::<u64>()), 0..60),
            window in any::<u64>(),
            budget in any::<u64>(),
        ) {
            let mut pieces: Vec<_> = given.iter().zip(0..).map(|(&(pages, need, place), node)| {
                Piece { pages, ..piece(node, need, place) }
            }).collect();
            let before: u64 = pieces.iter().map(|p| p.pages).sum();
            let left_out = order(&mut pieces, window, budget);
            let after: u64 = pieces.iter().map(|p| p.pages).sum();
            prop_assert_eq!(before, after + left_out);
            // To the page: nothing is left out while there is room.
            prop_assert_eq!(after, before.min(budget / PAGE_BYTES));
            let mut seen = nodes(&pieces);
            seen.sort_unstable();
            seen.dedup();
            prop_assert_eq!(seen.len(), pieces.len());
        }

        #[test]
        fn each_comes_once_wherever_the_program_is(
            given in prop::collection::vec((1u64..50, 0u64..20, any::<u64>()), 0..100),
            cached in any::<[bool; 64]>(),
        ) {
            let pieces: Vec<_> = given.iter().zip(0..).map(|(&(pages, need, place), node)| {
                Piece { pages, ..piece(node, need, place) }
            }).collect();
            let mut queue = Queue::new(pieces.clone(), FOLLOWING, u64::MAX);
            let mut seen = Vec::new();
            let mut asked = 0;
            while let Some(piece) = queue.next(|_| { asked += 1; cached[asked % 64] }) {
                seen.push(piece.node.0);
                queue.tell(cached[seen.len() * 7 % 64]);
                prop_assert_eq!(queue.rest().count(), pieces.len() - seen.len());
            }
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..pieces.len() as u32).collect::<Vec<_>>());
        }

        #[test]
        fn need_is_kept_between_windows_and_place_inside(
            given in prop::collection::vec((1u64..50, 0u64..20, any::<u64>()), 1..60),
            window_pages in 0u64..200,
        ) {
            let mut pieces: Vec<_> = given.iter().zip(0..).map(|(&(pages, need, place), node)| {
                Piece { pages, ..piece(node, need, place) }
            }).collect();
            let total: u64 = pieces.iter().map(|p| p.pages).sum();
            order(&mut pieces, window_pages * PAGE_BYTES, u64::MAX);
            // Pieces that are needed later delay a piece by less than a window.
            for (at, piece) in pieces.iter().enumerate() {
                let later = pieces[..at].iter().filter(|p| p.need_ns > piece.need_ns);
                let delay: u64 = later.map(|p| p.pages).sum();
                prop_assert!(delay == 0 || delay + piece.pages <= window_pages);
            }
            // The head turns back between windows only, and two neighbours exceed one window.
            let backward = pieces.windows(2).filter(|p| p[1].place_bytes < p[0].place_bytes);
            let windows_max = 2 * total / window_pages.max(1) + 1;
            prop_assert!(backward.count() as u64 <= windows_max);
        }
    }
}
