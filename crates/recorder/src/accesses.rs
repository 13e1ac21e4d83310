// SPDX-License-Identifier: MIT OR Apache-2.0
//! Single accesses, as a trace needs them.

mod record;

pub use record::{AccessKind, AccessRecord, MappingBits};
