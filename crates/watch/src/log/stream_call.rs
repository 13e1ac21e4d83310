// SPDX-License-Identifier: MIT OR Apache-2.0
//! Logged calls of the policy core in the kernel, and their replay.
//!
//! The core's state follows from its calls alone: the same calls in the same order give the same
//! decisions, bit for bit.

use std::collections::HashMap;

use foreread_core::policy::{
    Access, Budget, Decision, Device, Done, Feedback, Kind, Limits, Memory, Near, Policy, State,
    Streams,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::planner::Planner;
use super::text::{device_of, disk, file, hex};
use crate::stream::FileKey;

/// The policy of streams.
pub const POLICY: Policy = Policy::Foreread;

/// A call of the core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Number from 1, in the order of the calls of the disk. A gap in the numbers is a lost call.
    pub number: u64,
    /// The process that read, or 0.
    pub process: u32,
    /// Major number of the disk in the upper half, minor in the lower; 0 for all files whose disk
    /// isn't known.
    #[serde(with = "disk")]
    pub disk: u64,
    /// The call.
    #[serde(flatten)]
    pub what: Called,
}

/// A call of the core with its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Called {
    /// A thread accesses a file.
    Access(Box<Decided>),
    /// A reader waited.
    Waited {
        /// The file.
        #[serde(with = "file")]
        file: FileKey,
        /// The thread.
        thread: u32,
        /// Time waited, in nanoseconds.
        waited_ns: u64,
        /// Whether the page was in flight when the reader reached it.
        asked: bool,
    },
    /// The windows of a decision were issued.
    Issued {
        /// The file.
        #[serde(with = "file")]
        file: FileKey,
        /// The thread of the window.
        thread: u32,
        /// Pages of the windows.
        pages: u64,
        /// Pages of these that were not in memory.
        read_pages: u64,
    },
    /// The disk has completed a request.
    Done(#[serde(with = "done")] Done),
    /// The disk is a new one, and rotational.
    Turns,
}

/// An access and the decision on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The file.
    pub file: FileKey,
    /// Whether the file has no state yet.
    pub is_new: bool,
    /// The maximum window of the descriptor.
    pub ra_pages: u32,
    /// Whether pages had been evicted before the reader reached them.
    pub has_thrashed: bool,
    /// The access.
    pub access: Access,
    /// The limits at the time of the access.
    pub limits: Limits,
    /// The budget that all disks share, before the decision.
    pub budget: Budget,
    /// The answer.
    pub decision: Decision,
}

/// An access as a line of the log: readable fields, which a replay ignores, and the bytes from
/// which it makes the call again.
#[derive(Serialize, Deserialize)]
struct AccessLine {
    #[serde(with = "file")]
    file: FileKey,
    #[serde(skip_deserializing)]
    thread: u32,
    #[serde(skip_deserializing)]
    how: &'static str,
    #[serde(skip_deserializing)]
    page: u64,
    #[serde(skip_deserializing)]
    pages: u64,
    #[serde(skip_deserializing)]
    missed: bool,
    #[serde(skip_deserializing)]
    reason: &'static str,
    #[serde(skip_deserializing)]
    windows: Vec<String>,
    is_new: bool,
    ra_pages: u32,
    thrashed: bool,
    #[serde(with = "hex")]
    access: Access,
    #[serde(with = "hex")]
    limits: Limits,
    #[serde(with = "hex")]
    budget: Budget,
    #[serde(with = "hex")]
    decision: Decision,
}

impl Serialize for Decided {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self {
            access,
            limits,
            decision,
            ..
        } = self;
        let windows = decision.every_window(limits).map(|w| w.to_string());
        let line = AccessLine {
            file: self.file,
            thread: access.thread,
            how: match access.kind {
                Kind::ReadLook => "read",
                _ => "fault",
            },
            page: access.index,
            pages: access.req_pages,
            missed: access.kind == Kind::FaultMiss || access.flags & Access::MISSED != 0,
            reason: decision.reason.name(),
            windows: windows.collect(),
            is_new: self.is_new,
            ra_pages: self.ra_pages,
            thrashed: self.has_thrashed,
            access: *access,
            limits: *limits,
            budget: self.budget,
            decision: *decision,
        };
        line.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Decided {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let line = AccessLine::deserialize(from)?;
        Ok(Self {
            file: line.file,
            is_new: line.is_new,
            ra_pages: line.ra_pages,
            has_thrashed: line.thrashed,
            access: line.access,
            limits: line.limits,
            budget: line.budget,
            decision: line.decision,
        })
    }
}

/// A request as a line of the log, in the same form.
mod done {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Line {
        #[serde(skip_deserializing)]
        pages: u32,
        #[serde(skip_deserializing)]
        took_ns: u64,
        #[serde(with = "hex")]
        done: Done,
    }

