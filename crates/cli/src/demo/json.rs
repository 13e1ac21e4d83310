// SPDX-License-Identifier: MIT OR Apache-2.0
//! The demo's result for programs: `foreread.demo/1`. `docs/demo.md` describes the fields.

use std::borrow::Cow;

use foreread_measure::cold::{ColdStarts, Start};
use foreread_measure::programs::Program;
use foreread_model::{DiskModel, DiskParameters};
use serde::Serialize;
use serde_json::Value;

use super::Result;

/// Programs that were started cold on a simulated device.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DemoReport<'a> {
    schema: &'static str,
    /// The modelled disk.
    device: DeviceReport<'a>,
    /// The kernel's maximum window.
    read_ahead_kib: u64,
    /// What was read.
    tree: TreeReport<'a>,
    /// In the order in which they ran.
    programs: Vec<ProgramReport<'a>>,
    /// Remarks for people, a sentence each.
    notes: &'a [String],
}

/// The simulated device.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DeviceReport<'a> {
    /// Its name.
    name: &'a str,
    /// `head`, `parallel` or `instant`.
    model: &'static str,
    capacity_bytes: u64,
    bandwidth_bytes_per_s: u64,
    latency_ns: u64,
    /// Requests that it serves at once.
    parallel_requests: u64,
    rate_requests_per_s: u64,
    /// The shortest seek, and the difference to the longest.
    seek_min_ns: u64,
    seek_span_ns: u64,
    /// Time of half a turn.
    half_turn_ns: u64,
    /// Gaps up to this length are read over instead of seeking.
    gap_limit_bytes: u64,
    gap_ns: u64,
}

/// The files that the programs read.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TreeReport<'a> {
    files: u64,
    bytes: u64,
    /// Whether its files were generated, not copied.
    made_up: bool,
    /// Directories that it was copied from.
    sources: Vec<SourceReport<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SourceReport<'a> {
    /// Where it was copied from.
    path: Cow<'a, str>,
    files: u64,
}

/// One program; the times of single starts are in `*_runs` and `kernel_alone`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ProgramReport<'a> {
    /// Its name.
    name: &'static str,
    /// Its task, in words.
    title: &'a str,
    /// Bytes that it needs from the device.
    needed_bytes: u64,
    /// Shortest time in which the device and the program can do their work.
    limit_ns: u64,
    /// Shortest time in which the device can read what is needed.
    disk_ns: u64,
    /// Median time of a start with everything cached.
    cached_ns: u64,
    /// Time without Foreread, divided by that of the second runs.
    times_faster: Option<f64>,
    /// Time of the second runs, divided by the limit.
    second_over_limit: f64,
    /// Starts without Foreread.
    kernel_alone: Vec<StartReport<'a>>,
    /// Starts that were recorded.
    first_runs: Vec<StartReport<'a>>,
    /// Starts that were replayed.
    second_runs: Vec<StartReport<'a>>,
}

/// One start, and what the device counted in it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StartReport<'a> {
    wall_ns: u64,
    requests: u64,
    bytes: u64,
    seeks: u64,
    /// Time with a request in flight.
    busy_ns: u64,
    /// Most requests in flight at once.
    queue_depth_max: u64,
    /// The document of `foreread run`, as that process wrote it; none without Foreread.
    run: Option<&'a Value>,
}

impl<'a> DemoReport<'a> {
    pub fn of(result: &'a Result) -> Self {
        let programs = result.measured.iter();
        Self {
            schema: "foreread.demo/1",
            device: DeviceReport::of(&result.device, &result.parameters),
            read_ahead_kib: foreread_testbed::READ_AHEAD_KIB_DEFAULT,
            tree: TreeReport::of(result),
            programs: programs
                .map(|(program, measured)| ProgramReport::of(program, measured))
                .collect(),
            notes: &result.notes,
        }
    }
}

impl<'a> DeviceReport<'a> {
    fn of(name: &'a str, parameters: &DiskParameters) -> Self {
        Self {
            name,
            model: match parameters.model {
                DiskModel::Head => "head",
                DiskModel::Parallel => "parallel",
                DiskModel::Instant => "instant",
            },
            capacity_bytes: parameters.capacity_bytes,
            bandwidth_bytes_per_s: parameters.bandwidth_bytes_per_s,
            latency_ns: parameters.latency_ns,
            parallel_requests: parameters.parallel_requests,
            rate_requests_per_s: parameters.rate_requests_per_s,
            seek_min_ns: parameters.seek_min_ns,
            seek_span_ns: parameters.seek_span_ns,
            half_turn_ns: parameters.half_turn_ns,
            gap_limit_bytes: parameters.gap_limit_bytes,
            gap_ns: parameters.gap_ns,
        }
    }
}

impl<'a> TreeReport<'a> {
    fn of(result: &'a Result) -> Self {
        let tree = &result.tree;
        let sources = tree.sources.iter().map(|(path, files)| SourceReport {
            path: path.to_string_lossy(),
            files: *files,
        });
        Self {
            files: tree.files,
            bytes: tree.bytes,
            made_up: tree.sources.is_empty(),
            sources: sources.collect(),
        }
    }
}

impl<'a> ProgramReport<'a> {
    fn of(program: &'a Program, measured: &'a ColdStarts) -> Self {
        let starts = |starts: &'a [Start]| starts.iter().map(StartReport::of).collect();
        Self {
            name: program.name(),
            title: program.title(),
            needed_bytes: measured.needed_bytes,
            limit_ns: measured.limit_ns(),
            disk_ns: measured.disk_ns,
            cached_ns: measured.cached.median_ns(),
            times_faster: measured.times_faster(),
            second_over_limit: measured.second_over_limit(),
            kernel_alone: starts(&measured.kernel),
            first_runs: starts(&measured.first),
            second_runs: starts(&measured.second),
        }
    }
}

impl<'a> StartReport<'a> {
    fn of(start: &'a Start) -> Self {
        Self {
            wall_ns: start.wall_ns,
            requests: start.disk.requests,
            bytes: start.disk.bytes,
            seeks: start.disk.seeks,
            busy_ns: start.disk.busy_ns,
            queue_depth_max: start.disk.queue_depth_max,
            run: start.report.as_ref().map(|report| &report.document),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::tests::example;
    use crate::text;

    #[test]
    fn the_document_holds_what_was_measured() {
        let result = example(&[42_800, 42_900, 1_699], 1_300);
        let document = text::json(&DemoReport::of(&result));
        assert_eq!(document["schema"], "foreread.demo/1");
        assert_eq!(document["device"]["seek_min_ns"], 800_000);
        assert_eq!(document["tree"]["sources"][1]["path"], "/etc");
        let grep = &document["programs"][0];
        assert_eq!(grep["limit_ns"], 1_300_000_000_u64);
        assert_eq!(grep["kernel_alone"][0]["wall_ns"], 42_800_000_000_u64);
        assert!(grep["kernel_alone"][0]["run"].is_null());
        assert!(grep["second_over_limit"].as_f64().unwrap() > 1.3);
    }
}
