// SPDX-License-Identifier: MIT OR Apache-2.0
//! In which order pieces are read: by place within windows of need.
//!
//! A single sort by place over everything is the fastest way to read all, but what is needed first
//! may come last: systemd's readahead lost 5 to 7 seconds of a boot that way (its commit
//! 94243ef299). A sort by need alone seeks for every piece. So the pieces are cut by need into
//! windows that a device reads in about a second or two, and sorted by place inside each.

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

/// What a device showed itself to be while metadata was read from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// Mean time for each separate piece, requests under way at once.
    pub piece_ns: u64,
}

/// A piece that takes longer than this was waited for by a head: 2 ms is below any disk's seek with
/// its half turn, and above a request of a slow stick (1.2 ms) or a cloud volume (0.3 ms at 3,000
/// requests a second).
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

    /// The window of need for the device: two seconds of reading for a disk with a head, where
    /// every further window costs a sweep; 32 MiB for others, where order costs nothing and small
    /// windows keep ahead of the program.
    #[must_use]
    pub fn window_bytes(self) -> u64 {
        if self.has_head() { 256 << 20 } else { 32 << 20 }
    }
}

/// What [`order`] had to leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Pages beyond the budget.
    pub over_budget_pages: u64,
}

/// Sorts pieces by place within windows of need. When all together exceed the budget, what is
/// needed first fills it, with the beginning of the last piece, and everything after that is left
/// out.
pub fn order(pieces: &mut Vec<Piece>, window_bytes: u64, budget_bytes: u64) -> LeftOut {
    pieces.sort_unstable_by_key(|p| (p.need_ns, p.place_bytes, p.node, p.start_page));
    let mut left_out = LeftOut::default();
    let mut left_pages = budget_bytes / PAGE_BYTES;
    pieces.retain_mut(|piece| {
        let pages = piece.pages.min(left_pages);
        left_out.over_budget_pages += piece.pages - pages;
        left_pages -= pages;
        piece.pages = pages;
        pages > 0
    });
    let mut rest = pieces.as_mut_slice();
    while !rest.is_empty() {
        let (window, next) = rest.split_at_mut(window_length(rest, window_bytes));
        window.sort_unstable_by_key(|p| (p.place_bytes, p.node, p.start_page));
        rest = next;
    }
    left_out
}

/// How many pieces are in the first window: at least one.
fn window_length(pieces: &[Piece], window_bytes: u64) -> usize {
    let mut bytes = 0u64;
    let over = pieces.iter().position(|piece| {
        bytes = bytes.saturating_add(piece.pages.saturating_mul(PAGE_BYTES));
        bytes > window_bytes
    });
    over.unwrap_or(pieces.len()).max(1)
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

    #[test]
    fn one_window_is_sorted_by_place() {
        let mut pieces = vec![piece(1, 0, 900), piece(2, 1, 100), piece(3, 2, 500)];
        assert_eq!(order(&mut pieces, u64::MAX, u64::MAX), LeftOut::default());
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
        assert_eq!(left_out.over_budget_pages, 1);
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
        assert_eq!(left_out.over_budget_pages, 71);
        let sizes: Vec<_> = pieces.iter().map(|p| (p.node.0, p.pages)).collect();
        assert_eq!(sizes, [(2, 100), (3, 30)]);
    }

    #[test]
    fn a_device_with_a_head_gets_the_wide_window() {
        let window = |piece_ns| Service { piece_ns }.window_bytes();
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
            prop_assert_eq!(before, after + left_out.over_budget_pages);
            // To the page: nothing is left out while there is room.
            prop_assert_eq!(after, before.min(budget / PAGE_BYTES));
            let mut seen = nodes(&pieces);
            seen.sort_unstable();
            seen.dedup();
            prop_assert_eq!(seen.len(), pieces.len());
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
            // What is needed later delays a piece by less than a window.
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
