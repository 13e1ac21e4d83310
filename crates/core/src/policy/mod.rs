// SPDX-License-Identifier: MIT OR Apache-2.0
//! Readahead policies. Input: the state of an open file, an access, the nearby cached pages and
//! limits. Output: a window.
//!
//! The decisions are made by the C core in `core/`, the same text that runs in the kernel as BPF.
//! Page counts and indices are in pages of 4 KiB.
//!
//! ```
//! use foreread_core::policy::{Access, Limits, NothingCached, Policy, State};
//!
//! let limits = Limits::new(3568, 32);
//! let mut state = State::open(&limits);
//! let access = Access::read_miss(0, 1);
//! let decision = Policy::Linux.decide(&mut state, &access, &NothingCached, &limits);
//! assert_eq!(decision.windows()[0].to_string(), "0+4 a3");
//! ```

mod access;
mod as_bytes;
mod calls;
mod decision;
mod folios;
mod kernel;
mod limits;
mod memory;
mod nearby;
pub mod sizing;
mod state;
mod stream;

pub use access::{Access, Kind};
pub use decision::{Decision, Reason, Window};
pub use folios::{Folio, Folios};
pub use kernel::{Fit, Kernel, NoSuchKernel, Rules};
pub use limits::Limits;
pub use memory::{Budget, Device, Done, Memory, Streams};
pub use nearby::{Cached, Near, Nearby, NothingCached, Wants};
pub use state::{Advice, Feedback, State};
pub use stream::{Course, Stream};

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::ffi;

/// A readahead policy. `docs/policies.md` describes the assumptions of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Policy {
    /// On-demand readahead of Linux 6.18, with the large-folio rules.
    Linux = 0,
    /// Current window and ahead window, as in Linux 2.6.13.
    Linux2613 = 1,
    /// The first adaptive readahead: stateless, sized by the history in the cache.
    Adaptive2005 = 2,
    /// Adaptive readahead with the stateful and the context method.
    Adaptive2006 = 3,
    /// 512 KiB windows with thrashing-safe context readahead.
    Safe2010 = 4,
    /// No readahead.
    None = 5,
    /// The whole file at the first miss.
    WholeFile = 6,
    /// The majority of recent steps.
    Leap = 7,
    /// Grows only when the reader waited, as databases do.
    Distance = 8,
    /// Our own: by time, for each stream.
    Foreread = 9,
    /// On-demand readahead of Linux 6.1.
    Linux61 = 10,
    /// On-demand readahead of Linux 6.12.
    Linux612 = 11,
    /// On-demand readahead of Linux 7.3.
    Linux73 = 12,
}

/// Another name of [`Policy::Linux`].
const LINUX_6_18: &str = "linux-6.18";

/// A name that is no policy's.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("no policy is called `{name}`; there are: {}", list())]
pub struct NoSuchPolicy {
    /// The requested name.
    pub name: String,
}

fn list() -> String {
    Policy::ALL.map(Policy::name).join(", ")
}

impl Policy {
    /// All policies, in the order of their numbers.
    pub const ALL: [Self; 13] = [
        Self::Linux,
        Self::Linux2613,
        Self::Adaptive2005,
        Self::Adaptive2006,
        Self::Safe2010,
        Self::None,
        Self::WholeFile,
        Self::Leap,
        Self::Distance,
        Self::Foreread,
        Self::Linux61,
        Self::Linux612,
        Self::Linux73,
    ];

