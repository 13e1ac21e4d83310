// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log of `watch`: the schema of its lines, and their replay.
//!
//! A line is one JSON document: a header, whose `what` names the subject, and the fields of that
//! subject. The line of a call has the arguments of a [planner](planner::Planner)'s call and its
//! answer, so that the call can be made again. The other lines tell people what was done.

pub mod detect_call;
pub mod escape;
pub mod followed;
mod long;
pub mod note;
pub mod noted_walk;
pub mod planner;
pub mod replay;
pub mod stream_call;
pub(crate) mod text;
pub mod walk_call;

use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use planner::Planner;

/// Version of the lines.
pub const SCHEMA: &str = "foreread.watch.log/1";
/// `what` of the first line of another watcher in the same file.
pub const STARTED: &str = "started";

/// The fields that each line has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Header<'a> {
    /// The process that it is about; of a line without one, that of the watcher.
    pub process: u32,
    /// Time since the watcher began.
    pub since_start_ns: u64,
    /// The subject.
    pub what: &'a str,
}

impl Header<'_> {
    /// Whether another watcher writes from this line on. It knows nothing of the lines before.
    #[must_use]
    pub fn is_start(&self) -> bool {
        self.what == STARTED
    }

    /// Whether it is the line of a call of such a planner.
    #[must_use]
    pub fn is_call_of<P: Planner>(&self) -> bool {
        P::WHATS.contains(&self.what)
    }
}

/// The header of a line.
///
/// # Errors
/// It lacks one.
pub fn header_of(line: &Value) -> Result<Header<'_>, LineError> {
    Header::deserialize(line).map_err(LineError::Wrong)
}

/// A line that can't be used.
#[derive(Debug, Error)]
pub enum LineError {
    /// A field is missing or wrong.
    #[error("{0}")]
    Wrong(serde_json::Error),
    /// The first call of a planner is none that begins one.
    #[error("this call begins nothing, and what it goes on with isn't in the log")]
    BeginsNothing,
}
