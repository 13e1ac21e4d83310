// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a probe found, for programs.

use foreread_device::Skipped;
use foreread_linux_sizing::probe::{Kind, Latency};
use serde_json::{Value, json};

use super::found::Found;

pub fn document(found: &Found) -> Value {
    json!({
        "schema": "foreread.probe/1",
        "device": found.identity,
        "read": {
            "kind": match found.kind {
                Kind::Device => "device",
                Kind::File => "file",
                Kind::FoundFile => "found-file",
                Kind::OwnFile => "own-file",
            },
            "path": found.path,
            "pieces": found.pieces,
        },
        "read_ahead_kib_before": found.before_kib,
        "request_max_kib": found.request_max_kib,
        "sweep": found.points,
        "skipped": found.skipped.iter().map(|(size, why)| json!({
            "read_ahead_kib": size.count(),
            "why": match why {
                Skipped::Region => "region",
                Skipped::Time => "time",
            },
        })).collect::<Value>(),
        "plateau_kib": found.plateau.read_ahead.count(),
        "best_kib": found.plateau.best.count(),
        "certain": found.plateau.is_certain(),
        "open_kib": found.plateau.open.iter().map(|size| size.count()).collect::<Vec<_>>(),
        "fit": found.fit.map(|fit| json!({
            "request_cost_ns": fit.request_cost_ns,
            "bandwidth_bytes_per_s": fit.bandwidth_bytes_per_s,
        })),
        "latency": found.latency.as_ref().map(|latency| json!({
            "latency_ns": latency.latency_ns,
            "latency_ns_p99": latency.latency_ns_p99,
            "reads": latency.reads,
            "parallel_reads_per_s": latency.parallel_reads_per_s,
            "speed_up": Latency::speed_up(latency),
        })),
        "direct": found.direct.iter().map(|point| json!({
            "request_kib": point.read_ahead.count(),
            "bytes_per_s": point.bytes_per_s,
        })).collect::<Value>(),
        "readers": found.readers.iter().map(|point| json!({
            "readers": point.readers,
            "read_ahead_kib": point.read_ahead.count(),
            "bytes_per_s": point.bytes_per_s,
            "latency_ns_max": point.latency_ns_max,
        })).collect::<Value>(),
        "elapsed_ns": u64::try_from(found.elapsed.as_nanos()).unwrap_or(u64::MAX),
        "read_errors": found.read_errors,
        "interrupted": found.is_interrupted,
        "notes": found.notes,
    })
}