    /// Its name, as people type it: `linux`, `linux-2.6.13`, ...
    #[must_use]
    pub fn name(self) -> &'static str {
        ffi::policy_name(self as u32).unwrap_or_default()
    }

    /// Where the kernel that it is the readahead of departs from its own rules:
    /// `Limits::QUIRK_*`, or-ed. Decisions follow [`Limits::quirks`], whatever this says.
    #[must_use]
    pub fn quirks(self) -> u8 {
        ffi::linux_quirks(self as u32) as u8
    }

    /// Whether it is the readahead of a modelled kernel.
    #[must_use]
    pub fn is_of_kernel(self) -> bool {
        Kernel::ALL.iter().any(|kernel| kernel.policy == self)
    }

    /// Whether it is asked at the first page of every read and at [`Decision::next_look`], cached
    /// or not, besides at misses ([`Access::read_look`]). The others are asked at misses and marks.
    #[must_use]
    pub fn looks(self) -> bool {
        ffi::policy_looks(self as u32) != 0
    }

    /// Whether it gets every access, cached or not: each fault, and each read(2) as a look, with
    /// [`Access::MISSED`] if a part of it is not cached.
    #[must_use]
    pub fn sees(self) -> bool {
        ffi::policy_sees(self as u32) != 0
    }

    /// Whether it uses [`Memory::streams`]; without, it reads as asked.
    #[must_use]
    pub fn remembers(self) -> bool {
        ffi::policy_remembers(self as u32) != 0
    }

    /// Decides on one access. The state that the policy keeps goes into `state`.
    ///
    /// The cache is only looked at where the answer matters to this policy. Whatever is decided, no
    /// window is larger than the limits allow and none is read past the end of the file. A page
    /// that is still missing when the program needs it is for the caller to read, alone.
    pub fn decide<N: Nearby + ?Sized>(
        self,
        state: &mut State,
        access: &Access,
        nearby: &N,
        limits: &Limits,
    ) -> Decision {
        let near = self.ask(state, access, nearby, limits);
        self.decide_near(state, access, &near, limits)
    }

    /// Facts about the page cache that it needs to decide on an access.
    #[must_use]
    pub fn wants(self, state: &State, access: &Access, limits: &Limits) -> Wants {
        ffi::wants(self as u32, state, access, limits)
    }

    /// Asks a cache for the facts on which [`Policy::decide`] decides.
    pub fn ask<N: Nearby + ?Sized>(
        self,
        state: &State,
        access: &Access,
        nearby: &N,
        limits: &Limits,
    ) -> Near {
        calls::answer(&self.wants(state, access, limits), access.index, nearby)
    }

    /// Decides on one access with a summary of the cache in place of the cache.
    pub fn decide_near(
        self,
        state: &mut State,
        access: &Access,
        near: &Near,
        limits: &Limits,
    ) -> Decision {
        self.decide_with(state, access, near, limits, Memory::default())
    }

    /// The same, with the state of the file's streams, its device and the machine.
    pub fn decide_with(
        self,
        state: &mut State,
        access: &Access,
        near: &Near,
        limits: &Limits,
        memory: Memory<'_>,
    ) -> Decision {
        let call = ffi::Call {
            state,
            access,
            near,
            limits,
            streams: memory.streams,
            device: memory.device,
            budget: memory.budget,
        };
        ffi::decide(self as u32, &call)
    }

    /// Tells it that a thread waited for a page; `asked` when that was on its way already.
    pub fn waited(self, memory: Memory<'_>, thread: u32, waited_ns: u64, asked: bool) {
        let limits = Limits::default();
        let mut access = Access::read_look(0, 1);
        access.thread = thread;
        let call = ffi::Call {
            state: &mut State::open(&limits),
            access: &access,
            near: &Near::default(),
            limits: &limits,
            streams: memory.streams,
            device: memory.device,
            budget: memory.budget,
        };
        ffi::waited(self as u32, &call, waited_ns, asked.into());
    }

    /// Tells it that windows of `pages` were issued for a thread, of which `read_pages` were not
    /// cached.
    pub fn issued(self, streams: &mut Streams, thread: u32, pages: u64, read_pages: u64) {
        ffi::issued(self as u32, streams, thread, pages, read_pages);
    }

    /// Reports an event of requested pages to the policy.
    pub fn feedback(self, state: &mut State, feedback: Feedback, pages: u64) {
        ffi::feedback(self as u32, state, feedback as u32, pages);
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Policy {
    type Err = NoSuchPolicy;

    fn from_str(name: &str) -> Result<Self, NoSuchPolicy> {
        if name == LINUX_6_18 {
            return Ok(Self::Linux);
        }
        let found = Self::ALL.into_iter().find(|policy| policy.name() == name);
        found.ok_or_else(|| NoSuchPolicy {
            name: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_policies() {
        for (number, policy) in Policy::ALL.into_iter().enumerate() {
            assert_eq!(policy as usize, number);
            assert_eq!(policy.name().parse(), Ok(policy));
        }
        assert_eq!(ffi::policy_name(Policy::ALL.len() as u32), None);
        assert_eq!(
            "fast".parse::<Policy>().unwrap_err().to_string(),
            "no policy is called `fast`; there are: linux, linux-2.6.13, adaptive-2005, \
             adaptive-2006, safe-2010, none, whole-file, leap, distance, foreread, linux-6.1, \
             linux-6.12, linux-7.3"
        );
        assert_eq!("linux-6.18".parse(), Ok(Policy::Linux));
    }
}
