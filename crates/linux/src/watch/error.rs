// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why nothing can be watched here, in words.

use thiserror::Error;

use crate::doctor::{BTF, kernel_release};
use crate::programs::Lack;

/// Why programs can't be watched on this machine.
#[derive(Debug, Error)]
pub enum WatchError {
    /// Rights are missing.
    #[error("watching needs root, or the capabilities CAP_BPF and CAP_PERFMON; run it with sudo")]
    NoRights,
    /// The programs can't fit themselves to the kernel.
    #[error(
        "this kernel ({0}) does not describe its types ({BTF}); build it with \
         CONFIG_DEBUG_INFO_BTF"
    )]
    NoTypes(String),
    /// The kernel has no such tracepoints.
    #[error(
        "this kernel ({release}) lacks the tracepoint {tracepoint}, by which reads are seen that \
         memory does not hold; Linux has it from 6.18 on"
    )]
    NoTracepoint {
        /// Its release.
        release: String,
        /// The first one that lacks.
        tracepoint: &'static str,
    },
    /// Process numbers are those of a container.
    #[error("process numbers here are a container's, so --pid can't be followed; use --cgroup")]
    Container,
    /// It refuses for another reason.
    #[error("the kernel refused the programs that watch ({step}): {reason}")]
    Refused {
        /// What was attempted.
        step: &'static str,
        /// What the kernel said.
        reason: String,
    },
}

const NEEDED: [&str; 2] = ["page_cache_sync_ra", "mm_filemap_get_pages"];

/// What libbpf says, as the reason behind it where that can be found out.
pub(super) fn refused<E: std::fmt::Display>(step: &'static str) -> impl FnOnce(E) -> WatchError {
    move |error| {
        Lack::here(&NEEDED).map_or_else(
            || WatchError::Refused {
                step,
                reason: format!("{error:#}"),
            },
            WatchError::from,
        )
    }
}

impl From<Lack> for WatchError {
    fn from(lack: Lack) -> Self {
        match lack {
            Lack::Rights => Self::NoRights,
            Lack::Types => Self::NoTypes(kernel_release()),
            Lack::Tracepoint(tracepoint) => Self::NoTracepoint {
                release: kernel_release(),
                tracepoint,
            },
        }
    }
}
