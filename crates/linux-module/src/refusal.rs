// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reasons of the kernel, in words for people.

use std::fmt;

use crate::tested::tested_names;

/// Why the kernel has not taken the module, or not given it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It was not tested on this kernel.
    Untested,
    /// A live patch, or another user of ftrace, has replaced one of its functions.
    Taken,
    /// The kernel loads only modules that are signed by a key that it knows.
    Unsigned,
    /// The kernel, or a container, allows nobody to load modules.
    NotAllowed,
    /// It was built for another kernel.
    OtherKernel,
    /// Something has a reference to it.
    InUse,
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untested => write!(
                formatter,
                "the module refuses this kernel: it was tested on {}; --force loads it all the same",
                tested_names()
            ),
            Self::Taken => formatter.write_str(
                "a live patch or another user of ftrace has replaced page_cache_sync_ra() or \
                 page_cache_async_ra(); the kernel's log names it",
            ),
            Self::Unsigned => formatter.write_str(
                "this kernel loads only modules that are signed with a key that it knows (Secure \
                 Boot): DKMS signs what it builds; enrol its key by `mokutil --import \
                 /var/lib/dkms/mok.pub`",
            ),
            Self::NotAllowed => formatter.write_str(
                "modules can't be loaded here: in a container, under lockdown, or after \
                 kernel.modules_disabled was set",
            ),
            Self::OtherKernel => formatter.write_str(
                "the module was built for another kernel; `foreread kernel install` builds it anew",
            ),
            Self::InUse => formatter.write_str("something has a reference to the module"),
        }
    }
}

impl std::error::Error for Refusal {}
