// SPDX-License-Identifier: MIT OR Apache-2.0
//! A read that is to be made: by the ring, by a thread, or asked for beforehand.

use std::os::fd::RawFd;

/// One read that waits to be submitted.
#[derive(Clone, Copy, Debug)]
pub struct QueuedRead {
    /// Which of the reader's slots it is in.
    pub slot: usize,
    pub(crate) fd: RawFd,
    pub(crate) offset_bytes: u64,
    pub(crate) length_bytes: u32,
    /// Whether a worker makes it, which may wait; else it is tried without waiting first.
    pub in_worker: bool,
}
