// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the sequences of `tests/vectors/` on the C core of the host through its Rust interface.
//! Also writes them: readers over a small disk, with each access and answer noted.
#![forbid(unsafe_code)]

#[path = "support/golden.rs"]
mod golden;
#[path = "support/sequence.rs"]
mod sequence;

use std::collections::BTreeMap;

use foreread_core::policy::{Access, Done, Feedback, Kind, Limits, Policy};
use sequence::{Core, Host, POLICIES, Told, access_line, told_line};

/// Time of a request of the disk, and of a page of it.
const REQUEST_NS: u64 = 1_000_000;
const PAGE_NS: u64 = 50_000;

/// Readers of one file, and the disk that it is on.
struct Play {
    core: Host,
    now_ns: u64,
    /// When each page is there; those that were asked for only.
    pages: BTreeMap<u64, u64>,
    evicted: Vec<u64>,
    /// Requests under way, and where the last ended.
    requests: Vec<Done>,
    disk: (u64, u64),
    text: String,
}

impl Play {
    fn new(policy: Policy, name: &str, limits: Limits) -> Self {
        let mut core = Host::new();
        core.open(policy, &limits);
        let mut text = format!("\nsequence {name} file {}", limits.file_pages);
        for (word, pages) in [
            ("reclaim", limits.reclaim_pages),
            ("max", limits.pages_max.into()),
        ] {
            if pages != 0 {
                text += &format!(" {word} {pages}");
            }
        }
        Self {
            core,
            now_ns: 1000,
            pages: BTreeMap::new(),
            evicted: Vec::new(),
            requests: Vec::new(),
            disk: (0, 0),
            text: text + "\n",
        }
    }

    fn tell(&mut self, told: Told) {
        self.core.tell(&told);
        self.text += &told_line(&told);
        self.text.push('\n');
    }

    /// Reports the requests that the disk has done by now.
    fn deliver(&mut self) {
        while self
            .requests
            .first()
            .is_some_and(|r| r.now_ns <= self.now_ns)
        {
            let done = self.requests.remove(0).left(!self.requests.is_empty());
            self.tell(Told::Done(done));
        }
    }

    /// Brings pages in; how many were not there.
    fn request(&mut self, start: u64, pages: u64) -> u64 {
        let missing: Vec<u64> = (start..start + pages)
            .filter(|page| !self.pages.contains_key(page))
            .collect();
        for run in missing.chunk_by(|a, b| a + 1 == *b) {
            let count = run.len() as u64;
            let begin_ns = self.disk.0.max(self.now_ns);
            let is_next = self.disk.1 == run[0];
            let seek_ns = if is_next { REQUEST_NS / 4 } else { REQUEST_NS };
            let end_ns = begin_ns + seek_ns + count * PAGE_NS;
            let done = Done::new(end_ns, end_ns - self.now_ns, count)
                .first(self.requests.is_empty())
                .next(is_next);
            self.requests.push(done);
            self.disk = (end_ns, run[0] + count);
            self.pages.extend(run.iter().map(|page| (*page, end_ns)));
        }
        missing.len() as u64
    }

    fn access(&mut self, access: Access) {
        self.deliver();
        let pages = access.req_pages;
        let first = (access.index..access.index + pages).find(|at| !self.pages.contains_key(at));
        if first.is_some_and(|page| self.evicted.contains(&page)) {
            self.tell(Told::Feedback(Feedback::Thrashed, 1));
        }
        let decision = self.core.decide(&access);
        self.text += &format!("{} => ", access_line(&access));
        self.text += &golden::decided(&decision);
        self.text.push('\n');
        let limits = self.core.limits;
        let (mut asked, mut read) = (0, 0);
        for window in decision.every_window(&limits) {
            asked += u64::from(window.read_pages());
            read += self.request(window.start(), window.read_pages().into());
        }
        let thread = access.thread;
        if asked > 0 && self.core.policy.remembers() {
            self.tell(Told::Issued {
                thread,
                pages: asked,
                read_pages: read,
            });
        }
        // A page that was not requested is read alone.
        for page in access.index..access.index + pages {
            self.request(page, 1);
            let there_ns = self.pages[&page];
            if there_ns > self.now_ns {
                let waited_ns = there_ns - self.now_ns;
                self.now_ns = there_ns;
                self.deliver();
                self.tell(Told::Feedback(Feedback::Late, 1));
                if self.core.policy.remembers() {
                    self.tell(Told::Waited {
                        thread,
                        waited_ns,
                        asked: first.is_none_or(|first| page < first),
                    });
                }
            }
        }
    }

