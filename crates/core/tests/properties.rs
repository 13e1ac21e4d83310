// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of every decision, through the Rust interface and over whole readings.
#![forbid(unsafe_code)]

mod support;

use foreread_core::policy::{
    Access, Budget, Cached, Device, Kind, Limits, Memory, Near, Nearby, Policy, Reason, State,
    Streams,
};
use proptest::prelude::*;
use std::collections::BTreeSet;
use support::{PAGE, Reader};

fn policies() -> impl Strategy<Value = Policy> {
    (0..Policy::ALL.len()).prop_map(|number| Policy::ALL[number])
}

fn limits() -> impl Strategy<Value = Limits> {
    let devices = (0u32..600, 0u32..600, prop_oneof![Just(0u32), 1u32..64]);
    let memory = prop_oneof![Just(0u64), 64u64..1 << 20];
    let parameters = (0u32..200, 0u32..8, prop_oneof![Just(0u8), Just(9)]);
    (1u64..3000, devices, memory, parameters).prop_map(|(file_pages, device, memory, rest)| {
        let mut limits = Limits::new(file_pages, device.0);
        (limits.io_pages, limits.pages_max) = (device.1, device.2);
        limits.reclaim_pages = memory;
        limits.readahead_ratio = rest.0;
        limits.readahead_hit_rate = rest.1;
        limits.folio_order_max = rest.2;
        limits
    })
}

proptest! {
    #[test]
    fn no_window_leaves_the_file_or_its_bound(
        policy in policies(),
        limits in limits(),
        reads in prop::collection::vec((0u64..3000, 1u64..64), 1..40),
        evicted in prop::collection::vec((0u64..3000, 1u64..200), 0..4),
    ) {
        let mut reader = Reader::new(policy, limits);
        for (round, (page, pages)) in reads.into_iter().enumerate() {
            if let Some((start, pages)) = evicted.get(round / 8) {
                reader.cache.evict(*start, *pages);
            }
            reader.read(page * PAGE, pages * PAGE);
            // Requested pages are in the cache, whatever was decided.
            for page in page..(page + pages).min(limits.file_pages) {
                prop_assert!(reader.cache.is_cached(page), "page {}", page);
            }
        }
        for (access, decision) in &reader.log {
            for window in decision.windows() {
                let read = u64::from(window.read_pages());
                let within = window.start().saturating_add(read) <= limits.file_pages;
                prop_assert!(read == 0 || within, "{:?}: {}", access, window);
                // Those that see every access cut what is read, not what they count.
                let size = match policy.sees() {
                    true => window.read_pages(),
                    false => window.size(),
                };
                let bound = limits.pages_max == 0 || size <= limits.pages_max;
                prop_assert!(bound, "{:?}: {}", access, window);
            }
            prop_assert!(!decision.explain().is_empty());
        }
    }

    #[test]
    fn a_decision_depends_on_its_arguments_only(
        policy in policies(),
        limits in limits(),
        kind in 0..Kind::ALL.len(),
        (index, req) in (any::<u64>(), any::<u64>()),
        cached in any::<u64>(),
    ) {
        let access = Access::new(Kind::ALL[kind], index, req);
        let nearby = Cached(|page: u64| cached >> (page % 64) & 1 == 1);
        let (mut one, mut two) = (State::open(&limits), State::open(&limits));
        let first = policy.decide(&mut one, &access, &nearby, &limits);
        let second = policy.decide(&mut two, &access, &nearby, &limits);
        prop_assert_eq!(first, second);
        prop_assert_eq!(one, two);
    }

    #[test]
    fn folios_cover_a_window_once_and_without_gaps(
        limits in limits(),
        start in 0u64..3000,
        refused in any::<u64>(),
    ) {
        let mut state = State::open(&limits);
        let access = Access::read_miss(start, 8);
        let nearby = Cached(|page| page < start);
        let decision = Policy::Linux.decide(&mut state, &access, &nearby, &limits);
        for window in decision.windows() {
            let mut taken = BTreeSet::new();
            let (mut folios, mut inserted, mut steps) = (window.folios(&limits), 0, 0u32);
            while let Some(folio) = folios.next() {
                prop_assert_eq!(folio.index % folio.pages(), 0);
                if refused >> (steps % 64) & 1 == 1 {
                    folios.refuse();
                    // A large folio that is refused is taken up again, page by page.
                    taken.insert(folio.index);
                } else {
                    inserted += folio.pages();
                    taken.extend(folio.index..folio.index + folio.pages());
                }
                steps += 1;
                prop_assert!(steps < 5000);
            }
            let pages = window.start()..window.start() + u64::from(window.read_pages());
            prop_assert!(inserted <= u64::from(window.read_pages()));
            prop_assert!(taken.into_iter().eq(pages));
        }
    }
}

