// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON report about a file or a process: `foreread.explain/1`. `docs/explain.md` describes the
//! fields.

use serde::Serialize;

use super::Subject;
use super::doubts::DoubtsReport;
use super::followed::{Followed, FollowedFileReport, FollowedReport};
use super::left_alone::{LeftAloneReport, LeftAlones};
use super::stream_story::StoryReport;
use super::streamed::{Streamed, StreamedReport};
use super::streams::Streams;
use super::walk_report::WalkReport;
use super::walks::Walks;
use crate::text;

/// All that is known of a subject, which is either a process or a file.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExplainReport<'a> {
    schema: &'static str,
    /// The process that was asked about; null for a file.
    process: Option<u32>,
    /// The file that was asked about; null for a process.
    file: Option<String>,
    /// Whether anything is known of it.
    is_known: bool,
    /// Whether the answer is that of a running `watch` to a user who isn't root, which has only
    /// what was done for processes of this user.
    own_only: bool,
    /// Whether calls were lost when the log was written.
    has_lost: bool,
    /// Traversals, the oldest first.
    walks: Vec<WalkReport>,
    /// Processes, and what they missed while no walk was ahead of them.
    without_walk: Vec<DoubtsReport>,
    /// The oldest first.
    streams: Vec<StreamReport<'a>>,
    /// Processes that were read ahead of in large files and have paused or ended, with the time
    /// saved; the oldest first.
    streamed: Vec<StreamedReport<'a>>,
    /// Files whose streams are followed now.
    followed_files: Vec<FollowedFileReport>,
    /// Why nothing is known of streams.
    streams_unknown: Option<&'a str>,
    /// File systems that are left alone, because they do not answer.
    left_alone: Vec<LeftAloneReport>,
}

/// A thread that reads a large file.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum StreamReport<'a> {
    /// From the calls of a log.
    Called(StoryReport<'a>),
    /// From a running `watch`.
    Followed(FollowedReport),
}

impl<'a> ExplainReport<'a> {
    pub fn of(
        subject: &Subject,
        walks: &Walks,
        streams: &'a Streams,
        streamed: &'a Streamed,
        followed: &'a Followed,
        left_alone: &LeftAlones,
        own_only: bool,
    ) -> Self {
        let (process, file) = match subject {
            Subject::Process(process) => (Some(*process), None),
            Subject::File(file) => (None, Some(text::escaped(&file.path))),
        };
        let called = streams.reports().into_iter().map(StreamReport::Called);
        let of_running = followed.reports().into_iter().map(StreamReport::Followed);
        Self {
            schema: "foreread.explain/1",
            process,
            file,
            is_known: walks.is_known()
                || streams.is_known()
                || streamed.is_known()
                || followed.is_known()
                || left_alone.is_known(),
            own_only,
            has_lost: walks.has_lost() || streams.has_lost(),
            walks: walks.reports(),
            without_walk: walks.without_walk(),
            streams: called.chain(of_running).collect(),
            streamed: streamed.reports(),
            followed_files: followed.files(),
            streams_unknown: followed.unknown(),
            left_alone: left_alone.reports(),
        }
    }
}
