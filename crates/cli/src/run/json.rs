// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run for programs: `foreread.run/1`. `docs/run.md` describes the fields.

use std::collections::BTreeMap;

use foreread_linux_prefetcher::Report;
use foreread_linux_recorder::{Counts, Fetched};
use foreread_prefetch::proof::Followed;
use foreread_profile::PAGE_BYTES;
use serde::Serialize;

use super::replayed::ReplayReport;

/// A run of a command; a number that was not measured is none.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RunReport<'a> {
    pub schema: &'static str,
    /// The executable.
    pub program: &'a str,
    /// `recorded`, `replayed`, `replayed-recorded`, `plain` or `none`.
    pub mode: &'static str,
    /// From start to exit of the command.
    pub wall_ns: u64,
    /// Time that its threads waited for reads.
    pub stall_ns: Option<u64>,
    /// Share of the profile's pages that were cached before the start.
    pub cached_before_permille: Option<u16>,
    /// The profile of this command.
    pub profile: ProfileReport,
    /// Pages that the command itself had to fetch.
    pub missed_pages: Option<u64>,
    pub missed_metadata_pages: Option<u64>,
    /// Bytes that the command had disks read.
    pub command_read_bytes: Option<u64>,
    /// Events that the kernel had no room for; null where nothing was recorded.
    pub events_lost: Option<u64>,
    /// Inodes without a name.
    pub unreachable_inodes: u64,
    /// Inodes whose path names something else by now, or nothing.
    pub gone_inodes: u64,
    /// What of the replay was used; null where nothing was recorded.
    pub accounting: Option<AccountingReport>,
    /// What the replay did; null where there was none.
    pub replay: Option<ReplayReport>,
    /// Whether the command followed the profile.
    pub following: Option<FollowingReport>,
    /// Whether the next run records in full, since this one read something else.
    pub recorded_next: bool,
    /// Time of the first run.
    pub first_wall_ns: Option<u64>,
    /// Time saved against the first run; negative when it was slower.
    pub saved_ns: Option<i64>,
    /// Whether replay is off from now on.
    pub replay_turned_off: bool,
    /// The recorder that was used.
    pub recorder: Option<String>,
    /// Why no better one was used.
    pub recorder_refusals: &'a [String],
    /// Time of the steps of `run` itself, by their name.
    pub steps_ns: BTreeMap<&'static str, u64>,
    /// Failures, a line each.
    pub trouble: &'a [String],
}

/// The profile after the run.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProfileReport {
    pub files: u64,
    pub pages: u64,
    pub page_bytes: u64,
}

/// The pages that the replay fetched: fetched = used on time + used late + wasted + resident unused
/// + in flight.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AccountingReport {
    fetched_pages: u64,
    used_pages: Option<u64>,
    used_on_time_pages: Option<u64>,
    used_late_pages: Option<u64>,
    wasted_pages: Option<u64>,
    resident_unused_pages: Option<u64>,
    in_flight_pages: u64,
    /// Fetched pages that have left the page cache, if that is known. The field is there only where
    /// no BPF program watched the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    gone_pages: Option<Option<u64>>,
    /// Pages of metadata that the replay fetched.
    fetched_metadata_pages: u64,
    /// Pages that the replay fetched before they were counted.
    uncounted_pages: u64,
    /// Distinct pages that the command accessed.
    accessed_pages: Option<u64>,
    /// Pages fetched by anyone for a thousand pages accessed.
    amplification_permille: Option<u64>,
}

impl AccountingReport {
    /// Accounts of a run that a BPF program watched.
    pub fn of_counts(counts: &Counts, wasted_pages: u64, replay: Option<&Report>) -> Self {
        let late = counts.late_pages.min(counts.used_pages);
        let on_time = counts.used_pages - late;
        let unused = counts.fetched_pages.saturating_sub(counts.used_pages);
        let wasted = wasted_pages.min(unused);
        let rest = unused - wasted;
        let asked = replay.map_or(0, |r| r.asked_pages.saturating_sub(r.arrived_pages));
        let in_flight = asked.min(rest);
        let uncounted = |r: &Report| r.arrived_pages.saturating_sub(counts.fetched_pages);
        let brought_in = counts.fetched_pages + counts.missed_pages;
        Self {
            fetched_pages: counts.fetched_pages,
            used_pages: Some(counts.used_pages),
            used_on_time_pages: Some(on_time),
            used_late_pages: Some(late),
            wasted_pages: Some(wasted),
            resident_unused_pages: Some(rest - in_flight),
            in_flight_pages: in_flight,
            gone_pages: None,
            fetched_metadata_pages: counts.fetched_metadata_pages,
            uncounted_pages: replay.map_or(0, uncounted),
            accessed_pages: Some(counts.accessed_pages),
            amplification_permille: permille(brought_in, counts.accessed_pages),
        }
    }

    /// Accounts of a run that no BPF program watched: fetched pages are those that arrived.
    pub fn of_unwatched(fetched: &Fetched, replay: &Report, missed_pages: Option<u64>) -> Self {
        let unused = fetched.used.map(|used| fetched.arrived - used);
        let resident_unused = unused.zip(fetched.wasted).map(|(all, gone)| all - gone);
        let brought_in = missed_pages.map(|missed| fetched.arrived + missed);
        let accessed = brought_in.zip(fetched.accessed);
        Self {
            fetched_pages: fetched.arrived,
            used_pages: fetched.used,
            used_on_time_pages: None,
            used_late_pages: None,
            wasted_pages: fetched.wasted,
            resident_unused_pages: resident_unused,
            in_flight_pages: 0,
            gone_pages: Some(fetched.gone),
            fetched_metadata_pages: replay.metadata_bytes.div_ceil(PAGE_BYTES),
            uncounted_pages: 0,
            accessed_pages: fetched.accessed,
            amplification_permille: accessed
                .and_then(|(brought_in, accessed)| permille(brought_in, accessed)),
        }
    }
}

/// Whether a command followed the profile that was replayed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FollowingReport {
    /// Entries of the profile that the command came to before the replay.
    signs: u64,
    /// Reads of the command's own without such a sign, at least.
    astray_misses: u64,
    /// How often the replay paused for them.
    pauses: u64,
    /// Whether the replay wasn't held back at the end.
    proven: bool,
}

impl FollowingReport {
    pub fn of(followed: Followed) -> Self {
        Self {
            signs: followed.signs,
            astray_misses: followed.astray_misses,
            pauses: followed.pauses,
            proven: followed.is_proven,
        }
    }
}

fn permille(brought_in_pages: u64, accessed_pages: u64) -> Option<u64> {
    (brought_in_pages * 1000).checked_div(accessed_pages)
}