#[test]
fn a_file_read_through_is_read_once_by_every_policy() {
    for policy in Policy::ALL {
        for order in [0, 9] {
            let mut limits = Limits::new(1000, 64);
            limits.folio_order_max = order;
            let mut reader = Reader::new(policy, limits);
            for page in 0..1000 {
                reader.read(page * PAGE, PAGE);
            }
            let fetched: u64 = reader.fetched_pages;
            assert_eq!(fetched, 1000, "{policy}, order {order}");
        }
    }
}

#[test]
fn a_mark_under_writeback_is_none() {
    let limits = Limits::default();
    for policy in [Policy::Linux, Policy::Adaptive2006, Policy::Safe2010] {
        let mut state = State::open(&limits);
        let mut access = Access::read_mark(8, 1, 0);
        access.flags = Access::WRITEBACK;
        let before = state;
        let decision = policy.decide(&mut state, &access, &Cached(|_| true), &limits);
        assert_eq!(decision.reason, Reason::Nothing);
        assert!(!decision.clears_mark());
        assert_eq!(state, before);
    }
}

#[test]
fn a_decision_explains_itself() {
    let limits = Limits::default();
    let mut state = State::open(&limits);
    let access = Access::read_miss(1002, 1);
    let nearby = Cached(|page| page == 1000 || page == 1001);
    let decision = Policy::Linux.decide(&mut state, &access, &nearby, &limits);
    assert_eq!(
        decision.explain(),
        "reads 1002+3 a1: cached pages before the access show a stream; 2 cached pages seen; \
         maximum 32 pages"
    );
}

/// Memory of any bits that were drawn: as many bytes as a type has, over and over.
fn drawn<T>(bytes: &[u8], from: impl Fn(&[u8]) -> Option<T>, size: usize) -> T {
    let all: Vec<u8> = bytes.iter().copied().cycle().take(size).collect();
    from(&all).expect("as many bytes")
}

proptest! {
    #[test]
    fn whatever_is_remembered_a_decision_keeps_its_limits(
        policy in prop_oneof![
            Just(Policy::Leap), Just(Policy::Distance), Just(Policy::Foreread),
        ],
        limits in limits(),
        bytes in prop::collection::vec(any::<u8>(), 1..300),
        accesses in prop::collection::vec((0u64..3000, 1u64..40, any::<u16>(), 0u32..3), 1..20),
    ) {
        let mut streams = drawn(&bytes, Streams::from_bytes, size_of::<Streams>());
        let mut device = drawn(&bytes, Device::from_bytes, size_of::<Device>());
        let mut budget = drawn(&bytes, Budget::from_bytes, size_of::<Budget>());
        let mut state = State::open(&limits);
        for (index, pages, flags, thread) in accesses {
            let mut access = Access::read_look(index, pages);
            (access.flags, access.thread) = (flags, thread);
            let memory = Memory {
                streams: Some(&mut streams),
                device: Some(&mut device),
                budget: Some(&mut budget),
            };
            let near = Near::default();
            let decision = policy.decide_with(&mut state, &access, &near, &limits, memory);
            let windows: Vec<_> = decision.every_window(&limits).collect();
            prop_assert!(windows.len() <= 129, "{} windows", windows.len());
            for window in windows {
                let read = u64::from(window.read_pages());
                let within = window.start().saturating_add(read) <= limits.file_pages;
                prop_assert!(read == 0 || within, "{:?}: {}", access, window);
                let bound = limits.pages_max == 0 || window.read_pages() <= limits.pages_max;
                prop_assert!(bound, "{:?}: {}", access, window);
            }
        }
    }
}

