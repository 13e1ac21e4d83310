// SPDX-License-Identifier: MIT OR Apache-2.0
//! The current activity of a thread: a system call, or steps through a mapping.

use crate::cache::PageCache;
use crate::path::{FaultCall, GivenCall, Host, OpenFile, ReadCall, Step};

/// A system call, or a way through a mapping.
#[derive(Clone, Debug)]
pub(super) enum Running {
    Read(ReadCall),
    Fault(FaultCall),
    Given(GivenCall),
}

impl Running {
    /// The page that it is at.
    pub fn index(&self) -> u64 {
        match self {
            Self::Read(call) => call.index(),
            Self::Fault(call) => call.index(),
            Self::Given(call) => call.index(),
        }
    }

    /// It waits from now on, and not since its last step.
    pub fn wait_from(&mut self, now_ns: u64) {
        match self {
            Self::Read(call) => call.wait_from(now_ns),
            Self::Fault(call) => call.wait_from(now_ns),
            Self::Given(_) => {}
        }
    }

    /// Goes on until it waits, or is done.
    pub fn step(
        &mut self,
        cache: &mut PageCache,
        open: &mut OpenFile,
        host: &mut dyn Host,
    ) -> Step {
        match self {
            Self::Read(call) => call.step(cache, open, host),
            Self::Fault(call) => call.step(cache, open, host),
            Self::Given(call) => call.step(cache, open, host),
        }
    }
}
