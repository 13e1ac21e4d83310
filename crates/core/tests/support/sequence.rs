// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sequences of accesses as text, for policies with more state than fits into a line: the decision
//! on each access, and the events reported to the policy between them. The format is in
//! `tests/vectors/README.md`.
#![allow(dead_code, reason = "no test program uses all of it")]

use std::fmt::Write as _;

use foreread_core::policy::{
    Access, Budget, Decision, Device, Done, Feedback, Kind, Limits, Memory, Near, Policy, State,
    Streams,
};

use super::golden;

/// Files of sequences, one a policy.
pub const POLICIES: [Policy; 3] = [Policy::Leap, Policy::Distance, Policy::Foreread];

/// Events besides accesses that are reported to a policy.
#[derive(Clone, Copy, Debug)]
pub enum Told {
    Done(Done),
    Waited {
        thread: u32,
        waited_ns: u64,
        asked: bool,
    },
    Issued {
        thread: u32,
        pages: u64,
        read_pages: u64,
    },
    Feedback(Feedback, u64),
}

/// The core that makes the decisions: on the host, or in the kernel.
pub trait Core {
    /// A file just opened on a device of which nothing is known.
    fn open(&mut self, policy: Policy, limits: &Limits);
    fn decide(&mut self, access: &Access) -> Decision;
    fn tell(&mut self, told: &Told);
    /// All that it remembers.
    fn memory(&self) -> Vec<u8>;
}

/// The core on the host.
pub struct Host {
    pub policy: Policy,
    pub limits: Limits,
    state: State,
    streams: Streams,
    device: Device,
    budget: Budget,
}

impl Host {
    pub fn new() -> Self {
        let limits = Limits::default();
        Self {
            policy: Policy::None,
            limits,
            state: State::open(&limits),
            streams: Streams::new(),
            device: Device::default(),
            budget: Budget::default(),
        }
    }
}

impl Core for Host {
    fn open(&mut self, policy: Policy, limits: &Limits) {
        *self = Self {
            policy,
            limits: *limits,
            state: State::open(limits),
            ..Self::new()
        };
    }

    fn decide(&mut self, access: &Access) -> Decision {
        let memory = Memory {
            streams: Some(&mut self.streams),
            device: Some(&mut self.device),
            budget: Some(&mut self.budget),
        };
        let (state, near) = (&mut self.state, Near::default());
        self.policy
            .decide_with(state, access, &near, &self.limits, memory)
    }

    fn tell(&mut self, told: &Told) {
        let memory = Memory {
            streams: Some(&mut self.streams),
            device: Some(&mut self.device),
            budget: Some(&mut self.budget),
        };
        match *told {
            Told::Done(done) => self.device.done(&done),
            Told::Waited {
                thread,
                waited_ns,
                asked,
            } => self.policy.waited(memory, thread, waited_ns, asked),
            Told::Issued {
                thread,
                pages,
                read_pages,
            } => self
                .policy
                .issued(&mut self.streams, thread, pages, read_pages),
            Told::Feedback(kind, pages) => self.policy.feedback(&mut self.state, kind, pages),
        }
    }

    fn memory(&self) -> Vec<u8> {
        [
            self.state.bytes(),
            self.streams.bytes(),
            self.device.bytes(),
            self.budget.bytes(),
        ]
        .concat()
    }
}

fn file_of(policy: Policy) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors");
    format!("{folder}/{policy}.sequence")
}

