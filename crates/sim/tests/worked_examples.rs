// SPDX-License-Identifier: MIT OR Apache-2.0
//! The worked examples of `tests/vectors/`, through the page cache and the kernel's read path.
#![forbid(unsafe_code)]

use std::fs;
use std::path::PathBuf;

use foreread_core::policy::{Access, Advice, Limits, Policy, Reason};
use foreread_core::{Bytes, Unit, parse_size};
use foreread_sim::path::Mapping;
use foreread_sim::{Logged, Untimed};

const PAGE: u64 = 4096;

fn read(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors");
    fs::read_to_string(path.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// One scenario being played.
struct Scenario {
    name: String,
    policy: Policy,
    limits: Limits,
    reader: Option<Untimed>,
    checked: usize,
}

impl Scenario {
    fn reader(&mut self) -> &mut Untimed {
        let (policy, limits) = (self.policy, self.limits);
        self.reader
            .get_or_insert_with(|| Untimed::new(policy, limits))
    }

    fn line(&mut self, line: &str, wrong: &mut Vec<String>) {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match verb {
            "policy" => self.policy = rest.parse().expect("a policy"),
            "file" => self.limits.file_pages = rest.parse().expect("pages"),
            "limits" => limits(&mut self.limits, rest),
            "quirk" => {
                let quirk = Limits::QUIRKS.iter().find(|quirk| quirk.0 == rest);
                self.limits.quirks |= quirk.expect("a quirk").1;
            }
            "do" => act(self.policy, self.reader(), rest),
            "expect" => wrong.extend(self.expect(rest)),
            _ => panic!("{line}: no such line"),
        }
    }

    fn expect(&mut self, text: &str) -> Option<String> {
        let from = self.checked;
        let log = &self.reader().log;
        let seen: Vec<String> = log[from..].iter().flat_map(shown).collect();
        self.checked = log.len();
        let mut wanted: Vec<&str> = text.split(", ").filter(|want| !want.is_empty()).collect();
        let open = wanted.last() == Some(&"...");
        if open {
            wanted.pop();
        }
        let all_fit = wanted.iter().zip(&seen).all(|(want, see)| fits(want, see));
        let count = seen.len() == wanted.len() || (open && seen.len() > wanted.len());
        (!all_fit || !count).then(|| {
            let (name, wanted, seen) = (&self.name, wanted.join(", "), seen.join(", "));
            format!("{name}\n  expected {wanted}\n  got      {seen}")
        })
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

fn page(text: &str) -> u64 {
    bytes(text) / PAGE
}

fn act(policy: Policy, reader: &mut Untimed, text: &str) {
    let words: Vec<&str> = text.split(' ').collect();
    let (words, count): (&[&str], u64) = match &words[..] {
        [before @ .., "x", count] => (before, count.parse().expect("a count")),
        words => (words, 1),
    };
    match words {
        ["read", at, size] => {
            for round in 0..count {
                reader.read(bytes(at) + round * bytes(size), bytes(size));
            }
        }
        ["read", at, size, "stride", step] => {
            for round in 0..count {
                let distance = bytes(step.trim_start_matches('-')) * round;
                let backward = step.starts_with('-');
                let at = bytes(at);
                let at = if backward {
                    at - distance
                } else {
                    at + distance
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
            let (flags, pages) = match flags {
                [flags @ .., "in", start, end] => (flags, page(start)..page(end)),
                _ => (flags, 0..u64::MAX),
            };
            let flags = flags.iter().fold(0, |all, flag| all | vma_flag(flag));
            for round in 0..count {
                let mapping = Mapping::new(pages.clone(), flags);
                reader.fault(page(at) + round..page(at) + round + 1, mapping);
            }
        }
        ["force", at, size] => reader.force(page(at), bytes(size) / PAGE),
        ["advise", "normal"] => reader.advise(Advice::Normal),
        ["advise", "sequential"] => reader.advise(Advice::Sequential),
        ["advise", "random"] => reader.advise(Advice::Random),
        ["seek"] => reader.seek(),
        ["evict", at, size] => {
            reader.drop_pages(page(at), page(at) + bytes(size) / PAGE);
        }
        ["aged", pages] => {
            reader.limits_mut().aged_pages += pages.parse::<u64>().expect("pages");
        }
        ["errors"] => {
            policy.feedback(
                reader.state_mut(),
                foreread_core::policy::Feedback::Error,
                1,
            );
        }
        _ => panic!("{text}: no such access"),
    }
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

/// The windows of a decision as `start+size/read aN reason`; `-` for one without that has a reason.
fn shown(logged: &Logged) -> Vec<String> {
    let decision = &logged.decision;
    let reason = decision.reason;
    let quiet = [Reason::Nothing, Reason::Within, Reason::Full];
    if decision.windows().is_empty() {
        return match quiet.contains(&reason) {
            true => Vec::new(),
            false => vec![format!("- {reason}")],
        };
    }
    let window = |window: &foreread_core::policy::Window| {
        let (start, size, read) = (window.start(), window.size(), window.read_pages());
        let cut = if read == size {
            String::new()
        } else {
            format!("/{read}")
        };
        format!("{start}+{size}{cut} a{} {reason}", window.async_size())
    };
    decision.windows().iter().map(window).collect()
}

/// Whether every word of the expectation stands in the output, `start+size` first.
fn fits(want: &str, seen: &str) -> bool {
    let mut seen = seen.split(' ');
    let mut words = want.split(' ');
    words.next() == seen.next() && words.all(|word| seen.any(|see| see == word))
}

fn play(name: &str) {
    let text = read(name);
    let mut wrong = Vec::new();
    let mut scenario: Option<Scenario> = None;
    for line in text
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
    {
        if let Some(name) = line.strip_prefix("scenario ") {
            scenario = Some(Scenario {
                name: name.to_owned(),
                policy: Policy::Linux,
                limits: Limits::default(),
                reader: None,
                checked: 0,
            });
        } else {
            scenario
                .as_mut()
                .expect("a scenario")
                .line(line, &mut wrong);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn linux_reads_as_in_the_worked_examples() {
    play("linux.scenario");
    play("versions.scenario");
}

#[test]
fn the_older_policies_read_as_in_their_worked_examples() {
    play("history.scenario");
    play("bounds.scenario");
}

/// `cp` of a file of 3,568 pages, in requests of 4 KiB.
fn copied(policy: Policy, limits: Limits) -> Untimed {
    let mut reader = Untimed::new(policy, limits);
    for page in 0..3568 {
        reader.read(page * PAGE, PAGE);
    }
    reader
}

/// The lines of a table below its heading, as numbers.
fn table(name: &str) -> Vec<Vec<u64>> {
    let number = |cell: &str| cell.parse().expect("a number");
    let text = read(name);
    let rows = text.lines().skip(1);
    rows.map(|row| row.split('\t').map(number).collect())
        .collect()
}

#[test]
fn linux_2_6_13_issues_every_window_of_its_trace() {
    let reader = copied(Policy::Linux2613, Limits::new(3568, 256));
    let windows = reader.log.iter().flat_map(|logged| {
        let windows = logged.decision.windows().iter();
        windows.map(|w| vec![w.start(), w.size().into(), w.read_pages().into()])
    });
    let trace = table("trace-2.6.13-ahead-window.tsv");
    assert_eq!(windows.collect::<Vec<_>>(), trace);
    // Each window found nothing cached: its pages are one batch.
    let read = reader.log.iter().flat_map(|l| l.batches.clone());
    let read: u64 = read.map(|batch| batch.end - batch.start).sum();
    assert_eq!((read, reader.alone.len()), (3568, 0));
}

#[test]
fn adaptive_2005_issues_every_window_of_its_trace() {
    let mut limits = Limits::new(3568, 256);
    limits.readahead_ratio = 101;
    limits.reclaim_pages = 2 << 18;
    let reader = copied(Policy::Adaptive2005, limits);
    let windows = reader.log.iter().flat_map(|logged| {
        let windows = logged.decision.windows().iter();
        windows.map(|w| {
            let (size, read) = (w.size().into(), w.read_pages().into());
            vec![logged.access.index, w.start(), size, read]
        })
    });
    let trace = table("trace-2005-adaptive-ratio-101.tsv");
    assert_eq!(windows.collect::<Vec<_>>(), trace);
}

#[test]
fn what_was_read_is_in_the_cache_and_nothing_else() {
    // Linux 6.18 on ext4, measured: the output of mincore(2) after reads of 4 KiB from page 1000
    // on.
    let mut limits = Limits::new(100_000, 32);
    limits.folio_order_max = 9;
    let mut reader = Untimed::new(Policy::Linux, limits);
    reader.read(1000 * PAGE, PAGE);
    assert_eq!(reader.resident_runs(), [(1000, 1)]);
    reader.read(1001 * PAGE, PAGE);
    assert_eq!(reader.resident_runs(), [(1000, 5)]);
    assert_eq!(reader.drop_pages(0, u64::MAX), 5);
    assert_eq!(reader.resident_runs(), []);
}

#[test]
fn a_window_is_split_at_what_is_cached() {
    let mut reader = Untimed::new(Policy::Linux, Limits::new(1000, 32));
    reader.force(10, 2);
    reader.read(0, 32 * PAGE);
    let batches: Vec<_> = reader.log.iter().flat_map(|l| l.batches.clone()).collect();
    assert_eq!(batches, [10..12, 0..10, 12..32, 32..64]);
}

#[test]
fn a_read_beyond_the_end_changes_nothing() {
    let mut reader = Untimed::new(Policy::Linux, Limits::new(10, 32));
    reader.read(40 * PAGE, PAGE);
    assert!(reader.log.is_empty());
    assert_eq!(reader.state_mut().prev_end_bytes, u64::MAX);
    reader.read(9 * PAGE, 100 * PAGE);
    assert_eq!(reader.state_mut().prev_end_bytes, 10 * PAGE);
}

#[test]
fn cached_neighbours_are_mapped_with_the_page_that_faults() {
    let mut reader = Untimed::new(Policy::Linux, Limits::new(100_000, 32));
    let mapping = Mapping::new(0..100_000, 0);
    // The miss counts, and is taken back when the fault is taken again: fault-around maps the page.
    reader.fault(5000..5001, mapping.clone());
    assert_eq!(reader.state_mut().mmap_miss, 0);
    reader.fault(5001..5002, mapping.clone());
    assert_eq!(reader.log.len(), 1);
    // 4984 to 5015 were read around; the mark of the window is on 5008.
    reader.fault(5008..5009, mapping);
    assert_eq!(reader.log.len(), 2);
    assert_eq!(reader.log[1].to_string(), "reads 5016+32 a32");
}
