// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one decision of a policy costs.

use std::hint::black_box;

use foreread_bench::BenchError;
use foreread_bench::sample::Sample;
use foreread_core::policy::{Access, Kind, Limits, Near, Policy, State};
use serde_json::json;

use super::costs::elapsed_ns;
use crate::context::Context;
use crate::report::{Row, Section, Target};

const TARGET_NS: Target = Target::AtMost(20.0);
/// Decisions between two looks at the clock.
const BATCH: u32 = 10_000;

/// One kind of decision.
struct Case {
    name: &'static str,
    access: Access,
    near: Near,
}

/// What reaches a policy: a stream's start, its mark, a mark of another stream, a stream seen in
/// the cache, a random read, and faults.
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

/// Nanoseconds a decision: what it wants to know, and the decision, each on a fresh copy of a
/// state.
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

pub fn measure(context: &mut Context) -> Result<Section, BenchError> {
    context.say("decision: what one decision of each policy costs");
    let rounds = if context.quick { 31 } else { 101 };
    let cases = cases();
    let row = |policy: Policy| {
        let samples: Vec<(&str, Sample)> = cases
            .iter()
            .map(|case| (case.name, measured(policy, case, rounds)))
            .collect();
        let cell = |(_, sample): &(&str, Sample)| format!("{:.1}", sample.median());
        let worst = samples.iter().map(|(_, sample)| sample.median());
        let medians: serde_json::Map<_, _> = samples
            .iter()
            .map(|(name, sample)| ((*name).to_owned(), json!(sample.median())))
            .collect();
        Row {
            cells: [policy.to_string()]
                .into_iter()
                .chain(samples.iter().map(cell))
                .collect(),
            value: worst.fold(0.0, f64::max),
            digits: 1,
            target: TARGET_NS,
            details: json!({ "median_ns": medians }),
        }
    };
    let names = cases.iter().map(|case| case.name);
    Ok(Section {
        name: "decision",
        about:
            "One decision through the Rust face, without the look into the page cache: what the \
                policy wants to know, and what it decides; nanoseconds, median, and the dearest."
                .to_owned(),
        header: ["policy"].into_iter().chain(names).chain(["ns"]).collect(),
        rows: Policy::ALL.map(row).into_iter().collect(),
        notes: Vec::new(),
    })
}