    /// read(2) of a thread, which takes `think_ns` for each page of it.
    fn read(&mut self, thread: u32, index: u64, pages: u64, think_ns: u64) {
        let mut access = Access::read_look(index, pages);
        let cached = (index..index + pages).take_while(|page| self.pages.contains_key(page));
        let cached = cached.count() as u64;
        if cached < pages {
            access.flags = Access::MISSED;
            access.hit_pages = cached;
        }
        (access.thread, access.time_ns) = (thread, self.now_ns);
        self.access(access);
        self.now_ns += think_ns * pages;
    }

    fn fault(&mut self, thread: u32, index: u64) {
        let kind = match self.pages.contains_key(&index) {
            true => Kind::FaultHit,
            false => Kind::FaultMiss,
        };
        let mut access = Access::fault(kind, index, 0);
        (access.thread, access.time_ns) = (thread, self.now_ns);
        self.access(access);
        self.now_ns += 20_000;
    }

    fn evict(&mut self, start: u64, end: u64) {
        for page in start..end {
            if self.pages.remove(&page).is_some() {
                self.evicted.push(page);
            }
        }
    }
}

/// Numbers below a million without an order: those of Park and Miller.
fn scattered(count: usize) -> impl Iterator<Item = u64> {
    let next = |last: &u64| Some(last * 48_271 % 2_147_483_647);
    std::iter::successors(next(&1), next)
        .map(|number| number % 1_000_000)
        .take(count)
}