/// A reader of its own file, whose decisions share a budget with others.
#[derive(Clone)]
struct Sharing {
    limits: Limits,
    state: State,
    streams: Streams,
    thread: u32,
    page: u64,
}

impl Sharing {
    fn new(thread: u32) -> Self {
        let limits = Limits {
            reclaim_pages: 2048,
            ..Limits::new(1 << 20, 32)
        };
        Self {
            limits,
            state: State::open(&limits),
            streams: Streams::new(),
            thread,
            page: 0,
        }
    }

    /// Reads on, and misses where `missed`; returns the pages that were asked for.
    fn read(&mut self, pages: u64, time_ns: u64, missed: bool, budget: &mut Budget) -> u64 {
        let asked_before = budget.asked_pages;
        let mut access = Access::read_look(self.page, pages);
        (access.thread, access.time_ns) = (self.thread, time_ns);
        access.flags = if missed { Access::MISSED } else { 0 };
        self.page += pages;
        let memory = Memory {
            streams: Some(&mut self.streams),
            device: None,
            budget: Some(budget),
        };
        let near = Near::default();
        let _ = Policy::Foreread.decide_with(&mut self.state, &access, &near, &self.limits, memory);
        budget.asked_pages - asked_before
    }
}

proptest! {
    #[test]
    fn decisions_on_copies_of_a_budget_add_up(
        reads in prop::collection::vec((0usize..4, 1u64..64, any::<bool>()), 1..200),
    ) {
        // One after the other, a decision on a copy is as good as one on the budget itself.
        let (mut direct, mut merged) = (Budget::default(), Budget::default());
        let mut readers: Vec<_> = (1..5).map(Sharing::new).collect();
        let mut others = readers.clone();
        for (at, (reader, pages, missed)) in reads.iter().copied().enumerate() {
            let time_ns = (at as u64 + 1) * 1_000_000;
            readers[reader].read(pages, time_ns, missed, &mut direct);
            let before = merged;
            let mut after = before;
            others[reader].read(pages, time_ns, missed, &mut after);
            merged.merge(&before, &after);
            prop_assert_eq!(merged, direct);
        }

        // Two at once: no page is lost, and an epoch ends once.
        let mut budget = Budget::default();
        let mut asked_pages = 0;
        for (at, two) in reads.chunks_exact(2).enumerate() {
            let time_ns = (at as u64 + 1) * 1_000_000;
            let before = budget;
            let mut copies = [before; 2];
            for (copy, (reader, pages, missed)) in copies.iter_mut().zip(two) {
                asked_pages += readers[*reader].read(*pages, time_ns, *missed, copy);
            }
            copies.iter().for_each(|after| budget.merge(&before, after));
            prop_assert_eq!(budget.asked_pages, before.asked_pages
                + copies.iter().map(|copy| copy.asked_pages - before.asked_pages).sum::<u64>());
            let epochs = copies.map(|copy| copy.epoch() - before.epoch());
            prop_assert!(epochs.iter().all(|epochs| *epochs <= 1));
            let ended = epochs.iter().max().copied().unwrap_or(0);
            prop_assert_eq!(budget.epoch(), before.epoch() + ended);
        }
        prop_assert_eq!(budget.asked_pages, asked_pages);
    }
}
