// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists of page ranges: overlaps removed, neighbours joined.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::types::PageRange;

/// Below this the granularity of need is constant; above it grows with the need.
const FINE_SHIFT: u32 = 21;
/// Bits of a need that distinguish it from others: 64 steps per doubling.
const STEP_BITS: u32 = 6;

/// Two touching ranges whose needs give the same value are needed together.
///
/// A step is 2^21 ns (2.1 ms) for the first 134 ms of a program, and 1/64 to 1/128 of the need
/// after that. The grid is fixed, and not a distance between neighbours. So joining is independent
/// of order, and joining twice changes nothing. With a distance, each merge of a profile would
/// swallow a little more of a slow reader's ranges. The grid widens because a late need has been
/// shifted by everything before it, and is not known more exactly than this. It also bounds the
/// ranges that one slow sequential reader can make.
#[must_use]
pub fn need_bucket(need_ns: u64) -> (u32, u64) {
    let top_bit = u64::BITS - 1 - (need_ns | 1).leading_zeros();
    let shift = top_bit.saturating_sub(STEP_BITS).max(FINE_SHIFT);
    (shift, need_ns >> shift)
}

/// Ranges with weights of one octave are removed after the same number of further runs that don't
/// see them.
pub(crate) fn weight_octave(weight: u8) -> u32 {
    weight.leading_zeros()
}

/// Of two needs at the same time, that of a known unit counts, and of two known ones the first.
const fn unit_rank(unit: u16) -> u16 {
    unit.wrapping_sub(1)
}

/// The earlier of two needs, each with its unit.
pub(crate) fn earlier(one: (u64, u16), other: (u64, u16)) -> (u64, u16) {
    std::cmp::min_by_key(one, other, |(need_ns, unit)| (*need_ns, unit_rank(*unit)))
}

/// Appends `next` to the ranges of one node, which start at `first` in `out`.
///
/// It is joined with the last of them if it touches it, is needed together with it, and will be
/// removed together with it. The joined range has the earlier need, with its unit, and the higher
/// weight. `next` must not start before the end of the last one.
pub(crate) fn push_joined(out: &mut Vec<PageRange>, first: usize, next: PageRange) {
    if out.len() > first
        && let Some(last) = out.last_mut()
        && last.end_page() == next.start_page
        && weight_octave(last.weight) == weight_octave(next.weight)
        && need_bucket(last.need_ns) == need_bucket(next.need_ns)
    {
        last.pages += next.pages;
        (last.need_ns, last.unit) = earlier((last.need_ns, last.unit), (next.need_ns, next.unit));
        last.weight = last.weight.max(next.weight);
        return;
    }
    out.push(next);
}

/// Appends the ranges of one node to `out`. They must be sorted by `start_page`, and may overlap.
/// Each page keeps its earliest need, and neighbours are joined.
pub(crate) fn flatten(sorted: &[PageRange], out: &mut Vec<PageRange>) {
    let first = out.len();
    let mut rest = sorted;
    while let Some(head) = rest.first() {
        let mut end_page = head.end_page();
        let mut length = 1;
        while let Some(next) = rest.get(length)
            && next.start_page < end_page
        {
            end_page = end_page.max(next.end_page());
            length += 1;
        }
        let (cluster, after) = rest.split_at(length);
        if length == 1 {
            push_joined(out, first, *head);
        } else {
            flatten_cluster(cluster, out, first);
        }
        rest = after;
    }
}

/// As [`flatten`], for ranges that form one unbroken stretch of pages. Sweeps over the pages, with
/// the ranges that cover the current page in a heap by need.
fn flatten_cluster(cluster: &[PageRange], out: &mut Vec<PageRange>, first: usize) {
    let mut active: BinaryHeap<Reverse<(u64, u16, u64)>> = BinaryHeap::new();
    let mut waiting = cluster.iter().peekable();
    let Some(head) = cluster.first() else { return };
    let mut page = head.start_page;
    loop {
        while let Some(range) = waiting.next_if(|range| range.start_page <= page) {
            active.push(Reverse((
                range.need_ns,
                unit_rank(range.unit),
                range.end_page(),
            )));
        }
        while active
            .peek()
            .is_some_and(|Reverse((_, _, end_page))| *end_page <= page)
        {
            active.pop();
        }
        let Some(&Reverse((need_ns, rank, end_page))) = active.peek() else {
            return;
        };
        let until = waiting
            .peek()
            .map_or(end_page, |next| end_page.min(next.start_page));
        push_joined(
            out,
            first,
            PageRange {
                start_page: page,
                pages: until - page,
                need_ns,
                weight: head.weight,
                unit: rank.wrapping_add(1),
            },
        );
        page = until;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn range(start_page: u64, pages: u64, need_ns: u64) -> PageRange {
        PageRange {
            start_page,
            pages,
            need_ns,
            weight: 255,
            unit: 0,
        }
    }

    fn flat(sorted: &[PageRange]) -> Vec<PageRange> {
        let mut out = Vec::new();
        flatten(sorted, &mut out);
        out
    }

    #[test]
    fn neighbours_needed_together_join_at_the_earlier_need() {
        assert_eq!(
            flat(&[range(0, 4, MS), range(4, 4, 2), range(9, 1, 0)]),
            [range(0, 8, 2), range(9, 1, 0)]
        );
    }

    #[test]
    fn neighbours_needed_apart_stay_apart() {
        let apart = [range(0, 4, 0), range(4, 4, 100 * MS)];
        assert_eq!(flat(&apart), apart);
    }

    #[test]
    fn an_overlap_keeps_the_earliest_need_of_each_page() {
        assert_eq!(
            flat(&[
                range(0, 10, 500 * MS),
                range(2, 3, 0),
                range(4, 2, 100 * MS)
            ]),
            [
                range(0, 2, 500 * MS),
                range(2, 3, 0),
                range(5, 1, 100 * MS),
                range(6, 4, 500 * MS)
            ]
        );
    }

    #[test]
    fn the_grid_is_monotone_and_ever_coarser() {
        let mut before = need_bucket(0);
        for need_ns in (0..400u64).map(|i| i * i * i * 1_000) {
            let bucket = need_bucket(need_ns);
            assert!(bucket >= before, "{need_ns}");
            before = bucket;
        }
        assert_eq!(need_bucket(0), need_bucket(2 * MS));
        assert_ne!(need_bucket(0), need_bucket(3 * MS));
        assert_eq!(need_bucket(10_000 * MS), need_bucket(10_050 * MS));
        assert_ne!(need_bucket(10_000 * MS), need_bucket(10_200 * MS));
        assert_eq!(need_bucket(u64::MAX).1, 127);
    }
}
