// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a helper process is asked, and what it answers.
//!
//! A file system that isn't local may never answer. So a helper process asks it, and nobody waits
//! for that process longer than a limit. Helper and asker exchange [frames](frame) over a socket:
//! [`Request`]s one way, [`Reply`]s the other. Both sides decode totally: any bytes give a message
//! or [`Malformed`], and no message takes more memory than a small multiple of its bytes.
//!
//! [`Health`] tells which file systems are left alone, because they did not answer.

mod fetch;
pub mod frame;
mod health;
mod reply;
mod request;
mod wire;

pub use fetch::FetchRequest;
pub use health::{Health, HelperLimits};
pub use reply::{FileState, ListedEntry, Reply};
pub use request::{AheadRange, Request};

/// A message that makes no sense. The other side is another version, or damaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("a helper's message makes no sense")]
pub struct Malformed;
