// SPDX-License-Identifier: MIT OR Apache-2.0
//! Logged calls of the traversal detectors, and their replay.

use serde::{Deserialize, Serialize};

use super::planner::Planner;
use crate::detect::{Detector, Missed, Suspicion};
use crate::look::{Look, LookDetector};
use crate::patience::UserBackoff;

/// A call of a detector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename = "detector", from = "Line")]
pub struct DetectCall {
    /// Number from 1, in the order of the calls of both detectors. A gap in the numbers is a lost
    /// call.
    pub number: u64,
    /// The process that the call is about.
    pub process: u32,
    /// The call and its answer.
    #[serde(flatten)]
    pub what: DetectCalled,
}

/// A [`DetectCall`] as a line of the log, in which the process of its files, looks and suspicions
/// is written once.
#[derive(Deserialize)]
struct Line {
    number: u64,
    process: u32,
    #[serde(flatten)]
    what: DetectCalled,
}

impl From<Line> for DetectCall {
    fn from(line: Line) -> Self {
        let Line {
            number,
            process,
            mut what,
        } = line;
        let complete = |suspicion: &mut Option<Suspicion>, parent, device, reads| {
            if let Some(suspicion) = suspicion {
                suspicion.process = process;
                suspicion.parent = parent;
                suspicion.device = device;
                suspicion.reads = reads;
            }
        };
        match &mut what {
            DetectCalled::Missed { file, suspicion } => {
                file.process = process;
                complete(suspicion, file.parent, file.device, true);
            }
            DetectCalled::Waited { look, suspicion } => {
                look.process = process;
                complete(suspicion, look.parent, look.device, false);
            }
            DetectCalled::WasWrong { .. }
            | DetectCalled::WasRight { .. }
            | DetectCalled::TooEarly
            | DetectCalled::Ended => {}
        }
        Self {
            number,
            process,
            what,
        }
    }
}

/// A call of a detector: its arguments and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case")]
pub enum DetectCalled {
    /// A file was missed.
    Missed {
        /// The missed file.
        #[serde(flatten)]
        file: Missed,
        /// The tree that its process may be walking through.
        suspicion: Option<Suspicion>,
    },
    /// A call waited for metadata.
    Waited {
        /// The call.
        #[serde(flatten)]
        look: Look,
        /// The tree that its process may be walking through.
        suspicion: Option<Suspicion>,
    },
    /// A suspicion was wrong, or following it did not help.
    WasWrong {
        /// Whether it was a suspicion of reads, not of looks.
        reads: bool,
        /// The user of the process. Older logs lack it.
        #[serde(default)]
        user: u32,
    },
    /// A suspicion was right.
    WasRight {
        /// The user of the process.
        user: u32,
    },
    /// A suspicion of looks was too early.
    TooEarly,
    /// The process has ended.
    Ended,
}

impl DetectCalled {
    /// The suspicion in the call's answer.
    #[must_use]
    pub fn suspicion(&self) -> Option<&Suspicion> {
        match self {
            Self::Missed { suspicion, .. } | Self::Waited { suspicion, .. } => suspicion.as_ref(),
            Self::WasWrong { .. } | Self::WasRight { .. } | Self::TooEarly | Self::Ended => None,
        }
    }
}

/// The detector of reads and the detector of looks.
#[derive(Debug, Default)]
pub struct Detectors {
    reads: Detector,
    looks: LookDetector,
    users: UserBackoff,
}

impl Detectors {
    /// Makes a call again, and returns its present answer.
    pub fn make(&mut self, call: &DetectCall) -> Option<Suspicion> {
        match &call.what {
            DetectCalled::Missed { file, .. } => self.missed(file.clone()),
            DetectCalled::Waited { look, .. } => self.waited(look.clone()),
            DetectCalled::WasWrong { reads, user } => {
                self.was_wrong(call.process, *reads, *user);
                None
            }
            DetectCalled::WasRight { user } => {
                self.users.was_right(*user);
                None
            }
            DetectCalled::TooEarly => {
                self.looks.was_too_early(call.process);
                None
            }
            DetectCalled::Ended => {
                self.ended(call.process);
                None
            }
        }
    }

    fn missed(&mut self, file: Missed) -> Option<Suspicion> {
        let user = file.user;
        let suspicion = self.reads.missed(file)?;
        (!self.users.passes(user)).then_some(suspicion)
    }

