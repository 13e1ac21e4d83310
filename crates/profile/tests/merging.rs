// SPDX-License-Identifier: MIT OR Apache-2.0
//! The laws of ageing.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;

use common::{page_weights, paths};
use foreread_profile::merge::{Observation, WEIGHT_NEW, merge, merge_profiles};
use foreread_profile::{
    BlindSpots, Identity, NodeKind, Profile, ProfileBuilder, Program, RUNS_MAX, Run, Source, Uses,
};
use proptest::prelude::*;

const FULL: Observation = Observation::Full;
const UNWATCHED: Observation = Observation::Refresh {
    data: false,
    lookups: false,
};
const MS: u64 = 1_000_000;

/// Files with `(path, start_page, pages, need_ns)`.
fn recording(files: &[(&str, u64, u64, u64)]) -> Profile {
    let mut builder = ProfileBuilder::new(Program::default(), Source::default());
    for (path, start_page, pages, need_ns) in files {
        let id = builder.node(path.as_bytes()).unwrap();
        builder.used(id, Uses::READ, *need_ns);
        builder.pages(id, *start_page, *pages, *need_ns);
    }
    builder.finish()
}

fn with_identity(mut profile: Profile, path: &str, identity: Identity) -> Profile {
    let id = profile.find(path.as_bytes()).unwrap();
    profile.nodes[id.0 as usize].identity = identity;
    profile
}

fn ranges(profile: &Profile, path: &str) -> Vec<(u64, u64, u64, u8)> {
    let id = profile
        .find(path.as_bytes())
        .unwrap_or_else(|| panic!("{path} is gone"));
    profile
        .ranges(id)
        .iter()
        .map(|range| (range.start_page, range.pages, range.need_ns, range.weight))
        .collect()
}

fn weight(profile: &Profile, path: &str) -> Option<u8> {
    profile
        .find(path.as_bytes())
        .and_then(|id| profile.node(id))
        .map(|node| node.weight)
}

fn without_runs(mut profile: Profile) -> Profile {
    profile.runs.clear();
    profile
}

#[test]
fn what_is_unseen_leaves_with_the_fifth_full_recording() {
    let once = recording(&[("/d/gone", 0, 8, 5), ("/kept", 0, 1, 1)]);
    let later = recording(&[("/kept", 0, 1, 1)]);
    let mut profile = once;
    let mut weights = Vec::new();
    for _ in 0..5 {
        profile = merge(&profile, &later, FULL);
        weights.push((weight(&profile, "/d/gone"), weight(&profile, "/d")));
    }
    let fall = [Some(127), Some(63), Some(31), Some(15), None];
    assert_eq!(weights, fall.map(|weight| (weight, weight)));
    assert_eq!(weight(&profile, "/kept"), Some(255));
}

#[test]
fn what_is_new_also_stays_for_four_and_one_sighting_makes_up_for_all() {
    let usual = recording(&[("/usual", 0, 1, 1)]);
    let rare = recording(&[("/usual", 0, 1, 1), ("/rare", 0, 1, 1)]);
    let mut profile = merge(&usual, &rare, FULL);
    assert_eq!(weight(&profile, "/rare"), Some(WEIGHT_NEW));
    for expected in [64, 32, 16, 8] {
        profile = merge(&profile, &usual, FULL);
        assert_eq!(weight(&profile, "/rare"), Some(expected));
    }
    let seen = merge(&profile, &rare, FULL);
    assert!(weight(&seen, "/rare") >= Some(WEIGHT_NEW));
    let unseen = merge(&profile, &usual, FULL);
    assert_eq!(weight(&unseen, "/rare"), None);
}

#[test]
fn a_range_that_is_partly_seen_splits() {
    let old = recording(&[("/f", 0, 30, 10 * MS)]);
    let new = recording(&[("/f", 10, 10, 700 * MS), ("/f", 40, 2, 800 * MS)]);
    assert_eq!(
        ranges(&merge(&old, &new, FULL), "/f"),
        [
            (0, 10, 10 * MS, 127),
            (10, 10, 700 * MS, 255),
            (20, 10, 10 * MS, 127),
            (40, 2, 800 * MS, 128)
        ]
    );
}

