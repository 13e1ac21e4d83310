// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines of the log of `watch`, which a running `watch` also answers `explain` with.
//!
//! Input: what was decided and done. Output: one JSON document a line, of the schema of
//! [`foreread_watch::log`].

use std::borrow::Cow;
use std::time::Duration;

use foreread_watch::log;
use foreread_watch::log::note::{Note, PlannerCall, What};
use serde::Serialize;

use super::fetched::WalkTallyReport;
use super::saved::{SavedReport, StreamsSavedReport};
use super::together::ProfileEvent;
use crate::text;

/// A line: its header, and the fields of its subject.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Line<T> {
    schema: &'static str,
    /// Time since the watcher started.
    since_start_ns: u64,
    /// The process that the line is about, or the watcher.
    process: u32,
    /// Has the field `what`.
    #[serde(flatten)]
    subject: T,
}

/// The first line after those of another watcher, or of an answer to one user.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Started {
    /// `started` or `own_only`.
    what: &'static str,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum Subject<'a> {
    Call(#[cfg_attr(test, schemars(with = "serde_json::Value"))] &'a PlannerCall),
    Walk {
        #[serde(flatten)]
        event: WalkEvent<'a>,
        reads: bool,
    },
    Profile {
        #[serde(flatten)]
        event: ProfileEvent<'a>,
        reads: bool,
    },
}

/// An event of a walk or of its detection. `reads` of its line: it began because the process missed
/// data of files, not only metadata.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "what", rename_all = "snake_case")]
enum WalkEvent<'a> {
    /// Files of the directory were missed in no order.
    Refused { directory: Cow<'a, str> },
    /// Files of the directory were missed in order, but too few of them.
    TooEarly { directory: Cow<'a, str> },
    /// Nothing is fetched for the process, or no more.
    Skipped {
        /// Where it would begin; empty later on.
        directory: Cow<'a, str>,
        /// The reason, in words.
        why: &'static str,
    },
    /// Left out, because the process may not read them itself.
    Withheld { files: u64, directories: u64 },
    /// The process walks below `top`.
    Begun {
        /// Path of the topmost directory.
        top: Cow<'a, str>,
        /// Order in which the directory tree is walked.
        order: &'static str,
    },
    /// It walks below a directory further up.
    Raised {
        /// Path of the topmost directory.
        top: Cow<'a, str>,
        /// Order in which the directory tree is walked.
        order: &'static str,
    },
    /// It walks in another order than before.
    Ordered { order: &'static str },
    /// It reads files; before, it only looked at them.
    Reads,
    /// A walk is ahead of the process already.
    Known,
    /// The process shares the walk of this process.
    Shares {
        /// Number of the process whose traversal it shares.
        #[serde(rename = "with")]
        leader: u32,
    },
    /// Directories were listed.
    Listed {
        directories: u64,
        /// Entries of all these directories together.
        entries: u64,
        took_ns: u64,
    },
    /// Files were fetched.
    Fetched {
        files: u64,
        /// Pages that came in.
        pages: u64,
        /// Files that may be in memory ahead of the process.
        window_files: u64,
        took_ns: u64,
    },
    /// The time that a walk or a replay has saved its program so far. What is added up follows
    /// from two measurements of the program: before the first fetch, and since.
    Saved {
        #[serde(flatten)]
        time: SavedReport,
        /// Files that the program has reached.
        files: u64,
        /// Files of these that it would have had to wait for.
        aided_files: u64,
        /// Time from the last miss before the first fetch to the last file that it reached.
        took_ns: u64,
        /// Time from one missed file to the next, while nothing was fetched: the mean, or the
        /// median of fewer than six such times.
        alone_ns: u64,
        /// Number of the times from which that was found.
        intervals: usize,
        /// The programs whose times they are: `program`, `siblings` or `disk`.
        source: &'static str,
    },
    /// A process is read ahead of in large files: the sums until it paused or ended, or so far.
    Streamed {
        /// Whether it has paused or ended.
        is_over: bool,
        /// The path of the last of these files.
        file: Cow<'a, str>,
        /// Pages that it found in memory, or on their way.
        found_pages: u64,
        /// Pages that were fetched for it.
        fetched_pages: u64,
        /// None if too little is known.
        #[serde(flatten)]
        saved: Option<StreamsSavedReport>,
    },
    /// The walk has ended.
    Ended {
        /// The reason, in words.
        why: &'static str,
        #[serde(flatten)]
        tally: WalkTallyReport,
    },
}

/// The only line for a client that isn't answered.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct NoAnswer<'a> {
    /// `no_answer`.
    what: &'static str,
    /// The reason, in words.
    why: &'a str,
}

/// The value of `what` in a line for a client that isn't answered; its reason is in `why`.
pub const NO_ANSWER: &str = "no_answer";

/// The line for a client that isn't answered.
pub fn of_refusal(why: &str) -> String {
    let what = NO_ANSWER;
    of_watcher(Duration::ZERO, NoAnswer { what, why })
}

/// The value of `what` in a line that says that only lines about processes of the asking user
/// follow.
pub const OWN_ONLY: &str = "own_only";

/// The line for a user who is told only of its own processes.
pub fn of_own_only() -> String {
    of_watcher(Duration::ZERO, Started { what: OWN_ONLY })
}

/// The first line after those of another watcher.
pub fn of_start() -> String {
    of_watcher(Duration::ZERO, Started { what: log::STARTED })
}

/// A line that no watched process is the subject of. `subject` has the field `what`.
pub fn of_watcher(since_start: Duration, subject: impl Serialize) -> String {
    line(std::process::id(), since_start, subject)
}

/// The line of a note.
pub fn of_note(note: &Note, since_start: Duration) -> String {
    line(note.process, since_start, Subject::of(note))
}

fn line(process: u32, since_start: Duration, subject: impl Serialize) -> String {
    let line = Line {
        schema: log::SCHEMA,
        since_start_ns: u64::try_from(since_start.as_nanos()).unwrap_or(u64::MAX),
        process,
        subject,
    };
    format!("{}\n", text::json(&line))
}

impl<'a> Subject<'a> {
    fn of(note: &'a Note) -> Self {
        let reads = note.began_by_reads;
        let event = match &note.what {
            What::Called(call) => return Self::Call(call),
            What::OfProfile(event) => {
                let event = ProfileEvent::of(event);
                return Self::Profile { event, reads };
            }
            What::Refused { directory } => WalkEvent::Refused {
                directory: String::from_utf8_lossy(directory),
            },
            What::TooEarly { directory } => WalkEvent::TooEarly {
                directory: String::from_utf8_lossy(directory),
            },
            What::Skipped { directory, why } => WalkEvent::Skipped {
                directory: String::from_utf8_lossy(directory),
                why: why.name(),
            },
            What::Withheld { files, directories } => WalkEvent::Withheld {
                files: *files,
                directories: *directories,
            },
            What::Begun { top, order } => WalkEvent::Begun {
                top: String::from_utf8_lossy(top),
                order: order.name(),
            },
            What::Raised { top, order } => WalkEvent::Raised {
                top: String::from_utf8_lossy(top),
                order: order.name(),
            },
            What::Ordered { order } => WalkEvent::Ordered {
                order: order.name(),
            },
            What::Reads => WalkEvent::Reads,
            What::Known => WalkEvent::Known,
            What::Shares { leader } => WalkEvent::Shares { leader: *leader },
            What::Listed {
                directories,
                entries,
                took_ns,
            } => WalkEvent::Listed {
                directories: *directories,
                entries: *entries,
                took_ns: *took_ns,
            },
            What::Fetched {
                files,
                pages,
                window_files,
                took_ns,
            } => WalkEvent::Fetched {
                files: *files,
                pages: *pages,
                window_files: *window_files,
                took_ns: *took_ns,
            },
            What::Saved(saved) => WalkEvent::Saved {
                time: SavedReport::of(&saved.time),
                files: saved.files,
                aided_files: saved.aided_files,
                took_ns: saved.took_ns,
                alone_ns: saved.alone_ns,
                intervals: saved.intervals,
                source: saved.source.name(),
            },
            What::Streamed(streamed) => WalkEvent::Streamed {
                is_over: streamed.is_over,
                file: String::from_utf8_lossy(&streamed.file),
                found_pages: streamed.found_pages,
                fetched_pages: streamed.fetched_pages,
                saved: streamed.saved.as_ref().map(StreamsSavedReport::of),
            },
            What::Ended { why, tally } => WalkEvent::Ended {
                why: why.name(),
                tally: WalkTallyReport::of(tally),
            },
        };
        Self::Walk { event, reads }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_watch::tally::Tally;
    use foreread_watch::walk::Why;
    use serde_json::{Value, json};

    #[test]
    fn each_line_of_the_log_says_who_and_what() {
        let note = Note {
            process: 7,
            began_by_reads: true,
            owner: None,
            what: What::Ended {
                why: Why::Exited,
                tally: Tally::default(),
            },
        };
        let line = of_note(&note, Duration::from_micros(5));
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&line["process"], &line["since_start_ns"]),
            (&json!(7), &json!(5000))
        );
        assert_eq!(
            (&line["what"], &line["why"]),
            (&json!("ended"), &json!("exited"))
        );
    }
}
