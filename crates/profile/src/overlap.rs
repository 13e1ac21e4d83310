// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides whether a recording is of another program than a profile.

use crate::types::{PageRange, Profile};

/// A recording has less than a part in this many of the profile's pages, if it is of another one.
const COMMON_SHARE: u64 = 8;

/// It has more other pages than this: a program that ends early, such as with an error, reads
/// little, but nothing else.
const OTHER_MIN_PAGES: u64 = 64;

/// Whether what was recorded in full is of another program than `known`: it reads little of that,
/// and something else. What any program of its interpreter reads, such as libraries, doesn't count.
/// Of a program that was changed a little, or that ended early, both must not
/// be taken for true.
#[must_use]
pub fn is_another(known: &Profile, recorded: &Profile) -> bool {
    let (mut common, mut all) = (0u64, 0u64);
    for (id, node) in recorded.files() {
        if node.is_of_any_program() {
            continue;
        }
        let old = known.find(&recorded.path(id));
        let old = old.filter(|old| {
            let inode = known.node(*old).map(|node| node.identity.inode);
            inode == Some(node.identity.inode)
        });
        let old = old.map_or(&[][..], |old| known.ranges(old));
        common = common.saturating_add(common_pages(old, recorded.ranges(id)));
        all = all.saturating_add(pages(recorded.ranges(id)));
    }
    let known_files = known.files().filter(|(_, node)| !node.is_of_any_program());
    let known_pages: u64 = known_files.map(|(id, _)| pages(known.ranges(id))).sum();
    let other = all.saturating_sub(common);
    common.saturating_mul(COMMON_SHARE) < known_pages && other >= OTHER_MIN_PAGES
}

fn pages(ranges: &[PageRange]) -> u64 {
    ranges.iter().map(|range| range.pages).sum()
}

/// Pages in both of two lists that are sorted and don't overlap in themselves.
fn common_pages(mut one: &[PageRange], mut other: &[PageRange]) -> u64 {
    let mut common = 0u64;
    while let ([a, later_of_one @ ..], [b, later_of_other @ ..]) = (one, other) {
        let start = a.start_page.max(b.start_page);
        let end = a.end_page().min(b.end_page());
        common = common.saturating_add(end.saturating_sub(start));
        match a.end_page() <= b.end_page() {
            true => one = later_of_one,
            false => other = later_of_other,
        }
    }
    common
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Identity, ProfileBuilder, Program, Source};
    use proptest::prelude::*;

    fn profile(files: &[(&str, u64, u64)]) -> Profile {
        let mut builder = ProfileBuilder::new(Program::default(), Source::default());
        for (path, start_page, pages) in files {
            let id = builder.node(path.as_bytes()).unwrap();
            let identity = Identity {
                inode: 7,
                ..Identity::default()
            };
            builder.set_identity(id, identity);
            builder.pages(id, *start_page, *pages, 0);
        }
        builder.finish()
    }

    #[test]
    fn programs_that_read_elsewhere_are_others() {
        let known = profile(&[("/a", 0, 1000), ("/lib", 0, 100)]);
        let same = profile(&[("/a", 0, 900), ("/b", 0, 5000)]);
        assert!(!is_another(&known, &same), "it reads more by now");
        let ended_early = profile(&[("/lib", 0, 100), ("/error", 0, 10)]);
        assert!(!is_another(&known, &ended_early));
        let other = profile(&[("/lib", 0, 100), ("/b", 0, 64)]);
        assert!(is_another(&known, &other));
        let mut replaced = known.clone();
        for node in &mut replaced.nodes {
            node.identity.inode += 1;
        }
        assert!(
            is_another(&known, &replaced),
            "other files of the same names"
        );
    }

    proptest! {
        #[test]
        fn common_pages_are_counted(
            one in prop::collection::btree_set(0u64..60, 0..40),
            other in prop::collection::btree_set(0u64..60, 0..40),
        ) {
            let ranges = |pages: &std::collections::BTreeSet<u64>| {
                let range = |page: &u64| PageRange {
                    start_page: *page,
                    pages: 1,
                    ..PageRange::default()
                };
                pages.iter().map(range).collect::<Vec<_>>()
            };
            let common = common_pages(&ranges(&one), &ranges(&other));
            prop_assert_eq!(common, one.intersection(&other).count() as u64);
            let long = [PageRange { start_page: 10, pages: 20, ..PageRange::default() }];
            let within = one.range(10..30).count() as u64;
            prop_assert_eq!(common_pages(&ranges(&one), &long), within);
            prop_assert_eq!(common_pages(&long, &ranges(&one)), within);
        }
    }
}
