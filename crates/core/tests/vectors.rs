// SPDX-License-Identifier: MIT OR Apache-2.0
//! The golden decisions of `tests/vectors/`, on the C core of the host through its Rust face.
#![forbid(unsafe_code)]

mod support;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::PathBuf;

use foreread_core::policy::{
    Access, Advice, Decision, Feedback, Kind, Limits, Policy, Reason, sizing,
};
use foreread_core::{Bytes, Unit, parse_size};
use support::golden::{self, Golden};
use support::{PAGE, Reader};

fn vectors() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors")
}

fn read(name: &str) -> String {
    let path = vectors().join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// One scenario being played.
struct Scenario {
    name: String,
    policy: Policy,
    limits: Limits,
    reader: Option<Reader>,
    checked: usize,
    wrong: Vec<String>,
}

impl Scenario {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            policy: Policy::Linux,
            limits: Limits::default(),
            reader: None,
            checked: 0,
            wrong: Vec::new(),
        }
    }

    fn reader(&mut self) -> &mut Reader {
        let (policy, limits) = (self.policy, self.limits);
        self.reader
            .get_or_insert_with(|| Reader::new(policy, limits))
    }

    fn line(&mut self, line: &str) {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match verb {
            "policy" => self.policy = rest.parse().expect("a policy"),
            "file" => self.limits.file_pages = rest.parse().expect("pages"),
            "limits" => limits(&mut self.limits, rest),
            "quirk" => {
                let quirk = Limits::QUIRKS.iter().find(|quirk| quirk.0 == rest);
                self.limits.quirks |= quirk.expect("a quirk").1;
            }
            "do" => act(self.reader(), rest),
            "expect" => self.expect(rest),
            _ => panic!("{line}: no such line"),
        }
    }

    fn expect(&mut self, text: &str) {
        let from = self.checked;
        let log = &self.reader().log;
        let seen: Vec<String> = log[from..].iter().flat_map(shown).collect();
        self.checked = log.len();
        let mut wanted: Vec<&str> = text.split(", ").filter(|want| !want.is_empty()).collect();
        let open = wanted.last() == Some(&"...");
        if open {
            wanted.pop();
        }
        let fits = wanted.iter().zip(&seen).all(|(want, see)| fits(want, see));
        let count = seen.len() == wanted.len() || (open && seen.len() > wanted.len());
        if !fits || !count {
            self.wrong.push(format!(
                "{}\n  expected {}\n  got      {}",
                self.name,
                wanted.join(", "),
                seen.join(", ")
            ));
        }
    }
}

fn limits(limits: &mut Limits, text: &str) {
    let words: Vec<&str> = text.split(' ').collect();
    for pair in words.chunks(2) {
        let number: u64 = pair[1].parse().expect("a number");
        let small = u32::try_from(number).unwrap_or(u32::MAX);
        match pair[0] {
            "ra" => limits.ra_pages = small,
            "io" => limits.io_pages = small,
            "max" => limits.pages_max = small,
            "whole" => limits.whole_pages_max = small,
            "ratio" => limits.readahead_ratio = small,
            "hit-rate" => limits.readahead_hit_rate = small,
            "min" => limits.min_pages = small,
            "order" => limits.folio_order_max = u8::try_from(number).expect("an order"),
            "exec-order" => limits.exec_order = u8::try_from(number).expect("an order"),
            "memory" => limits.memory_pages = number,
            "reclaim" => limits.reclaim_pages = number,
            name => panic!("{name}: no such limit"),
        }
    }
}

fn bytes(text: &str) -> u64 {
    let size: Bytes = parse_size(text).expect("a size").to_exact().expect("bytes");
    size.count()
}

