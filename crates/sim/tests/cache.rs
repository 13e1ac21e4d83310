// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page cache against a simple one, and its accounts against a recount.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use foreread_core::policy::{Cached, Limits, Nearby, Policy};
use foreread_sim::Untimed;
use foreread_sim::cache::{Account, FileId, FolioId, NewFolio, PageCache, StreamId, Use};
use proptest::prelude::*;

fn cache(pages: u64) -> (PageCache, FileId, StreamId) {
    let mut cache = PageCache::new(Some(pages));
    let (file, stream) = (cache.add_file(), cache.add_stream());
    (cache, file, stream)
}

/// Inserts a page and has it arrive.
fn bring(cache: &mut PageCache, file: FileId, stream: StreamId, index: u64) {
    cache
        .insert(file, stream, NewFolio::page(index))
        .expect("room");
    cache.arrive(file, index..index + 1, &mut Vec::new());
}

fn by_read(stream: StreamId) -> Use {
    Use {
        stream,
        previous_page: None,
        late: None,
        mapped: false,
    }
}

#[test]
fn what_was_read_once_is_evicted_before_what_was_read_twice() {
    let (mut cache, file, stream) = cache(100);
    for index in 0..100 {
        bring(&mut cache, file, stream, index);
        cache.use_pages(file, index..index + 1, &by_read(stream));
    }
    cache.use_pages(file, 0..10, &by_read(stream));
    for index in 100..150 {
        bring(&mut cache, file, stream, index);
    }
    assert!((0..10).all(|index| cache.find(file, index).is_some()));
    assert!((10..40).all(|index| cache.find(file, index).is_none()));
    let account = cache.account(stream);
    assert_eq!(
        (account.fetched, account.used_on_time, account.wasted),
        (150, 100, 0)
    );
}

#[test]
fn what_is_evicted_unread_is_waste_and_its_miss_a_thrash() {
    let (mut cache, file, stream) = cache(64);
    for index in 0..128 {
        bring(&mut cache, file, stream, index);
    }
    let account = cache.account(stream);
    assert_eq!((account.wasted, account.resident_unused), (64, 64));
    assert!(cache.miss(file, 63, stream));
    assert!(!cache.miss(file, 200, stream));
    assert_eq!(cache.account(stream).thrashes, 1);
    bring(&mut cache, file, stream, 63);
    assert_eq!(cache.account(stream).refaults, 1);
    // Remembered as long as memory is large, not longer.
    for index in 200..400 {
        bring(&mut cache, file, stream, index);
    }
    assert!(!cache.miss(file, 1, stream));
}

#[test]
fn what_is_on_its_way_or_waited_for_stays() {
    let (mut cache, file, stream) = cache(32);
    let ids: Vec<FolioId> = (0..32)
        .map(|index| {
            cache
                .insert(file, stream, NewFolio::page(index))
                .expect("room")
        })
        .collect();
    assert!(cache.insert(file, stream, NewFolio::page(32)).is_err());
    assert!(
        cache.insert_needed(file, stream, 32).is_ok(),
        "a program needs it"
    );
    cache.pin(ids[3]);
    let mut awaited = Vec::new();
    cache.arrive(file, 0..33, &mut awaited);
    assert_eq!(awaited, [ids[3]]);
    for index in 40..72 {
        bring(&mut cache, file, stream, index);
    }
    assert_eq!(cache.find(file, 3), Some(ids[3]));
    assert_eq!(cache.find(file, 2), None);
}

#[test]
fn a_mapped_page_that_is_in_use_gets_a_second_chance() {
    let (mut cache, file, stream) = cache(64);
    let mapped = Use {
        mapped: true,
        ..by_read(stream)
    };
    bring(&mut cache, file, stream, 0);
    for index in 1..1000 {
        cache.use_pages(file, 0..1, &mapped);
        bring(&mut cache, file, stream, index);
    }
    assert!(cache.find(file, 0).is_some());
}

fn balanced(cache: &PageCache) -> Result<Account, TestCaseError> {
    let total = cache.total();
    prop_assert!(total.balances(), "{total:?}");
    prop_assert_eq!(cache.recount(), (total.resident_unused, total.in_flight));
    Ok(total)
}

