// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides what a boot is given: a replay of the profile, a recording, both, or nothing. In: the
//! history of earlier boots and what is known at the start of this one. Out: a decision with its
//! reason, and what replays were worth so far. No I/O.
//!
//! It guarantees three things. The next boot is not replayed if this one was and did not reach its
//! target. A profile with which a boot failed is set aside, and after the second such failure there
//! are no more replays. Some boots go without a replay, so that its worth stays known.
#![forbid(unsafe_code)]

pub mod chart;
mod command_line;
mod decision;
mod delays;
mod history;
mod needs;
mod parts;
pub mod portable;
pub mod trace;
pub mod tracer;
mod worth;

pub use command_line::{SYSTEM_UPDATES, Wish, asks_for_trace, wish};
pub use decision::{Decision, Facts, RETRY_EVERY, Reason, Stored, decide, is_timed_only};
pub use delays::{DELAYING_UNITS, delay, first_session_ns};
pub use history::{
    BOOTS_MAX, Boot, History, HistoryError, Measured, Mode, Reads, TEXT_BYTES_MAX, Untypical,
};
pub use needs::{FileNeed, UnitNeeds, file_needs, unit_needs};
pub use parts::{Part, parts};
pub use worth::{JUDGED_MAX, JUDGED_MIN, Spread, Verdict, Worth, faster_pairs_permille, worth};