/// Text of the sequences of a policy.
pub fn read(policy: Policy) -> String {
    let path = file_of(policy);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

pub fn write(policy: Policy, text: &str) {
    std::fs::write(file_of(policy), text).expect("written");
}

/// The line of an access, up to `=>`.
pub fn access_line(access: &Access) -> String {
    let mut line = match access.kind {
        Kind::ReadLook => format!("look {}+{}", access.index, access.req_pages),
        _ => format!("fault {}", access.index),
    };
    if access.kind == Kind::FaultMiss || access.flags & Access::MISSED != 0 {
        let _ = write!(line, " missed {}", access.hit_pages);
    }
    let _ = write!(line, " thread {} at {}", access.thread, access.time_ns);
    line
}

pub fn told_line(told: &Told) -> String {
    match told {
        Told::Done(done) => {
            let (at, took, pages) = (done.now_ns, done.took_ns, done.pages);
            let mut line = format!("done at {at} took {took} pages {pages}");
            for (is, word) in [
                (done.is_first(), " first"),
                (done.is_left(), " left"),
                (done.is_next(), " next"),
            ] {
                line += if is { word } else { "" };
            }
            line
        }
        Told::Waited {
            thread,
            waited_ns,
            asked,
        } => {
            let asked = if *asked { " asked" } else { "" };
            format!("waited {waited_ns} thread {thread}{asked}")
        }
        Told::Issued {
            thread,
            pages,
            read_pages,
        } => format!("issued {pages} read {read_pages} thread {thread}"),
        Told::Feedback(Feedback::Late, pages) => format!("late {pages}"),
        Told::Feedback(_, pages) => format!("thrashed {pages}"),
    }
}

/// The words of a line, taken one after the other.
struct Words<'a>(Vec<&'a str>);

impl Words<'_> {
    /// The number after a word; 0 without the word.
    fn number(&self, name: &str) -> u64 {
        let at = self.0.iter().position(|word| *word == name);
        at.map_or(0, |at| self.0[at + 1].parse().expect("a number"))
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains(&name)
    }

    fn thread(&self) -> u32 {
        u32::try_from(self.number("thread")).expect("a thread")
    }
}

fn access_of(words: &Words<'_>) -> Access {
    let mut access = match words.0[0] {
        "look" => {
            let (index, pages) = words.0[1].split_once('+').expect("index+pages");
            let number = |text: &str| text.parse().expect("a number");
            Access::read_look(number(index), number(pages))
        }
        _ => {
            let kind = match words.has("missed") {
                true => Kind::FaultMiss,
                false => Kind::FaultHit,
            };
            Access::fault(kind, words.number("fault"), 0)
        }
    };
    if words.0[0] == "look" && words.has("missed") {
        access.flags = Access::MISSED;
        access.hit_pages = words.number("missed");
    }
    access.thread = words.thread();
    access.time_ns = words.number("at");
    access
}

fn told_of(words: &Words<'_>) -> Told {
    let thread = words.thread();
    match words.0[0] {
        "done" => Told::Done(
            Done::new(
                words.number("at"),
                words.number("took"),
                words.number("pages"),
            )
            .first(words.has("first"))
            .left(words.has("left"))
            .next(words.has("next")),
        ),
        "waited" => Told::Waited {
            thread,
            waited_ns: words.number("waited"),
            asked: words.has("asked"),
        },
        "issued" => Told::Issued {
            thread,
            pages: words.number("issued"),
            read_pages: words.number("read"),
        },
        "late" => Told::Feedback(Feedback::Late, words.number("late")),
        "thrashed" => Told::Feedback(Feedback::Thrashed, words.number("thrashed")),
        word => panic!("{word}: no such line"),
    }
}

/// Plays all sequences of a policy; the memory after each. What comes out otherwise than it stands
/// there is a panic.
pub fn play(policy: Policy, core: &mut dyn Core) -> Vec<Vec<u8>> {
    let text = read(policy);
    let (mut name, mut after, mut accesses) = ("", Vec::new(), 0);
    for (number, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (given, outcome) = line.split_once(" => ").unwrap_or((line, ""));
        let words = Words(given.split(' ').collect());
        match words.0[0] {
            "sequence" => {
                if !name.is_empty() {
                    after.push(core.memory());
                }
                name = words.0[1];
                core.open(policy, &limits(&words));
            }
            "look" | "fault" => {
                let decision = core.decide(&access_of(&words));
                let here = format!("{policy}.sequence:{}: {name}: {given}", number + 1);
                assert_eq!(golden::decided(&decision), outcome, "{here}");
                accesses += 1;
            }
            _ => core.tell(&told_of(&words)),
        }
    }
    after.push(core.memory());
    assert!(accesses > 300, "{policy}: {accesses} accesses");
    after
}

fn limits(words: &Words<'_>) -> Limits {
    let mut limits = Limits::new(words.number("file"), 32);
    limits.reclaim_pages = words.number("reclaim");
    let bound = u32::try_from(words.number("max"));
    limits.pages_max = bound.expect("pages");
    limits
}