/// `x N` at the end of an access, and the words before it.
fn times<'a>(words: &'a [&'a str]) -> (&'a [&'a str], u64) {
    match words {
        [before @ .., "x", count] => (before, count.parse().expect("a count")),
        _ => (words, 1),
    }
}

fn act(reader: &mut Reader, text: &str) {
    let words: Vec<&str> = text.split(' ').collect();
    let (words, count) = times(&words);
    match words {
        ["read", at, size] => {
            for round in 0..count {
                reader.read(bytes(at) + round * bytes(size), bytes(size));
            }
        }
        ["read", at, size, "stride", step] => {
            for round in 0..count {
                let distance = bytes(step.trim_start_matches('-')) * round;
                let at = match step.starts_with('-') {
                    true => bytes(at) - distance,
                    false => bytes(at) + distance,
                };
                reader.read(at, bytes(size));
            }
        }
        ["interleave", one, two, size] => {
            for round in 0..count {
                reader.read(bytes(one) + round * bytes(size), bytes(size));
                reader.read(bytes(two) + round * bytes(size), bytes(size));
            }
        }
        ["fault", at, flags @ ..] => {
            let (flags, vma) = match flags {
                [flags @ .., "in", start, end] => (flags, (page(start), page(end))),
                _ => (flags, (0, 0)),
            };
            let flags = flags.iter().fold(0, |all, flag| all | vma_flag(flag));
            for round in 0..count {
                reader.fault(page(at) + round, flags, vma);
            }
        }
        ["force", at, size] => reader.force(page(at), bytes(size) / PAGE),
        ["advise", "normal"] => reader.advise(Advice::Normal),
        ["advise", "sequential"] => reader.advise(Advice::Sequential),
        ["advise", "random"] => reader.advise(Advice::Random),
        ["seek"] => reader.state.seek(),
        ["evict", at, size] => reader.cache.evict(page(at), bytes(size) / PAGE),
        ["aged", pages] => {
            reader.limits.aged_pages += pages.parse::<u64>().expect("pages");
        }
        ["errors"] => {
            let policy = reader.policy;
            policy.feedback(&mut reader.state, Feedback::Error, 1);
        }
        _ => panic!("{text}: no such access"),
    }
}

fn page(text: &str) -> u64 {
    bytes(text) / PAGE
}

fn vma_flag(name: &str) -> u16 {
    match name {
        "sequential" => Access::VMA_SEQUENTIAL,
        "random" => Access::VMA_RANDOM,
        "exec" => Access::VMA_EXEC,
        "huge" => Access::VMA_HUGE,
        _ => panic!("{name}: no such flag"),
    }
}

/// The windows of a decision, each as `start+size/read aN reason`; `-` for a decision without one
/// that has a reason.
fn shown((_, decision): &(Access, Decision)) -> Vec<String> {
    let reason = decision.reason;
    let quiet = [Reason::Nothing, Reason::Within, Reason::Full];
    match decision.windows() {
        [] if quiet.contains(&reason) => Vec::new(),
        [] => vec![format!("- {reason}")],
        windows => windows
            .iter()
            .map(|window| {
                let (start, size, read) = (window.start(), window.size(), window.read_pages());
                let cut = match read == size {
                    true => String::new(),
                    false => format!("/{read}"),
                };
                let ahead = match window.async_size() {
                    0 => String::new(),
                    pages => format!(" a{pages}"),
                };
                format!("{start}+{size}{cut}{ahead} {reason}")
            })
            .collect(),
    }
}

/// Whether each word that is wanted is there.
fn fits(want: &str, see: &str) -> bool {
    let see: Vec<&str> = see.split(' ').collect();
    want.split(' ').all(|word| see.contains(&word))
}

/// Plays each scenario of a file, and returns the decisions that were made.
fn play(name: &str) -> Vec<Golden> {
    let text = read(name);
    let mut scenarios: Vec<Scenario> = Vec::new();
    let mut expects = 0;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("scenario ") {
            scenarios.push(Scenario::new(name));
        } else if !line.is_empty() && !line.starts_with('#') {
            expects += usize::from(line.starts_with("expect"));
            scenarios.last_mut().expect("a scenario first").line(line);
        }
    }
    let wrong: Vec<String> = scenarios.iter().flat_map(|s| s.wrong.clone()).collect();
    assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
    assert!(expects > 0, "{name} expects nothing");
    let readers = scenarios.into_iter().filter_map(|s| s.reader);
    readers.flat_map(|reader| reader.golden).collect()
}

#[test]
fn linux_reads_as_in_the_worked_examples() {
    play("linux.scenario");
    play("versions.scenario");
}

