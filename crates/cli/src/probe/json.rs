// SPDX-License-Identifier: MIT OR Apache-2.0
//! The result of a probe for programs: `foreread.probe/1`. `docs/probe.md` describes the fields.

use foreread_core::KiB;
use foreread_device::{Fit, Identity, Skipped, SweepPoint};
use foreread_linux_sizing::probe::{Kind, Latency};
use serde::Serialize;

use super::found::{DirectPoint, Found, ReadersPoint};

/// A probe of one device.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProbeReport<'a> {
    schema: &'static str,
    /// Which device it is.
    device: &'a Identity,
    /// What was read.
    read: ReadReport<'a>,
    /// The setting before the probe.
    read_ahead_kib_before: u64,
    /// The largest request of the device.
    request_max_kib: u64,
    /// Throughput by readahead size.
    sweep: &'a [SweepPoint],
    /// Sizes that were not measured.
    skipped: Vec<SkippedReport>,
    /// The smallest size within 2 % of the best.
    plateau_kib: u64,
    /// The size with the best throughput.
    best_kib: u64,
    /// Whether the plateau is certain.
    certain: bool,
    /// Whether all sizes that decide were measured often enough. Advice needs this, too.
    complete: bool,
    /// Sizes that may be the plateau as well.
    open_kib: Vec<u64>,
    /// None of fewer than two sizes.
    fit: Option<FitReport>,
    /// Single reads; null if they were not measured.
    latency: Option<LatencyReport>,
    /// Reads past the page cache.
    direct: Vec<DirectReport>,
    /// Several readers at once.
    readers: Vec<ReadersReport>,
    elapsed_ns: u64,
    /// Reads that failed.
    read_errors: u64,
    /// Whether a signal ended it.
    interrupted: bool,
    /// Remarks for people, a sentence each.
    notes: &'a [String],
}

/// The device or file that was read.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ReadReport<'a> {
    /// `device`, `file`, `found-file` or `own-file`.
    kind: &'static str,
    /// Path of the device or file.
    path: &'a str,
    /// Extents of a file, where that is known.
    pieces: Option<usize>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SkippedReport {
    read_ahead_kib: u64,
    /// The limit: `region` of the device or `time`.
    why: &'static str,
}

/// The time of a request as a line: a cost, and the transfer of its bytes.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FitReport {
    request_cost_ns: f64,
    bandwidth_bytes_per_s: f64,
}

/// Small reads.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LatencyReport {
    /// The median, one read at a time.
    latency_ns: f64,
    latency_ns_p99: f64,
    /// Reads that were timed.
    reads: usize,
    /// With many reads at once.
    parallel_reads_per_s: f64,
    /// Throughput of many reads at once, as a multiple of one at a time.
    speed_up: f64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DirectReport {
    request_kib: u64,
    bytes_per_s: f64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ReadersReport {
    /// Readers at once.
    readers: u64,
    read_ahead_kib: u64,
    /// Throughput of all readers together.
    bytes_per_s: f64,
    latency_ns_max: f64,
}

impl<'a> ProbeReport<'a> {
    pub fn of(found: &'a Found) -> Self {
        let plateau = &found.plateau;
        Self {
            schema: "foreread.probe/1",
            device: &found.identity,
            read: ReadReport::of(found),
            read_ahead_kib_before: found.before_kib,
            request_max_kib: found.request_max_kib,
            sweep: &found.points,
            skipped: found.skipped.iter().map(SkippedReport::of).collect(),
            plateau_kib: plateau.read_ahead.count(),
            best_kib: plateau.best.count(),
            certain: plateau.is_certain(),
            complete: found.is_complete,
            open_kib: plateau.open.iter().map(|size| size.count()).collect(),
            fit: found.fit.as_ref().map(FitReport::of),
            latency: found.latency.as_ref().map(LatencyReport::of),
            direct: found.direct.iter().map(DirectReport::of).collect(),
            readers: found.readers.iter().map(ReadersReport::of).collect(),
            elapsed_ns: u64::try_from(found.elapsed.as_nanos()).unwrap_or(u64::MAX),
            read_errors: found.read_errors,
            interrupted: found.is_interrupted,
            notes: &found.notes,
        }
    }
}

impl<'a> ReadReport<'a> {
    fn of(found: &'a Found) -> Self {
        Self {
            kind: match found.kind {
                Kind::Device => "device",
                Kind::File => "file",
                Kind::FoundFile => "found-file",
                Kind::OwnFile => "own-file",
            },
            path: &found.path,
            pieces: found.pieces,
        }
    }
}

impl SkippedReport {
    fn of((size, why): &(KiB, Skipped)) -> Self {
        Self {
            read_ahead_kib: size.count(),
            why: match why {
                Skipped::Region => "region",
                Skipped::Time => "time",
            },
        }
    }
}

impl FitReport {
    fn of(fit: &Fit) -> Self {
        Self {
            request_cost_ns: fit.request_cost_ns,
            bandwidth_bytes_per_s: fit.bandwidth_bytes_per_s,
        }
    }
}

impl LatencyReport {
    fn of(latency: &Latency) -> Self {
        Self {
            latency_ns: latency.latency_ns,
            latency_ns_p99: latency.latency_ns_p99,
            reads: latency.reads,
            parallel_reads_per_s: latency.parallel_reads_per_s,
            speed_up: latency.speed_up(),
        }
    }
}

impl DirectReport {
    fn of(point: &DirectPoint) -> Self {
        Self {
            request_kib: point.read_ahead.count(),
            bytes_per_s: point.bytes_per_s,
        }
    }
}

impl ReadersReport {
    fn of(point: &ReadersPoint) -> Self {
        Self {
            readers: point.readers,
            read_ahead_kib: point.read_ahead.count(),
            bytes_per_s: point.bytes_per_s,
            latency_ns_max: point.latency_ns_max,
        }
    }
}
