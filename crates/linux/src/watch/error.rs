// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why nothing can be watched here, in words.

use std::fs;

use thiserror::Error;

use crate::doctor::{BTF, Capabilities, Capability, btf_bytes, kernel_release};
use crate::stat::has_tracepoint;

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
        let capabilities = Capabilities::of_self();
        let may_load = capabilities.has(Capability::SysAdmin)
            || capabilities.has(Capability::Bpf) && capabilities.has(Capability::Perfmon);
        if !may_load {
            return WatchError::NoRights;
        }
        if btf_bytes().is_err() {
            return WatchError::NoTypes(kernel_release());
        }
        let types = fs::read(BTF).unwrap_or_default();
        let lacking = NEEDED
            .into_iter()
            .find(|name| !has_tracepoint(&types, name));
        match lacking {
            Some(tracepoint) => WatchError::NoTracepoint {
                release: kernel_release(),
                tracepoint,
            },
            None => WatchError::Refused {
                step,
                reason: format!("{error:#}"),
            },
        }
    }
}
