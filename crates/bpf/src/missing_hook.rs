// SPDX-License-Identifier: MIT OR Apache-2.0
//! A hook that this kernel does not serve.

use std::fmt;

/// A hook that is not served here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingHook {
    /// Its name in `bpf/`, without the prefix of the object.
    pub hook: &'static str,
    /// Events that aren't seen without it.
    pub loss: &'static str,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for MissingHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not seen: {}, for {}", self.loss, self.reason)
    }
}
