// SPDX-License-Identifier: MIT OR Apache-2.0
//! Golden decisions as text: the input of one decision and its output, each on one line of words
//! `name=number`. Fields of 0 are left out, and `max` is 2^64 - 1.
#![allow(dead_code, reason = "no test program uses all of it")]

use foreread_core::policy::{Access, Decision, Kind, Limits, Near, Policy, State};
use std::fmt::Write as _;

/// One decision.
#[derive(Clone, Debug)]
pub struct Golden {
    pub policy: Policy,
    pub state: State,
    pub access: Access,
    pub near: Near,
    pub limits: Limits,
    /// The text from `=>` on.
    pub outcome: String,
}

/// Writes and reads the named fields of a struct.
macro_rules! fields {
    ($write:ident, $set:ident, $type:ty, $($field:ident)*) => {
        fn $write(text: &mut String, of: &$type) {
            $(match u64::from(of.$field) {
                0 => {}
                u64::MAX => *text += concat!(" ", stringify!($field), "=max"),
                value => {
                    let _ = write!(text, concat!(" ", stringify!($field), "={}"), value);
                }
            })*
        }

        fn $set(of: &mut $type, name: &str, value: u64) -> bool {
            match name {
                $(stringify!($field) => of.$field = value.try_into().expect("in range"),)*
                _ => return false,
            }
            true
        }
    };
}

fields!(write_state, set_state, State,
    start prev_end_bytes ahead_start prev_page aged_pages size async_size ra_pages ahead_size
    cache_hit_pages mmap_miss order flags);
fields!(write_access, set_access, Access,
    index req_pages vma_start vma_end hit_pages folio_order flags);
fields!(write_near, set_near, Near,
    before_pages gap_pages after_pages around_pages history_pages sampled sampled_hits);
fields!(write_limits, set_limits, Limits,
    file_pages memory_pages reclaim_pages aged_pages ra_pages io_pages pages_max whole_pages_max
    readahead_ratio readahead_hit_rate min_pages folio_order_max exec_order quirks);

const KINDS: [&str; 7] = [
    "read-miss",
    "read-mark",
    "read-look",
    "fault-miss",
    "fault-mark",
    "fault-hit",
    "force",
];

/// A decision, with the state after it, as text.
pub fn outcome(decision: &Decision, after: &State) -> String {
    let mut text = format!("=> {} | state", decided(decision));
    write_state(&mut text, after);
    text
}

/// A decision as text.
pub fn decided(decision: &Decision) -> String {
    let mut text = decision.reason.to_string();
    for window in decision.windows() {
        let _ = write!(text, " [{window} read {}", window.read_pages());
        if window.in_folios() {
            let _ = write!(text, " order {}", window.order());
        }
        text += if window.in_chunks() { " chunks]" } else { "]" };
    }
    if let Some((repeats, step)) = decision.repeats() {
        let _ = write!(text, " and {repeats} more by {step:+}");
    }
    for (holds, word) in [
        (decision.changed_state(), " changed"),
        (decision.clears_mark(), " clear-mark"),
        (decision.is_forced(), " forced"),
    ] {
        text += if holds { word } else { "" };
    }
    if let Some((start, pages)) = decision.retain() {
        let _ = write!(text, " retain={start}+{pages}");
    }
    for (name, number) in [
        ("max", u64::from(decision.max_pages)),
        ("saw", decision.saw_pages.into()),
        ("next_look", decision.next_look),
    ] {
        if number != 0 {
            let _ = write!(text, " {name}={number}");
        }
    }
    text
}

impl Golden {
    pub fn text(&self) -> String {
        let mut text = format!("{} {}", self.policy, KINDS[self.access.kind as usize]);
        write_access(&mut text, &self.access);
        text += " | state";
        write_state(&mut text, &self.state);
        text += " | near";
        write_near(&mut text, &self.near);
        text += " | limits";
        write_limits(&mut text, &self.limits);
        text += " ";
        text + &self.outcome
    }

    pub fn parse(line: &str) -> Self {
        let (given, outcome) = line.split_once("=> ").expect("=> in every line");
        let limits = Limits::new(0, 0);
        let mut golden = Self {
            policy: Policy::None,
            state: State::open(&limits),
            access: Access::new(Kind::ReadMiss, 0, 0),
            near: Near::default(),
            limits: Limits {
                io_pages: 0,
                whole_pages_max: 0,
                ..limits
            },
            outcome: format!("=> {outcome}"),
        };
        golden.limits.readahead_ratio = 0;
        golden.limits.readahead_hit_rate = 0;
        (golden.state.prev_end_bytes, golden.state.prev_page) = (0, 0);
        for (number, section) in given.split(" | ").enumerate() {
            let mut words = section.split_whitespace();
            if number == 0 {
                let policy = words.next().expect("a policy");
                golden.policy = policy.parse().expect("a policy");
            }
            let kind = words.next().expect("a name");
            if number == 0 {
                let kind = KINDS.iter().position(|name| *name == kind);
                golden.access.kind = Kind::ALL[kind.expect("a kind")];
            }
            for word in words {
                let (name, value) = word.split_once('=').expect("name=number");
                let value = match value {
                    "max" => u64::MAX,
                    value => value.parse().expect("a number"),
                };
                let set = match number {
                    0 => set_access(&mut golden.access, name, value),
                    1 => set_state(&mut golden.state, name, value),
                    2 => set_near(&mut golden.near, name, value),
                    _ => set_limits(&mut golden.limits, name, value),
                };
                assert!(set, "{word}: no such field in: {line}");
            }
        }
        golden
    }
}

/// The golden decisions in the tree.
pub fn read() -> Vec<Golden> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/vectors/golden.decision"
    );
    let text = std::fs::read_to_string(path).expect("golden.decision");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(Golden::parse).collect()
}
