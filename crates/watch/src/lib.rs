// SPDX-License-Identifier: MIT OR Apache-2.0
//! What becomes of pages that are read ahead on a live machine: accounts, what they are of, and the
//! lines and metrics that they make. No I/O: counters come in as values.
#![forbid(unsafe_code)]

pub mod account;
pub mod ledger;
pub mod line;
pub mod openmetrics;

pub use account::{Change, Counters, Counts};
pub use ledger::Ledger;
pub use line::{By, ByError, Device, FileOf, Kind, Line, Process, Subject, lines};
