// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accounts for the pages that a replay fetched, where no BPF program watched them.
//!
//! Input: the pages that arrived, and the profile that was recorded meanwhile, if it was. Output:
//! how many of them were used, and how many have left the page cache again. The page cache is asked
//! once, after the run.

use std::collections::HashMap;

use foreread_profile::{BlindSpots, NodeId, PagesOf, Profile};

/// Tells which pages of a profile are in the page cache.
pub trait Residency {
    /// How many of these pages aren't cached; `None` when that can't be told. Files come one after
    /// the other.
    fn gone(&mut self, node: NodeId, start_page: u64, pages: u64) -> Option<u64>;
}

/// Sums of pages. `None` stands for what can't be known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Pages that arrived.
    pub arrived: u64,
    /// Arrived pages that have left the page cache.
    pub gone: Option<u64>,
    /// Arrived pages that the program accessed; known only if accesses were recorded.
    pub used: Option<u64>,
    /// Pages that it did not access and that have left the page cache.
    pub wasted: Option<u64>,
    /// Distinct pages that the program accessed.
    pub accessed: Option<u64>,
}

impl Fetched {
    /// Accounts for `pages` of `replayed`. `recorded` holds what the program accessed, or read as
    /// far as could be seen.
    #[must_use]
    pub fn of(
        pages: &[PagesOf],
        replayed: &Profile,
        recorded: Option<&Profile>,
        residency: &mut impl Residency,
    ) -> Self {
        let sees_accesses = |profile: &&Profile| {
            let blind = profile.source.blind_spots.0;
            blind & (BlindSpots::RESIDENCY_NOT_ACCESS.0 | BlindSpots::NO_MAPPED_FAULTS.0) == 0
                && profile.source.events_lost == 0
        };
        let recorded = recorded.filter(sees_accesses);
        let mut sums = Self {
            gone: Some(0),
            used: recorded.map(|_| 0),
            wasted: recorded.map(|_| 0),
            accessed: recorded.map(Profile::total_pages),
            ..Self::default()
        };
        let mut found: HashMap<NodeId, Option<NodeId>> = HashMap::new();
        for part in pages {
            sums.arrived += part.pages;
            let gone = residency.gone(part.node, part.start_page, part.pages);
            sums.gone = sums.gone.zip(gone).map(|(sum, gone)| sum + gone);
            let Some(recorded) = recorded else { continue };
            let node = *found.entry(part.node).or_insert_with(|| {
                let mut path = Vec::new();
                replayed.path_into(part.node, &mut path);
                recorded.find(&path)
            });
            let unused = unused(recorded, node, part);
            let unused_pages: u64 = unused.iter().map(|(_, pages)| pages).sum();
            sums.used = sums.used.map(|sum| sum + part.pages - unused_pages);
            for (start_page, pages) in unused {
                let gone = residency.gone(part.node, start_page, pages);
                sums.wasted = sums.wasted.zip(gone).map(|(sum, gone)| sum + gone);
            }
        }
        sums
    }
}

/// The parts of some pages that aren't in what was recorded of their file.
fn unused(recorded: &Profile, node: Option<NodeId>, part: &PagesOf) -> Vec<(u64, u64)> {
    let end = part.start_page + part.pages;
    let ranges = node.map_or(&[][..], |node| recorded.ranges(node));
    let mut unused = Vec::new();
    let mut at = part.start_page;
    for range in ranges {
        let from = range.start_page.clamp(at, end);
        if from > at {
            unused.push((at, from - at));
        }
        at = at.max(range.end_page().min(end));
    }
    if at < end {
        unused.push((at, end - at));
    }
    unused
}

#[cfg(test)]
mod tests {
    use foreread_profile::{NodeKind, ProfileBuilder, Program, Source};

    use super::*;

    /// The first 10 pages of each file are cached.
    struct FirstTen;

    impl Residency for FirstTen {
        fn gone(&mut self, _: NodeId, start_page: u64, pages: u64) -> Option<u64> {
            Some((start_page + pages).saturating_sub(start_page.max(10)))
        }
    }

    fn profile(path: &[u8], ranges: &[(u64, u64)], blind_spots: u32) -> Profile {
        let source = Source {
            blind_spots: BlindSpots(blind_spots),
            ..Source::default()
        };
        let mut builder = ProfileBuilder::new(Program::default(), source);
        let id = builder.node(path).unwrap();
        builder.set_kind(id, NodeKind::File);
        for (start_page, pages) in ranges {
            builder.pages(id, *start_page, *pages, 0);
        }
        builder.finish()
    }

    #[test]
    fn pages_are_used_gone_or_unknown() {
        let replayed = profile(b"/file", &[(0, 20)], 0);
        let node = replayed.find(b"/file").unwrap();
        let part = |start_page, pages| PagesOf {
            node,
            start_page,
            pages,
        };
        let pages = [part(0, 4), part(4, 16)];
        let of = |recorded| Fetched::of(&pages, &replayed, recorded, &mut FirstTen);
        let arrived = Fetched {
            arrived: 20,
            gone: Some(10),
            ..Fetched::default()
        };
        assert_eq!(of(None), arrived);
        // Accessed: 2 to 8, and 15.
        let recorded = profile(b"/file", &[(2, 6), (15, 1)], 0);
        let known = Fetched {
            used: Some(7),
            wasted: Some(9),
            accessed: Some(7),
            ..arrived
        };
        assert_eq!(of(Some(&recorded)), known);
        // Pages that merely lie in memory weren't used for that.
        let blind = BlindSpots::RESIDENCY_NOT_ACCESS.0;
        let recorded = profile(b"/file", &[(2, 6), (15, 1)], blind);
        assert_eq!(of(Some(&recorded)), arrived);
        // Nothing of it was recorded at all.
        let none = of(Some(&profile(b"/other", &[(0, 9)], 0)));
        assert_eq!((none.used, none.wasted), (Some(0), Some(10)));
    }
}
