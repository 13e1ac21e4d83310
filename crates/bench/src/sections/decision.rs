// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost of one decision of a policy.

use std::hint::black_box;

use foreread_core::policy::{Access, Kind, Limits, Memory, Near, Policy, State, Streams};
use foreread_measure::MeasureError;
use foreread_measure::sample::Sample;
use serde_json::json;

use super::costs::elapsed_ns;
use crate::context::Context;
use crate::report::{Row, Section, Target};

const TARGET_NS: Target = Target::AtMost(20.0);
/// Those that remember streams look further for one.
const TARGET_STREAMS_NS: Target = Target::AtMost(60.0);
/// Decisions between two looks at the clock.
const BATCH: u32 = 10_000;

/// One kind of decision.
struct Case {
    name: &'static str,
    access: Access,
    near: Near,
}

/// The kinds of accesses that a policy gets: a stream's start, its mark, a mark of another stream,
/// a stream seen in the cache, a random read, and faults.
fn cases() -> Vec<Case> {
    let cached = Near {
        before_pages: 40,
        after_pages: 3,
        history_pages: 40,
        sampled: 8,
        sampled_hits: 8,
        ..Near::default()
    };
    let case = |name, access, near| Case { name, access, near };
    vec![
        case("start", Access::read_miss(0, 8), Near::default()),
        case("mark", Access::read_mark(104, 1, 0), cached),
        case("foreign mark", Access::read_mark(5000, 1, 0), cached),
        case("context", Access::read_miss(900, 1), cached),
        case("random", Access::read_miss(70_000, 1), Near::default()),
        case("look", Access::read_look(108, 1), Near::default()),
        case(
            "fault",
            Access::fault(Kind::FaultMiss, 5000, 0),
            Near::default(),
        ),
    ]
}

/// Nanoseconds per decision: the query of the page cache and the decision, each on a fresh copy of
/// a state.
fn measured(policy: Policy, case: &Case, rounds: u32) -> Sample {
    let mut limits = Limits::new(100_000, 128);
    (limits.reclaim_pages, limits.aged_pages) = (1 << 18, 5000);
    let mut open = State::open(&limits);
    (open.start, open.size, open.async_size) = (100, 16, 12);
    (open.ahead_start, open.ahead_size, open.prev_page) = (116, 32, 103);
    open.prev_end_bytes = 104 << 12;
    let times = (0..rounds).map(|_| {
        let ((), ns) = elapsed_ns(|| {
            for _ in 0..BATCH {
                let mut state = *black_box(&open);
                let access = black_box(&case.access);
                black_box(&policy.wants(&state, access, &limits));
                black_box(&policy.decide_near(&mut state, access, &case.near, &limits));
            }
        });
        ns / f64::from(BATCH)
    });
    Sample::new(times)
}

/// A reading, for policies that are told of every access: the position of the n-th access.
struct Reading {
    name: &'static str,
    at: fn(u64) -> u64,
}

fn readings() -> [Reading; 4] {
    [
        Reading {
            name: "sequential",
            at: |n| n * 4,
        },
        Reading {
            name: "64 streams",
            at: |n| (n % 64) * 1_000_000 + n / 64 * 4,
        },
        Reading {
            name: "at random",
            at: |n| mixed(n) >> 37,
        },
        Reading {
            name: "stride",
            at: |n| n * 1000,
        },
    ]
}

/// A number that looks drawn at random: the last step of SplitMix64. Multiples of the golden ratio
/// alone would be in step with each other, which a policy sees.
fn mixed(n: u64) -> u64 {
    let n = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    n ^ (n >> 27)
}

/// Nanoseconds a decision of a whole reading, on a memory that begins empty; one access in eight
/// misses.
fn measured_reading(policy: Policy, reading: &Reading, rounds: u32) -> Sample {
    let limits = Limits::new(1 << 40, 32);
    let times = (0..rounds).map(|_| {
        let mut state = State::open(&limits);
        let mut streams = Streams::new();
        let near = Near::default();
        let ((), ns) = elapsed_ns(|| {
            for n in 0..u64::from(BATCH) {
                let mut access = Access::read_look((reading.at)(n), 4);
                access.flags = if n % 8 == 0 { Access::MISSED } else { 0 };
                access.time_ns = n * 2000;
                let memory = Memory {
                    streams: Some(&mut streams),
                    ..Memory::default()
                };
                let access = black_box(&access);
                black_box(&policy.decide_with(&mut state, access, &near, &limits, memory));
            }
        });
        ns / f64::from(BATCH)
    });
    Sample::new(times)
}

/// The samples of a policy by the name of the reading.
fn samples_of(policy: Policy, cases: &[Case], rounds: u32) -> Vec<(&'static str, Sample)> {
    if policy.sees() {
        let all = readings();
        return all
            .iter()
            .map(|reading| (reading.name, measured_reading(policy, reading, rounds)))
            .collect();
    }
    cases
        .iter()
        .map(|case| (case.name, measured(policy, case, rounds)))
        .collect()
}

pub fn measure(context: &mut Context) -> Result<Section, MeasureError> {
    context.say("decision: what one decision of each policy costs");
    let rounds = if context.quick { 31 } else { 101 };
    let cases = cases();
    let names: Vec<&'static str> = cases
        .iter()
        .map(|case| case.name)
        .chain(readings().map(|reading| reading.name))
        .collect();
    let row = |policy: Policy| {
        let samples = samples_of(policy, &cases, rounds);
        let cell = |name: &&str| {
            let sample = samples.iter().find(|(of, _)| of == name);
            sample.map_or_else(String::new, |(_, sample)| format!("{:.1}", sample.median()))
        };
        let worst = samples.iter().map(|(_, sample)| sample.median());
        let medians: serde_json::Map<_, _> = samples
            .iter()
            .map(|(name, sample)| ((*name).to_owned(), json!(sample.median())))
            .collect();
        Row {
            cells: [policy.to_string()]
                .into_iter()
                .chain(names.iter().map(cell))
                .collect(),
            value: worst.fold(0.0, f64::max),
            digits: 1,
            target: match policy.remembers() {
                true => TARGET_STREAMS_NS,
                false => TARGET_NS,
            },
            details: json!({ "median_ns": medians }),
        }
    };
    Ok(Section {
        name: "decision",
        about:
            "One decision through the Rust face, without the look into the page cache: what the \
                policy wants to know, and what it decides; policies that are told of every access, \
                on whole readings; nanoseconds, median, and the dearest."
                .to_owned(),
        header: ["policy"]
            .into_iter()
            .chain(names.iter().copied())
            .chain(["ns"])
            .collect(),
        rows: Policy::ALL.map(row).into_iter().collect(),
        notes: Vec::new(),
    })
}