/// The lines of a table below its heading, as numbers.
fn table(name: &str) -> Vec<Vec<u64>> {
    let number = |cell: &str| cell.parse().expect("a number");
    let text = read(name);
    let rows = text.lines().skip(1);
    rows.map(|row| row.split('\t').map(number).collect())
        .collect()
}

/// `cp` of a file of 3,568 pages, in requests of 4 KiB.
fn copied(policy: Policy, limits: Limits) -> Reader {
    let mut reader = Reader::new(policy, limits);
    for page in 0..3568 {
        reader.read(page * PAGE, PAGE);
    }
    reader
}

#[test]
fn linux_2_6_13_issues_every_window_of_its_trace() {
    let reader = copied(Policy::Linux2613, Limits::new(3568, 256));
    let windows = reader.log.iter().flat_map(|(_, decision)| {
        let windows = decision.windows().iter();
        windows.map(|w| vec![w.start(), w.size().into(), w.read_pages().into()])
    });
    let trace = table("trace-2.6.13-ahead-window.tsv");
    assert_eq!(windows.collect::<Vec<_>>(), trace);
}

#[test]
fn adaptive_2005_issues_every_window_of_its_trace() {
    let mut limits = Limits::new(3568, 256);
    limits.readahead_ratio = 101;
    limits.reclaim_pages = 2 << 18;
    let reader = copied(Policy::Adaptive2005, limits);
    let windows = reader.log.iter().flat_map(|(access, decision)| {
        let windows = decision.windows().iter();
        windows.map(|w| {
            let (size, read) = (w.size().into(), w.read_pages().into());
            vec![access.index, w.start(), size, read]
        })
    });
    let trace = table("trace-2005-adaptive-ratio-101.tsv");
    assert_eq!(windows.collect::<Vec<_>>(), trace);
}

#[test]
fn the_older_policies_read_as_in_their_worked_examples() {
    play("history.scenario");
}

#[test]
fn the_bounds_of_the_scale_read_as_they_should() {
    play("bounds.scenario");
}

#[test]
fn golden_decisions_are_what_the_core_decides() {
    let path = vectors().join("golden.decision");
    if std::env::var_os("FOREREAD_BLESS").is_some() {
        bless(&path);
    }
    let golden = golden::read();
    assert!(golden.len() > 200, "{} golden decisions", golden.len());
    for decision in golden {
        let mut state = decision.state;
        let (access, limits) = (decision.access, decision.limits);
        let near = decision.near;
        let decided = decision
            .policy
            .decide_near(&mut state, &access, &near, &limits);
        let line = decision.text();
        assert_eq!(
            golden::outcome(&decided, &state),
            decision.outcome,
            "{line}"
        );
    }
}

/// Writes anew the golden decisions: those of the scenarios, each kind of outcome a few times.
fn bless(path: &PathBuf) {
    let mut text = String::from(
        "# Written by FOREREAD_BLESS=1 cargo test -p foreread-core --test vectors; see README.md.\n",
    );
    let mut kept: HashMap<(Policy, Kind, String), usize> = HashMap::new();
    let mut lines = HashSet::new();
    for name in [
        "linux.scenario",
        "versions.scenario",
        "history.scenario",
        "bounds.scenario",
    ] {
        for decision in play(name) {
            let reason = decision.outcome.split(' ').nth(1).unwrap_or("").to_owned();
            let count = kept
                .entry((decision.policy, decision.access.kind, reason))
                .or_default();
            let line = decision.text();
            if *count < 16 && lines.insert(line.clone()) {
                *count += 1;
                text += &line;
                text.push('\n');
            }
        }
    }
    fs::write(path, text).expect("written");
}

#[test]
fn the_capacity_cap_is_that_of_the_table() {
    for row in read("capacity-cap.tsv").lines().skip(1) {
        let (capacity, cap) = row.split_once('\t').expect("two columns");
        let cap = bytes(&cap.to_uppercase()) / PAGE;
        let found = sizing::capacity_cap_pages(bytes(capacity)).expect("a cap");
        assert_eq!(u64::from(found), cap, "{capacity}");
    }
    assert_eq!(sizing::capacity_cap_pages(0), None);
    assert_eq!(sizing::capacity_cap_pages(505 << 10), Some(1));
}