    pub fn serialize<S: Serializer>(done: &Done, to: S) -> Result<S::Ok, S::Error> {
        let line = Line {
            pages: done.pages,
            took_ns: done.took_ns,
            done: *done,
        };
        line.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Done, D::Error> {
        Ok(Line::deserialize(from)?.done)
    }
}

/// The state of the core for one disk: the disk and its files. All disks share the budget, so each
/// logged decision has a copy of it.
#[derive(Debug, Default)]
pub struct Remembered {
    files: HashMap<FileKey, Box<(State, Streams)>>,
    disk: Device,
}

impl Remembered {
    /// The state before the first call.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a call. Returns the decision, if the call makes one.
    pub fn make(&mut self, call: &Call) -> Option<Decision> {
        match &call.what {
            Called::Access(decided) => return Some(self.decide(decided)),
            Called::Waited {
                file,
                thread,
                waited_ns,
                asked,
            } => {
                if let Some(remembered) = self.files.get_mut(file) {
                    let memory = Memory {
                        streams: Some(&mut remembered.1),
                        device: Some(&mut self.disk),
                        budget: None,
                    };
                    POLICY.waited(memory, *thread, *waited_ns, *asked);
                }
            }
            Called::Issued {
                file,
                thread,
                pages,
                read_pages,
            } => {
                if let Some(remembered) = self.files.get_mut(file) {
                    POLICY.issued(&mut remembered.1, *thread, *pages, *read_pages);
                }
            }
            Called::Done(done) => self.disk.done(done),
            Called::Turns => self.disk = Device::that_turns(),
        }
        None
    }

    fn decide(&mut self, decided: &Decided) -> Decision {
        let mut budget = decided.budget;
        let limits = &decided.limits;
        if decided.is_new {
            let fresh = Box::new((State::open(limits), Streams::new()));
            self.files.insert(decided.file, fresh);
        }
        let remembered = self
            .files
            .entry(decided.file)
            .or_insert_with(|| Box::new((State::open(limits), Streams::new())));
        let (state, streams) = &mut **remembered;
        state.ra_pages = decided.ra_pages;
        if decided.has_thrashed {
            POLICY.feedback(state, Feedback::Thrashed, 1);
        }
        let memory = Memory {
            streams: Some(streams),
            device: Some(&mut self.disk),
            budget: Some(&mut budget),
        };
        POLICY.decide_with(state, &decided.access, &Near::default(), limits, memory)
    }
}

impl Planner for Remembered {
    type Call = Call;
    /// The disk.
    type Key = u64;

    const NAME: &'static str = "streams";
    const WHATS: &'static [&'static str] = &["access", "waited", "issued", "done", "turns"];
    const COUNTED: &'static [[&'static str; 2]] =
        &[["decision", "decisions"], ["window", "windows"]];

    fn number(call: &Call) -> u64 {
        call.number
    }

    fn key(_: u32, call: &Call) -> u64 {
        call.disk
    }

    fn words(disk: &u64) -> String {
        format!("the streams of disk {}", device_of(*disk))
    }

    fn begin(_: &Call) -> Option<Self> {
        Some(Self::default())
    }

    fn again(&mut self, call: &Call) -> Option<Call> {
        let decision = self.make(call);
        let mut made = call.clone();
        if let (Called::Access(decided), Some(decision)) = (&mut made.what, decision) {
            decided.decision = decision;
        }
        Some(made)
    }

    fn count(call: &Call, counts: &mut [u64]) {
        if let (Called::Access(decided), [decisions, windows]) = (&call.what, counts) {
            *decisions += 1;
            *windows += decided.decision.every_window(&decided.limits).count() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_core::Device as Number;

    fn access(number: u64, index: u64) -> Call {
        let mut access = Access::read_look(index, 16);
        access.flags = Access::MISSED;
        access.time_ns = number * 1_000_000;
        access.thread = 7;
        let limits = Limits {
            reclaim_pages: 1 << 18,
            ..Limits::new(1 << 16, 32)
        };
        let decided = Decided {
            file: FileKey {
                inode: 12,
                device: Number { major: 8, minor: 1 },
                generation: 1,
            },
            is_new: number == 1,
            ra_pages: 32,
            has_thrashed: false,
            access,
            limits,
            budget: Budget::default(),
            decision: Remembered::new().decide_nothing(&limits),
        };
        Call {
            number,
            process: 7,
            disk: 8 << 32,
            what: Called::Access(Box::new(decided)),
        }
    }

    impl Remembered {
        fn decide_nothing(&self, limits: &Limits) -> Decision {
            let mut state = State::open(limits);
            let access = Access::read_look(0, 1);
            Policy::None.decide_near(&mut state, &access, &Near::default(), limits)
        }
    }

    #[test]
    fn the_same_calls_come_to_the_same_decisions() {
        let (mut one, mut other) = (Remembered::new(), Remembered::new());
        let mut windows = 0;
        for number in 1..200 {
            let call = access(number, (number - 1) * 16);
            let decision = one.make(&call).unwrap();
            assert_eq!(Some(decision), other.make(&call));
            windows += decision.windows().len();
            let done = Call {
                what: Called::Done(Done::new(number * 1_000_000, 700_000, 16).first(true)),
                ..call
            };
            assert_eq!((one.make(&done), other.make(&done)), (None, None));
        }
        assert!(windows > 20, "{windows}");
    }

    #[test]
    fn what_is_left_out_shows() {
        let decide = |skip: u64| {
            let mut remembered = Remembered::new();
            let calls = (1..60).filter(|number| *number != skip);
            let calls = calls.map(|number| access(number, number * 16));
            let decisions: Vec<_> = calls.map(|call| remembered.make(&call)).collect();
            decisions.last().copied()
        };
        assert_ne!(decide(0), decide(1));
    }
}