#[test]
fn pieces_needed_together_that_leave_together_are_one_again() {
    let half = recording(&[("/f", 0, 10, MS)]);
    let whole = recording(&[("/f", 0, 20, MS)]);
    // 255 and 128 were both seen last time.
    assert_eq!(
        ranges(&merge(&half, &whole, FULL), "/f"),
        [(0, 20, MS, 255)]
    );
}

#[test]
fn the_newer_need_counts_for_what_is_seen() {
    let old = recording(&[("/a", 0, 1, 5), ("/b", 0, 1, 900 * MS)]);
    let new = recording(&[("/a", 0, 1, 300 * MS)]);
    let merged = merge(&old, &new, FULL);
    assert_eq!(ranges(&merged, "/a"), [(0, 1, 300 * MS, 255)]);
    assert_eq!(ranges(&merged, "/b"), [(0, 1, 900 * MS, 127)]);
    assert_eq!(merged.nodes[0].need_ns, 300 * MS);
}

#[test]
fn a_partial_view_lets_only_what_was_watched_decay() {
    let old = recording(&[("/data", 0, 4, 1), ("/looked-up", 0, 0, 1)]);
    let new = recording(&[("/new", 0, 1, 1)]);
    let watch = |data, lookups| merge(&old, &new, Observation::Refresh { data, lookups });
    let weights = |profile: &Profile| {
        (
            ranges(profile, "/data")[0].3,
            weight(profile, "/data"),
            weight(profile, "/looked-up"),
        )
    };
    assert_eq!(weights(&watch(false, false)), (255, Some(255), Some(255)));
    assert_eq!(weights(&watch(true, false)), (127, Some(255), Some(255)));
    // The path of pages that stay stays with them.
    assert_eq!(weights(&watch(false, true)), (255, Some(255), Some(127)));
    assert_eq!(weights(&watch(true, true)), (127, Some(127), Some(127)));
}

#[test]
fn what_a_recorder_cannot_see_does_not_decay() {
    let mut old = recording(&[
        ("/mapped", 0, 4, 1),
        ("/read", 0, 4, 1),
        ("/looked-up", 0, 0, 1),
    ]);
    let mapped = old.find(b"/mapped").unwrap();
    old.nodes[mapped.0 as usize].uses = Uses::MAPPED;
    let mut new = recording(&[("/new", 0, 1, 1)]);
    new.source.blind_spots = BlindSpots::NO_MAPPED_FAULTS;
    let merged = merge(&old, &new, FULL);
    assert_eq!(
        (
            ranges(&merged, "/mapped")[0].3,
            ranges(&merged, "/read")[0].3
        ),
        (255, 127)
    );
    new.source.blind_spots = BlindSpots::NO_LOOKUPS;
    let merged = merge(&old, &new, FULL);
    assert_eq!(
        (weight(&merged, "/looked-up"), ranges(&merged, "/read")[0].3),
        (Some(255), 127)
    );
    new.source.blind_spots = BlindSpots(0);
    new.source.events_lost = 1;
    let merged = merge(&old, &new, FULL);
    assert_eq!(
        (weight(&merged, "/looked-up"), ranges(&merged, "/read")[0].3),
        (Some(255), 255)
    );
}