/// A reading: its name, its limits, and its accesses.
type Reading = (&'static str, Limits, fn(&mut Play));

fn readings() -> Vec<Reading> {
    let file = |pages| Limits::new(pages, 32);
    let mut short = file(100_000);
    short.reclaim_pages = 400;
    let mut bound = file(100_000);
    bound.pages_max = 24;
    vec![
        ("sequential", file(600), |p| {
            (0..150).for_each(|n| p.read(1, n * 4, 4, 2000));
        }),
        ("sequential-bounded", bound, |p| {
            (0..24).for_each(|n| p.read(1, n * 4, 4, 2000));
        }),
        ("stop-and-jump", file(100_000), |p| {
            for (round, start) in [0, 30_000, 9000, 61_000, 500].into_iter().enumerate() {
                (0..8 + round as u64).for_each(|n| p.read(1, start + n * 2, 2, 2000));
            }
        }),
        ("two-streams", file(100_000), |p| {
            for n in 0..24 {
                p.read(1, 1000 + n * 4, 4, 2000);
                p.read(1, 50_000 + n * 4, 4, 2000);
            }
        }),
        ("nine-streams", short, |p| {
            for n in 0..8 {
                (0..9).for_each(|s| p.read(s % 3, 10_000 * (s as u64 + 1) + n * 4, 4, 2000));
            }
        }),
        ("backward", file(100_000), |p| {
            (1..40).for_each(|n| p.read(1, 70_000 - n * 4, 4, 2000));
        }),
        ("backward-to-the-start", file(100_000), |p| {
            (1..=15).for_each(|n| p.read(1, 60 - n * 4, 4, 2000));
        }),
        // As the kernel module tells of it: at marks, with all pages that were passed since.
        ("backward-in-arrears", file(100_000), |p| {
            let mut low = 70_000;
            for pages in [4, 4, 1, 300, 1, 90, 1, 900, 1] {
                low -= pages;
                p.read(1, low, pages, 2000);
            }
        }),
        ("stride-with-noise", file(100_000), |p| {
            for (n, noise) in scattered(40).enumerate() {
                p.read(1, 2000 + n as u64 * 96, 2, 2000);
                if n % 5 == 4 {
                    p.read(1, noise % 100_000, 1, 2000);
                }
            }
        }),
        ("stride-to-the-end", file(4000), |p| {
            (0..30).for_each(|n| p.read(1, 1000 + n * 100, 3, 2000));
        }),
        ("stride-downward", file(4000), |p| {
            (0..30).for_each(|n| p.read(1, 2980 - n * 100, 3, 2000));
        }),
        ("reordered", file(100_000), |p| {
            for n in 0..10 {
                for m in [0, 2, 1, 3] {
                    p.read(1, 5000 + (n * 4 + m) * 4, 4, 2000);
                }
            }
        }),
        // Another order in each block of eight, as from the threads of an NFS server.
        ("reordered-in-eights", file(100_000), |p| {
            for n in 0..24 {
                (0..8).for_each(|m| p.read(1, 5000 + (n * 8 + (m * 5 + n * 3) % 8) * 4, 4, 2000));
            }
        }),
        // Two are near each other now and then, and no more than two.
        ("pairs", file(1_000_000), |p| {
            for (n, at) in scattered(200).enumerate() {
                p.read(1, at, 2, 2000);
                if n >= 100 && n % 40 == 0 {
                    p.read(1, at + 2, 2, 2000);
                    p.read(1, at + 5000, 2, 2000);
                    p.read(1, at + 5006, 2, 2000);
                }
            }
        }),
        ("holes", file(100_000), |p| {
            (0..40).for_each(|n| p.read(1, 5000 + n * 6, 4, 2000));
        }),
        ("mmap-two-threads", file(100_000), |p| {
            for n in 0..24 {
                p.fault(1, 4000 + n * 16);
                p.fault(2, 80_000 + n * 16);
            }
            scattered(10).for_each(|at| p.fault(1, at % 100_000));
        }),
        ("slow-consumer", file(100_000), |p| {
            (0..40).for_each(|n| p.read(1, n * 4, 4, 400_000));
        }),
        ("thrashing", short, |p| {
            for n in 0..50 {
                p.read(1, 3000 + n * 4, 4, 2000);
                if n % 16 == 15 {
                    p.evict(3000, 100_000);
                }
            }
        }),
        ("cached", file(100_000), |p| {
            p.pages.extend((64..100_000).map(|page| (page, 0)));
            (0..28).for_each(|n| p.read(1, n * 512, 512, 100));
        }),
        ("random", file(1_000_000), |p| {
            scattered(40).for_each(|at| p.read(1, at, 2, 2000));
        }),
    ]
}

fn bless(policy: Policy) {
    let mut text = String::from(
        "# Written by FOREREAD_BLESS=1 cargo test -p foreread-core --test sequences; see README.md.\n",
    );
    for (name, limits, reading) in readings() {
        let mut play = Play::new(policy, name, limits);
        reading(&mut play);
        text += &play.text;
    }
    sequence::write(policy, &text);
}

#[test]
fn sequences_come_to_what_stands_in_their_files() {
    for policy in POLICIES {
        if std::env::var_os("FOREREAD_BLESS").is_some() {
            bless(policy);
        }
        let ends = sequence::play(policy, &mut Host::new());
        assert_eq!(ends.len(), readings().len(), "{policy}");
    }
}

/// The text of a sequence of `foreread`.
fn part(name: &str) -> String {
    let text = sequence::read(Policy::Foreread);
    let mut parts = text.split("\nsequence ");
    let part = parts.find(|part| part.starts_with(&format!("{name} ")));
    part.expect("the sequence").to_owned()
}

/// Whether a sequence of `foreread` has a decision with these words.
fn says(name: &str, words: &str) -> bool {
    part(name).lines().any(|line| line.contains(words))
}

#[test]
fn foreread_knows_what_each_sequence_is() {
    for (name, words) in [
        ("sequential", "=> initial"),
        ("sequential", "=> stream"),
        ("two-streams", "=> stream"),
        ("nine-streams", "=> stream"),
        ("backward", "=> reverse"),
        ("backward-in-arrears", "=> reverse"),
        ("stride-with-noise", "=> stride"),
        ("stride-to-the-end", "more by +100"),
        ("stride-downward", "more by -100"),
        ("reordered", "=> stream"),
        ("reordered-in-eights", "=> stream"),
        ("holes", "=> stream"),
        ("mmap-two-threads", "=> stream"),
        ("mmap-two-threads", "=> around"),
        ("cached", "=> silent"),
        ("random", "=> random"),
    ] {
        assert!(says(name, words), "{name}: {words}");
    }
    for name in ["random", "pairs"] {
        for words in ["=> stream", "=> reverse", "=> stride"] {
            assert!(!says(name, words), "{name}: {words}");
        }
    }
    // Once it is known how far the reads go back, none is too early.
    let reordered = part("reordered-in-eights");
    let missed = reordered
        .lines()
        .filter(|line| line.starts_with("look"))
        .skip(8)
        .filter(|line| line.contains(" missed "));
    assert_eq!(missed.count(), 0);
}
