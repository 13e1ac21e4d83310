// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decisions kept for people: those around one call, and windows over time.

use std::collections::{BTreeMap, VecDeque};

use foreread_core::policy::{Access, Decision, State};

use super::windows::Windows;
use crate::cache::StreamId;

/// Decisions kept before the call in question, and after it.
const AROUND: usize = 3;

/// A decision, with its inputs.
#[derive(Clone, Debug)]
pub struct Explained {
    /// Time of the decision, in nanoseconds.
    pub time_ns: u64,
    /// In which call, counted from 1 over all programs.
    pub call: u64,
    /// The stream.
    pub stream: StreamId,
    /// The access.
    pub access: Access,
    /// The state of the policy before.
    pub before: State,
    /// The decision of the policy.
    pub decision: Decision,
    /// Pages that were not cached and were read.
    pub fetched_pages: u64,
}

/// The course of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number, from 1.
    pub call: u64,
    /// The stream that made it.
    pub stream: StreamId,
    /// When it began.
    pub start_ns: u64,
    /// Duration.
    pub took_ns: u64,
    /// Time of that spent waiting, in nanoseconds.
    pub stall_ns: u64,
    /// Its first byte.
    pub offset_bytes: u64,
    /// Its length.
    pub bytes: u64,
}

/// A call, and the decisions around it on the same stream.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The call.
    pub call: Call,
    /// The last decisions before it, those in it, and the first after it.
    pub decisions: Vec<Explained>,
}

/// A request that a disk has served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestSeen {
    /// When it was asked for.
    pub asked_ns: u64,
    /// When it was done.
    pub done_ns: u64,
    /// Which disk.
    pub disk: usize,
    /// Where it starts there.
    pub offset_bytes: u64,
    /// Length in bytes.
    pub length_bytes: u64,
}

/// Parts of a run to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Maximum number of requests of the disks to keep, from the first on.
    pub requests_max: usize,
    /// The call whose decisions are wanted, from 1.
    pub explain_call: Option<u64>,
    /// Whether windows over time are wanted.
    pub windows: bool,
}

/// The parts that were kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    keep: Keep,
    before: BTreeMap<StreamId, VecDeque<Explained>>,
    found: Option<Call>,
    decisions: Vec<Explained>,
    after: usize,
    /// Windows over time, where they are wanted.
    pub windows: Option<Windows>,
    pub requests: Vec<RequestSeen>,
}

impl Watch {
    pub fn new(keep: Keep) -> Self {
        Self {
            keep,
            windows: keep.windows.then(Windows::default),
            ..Self::default()
        }
    }

    pub fn request_done(&mut self, request: RequestSeen) {
        if self.requests.len() < self.keep.requests_max {
            self.requests.push(request);
        }
    }

    pub fn wants_decisions(&self) -> bool {
        self.windows.is_some() || self.keep.explain_call.is_some()
    }

    pub fn decided(&mut self, explained: Explained) {
        if let Some(windows) = &mut self.windows {
            windows.decided(
                explained.stream,
                &explained.access,
                explained.decision.reason,
            );
        }
        let Some(wanted) = self.keep.explain_call else {
            return;
        };
        if let Some(call) = &self.found {
            if call.stream == explained.stream && explained.call > wanted && self.after < AROUND {
                self.after += 1;
                self.decisions.push(explained);
            }
            return;
        }
        let ring = self.before.entry(explained.stream).or_default();
        ring.push_back(explained);
        let in_call = |explained: &Explained| explained.call == wanted;
        if ring.len() > AROUND && !ring.iter().any(in_call) {
            ring.pop_front();
        }
    }

    pub fn wants_call(&self, call: u64) -> bool {
        self.keep.explain_call == Some(call)
    }

    pub fn call_done(&mut self, call: Call) {
        if let Some(ring) = self.before.remove(&call.stream) {
            self.decisions.extend(ring);
        }
        self.before.clear();
        self.found = Some(call);
    }

    pub fn explanation(&mut self) -> Option<Explanation> {
        let call = self.found.take()?;
        let decisions = std::mem::take(&mut self.decisions);
        Some(Explanation { call, decisions })
    }
}
