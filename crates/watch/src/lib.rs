// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happens on a live machine, as values. For `stat`: accounts of what becomes of pages that
//! are read ahead, and the lines and metrics that they make. For `watch`: which programs walk
//! through directory trees, and what to fetch ahead of them. No I/O.
#![forbid(unsafe_code)]

pub mod account;
pub mod call;
pub mod cursor;
pub mod detect;
pub mod detect_call;
pub mod excluded;
pub mod fetch_queue;
pub mod gain;
pub mod known;
pub mod ledger;
pub mod line;
pub mod look;
pub mod note;
pub mod noted_walk;
pub mod openmetrics;
pub mod order;
pub mod paths;
pub mod patience;
pub mod rest;
pub mod settings;
pub mod stream;
pub mod tally;
pub mod together;
pub mod walk;
pub mod walk_call;
pub mod window;

pub use account::{Change, Counters, Counts};
pub use ledger::Ledger;
pub use line::{By, ByError, Device, FileOf, Kind, Line, Process, Subject, lines};
