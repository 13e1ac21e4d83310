// SPDX-License-Identifier: MIT OR Apache-2.0
//! File systems that a running `watch` leaves alone, because they do not answer.

use anyhow::Result;
use foreread_watch::log::left_alone::LeftAlone;
use foreread_watch::log::{Header, parsed};
use foreread_watch::paths::is_within;
use serde::Serialize;
use serde_json::Value;

use super::Subject;
use crate::output::{counted, time};
use crate::text::escaped;

/// The file systems that `explain` names for its subject.
pub struct LeftAlones<'a> {
    subject: &'a Subject,
    all: Vec<LeftAlone>,
}

/// One of them, for programs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LeftAloneReport {
    /// Where it is mounted.
    mount_point: String,
    /// Type of the file system, as in `/proc/mounts`.
    fs_type: String,
    /// Time for which it is still left alone.
    still_ns: u64,
    /// Helper processes that hang in it.
    stuck_helpers: u64,
}

impl<'a> LeftAlones<'a> {
    pub fn new(subject: &'a Subject) -> Self {
        Self {
            subject,
            all: Vec::new(),
        }
    }

    /// Takes a line, whatever it is about.
    pub fn take(&mut self, header: &Header<'_>, line: &Value) -> Result<()> {
        if header.what == LeftAlone::WHAT {
            self.all.push(parsed(line)?);
        }
        Ok(())
    }

    /// The file system of a file; all of them for a process, since it may read anywhere.
    fn touching(&self) -> impl Iterator<Item = &LeftAlone> {
        self.all.iter().filter(|left| match self.subject {
            Subject::Process(_) => true,
            Subject::File(file) => is_within(&left.mount_point, &file.path),
        })
    }

    /// Whether something is known of a file. All that is left alone says nothing of a process.
    pub fn is_known(&self) -> bool {
        matches!(self.subject, Subject::File(_)) && self.touching().next().is_some()
    }

    pub fn human(&self) -> String {
        let line = |left: &LeftAlone| {
            let helpers = match left.stuck_helpers {
                0 => String::new(),
                helpers => format!(
                    "; {} in it",
                    counted(helpers, "helper hangs", "helpers hang")
                ),
            };
            format!(
                "The file system at {} ({}) did not answer. Nothing is read ahead there for {} \
                 more{helpers}.\n",
                escaped(&left.mount_point),
                escaped(&left.fs_type),
                time(left.still_ns),
            )
        };
        self.touching().map(line).collect()
    }

    /// The same for programs.
    pub fn reports(&self) -> Vec<LeftAloneReport> {
        let report = |left: &LeftAlone| LeftAloneReport {
            mount_point: escaped(&left.mount_point),
            fs_type: escaped(&left.fs_type),
            still_ns: left.still_ns,
            stuck_helpers: left.stuck_helpers,
        };
        self.touching().map(report).collect()
    }
}
