// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors, in words for people.

use std::io;
use std::path::Path;

/// Why a guest could not be built or did not reach its end.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// Guests can't be built on this machine. Tests skip with this reason.
    #[error("no guests here: {0}")]
    Lacking(String),
    /// The lab has no kernel of this name.
    #[error("no kernel {asked}; the lab has {known}")]
    NoSuchKernel {
        /// The name that was asked for.
        asked: String,
        /// The names there are.
        known: String,
    },
    /// The guest ended before its script did.
    #[error(
        "the guest with kernel {kernel} ended before its script did; its console ends with:\n{console}"
    )]
    Died {
        /// Name of the kernel.
        kernel: String,
        /// The last lines of its console and of the script's output.
        console: String,
    },
    /// The guest was stopped at its time limit.
    #[error(
        "the guest with kernel {kernel} was stopped after {limit_s} s; its console ends with:\n{console}"
    )]
    TimeLimit {
        /// Name of the kernel.
        kernel: String,
        /// The limit, in seconds.
        limit_s: u64,
        /// The last lines of its console and of the script's output.
        console: String,
    },
    /// No boot of the guest came as far as its script.
    #[error(
        "the guest with kernel {kernel} hung at each of {boots} boots; its console ends with:\n{console}"
    )]
    HungAtBoot {
        /// Name of the kernel.
        kernel: String,
        /// Number of times that it was booted.
        boots: u32,
        /// The last lines of its console.
        console: String,
    },
    /// The guest printed something that was not expected.
    #[error("{0}")]
    Unexpected(String),
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// The step that was tried.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The tree of a data disk could not be made.
    #[error(transparent)]
    Testbed(#[from] foreread_testbed::TestbedError),
}

impl GuestError {
    /// For `map_err`: the failure of `verb path`.
    pub fn at(verb: &str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let what = format!("{verb} {}", path.display());
        move |source| Self::System { what, source }
    }
}