    fn waited(&mut self, look: Look) -> Option<Suspicion> {
        let user = look.user;
        let suspicion = self.looks.waited(look)?;
        (!self.users.passes(user)).then_some(suspicion)
    }

    fn was_wrong(&mut self, process: u32, reads: bool, user: u32) {
        let is_first = match reads {
            true => self.reads.was_wrong(process),
            false => self.looks.was_wrong(process),
        };
        // A process that is wrong again and again has a backoff of its own.
        if is_first {
            self.users.was_wrong(user);
        }
    }

    fn ended(&mut self, process: u32) {
        self.reads.ended(process);
        self.looks.ended(process);
    }

    /// Whether a detector has a state of this process.
    fn has_seen(&self, process: u32) -> bool {
        self.reads.has_seen(process) || self.looks.has_seen(process)
    }
}

impl Planner for Detectors {
    type Call = DetectCall;
    /// There is only one planner of this kind.
    type Key = ();

    const NAME: &'static str = "detectors";
    const WHATS: &'static [&'static str] = &["detector"];
    const COUNTED: &'static [[&'static str; 2]] = &[["suspicion", "suspicions"]];

    fn number(call: &DetectCall) -> u64 {
        call.number
    }

    fn key(_: u32, _: &DetectCall) {}

    fn words((): &()) -> String {
        "the detectors".to_owned()
    }

    fn begin(_: &DetectCall) -> Option<Self> {
        Some(Self::default())
    }

    fn again(&mut self, call: &DetectCall) -> Option<DetectCall> {
        let now = self.make(call);
        let mut made = call.clone();
        if let DetectCalled::Missed { suspicion, .. } | DetectCalled::Waited { suspicion, .. } =
            &mut made.what
        {
            *suspicion = now;
        }
        Some(made)
    }

    fn count(call: &DetectCall, counts: &mut [u64]) {
        if let Some(suspicions) = counts.first_mut() {
            *suspicions += u64::from(call.what.suspicion().is_some());
        }
    }
}

/// Takes calls for the log.
pub type NoteDetect = Box<dyn FnMut(DetectCall)>;

/// Both detectors, which can report their calls for a log.
pub struct NotedDetectors {
    detectors: Detectors,
    calls: u64,
    note: Option<NoteDetect>,
}

impl NotedDetectors {
    /// Detectors without a state. Calls are copied only if there is a `note`.
    #[must_use]
    pub fn new(note: Option<NoteDetect>) -> Self {
        Self {
            detectors: Detectors::default(),
            calls: 0,
            note,
        }
    }

    /// Calls [`Detector::missed`], and notes the call.
    pub fn missed(&mut self, file: Missed) -> Option<Suspicion> {
        let noted = self.note.is_some().then(|| file.clone());
        let suspicion = self.detectors.missed(file);
        if let Some(file) = noted {
            let suspicion = suspicion.clone();
            self.note(file.process, DetectCalled::Missed { file, suspicion });
        }
        suspicion
    }

    /// Calls [`LookDetector::waited`], and notes the call.
    pub fn waited(&mut self, look: Look) -> Option<Suspicion> {
        let noted = self.note.is_some().then(|| look.clone());
        let suspicion = self.detectors.waited(look);
        if let Some(look) = noted {
            let suspicion = suspicion.clone();
            self.note(look.process, DetectCalled::Waited { look, suspicion });
        }
        suspicion
    }

    /// Calls [`Detector::was_wrong`] if `reads`, otherwise [`LookDetector::was_wrong`], and notes
    /// the call.
    pub fn was_wrong(&mut self, process: u32, reads: bool, user: u32) {
        self.detectors.was_wrong(process, reads, user);
        self.note(process, DetectCalled::WasWrong { reads, user });
    }

    /// A suspicion of a process of this user was right, which ends the backoff of the user.
    pub fn was_right(&mut self, process: u32, user: u32) {
        self.detectors.users.was_right(user);
        self.note(process, DetectCalled::WasRight { user });
    }

    /// Calls [`LookDetector::was_too_early`], and notes the call.
    pub fn was_too_early(&mut self, process: u32) {
        self.detectors.looks.was_too_early(process);
        self.note(process, DetectCalled::TooEarly);
    }

