// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why there are no accounts here, in words.

use thiserror::Error;

use crate::doctor::{BTF, kernel_release};
use crate::programs::Lack;

/// Why pages can't be followed on this machine.
#[derive(Debug, Error)]
pub enum StatError {
    /// Rights are missing.
    #[error(
        "following pages needs root, or the capabilities CAP_BPF and CAP_PERFMON; run it with sudo"
    )]
    NoRights,
    /// The programs can't fit themselves to the kernel.
    #[error(
        "this kernel ({0}) does not describe its types ({BTF}); build it with \
         CONFIG_DEBUG_INFO_BTF"
    )]
    NoTypes(String),
    /// The kernel has no such tracepoints.
    #[error(
        "this kernel ({release}) lacks the tracepoint {tracepoint}, by which pages that are read \
         ahead are told from pages that are written; Linux has it from 6.18 on"
    )]
    NoTracepoint {
        /// Its release.
        release: String,
        /// The first one that lacks.
        tracepoint: &'static str,
    },
    /// It refuses for another reason.
    #[error("the kernel refused the programs that follow pages ({step}): {reason}")]
    Refused {
        /// What was attempted.
        step: &'static str,
        /// What the kernel said.
        reason: String,
    },
    /// Counters did not come to rest.
    #[error("the counters of pages contradict each other; this is a defect of foreread")]
    Unbalanced,
}

/// Without these no page can be followed.
const NEEDED: [&str; 8] = [
    "page_cache_sync_ra",
    "page_cache_async_ra",
    "page_cache_ra_order",
    "page_cache_ra_unbounded",
    "mm_filemap_add_to_page_cache",
    "mm_filemap_delete_from_page_cache",
    "mm_filemap_get_pages",
    "mm_filemap_map_pages",
];

/// What libbpf says, as the reason behind it where that can be found out.
pub(super) fn refused(step: &'static str) -> impl FnOnce(libbpf_rs::Error) -> StatError {
    move |error| {
        Lack::here(&NEEDED).map_or_else(
            || StatError::Refused {
                step,
                reason: format!("{error:#}"),
            },
            StatError::from,
        )
    }
}

impl From<Lack> for StatError {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Capabilities;

    fn explained(types: &[u8], capabilities: Capabilities, has_types: bool) -> Option<StatError> {
        Lack::of(types, capabilities, has_types, &NEEDED).map(StatError::from)
    }

    fn types(of: &[&str]) -> Vec<u8> {
        let mut bytes = b"\0inode".to_vec();
        for name in of {
            bytes.extend(format!("\0btf_trace_{name}").bytes());
        }
        bytes.push(0);
        bytes
    }

    #[test]
    fn the_first_tracepoint_that_lacks_is_named() {
        let all = Capabilities::of_bits(u64::MAX);
        let error = explained(&types(&NEEDED[..2]), all, true).expect("a reason");
        assert!(
            error.to_string().contains("page_cache_ra_order,"),
            "{error}"
        );
        assert!(explained(&types(&NEEDED), all, true).is_none());
    }

    #[test]
    fn rights_come_before_types_and_types_before_tracepoints() {
        let none = Capabilities::of_bits(0);
        assert!(matches!(
            explained(&[], none, true),
            Some(StatError::NoRights)
        ));
        let both = Capabilities::of_bits(1 << 38 | 1 << 39);
        let error = explained(&[], both, false);
        assert!(matches!(error, Some(StatError::NoTypes(_))));
    }
}
