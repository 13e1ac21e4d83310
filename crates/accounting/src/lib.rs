// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accounts of what becomes of pages that are read ahead. Counters as the kernel's programs hold
//! them go in; counts that balance, the lines of `stat` and its metrics come out. Whatever the
//! counters say, no page is in two counts, and none is lost between them. No I/O.
#![forbid(unsafe_code)]

pub mod account;
pub mod ledger;
pub mod line;
pub mod openmetrics;

pub use account::{Change, Counters, Counts};
pub use ledger::Ledger;
pub use line::{By, ByError, FileOf, Kind, Line, Process, Subject, lines};