    /// A process has ended. Noted only if a detector has seen the process.
    pub fn ended(&mut self, process: u32) {
        if self.detectors.has_seen(process) {
            self.note(process, DetectCalled::Ended);
        }
        self.detectors.ended(process);
    }

    fn note(&mut self, process: u32, what: DetectCalled) {
        if let Some(note) = &mut self.note {
            self.calls += 1;
            note(DetectCall {
                number: self.calls,
                process,
                what,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_core::Device;
    use proptest::prelude::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// Process, thread, directory, name, and kind of event.
    type Happens = (u32, u32, String, u64, u8);

    fn calls(all: &[Happens]) -> Vec<DetectCall> {
        let calls = Rc::new(RefCell::new(Vec::new()));
        let noted = Rc::clone(&calls);
        let note = move |call| noted.borrow_mut().push(call);
        let mut detectors = NotedDetectors::new(Some(Box::new(note)));
        for (process, thread, directory, inode, what) in all {
            let directory = directory.clone().into_bytes();
            let name = inode.to_string().into_bytes();
            match what {
                0 => detectors.was_wrong(*process, true, process % 3),
                1 => detectors.was_wrong(*process, false, process % 3),
                10 => detectors.was_right(*process, process % 3),
                2 => detectors.ended(*process),
                3..=9 => {
                    detectors.missed(Missed {
                        process: *process,
                        thread: *thread,
                        parent: 0,
                        user: process % 3,
                        device: Device::default(),
                        inode: *inode,
                        directory,
                        name,
                    });
                }
                _ => {
                    detectors.waited(Look {
                        process: *process,
                        thread: *thread,
                        parent: 0,
                        user: process % 3,
                        device: Device::default(),
                        directory,
                        name,
                        start: inode.is_multiple_of(2).then(|| b"/a".to_vec()),
                    });
                }
            }
        }
        calls.take()
    }

    proptest! {
        #[test]
        fn the_same_calls_get_the_same_answers(
            all in prop::collection::vec(
                (0u32..1100, 0u32..8, "(/[ab]){0,3}", 0u64..20, 0u8..60), 0..2000)
        ) {
            // Most events come from a few processes, so that these become suspect.
            let few = |(process, thread, directory, inode, what): &Happens| {
                let process = if process % 8 == 0 { *process } else { process % 3 };
                (process, *thread, directory.clone(), *inode, *what)
            };
            let all: Vec<Happens> = all.iter().map(few).collect();
            let mut detectors = Detectors::default();
            for (call, number) in calls(&all).iter().zip(1..) {
                prop_assert_eq!(call.number, number);
                let made = detectors.make(call);
                prop_assert_eq!(made.as_ref(), call.what.suspicion());
            }
        }
    }

    #[test]
    fn what_many_threads_came_through_is_in_the_same_order_each_time() {
        // Each of four threads goes through its own directory.
        let looks = (0..64).map(|n| (1, n % 4, format!("/t/{}", n % 4), n.into(), 20));
        let looks: Vec<Happens> = looks.collect();
        let calls = calls(&looks);
        let is_of_several = |call: &DetectCall| {
            let passed = call
                .what
                .suspicion()
                .map(|suspicion| suspicion.passed.len());
            passed > Some(4)
        };
        assert!(calls.iter().any(is_of_several));
        for _ in 0..20 {
            let mut detectors = Detectors::default();
            for call in &calls {
                assert_eq!(detectors.make(call).as_ref(), call.what.suspicion());
            }
        }
    }

    #[test]
    fn a_call_that_is_left_out_shows() {
        for what in [9, 20] {
            let all: Vec<Happens> = (0..12).map(|n| (1, 1, "/a".to_owned(), n, what)).collect();
            let mut calls = calls(&all);
            assert!(calls.iter().any(|call| call.what.suspicion().is_some()));
            calls.remove(1);
            let mut detectors = Detectors::default();
            let same = |call: &DetectCall| detectors.make(call).as_ref() == call.what.suspicion();
            assert!(!calls.iter().all(same));
        }
    }

    #[test]
    fn the_end_of_a_process_that_was_never_seen_is_not_noted() {
        let all = [1, 2].map(|process| (process, 1, "/a".to_owned(), 1, 2));
        assert!(calls(&all).is_empty());
    }
}
