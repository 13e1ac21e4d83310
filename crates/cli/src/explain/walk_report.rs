// SPDX-License-Identifier: MIT OR Apache-2.0
//! One walk for programs, part of `foreread.explain/1`. Times are since the watcher started.

use serde::Serialize;

use super::members::MemberReport;
use super::told_saved::ToldSavedReport;

/// A walk of a process through a directory tree.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WalkReport {
    /// Number of the process.
    pub process: u32,
    /// Its number, where its calls are known.
    pub walk: Option<u64>,
    /// The directory below which it walks.
    pub top: String,
    /// Order in which the directories are walked; null while unknown.
    pub order: Option<&'static str>,
    /// Whether it reads data, not only metadata.
    pub reads: bool,
    /// Whether it began because the process missed data.
    pub began_by_reads: bool,
    pub begun_ns: u64,
    /// Processes that share it.
    pub shared_by: Vec<MemberReport>,
    /// Times that it went on further up.
    pub raised: usize,
    /// Files that may be in memory ahead of the process.
    pub window_files: Option<u64>,
    pub listed_directories: u64,
    pub fetched_files: u64,
    pub fetched_pages: u64,
    /// Fetched files that the process read; without calls, known at the end of the walk.
    pub used_files: Option<u64>,
    pub wasted_files: Option<u64>,
    /// Files that were not fetched when the process came to them.
    pub missed_files: Option<u64>,
    /// Time of the last fetch.
    pub fetch_ns: Option<u64>,
    /// Time that it saved the process so far; null while not known.
    pub saved: Option<ToldSavedReport>,
    /// Why it has ended.
    pub ended: Option<&'static str>,
    #[serde(flatten)]
    pub of_calls: Option<CallsReport>,
}

/// Facts that only the calls of a walk tell.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CallsReport {
    /// The directories whose order of accesses raised the suspicion.
    pub suspect_by: Option<Vec<PassedReport>>,
    /// Memory that may hold files ahead of the process.
    pub budget_bytes: u64,
    /// The last fetch in words.
    pub fetch: Option<String>,
    /// Time of the last decision.
    pub decided_ns: Option<u64>,
    /// The last decision in words.
    pub decision: Option<String>,
    /// The file that was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<FileReport>,
}

/// A directory, and the files in it that were missed one after the other.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PassedReport {
    /// Path of the directory.
    pub directory: String,
    /// Names in it.
    pub children: Vec<String>,
}

/// A file on a walk.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FileReport {
    /// When it was fetched.
    pub fetched_ns: Option<u64>,
    /// When the process read it.
    pub read_ns: Option<u64>,
    /// Whether it was not in memory then.
    pub was_missed: Option<bool>,
}
