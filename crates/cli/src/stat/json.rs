// SPDX-License-Identifier: MIT OR Apache-2.0
//! A snapshot for programs: `foreread.stat/1`. `docs/stat.md` describes the fields.

use std::collections::BTreeMap;
use std::time::Duration;

use foreread_accounting::{Change, Counts};
use foreread_linux_stat::{Cost, Sight};
use serde::Serialize;

use super::columns::Row;
use super::report::Told;

/// A snapshot, and what has changed since the last one.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StatReport<'a> {
    schema: &'static str,
    since_start_ns: u64,
    /// Time since the last report.
    interval_ns: u64,
    /// `full`, or `pages-only` where windows and requests can't be followed.
    sight: &'static str,
    /// Those that fetched most first.
    lines: Vec<LineReport<'a>>,
    /// Losses by their kind.
    lost: BTreeMap<&'static str, u64>,
    /// The cost of the measurement.
    #[serde(rename = "self")]
    of_self: Option<CostReport<'a>>,
}

/// One subject; of what is not told apart the field is none.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LineReport<'a> {
    /// Name of the device; null where lines are not by device.
    device: Option<&'a str>,
    /// Name of the process; null where lines are not by process.
    process: Option<&'a str>,
    /// Its number; null where lines are not by process.
    pid: Option<u32>,
    /// Path of the file; null where lines are not by file.
    file: Option<&'a str>,
    /// Path of the cgroup; null where lines are not by cgroup.
    cgroup: Option<&'a str>,
    /// The kind of the access.
    kind: Option<&'a str>,
    /// Since `stat` began.
    since_start: PagesReport,
    /// Since the document before.
    interval: PagesReport,
}

/// Pages in a time; every fetched page is in exactly one of the next five fields.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PagesReport {
    fetched_pages: u64,
    used_on_time_pages: u64,
    used_late_pages: u64,
    wasted_pages: u64,
    /// Change in the number of pages that are in memory unused.
    resident_unused_pages: i64,
    /// Change in the number of pages that are on their way.
    in_flight_pages: i64,
    /// Pages fetched for each page used; none when none was.
    amplification: Option<f64>,
    /// Times that readahead was issued.
    windows: u64,
    /// Requests to devices.
    requests: u64,
    request_bytes: u64,
    /// Time that programs waited for reads.
    stall_ns: u64,
    /// Times that programs waited.
    stalls: u64,
}

/// The cost of the measurement since its start.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CostReport<'a> {
    /// Processor time of all programs in the kernel.
    programs_ns: u64,
    /// Processor time of this process.
    process_ns: u64,
    elapsed_ns: u64,
    /// Memory of the tables in the kernel.
    kernel_bytes: u64,
    /// Chunks of 64 pages in the table of pages.
    chunks: u64,
    /// The dearest first.
    programs: Vec<ProgramReport<'a>>,
}

/// A program in the kernel.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ProgramReport<'a> {
    /// Name of the BPF program.
    name: &'a str,
    /// Times that it ran.
    calls: u64,
    /// Processor time of all calls.
    run_ns: u64,
}

impl<'a> StatReport<'a> {
    pub fn of(told: &'a Told) -> Self {
        Self {
            schema: "foreread.stat/1",
            since_start_ns: ns(told.since_start),
            interval_ns: ns(told.interval),
            sight: match told.sight {
                Sight::Full => "full",
                Sight::PagesOnly => "pages-only",
            },
            lines: told.rows.iter().map(LineReport::of).collect(),
            lost: told.lost().into_iter().collect(),
            of_self: told.cost.as_ref().map(CostReport::of),
        }
    }
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl<'a> LineReport<'a> {
    fn of(row: &'a Row) -> Self {
        let said = &row.said;
        Self {
            device: said.device.as_deref(),
            process: said.process.as_deref(),
            pid: said.process_id,
            file: said.file.as_deref(),
            cgroup: said.cgroup.as_deref(),
            kind: said.kind.as_deref(),
            since_start: PagesReport::of(&row.counts.since(&Counts::default())),
            interval: PagesReport::of(&row.change),
        }
    }
}

impl PagesReport {
    fn of(change: &Change) -> Self {
        Self {
            fetched_pages: change.fetched,
            used_on_time_pages: change.used_on_time,
            used_late_pages: change.used_late,
            wasted_pages: change.wasted,
            resident_unused_pages: change.resident_unused,
            in_flight_pages: change.in_flight,
            amplification: change.amplification(),
            windows: change.windows,
            requests: change.requests,
            request_bytes: change.request_bytes,
            stall_ns: change.stall_ns,
            stalls: change.stalls,
        }
    }
}

impl<'a> CostReport<'a> {
    fn of(cost: &'a Cost) -> Self {
        let programs = cost.programs.iter().map(|program| ProgramReport {
            name: &program.name,
            calls: program.calls,
            run_ns: program.run_ns,
        });
        Self {
            programs_ns: cost.programs_ns(),
            process_ns: cost.process_ns,
            elapsed_ns: cost.elapsed_ns,
            kernel_bytes: cost.kernel_bytes,
            chunks: cost.chunks,
            programs: programs.collect(),
        }
    }
}
