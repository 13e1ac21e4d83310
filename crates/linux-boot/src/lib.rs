// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is done beside a boot. In: a [`StateDirectory`] with the history of boots and the profile,
//! and the machine. Out: the boot's files in memory ahead of their need, a newer profile, a longer
//! history.
//!
//! [`serve`] decides with [`foreread_boot::decide`]. It replays the part of each file system as
//! soon as that is mounted, and records all processes until the boot is over. No process of the
//! boot waits for it. Whatever fails is told and leaves the boot as it would have been.
//!
//! [`serve_from_initramfs`] does the same from a hook of the initramfs on.
#![forbid(unsafe_code)]

mod disks;
mod facts;
mod keeper;
mod packages;
mod placing;
mod replay;
mod serve;
mod server;
mod state;
mod systemd;
mod tracing;

pub use placing::{SHIPPED, place};
pub use replay::Brought;
pub use serve::{Limits, ServeError, Served, Settings, serve, serve_from_initramfs};
pub use state::{
    HISTORY, PACKAGES_CHANGED, PROFILE, PROFILE_SET_ASIDE, StateDirectory, StateError, StoredTrace,
    StoredTraceError, TIMED_ONLY, TRACE_NEXT,
};
