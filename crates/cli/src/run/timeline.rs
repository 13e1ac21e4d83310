// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `run` itself costs: the ends of its steps go in, how long each took comes out.

use std::time::Instant;

/// What `run` itself costs, step by step.
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
