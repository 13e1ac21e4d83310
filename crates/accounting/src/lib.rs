// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accounts of pages that are read ahead. Input: counters as the kernel's programs hold them.
//! Output: counts that balance, the lines of `stat` and its metrics. Whatever the values of the
//! counters, no page is in two counts, and none is lost between them. No I/O.
#![forbid(unsafe_code)]

pub mod account;
pub mod ledger;
pub mod line;
pub mod openmetrics;

pub use account::{Change, Counters, Counts};
pub use ledger::Ledger;
pub use line::{By, ByError, FileOf, Kind, Line, Process, Subject, lines};
