// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why there are no accounts here, in words.

use foreread_bpf::BpfError;
use thiserror::Error;

/// Why pages can't be followed on this machine.
#[derive(Debug, Error)]
pub enum StatError {
    /// BPF can't be used here, or not for this.
    #[error("pages can't be followed: {0}")]
    Bpf(#[from] BpfError),
    /// Counters did not come to rest.
    #[error("the counters of pages contradict each other; this is a defect of foreread")]
    Unbalanced,
}

/// Converts an error of libbpf, with its underlying reason where that can be found out.
pub(super) fn refused(step: &'static str) -> impl FnOnce(libbpf_rs::Error) -> StatError {
    move |error| foreread_bpf::refused(step)(error).into()
}
