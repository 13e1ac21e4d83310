// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log of `watch`: the schema of its lines, and their replay.
//!
//! A line is one JSON document: a header, whose `what` names the subject, and the fields of that
//! subject. The line of a call has the arguments of a [planner](planner::Planner)'s call and its
//! answer, so that the call can be made again. The other lines report events to people.

mod call_numbers;
pub mod detect_call;
pub mod escape;
pub mod followed;
pub mod left_alone;
mod long;
pub mod note;
pub mod noted_walk;
pub mod planner;
pub mod replay;
pub mod rest_call;
pub mod stream_call;
pub(crate) mod text;
pub mod walk_call;

use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;

use planner::Planner;

/// Version of the lines.
pub const SCHEMA: &str = "foreread.watch.log/1";
/// `what` of the first line of another watcher in the same file.
pub const STARTED: &str = "started";
/// Fields of outer levels of a line, the outermost first: the number and owner of a call, the call,
/// and the kind of its answer. Each level is parsed as a whole before the next one.
const OUTER_FIELDS: [&str; 8] = [
    "number", "walk", "replay", "process", "disk", "what", "call", "decision",
];

/// The fields of each line by which its handling is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// The process that the line is about; otherwise the process of the watcher.
    pub process: u32,
    /// The subject.
    pub what: &'a str,
}

impl<'a> Header<'a> {
    /// The header of a line.
    ///
    /// # Errors
    /// The line lacks one.
    pub fn of(line: &'a Value) -> Result<Self, LineError> {
        let process = line["process"].as_u64();
        let process = process.and_then(|process| process.try_into().ok());
        let lacks = |name, kind| LineError::Lacks { name, kind };
        Ok(Self {
            process: process.ok_or(lacks("process", "number of a process"))?,
            what: line["what"].as_str().ok_or(lacks("what", "text"))?,
        })
    }

    /// Whether another watcher writes from this line on. Its planners start without a state.
    #[must_use]
    pub fn is_start(&self) -> bool {
        self.what == STARTED
    }

    /// The call of a planner of this kind, if its line is one.
    ///
    /// # Errors
    /// A field is missing or wrong.
    pub fn call<P: Planner>(&self, line: &Value) -> Result<Option<P::Call>, LineError> {
        let is_one = P::WHATS.contains(&self.what);
        is_one.then(|| parsed(line)).transpose()
    }
}

/// Parses the subject of a line, given by its header.
///
/// # Errors
/// A field is missing or wrong.
pub fn parsed<T: DeserializeOwned>(line: &Value) -> Result<T, LineError> {
    T::deserialize(line).map_err(|error| match wrong_field::<T>(line, &error) {
        Some(name) => LineError::WrongField { name, error },
        None => LineError::Wrong(error),
    })
}

/// The field that is wrong, where `error` doesn't name it.
///
/// Serde buffers the fields of a tagged enum. An error in the buffer doesn't tell where it is. A
/// line without the wrong field lacks nothing but that field, if it must be there at all.
fn wrong_field<T: DeserializeOwned>(line: &Value, error: &serde_json::Error) -> Option<String> {
    if error.to_string().starts_with("missing field") {
        return None;
    }
    let fields = line.as_object()?;
    let is_wrong = |name: &&String| {
        let mut others = fields.clone();
        others.remove(*name);
        let missing = format!("missing field `{name}`");
        let without = T::deserialize(Value::Object(others));
        without.map_or_else(|error| error.to_string() == missing, |_| true)
    };
    // Serde reports a missing field of an outer level before any error further inside.
    let level = |name: &&String| {
        let outer = OUTER_FIELDS.iter().position(|outer| outer == name);
        outer.unwrap_or(OUTER_FIELDS.len())
    };
    fields.keys().filter(is_wrong).max_by_key(level).cloned()
}

/// A line that can't be used.
#[derive(Debug, Error)]
pub enum LineError {
    /// A field of the header is missing or wrong.
    #[error("it has no \"{name}\", or that is no {kind}")]
    Lacks {
        /// Its name.
        name: &'static str,
        /// The kind of value that is required.
        kind: &'static str,
    },
    /// A field is wrong.
    #[error("\"{name}\": {error}")]
    WrongField {
        /// Its name.
        name: String,
        /// The error in it.
        error: serde_json::Error,
    },
    /// A field is missing, or several are wrong.
    #[error("{0}")]
    Wrong(serde_json::Error),
    /// The first call of a planner in the log isn't one that begins a planner.
    #[error("this call begins nothing, and what it goes on with isn't in the log")]
    BeginsNothing,
}
