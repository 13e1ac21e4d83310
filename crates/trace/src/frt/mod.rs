// SPDX-License-Identifier: MIT OR Apache-2.0
//! The own format, `.frt`. See `docs/trace-format.md`.

mod defined;
mod format;
mod head;
mod index;
mod read;
mod record;
mod write;

pub use format::{MAGIC, VERSION};
pub use index::{Index, Span};
pub use read::Reader;
pub use write::{Writer, Written};