#[test]
fn a_file_that_shrank_loses_unseen_pages_beyond_its_end() {
    let identity = |inode, size_bytes| Identity {
        inode,
        size_bytes,
        ..Identity::default()
    };
    let old = with_identity(recording(&[("/f", 0, 100, 1)]), "/f", identity(7, 409_600));
    for inode in [7, 8] {
        let new = with_identity(
            recording(&[("/f", 0, 2, 1)]),
            "/f",
            identity(inode, 4096 * 9 + 1),
        );
        let merged = merge(&old, &new, FULL);
        assert_eq!(ranges(&merged, "/f"), [(0, 2, 1, 255), (2, 8, 1, 127)]);
        let id = merged.find(b"/f").unwrap();
        assert_eq!(
            merged.node(id).unwrap().identity,
            identity(inode, 4096 * 9 + 1)
        );
    }
    let unknown = merge(&old, &recording(&[("/f", 0, 2, 1)]), FULL);
    assert_eq!(ranges(&unknown, "/f"), [(0, 2, 1, 255), (2, 98, 1, 127)]);
    assert_eq!(
        unknown
            .node(unknown.find(b"/f").unwrap())
            .unwrap()
            .identity
            .inode,
        7
    );
}

#[test]
fn a_path_that_became_something_else_takes_nothing_along() {
    let tree = recording(&[("/x/inside", 0, 5, 1)]);
    let file = recording(&[("/x", 0, 3, 1)]);
    let now_file = merge(&tree, &file, FULL);
    assert_eq!(ranges(&now_file, "/x"), [(0, 3, 1, 128)]);
    assert!(now_file.find(b"/x/inside").is_none());
    let now_tree = merge(&file, &tree, FULL);
    assert_eq!(
        now_tree.node(now_tree.find(b"/x").unwrap()).unwrap().kind,
        NodeKind::Directory
    );
    assert_eq!(now_tree.total_pages(), 5);
    for profile in [now_file, now_tree] {
        assert_eq!(profile.validate(), Ok(()));
    }
}

#[test]
fn uses_are_those_of_the_latest_full_recording() {
    let with = |uses| {
        let mut builder = ProfileBuilder::new(Program::default(), Source::default());
        let id = builder.node(b"/d").unwrap();
        builder.set_kind(id, NodeKind::Directory);
        builder.used(id, uses, 0);
        builder.finish()
    };
    let uses = |profile: &Profile| profile.nodes[1].uses;
    let (listed, statted) = (with(Uses::LISTED), with(Uses::STATTED));
    assert_eq!(uses(&merge(&listed, &statted, FULL)), uses(&statted));
    assert_eq!(
        uses(&merge(&listed, &statted, UNWATCHED)),
        uses(&statted).union(uses(&listed))
    );
}

#[test]
fn who_was_run_is_from_the_latest_full_recording_and_runs_are_bounded() {
    let named = |name: &[u8], started_unix_s| {
        let mut profile = recording(&[("/f", 0, 1, 1)]);
        profile.program.executable = name.to_vec();
        profile.source.recorded_unix_s = started_unix_s;
        profile.push_run(Run {
            started_unix_s,
            ..Run::default()
        });
        profile
    };
    let full = merge(&named(b"/old", 1), &named(b"/new", 2), FULL);
    assert_eq!(
        (&full.program.executable[..], full.source.recorded_unix_s),
        (&b"/new"[..], 2)
    );
    let refreshed = merge(&named(b"/old", 1), &named(b"/new", 2), UNWATCHED);
    assert_eq!(refreshed.program.executable, b"/old");
    assert_eq!(refreshed.source.recorded_unix_s, 1);
    let mut profile = named(b"/p", 0);
    for started in 1..100 {
        profile = merge(&profile, &named(b"/p", started), UNWATCHED);
    }
    let started: Vec<u64> = profile.runs.iter().map(|run| run.started_unix_s).collect();
    assert_eq!(started, (100 - RUNS_MAX as u64..100).collect::<Vec<_>>());
}

#[test]
fn a_union_keeps_the_higher_weight_and_the_earlier_need() {
    let mut a = recording(&[("/both", 0, 10, 500 * MS), ("/a", 0, 1, 1)]);
    let b = recording(&[("/both", 5, 10, 100 * MS), ("/b", 0, 1, 1)]);
    for range in &mut a.ranges {
        range.weight = 40;
    }
    let union = merge_profiles(&a, &b);
    assert_eq!(
        ranges(&union, "/both"),
        [(0, 5, 500 * MS, 40), (5, 10, 100 * MS, 255)]
    );
    assert_eq!(ranges(&union, "/a"), [(0, 1, 1, 40)]);
    assert_eq!(paths(&union).len(), 4);
    a.source.recorded_unix_s = 9;
    a.program.key = b"later".to_vec();
    assert_eq!(merge_profiles(&a, &b).program.key, b"later");
    assert_eq!(merge_profiles(&b, &a), merge_profiles(&a, &b));
}

