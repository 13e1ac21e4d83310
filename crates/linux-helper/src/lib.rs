// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asks file systems that may never answer, by [helper processes](foreread_sys::helper_process).
//!
//! An [`Asker`] asks one file system. It has a helper process, from the first request on. If the
//! helper makes no progress within a limit, it is abandoned: it may hang in the kernel for ever,
//! and nobody waits for it. The file system is then [left alone](left_alone) for a while.
//!
//! Where the executable can't be a helper, as in tests of a library, [`is_enabled`] is false, and
//! callers ask by themselves.
#![forbid(unsafe_code)]

mod asker;
mod link;
mod registry;
mod serve;
mod superblock;

pub use asker::{Asker, NotAsked, Then};
pub use link::{Link, Lost};
pub use registry::{
    LeftAlone, enable, has_failed, is_enabled, is_helper, left_alone, local_failed, processes,
};
pub use serve::{Answer, serve};
pub use superblock::Superblock;
