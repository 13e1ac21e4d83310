// SPDX-License-Identifier: MIT OR Apache-2.0
//! Detects directory traversals, programs that follow a profile, and streams in large files.
//! Decides what to fetch ahead of them. Input: the observed accesses of programs. Output: the next
//! fetches. No I/O, and no clock: times are given.
#![forbid(unsafe_code)]

pub mod ahead;
pub mod cursor;
pub mod detect;
pub mod excluded;
pub mod fetch_queue;
pub mod gain;
pub mod known;
pub mod log;
pub mod look;
pub mod memory_budget;
pub mod order;
pub mod paths;
pub mod patience;
pub mod permission;
pub mod place;
pub mod profile_replay;
pub mod quiet;
pub mod rest;
pub mod saved;
pub mod settings;
pub mod skipped;
pub mod stream;
pub mod table;
pub mod tally;
pub mod throttling;
pub mod together;
pub mod traversal;
pub mod walk;
pub mod window;
