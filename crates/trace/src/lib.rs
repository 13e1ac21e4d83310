// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces: which thread accessed which bytes of which file, when, and whether it waited. No I/O but
//! by the `Read`, `Write` and `Seek` of the caller.
//!
//! * [`types`] is the model: a [`Header`], then [`Event`]s in the order of the source;
//! * [`frt`] is the own format, read and written in streams of bounded memory;
//! * [`Findings`] is what a reader met that a person should know;
//! * [`Known`] keeps files and threads by their ids, for whoever reads events.
#![forbid(unsafe_code)]

mod bytes;
mod error;
mod findings;
pub mod frt;
mod known;
pub mod limits;
pub mod types;

pub use error::{ReadError, WriteError};
pub use findings::{BadRecord, Findings, LeftOutCounts, Place};
pub use known::Known;
pub use types::*;
