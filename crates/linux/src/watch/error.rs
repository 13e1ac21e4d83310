// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why nothing can be watched here, in words.

use thiserror::Error;

use crate::programs::BpfError;

/// Why programs can't be watched on this machine.
#[derive(Debug, Error)]
pub enum WatchError {
    /// BPF can't be used here, or not for this.
    #[error("programs can't be watched: {0}")]
    Bpf(#[from] BpfError),
    /// Process numbers are those of a container.
    #[error("process numbers here are a container's, so --pid can't be followed; use --cgroup")]
    Container,
}

/// What libbpf says, as the reason behind it where that can be found out.
pub(super) fn refused(step: &'static str) -> impl FnOnce(libbpf_rs::Error) -> WatchError {
    move |error| crate::programs::refused(step)(error).into()
}
