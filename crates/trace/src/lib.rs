// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces: which thread accessed which bytes of which file, when, and whether it waited. No I/O but
//! by the `Read`, `Write` and `Seek` of the caller.
//!
//! * [`types`] is the model: a [`Header`], then [`Event`]s in the order of the source;
//! * [`frt`] is the own format, read and written in streams of bounded memory;
//! * [`open`] reads any known format, as [`Events`]; [`create`] writes, as a [`Sink`]; [`copy`]
//!   does both;
//! * [`Findings`] are a reader's findings that a person should know;
//! * [`Known`] keeps files and threads by their ids, for readers of events; [`Summary`] counts
//!   them.
#![forbid(unsafe_code)]

mod checks;
mod distinct;
mod error;
mod findings;
pub mod frt;
mod input;
mod known;
pub mod limits;
mod read;
mod summary;
pub mod types;
mod write;

pub use error::{ReadError, WriteError};
pub use findings::{BadRecord, Counted, Findings, LeftOutCounts, Place};
pub use known::Known;
pub use read::{Events, Format, Objects, ReadOptions, open};
pub use summary::Summary;
pub use types::*;
pub use write::{CopyError, Sink, Target, Wrote, copy, create};
