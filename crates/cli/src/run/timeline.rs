// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost of `run` itself: takes the end of each step, and returns how long each took.

use std::time::Instant;

/// Time that `run` itself takes, step by step.
#[derive(Clone, Debug)]
pub struct Timeline {
    last: Instant,
    /// Steps and how long they took, in ns.
    pub steps_ns: Vec<(&'static str, u64)>,
}

impl Timeline {
    /// One that begins now or began earlier.
    pub fn new(started: Instant) -> Self {
        Self {
            last: started,
            steps_ns: Vec::new(),
        }
    }

    /// Ends a step.
    pub fn mark(&mut self, step: &'static str) {
        let now = Instant::now();
        let ns = u64::try_from((now - self.last).as_nanos()).unwrap_or(u64::MAX);
        self.steps_ns.push((step, ns));
        self.last = now;
    }
}