fn observation() -> impl Strategy<Value = Observation> {
    prop_oneof![
        Just(FULL),
        (any::<bool>(), any::<bool>())
            .prop_map(|(data, lookups)| Observation::Refresh { data, lookups }),
    ]
}

proptest! {
    #[test]
    fn seeing_the_same_again_changes_nothing(profile in common::profile(), seen in observation()) {
        let profile = without_runs(profile);
        prop_assert_eq!(&merge(&profile, &profile, seen), &profile);
        prop_assert_eq!(&merge_profiles(&profile, &profile), &profile);
    }

    #[test]
    fn nothing_seen_is_lost_and_the_result_is_valid(
        old in common::profile(),
        older in common::profile(),
        new in common::profile(),
        seen in observation(),
    ) {
        let old = merge(&older, &old, seen);
        let merged = merge(&old, &new, seen);
        prop_assert_eq!(merged.validate(), Ok(()));
        let known: BTreeSet<_> = paths(&merged).into_iter().collect();
        for path in paths(&new) {
            prop_assert!(known.contains(&path));
        }
        let weights = page_weights(&merged);
        for page in page_weights(&new).keys() {
            prop_assert!(weights.get(page) >= Some(&WEIGHT_NEW));
        }
        // Nothing is invented either.
        let (olds, news) = (page_weights(&old), page_weights(&new));
        for page in weights.keys() {
            prop_assert!(olds.contains_key(page) || news.contains_key(page));
        }
    }

    #[test]
    fn a_second_sighting_leaves_the_pages_as_they_are(
        old in common::profile(),
        new in common::profile(),
    ) {
        let once = merge(&old, &new, UNWATCHED);
        let twice = merge(&once, &new, UNWATCHED);
        prop_assert_eq!(paths(&once), paths(&twice));
        prop_assert!(page_weights(&once).keys().eq(page_weights(&twice).keys()));
    }

    #[test]
    fn after_five_full_recordings_only_they_are_left(
        old in common::complete_profile(),
        new in common::complete_profile(),
    ) {
        let mut merged = old;
        for _ in 0..5 {
            merged = merge(&merged, &new, FULL);
        }
        prop_assert_eq!(paths(&merged), paths(&new));
        prop_assert!(page_weights(&merged).keys().eq(page_weights(&new).keys()));
    }

    #[test]
    fn unwatched_pages_stay_unless_their_path_became_something_else(
        old in common::profile(),
        new in common::profile(),
    ) {
        let merged = page_weights(&merge(&old, &new, UNWATCHED));
        for ((path, page), weight) in page_weights(&old) {
            let file_now = |path: &[u8]| {
                new.find(path)
                    .and_then(|id| new.node(id))
                    .is_none_or(|node| node.kind == NodeKind::File)
            };
            let parents_now = (1..path.len()).filter(|at| path[*at] == b'/').all(|at| {
                new.find(&path[..at])
                    .and_then(|id| new.node(id))
                    .is_none_or(|node| node.kind == NodeKind::Directory)
            });
            if file_now(&path) && parents_now {
                prop_assert!(merged.get(&(path, page)) >= Some(&weight));
            }
        }
    }

    #[test]
    fn a_union_is_valid_and_holds_the_later_one(a in common::profile(), b in common::profile()) {
        let union = merge_profiles(&a, &b);
        prop_assert_eq!(union.validate(), Ok(()));
        let later = if a.source.recorded_unix_s > b.source.recorded_unix_s { &a } else { &b };
        let weights = page_weights(&union);
        for (page, weight) in page_weights(later) {
            prop_assert!(weights.get(&page) >= Some(&weight));
        }
    }
}
