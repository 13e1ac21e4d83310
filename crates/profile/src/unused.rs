// SPDX-License-Identifier: MIT OR Apache-2.0
//! Feedback of a replayed run: pages fetched for nothing age, the others are confirmed.

use crate::merge::WEIGHT_MIN;
use crate::ranges::push_joined;
use crate::types::{NodeId, PageRange, Profile, WEIGHT_MAX};

/// Pages of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PagesOf {
    /// The file.
    pub node: NodeId,
    /// First page.
    pub start_page: u64,
    /// Number of pages.
    pub pages: u64,
}

impl Profile {
    /// Takes the result of a replayed run. `unused` pages were fetched and not read, so their
    /// weight halves, and below [`WEIGHT_MIN`] they are removed. The weights of all other pages
    /// climb half of the way to the full weight, as in a merge. The files stay: the run didn't
    /// disprove that they are looked up.
    pub fn age_unused(&mut self, unused: &[PagesOf]) {
        let mut unused = unused.to_vec();
        unused.sort_unstable();
        let mut rest = unused.as_slice();
        let mut ranges = Vec::with_capacity(self.ranges.len());
        for (id, node) in (0u32..).map(NodeId).zip(&mut self.nodes) {
            let skipped = rest.partition_point(|pages| pages.node < id);
            let (own, after) =
                rest[skipped..].split_at(rest[skipped..].partition_point(|p| p.node == id));
            rest = after;
            let first = ranges.len();
            let start = node.range_start as usize;
            let old = self.ranges.get(start..start + node.range_count as usize);
            for range in old.unwrap_or_default() {
                split(*range, own, |part| push_joined(&mut ranges, first, part));
            }
            node.range_start = u32::try_from(first).unwrap_or(u32::MAX);
            node.range_count = u32::try_from(ranges.len() - first).unwrap_or(0);
        }
        self.ranges = ranges;
    }
}

/// Cuts a range where unused pages begin and end, with the weights that the parts have then.
fn split(range: PageRange, unused: &[PagesOf], mut each: impl FnMut(PageRange)) {
    let climbed = range.weight + (WEIGHT_MAX - range.weight).div_ceil(2);
    let mut at = range.start_page;
    let mut part = |from: u64, to: u64, weight: u8| {
        if from < to && weight >= WEIGHT_MIN {
            each(PageRange {
                start_page: from,
                pages: to - from,
                weight,
                ..range
            });
        }
    };
    for pages in unused {
        let from = pages.start_page.clamp(at, range.end_page());
        let to = pages
            .start_page
            .saturating_add(pages.pages)
            .clamp(from, range.end_page());
        part(at, from, climbed);
        part(from, to, range.weight / 2);
        at = to;
    }
    part(at, range.end_page(), climbed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ProfileBuilder, Program, Source};
    use proptest::prelude::*;

    fn profile(pages: u64) -> (Profile, NodeId) {
        let mut builder = ProfileBuilder::new(Program::default(), Source::default());
        for name in [&b"/a"[..], b"/b"] {
            let id = builder.node(name).unwrap();
            builder.pages(id, 0, pages, 5);
        }
        let profile = builder.finish();
        let id = profile.find(b"/b").unwrap();
        (profile, id)
    }

    #[test]
    fn unused_pages_leave_after_five_runs_and_the_rest_stays() {
        let (mut profile, id) = profile(10);
        let unused = [PagesOf {
            node: id,
            start_page: 3,
            pages: 4,
        }];
        for run in 0..5 {
            let seen = profile.ranges(id).iter().map(|r| r.pages).sum::<u64>();
            assert_eq!(seen, 10, "before run {run}");
            profile.age_unused(&unused);
            assert_eq!(profile.validate(), Ok(()));
        }
        let left: Vec<_> = profile
            .ranges(id)
            .iter()
            .map(|r| (r.start_page, r.pages))
            .collect();
        assert_eq!(left, [(0, 3), (7, 3)]);
        assert_eq!(profile.total_pages(), 16);
    }

    #[test]
    fn one_use_makes_up_for_unused_runs() {
        let (mut profile, id) = profile(10);
        let unused = [PagesOf {
            node: id,
            start_page: 0,
            pages: 10,
        }];
        for _ in 0..20 {
            profile.age_unused(&unused);
            profile.age_unused(&unused);
            profile.age_unused(&[]);
        }
        assert_eq!(profile.total_pages(), 20);
    }

    proptest! {
        #[test]
        fn the_result_is_valid_and_loses_only_what_is_unused(
            spans in prop::collection::vec((0u32..4, 0u64..20, 0u64..20), 0..8),
            times in 0usize..8,
        ) {
            let (mut profile, _) = profile(12);
            let unused: Vec<_> = spans.iter().map(|&(node, start_page, pages)| PagesOf {
                node: NodeId(node), start_page, pages,
            }).collect();
            for _ in 0..times {
                profile.age_unused(&unused);
                prop_assert_eq!(profile.validate(), Ok(()));
            }
            for (id, _) in profile.files() {
                for page in 0..12 {
                    let named = unused.iter().any(|p| {
                        p.node == id && (p.start_page..p.start_page + p.pages).contains(&page)
                    });
                    let held = profile.ranges(id).iter().any(|r| {
                        (r.start_page..r.end_page()).contains(&page)
                    });
                    prop_assert!(held || named);
                }
            }
        }
    }
}
