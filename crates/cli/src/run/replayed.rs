// SPDX-License-Identifier: MIT OR Apache-2.0
//! Result of a replay, as text and as JSON: the whole answer of `foreread replay`, and a part of
//! that of `run`.

use std::time::Duration;

use foreread_linux_prefetcher::Report;
use foreread_profile::PAGE_BYTES;
use serde::Serialize;

use super::shortfall;
use crate::output::{pages, time};
use crate::{left_alone, text};

/// Result of `foreread replay`.
pub struct ReplayDone {
    pub report: Report,
    pub elapsed: Duration,
}

impl ReplayDone {
    /// Whether nothing was left undone.
    pub fn is_whole(&self) -> bool {
        let Report {
            gone_files,
            replaced_files,
            unreadable_files,
            leased_files,
            failed_reads,
            failed_file_systems,
            left_alone_file_systems,
            over_budget_pages,
            ..
        } = &self.report;
        let left_out =
            gone_files + replaced_files + unreadable_files + leased_files + over_budget_pages;
        left_out + failed_reads + failed_file_systems + left_alone_file_systems == 0
    }

    pub fn line(&self) -> String {
        let report = &self.report;
        let mut line = format!(
            "replayed {} of {} in {}; {} were cached",
            pages(report.arrived_pages),
            pages(report.planned_pages),
            time(u64::try_from(self.elapsed.as_nanos()).unwrap_or(u64::MAX)),
            pages(report.cached_pages),
        );
        for (count, what) in [
            (report.gone_files, "gone"),
            (report.replaced_files, "replaced"),
            (report.shrunk_files, "shrunk"),
            (report.unreadable_files, "unreadable"),
            (report.leased_files, "leased to others"),
        ] {
            if count > 0 {
                line += &format!(", {} {what}", foreread_core::grouped(count));
            }
        }
        if report.over_budget_pages > 0 {
            line += &format!(", {} beyond the budget", pages(report.over_budget_pages));
        }
        for reason in shortfall::of(report)
            .into_iter()
            .chain(left_alone::clauses())
        {
            line += "; ";
            line += &reason;
        }
        line
    }

    /// One document for programs: `foreread.replay/1`.
    pub fn json(&self) -> String {
        let report = DoneReport {
            schema: "foreread.replay/1",
            elapsed_ns: u64::try_from(self.elapsed.as_nanos()).unwrap_or(u64::MAX),
            page_bytes: PAGE_BYTES,
            replay: ReplayReport::of(&self.report),
        };
        format!("{:#}", text::json(&report))
    }
}

/// The whole answer of `foreread replay`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DoneReport {
    schema: &'static str,
    elapsed_ns: u64,
    page_bytes: u64,
    /// What the replay did.
    replay: ReplayReport,
}

/// A replay.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReplayReport {
    /// Pages that the plan names.
    planned_pages: u64,
    /// Planned pages that were cached.
    cached_pages: u64,
    asked_pages: u64,
    /// Requested pages that arrived.
    arrived_pages: u64,
    /// Pages that were left out because they exceed the budget.
    over_budget_pages: u64,
    /// Pages for which nothing was read: of files that are gone, replaced or unreadable, beyond the
    /// end of a file, in holes, on file systems in memory.
    skipped_pages: u64,
    /// Pages that the program came to before the replay.
    overtaken_pages: u64,
    /// Metadata that was read from block devices.
    metadata_bytes: u64,
    /// Inodes that were looked up one by one.
    looked_at_inodes: u64,
    reads: u64,
    /// Files that were read.
    files: u64,
    /// Paths that name nothing any more.
    gone_files: u64,
    /// Paths that name another file now.
    replaced_files: u64,
    /// Files that are shorter than the pages named.
    shrunk_files: u64,
    /// Files that changed since, and were read.
    changed_files: u64,
    /// Files that may not be opened for reading.
    unreadable_files: u64,
    /// Files with a write lease, which opening them would break.
    leased_files: u64,
    /// Reads of data or metadata that failed.
    failed_reads: u64,
    /// Reads of data that ended before the last page asked for.
    short_reads: u64,
    /// File systems on which no more reads could be made.
    failed_file_systems: u64,
    /// File systems that did not answer in time, or were left alone because of that.
    left_alone_file_systems: u64,
    /// The first failure in words.
    first_error: Option<String>,
    /// Why nothing was fetched.
    fetched_nothing_because: Option<String>,
    /// File systems that were read through their block device.
    raw_file_systems: u64,
    /// File systems that were read inode by inode.
    looked_file_systems: u64,
    /// Whether memory ran short.
    stopped_for_memory: bool,
}

impl ReplayReport {
    pub fn of(report: &Report) -> Self {
        Self {
            planned_pages: report.planned_pages,
            cached_pages: report.cached_pages,
            asked_pages: report.asked_pages,
            arrived_pages: report.arrived_pages,
            over_budget_pages: report.over_budget_pages,
            skipped_pages: report.skipped_pages,
            overtaken_pages: report.overtaken_pages,
            metadata_bytes: report.metadata_bytes,
            looked_at_inodes: report.looked_at,
            reads: report.reads,
            files: report.files,
            gone_files: report.gone_files,
            replaced_files: report.replaced_files,
            shrunk_files: report.shrunk_files,
            changed_files: report.changed_files,
            unreadable_files: report.unreadable_files,
            leased_files: report.leased_files,
            failed_reads: report.failed_reads,
            short_reads: report.short_reads,
            failed_file_systems: report.failed_file_systems,
            left_alone_file_systems: report.left_alone_file_systems,
            first_error: shortfall::first_error(report),
            fetched_nothing_because: shortfall::nothing(report),
            raw_file_systems: report.raw_file_systems,
            looked_file_systems: report.looked_file_systems,
            stopped_for_memory: report.stopped_for_memory != 0,
        }
    }
}
