// SPDX-License-Identifier: MIT OR Apache-2.0
//! Single accesses, as a trace needs them: records are joined to accesses, in order of time.

mod files;
mod join;
mod metadata;
mod record;
mod trace_writer;

pub use files::Places;
pub use record::{AccessKind, AccessRecord, MappingBits};
pub use trace_writer::{TraceWriter, Traced};