#[derive(Clone, Debug)]
enum Action {
    Insert(u64, u8),
    Arrive(u64, u64),
    Use(u64, u64, bool),
    Drop(u64, u64),
    Retain(u64, u64),
}

fn action() -> impl Strategy<Value = Action> {
    let (at, pages) = (0u64..300, 1u64..80);
    prop_oneof![
        4 => (at.clone(), 0u8..6).prop_map(|(at, order)| Action::Insert(at, order)),
        3 => (at.clone(), pages.clone()).prop_map(|(at, n)| Action::Arrive(at, n)),
        3 => (at.clone(), pages.clone(), any::<bool>()).prop_map(|(a, n, m)| Action::Use(a, n, m)),
        1 => (at.clone(), pages.clone()).prop_map(|(at, n)| Action::Drop(at, n)),
        1 => (at, pages).prop_map(|(at, n)| Action::Retain(at, n)),
    ]
}

proptest! {
    #[test]
    fn every_page_is_in_one_place_whatever_happens(
        actions in proptest::collection::vec(action(), 1..120),
    ) {
        let (mut cache, file, stream) = cache(96);
        for action in actions {
            match action {
                Action::Insert(at, order) => {
                    let new = NewFolio { index: at >> order << order, order, marked: false };
                    let _ = cache.insert(file, stream, new);
                }
                Action::Arrive(at, pages) => cache.arrive(file, at..at + pages, &mut Vec::new()),
                Action::Use(at, pages, mapped) => {
                    // As the read path does it: up to the page that has arrived.
                    let is_there = |page: &u64| {
                        cache.find(file, *page).is_some_and(|id| cache.info(id).up_to_date)
                    };
                    let end = at + (at..at + pages).take_while(is_there).count() as u64;
                    cache.use_pages(file, at..end, &Use { mapped, ..by_read(stream) });
                }
                Action::Drop(at, pages) => { cache.drop_pages(file, at, at + pages); }
                Action::Retain(at, pages) => cache.retain(file, at, at + pages),
            }
            balanced(&cache)?;
        }
    }

    #[test]
    fn what_is_nearby_is_found_as_page_by_page(
        pages in proptest::collection::btree_set(0u64..400, 0..200),
        at in 0u64..420,
        max in 0u64..300,
    ) {
        let mut cache = PageCache::new(None);
        let (file, stream) = (cache.add_file(), cache.add_stream());
        for index in &pages {
            bring(&mut cache, file, stream, *index);
        }
        let simple = |page: u64| pages.contains(&page);
        let (fast, slow) = (cache.view(file), Cached(simple));
        prop_assert_eq!(fast.cached_before(at, max), slow.cached_before(at, max));
        prop_assert_eq!(fast.missing_before(at, max), slow.missing_before(at, max));
        prop_assert_eq!(fast.cached_after(at, max), slow.cached_after(at, max));
        prop_assert_eq!(fast.cached_within(at, max), slow.cached_within(at, max));
        prop_assert_eq!(fast.is_cached(at), slow.is_cached(at));
    }

    #[test]
    fn reads_in_any_order_leave_what_they_read_in_the_cache(
        reads in proptest::collection::vec((0u64..2000, 1u64..100), 1..60),
        order in 0u8..10,
        ra_pages in 0u32..300,
        policy in 0usize..Policy::ALL.len(),
    ) {
        let mut limits = Limits::new(2048, ra_pages);
        limits.folio_order_max = order;
        let mut reader = Untimed::new(Policy::ALL[policy], limits);
        let mut wanted = BTreeSet::new();
        for (at, pages) in reads {
            reader.read(at * 4096, pages * 4096);
            wanted.extend(at..(at + pages).min(2048));
        }
        let view = reader.cache().view(reader.file());
        prop_assert!(wanted.iter().all(|page| view.is_cached(*page) && view.was_read(*page)));
        let total = balanced(reader.cache())?;
        prop_assert_eq!(total.distinct, wanted.len() as u64);
        prop_assert_eq!(total.used_on_time + total.used_late, wanted.len() as u64);
    }
}
