// SPDX-License-Identifier: MIT OR Apache-2.0
//! The demo's result for programs.

use foreread_measure::cold::{ColdStarts, Start};
use foreread_measure::programs::Program;
use foreread_model::{DiskModel, DiskParameters};
use serde_json::{Value, json};

use super::Result;

/// One document, schema `foreread.demo/1`.
pub fn document(result: &Result) -> Value {
    let sources: Vec<Value> = result
        .tree
        .sources
        .iter()
        .map(|(path, files)| json!({ "path": path.to_string_lossy(), "files": files }))
        .collect();
    let programs: Vec<Value> = result
        .measured
        .iter()
        .map(|(program, measured)| program_json(program, measured))
        .collect();
    json!({
        "schema": "foreread.demo/1",
        "device": device_json(&result.device, &result.parameters),
        "read_ahead_kib": foreread_testbed::READ_AHEAD_KIB_DEFAULT,
        "tree": {
            "files": result.tree.files,
            "bytes": result.tree.bytes,
            "made_up": result.tree.sources.is_empty(),
            "sources": sources,
        },
        "programs": programs,
        "notes": result.notes,
    })
}

fn device_json(name: &str, parameters: &DiskParameters) -> Value {
    let model = match parameters.model {
        DiskModel::Head => "head",
        DiskModel::Parallel => "parallel",
        DiskModel::Instant => "instant",
    };
    json!({
        "name": name,
        "model": model,
        "capacity_bytes": parameters.capacity_bytes,
        "bandwidth_bytes_per_s": parameters.bandwidth_bytes_per_s,
        "latency_ns": parameters.latency_ns,
        "parallel_requests": parameters.parallel_requests,
        "rate_requests_per_s": parameters.rate_requests_per_s,
        "seek_min_ns": parameters.seek_min_ns,
        "seek_span_ns": parameters.seek_span_ns,
        "half_turn_ns": parameters.half_turn_ns,
        "gap_limit_bytes": parameters.gap_limit_bytes,
        "gap_ns": parameters.gap_ns,
    })
}

fn program_json(program: &Program, measured: &ColdStarts) -> Value {
    let starts = |starts: &[Start]| starts.iter().map(start_json).collect::<Vec<_>>();
    json!({
        "name": program.name(),
        "title": program.title(),
        "needed_bytes": measured.needed_bytes,
        "limit_ns": measured.limit_ns(),
        "disk_ns": measured.disk_ns,
        "cached_ns": measured.cached.median_ns(),
        "times_faster": measured.times_faster(),
        "second_over_limit": measured.second_over_limit(),
        "kernel_alone": starts(&measured.kernel),
        "first_runs": starts(&measured.first),
        "second_runs": starts(&measured.second),
    })
}

fn start_json(start: &Start) -> Value {
    json!({
        "wall_ns": start.wall_ns,
        "requests": start.disk.requests,
        "bytes": start.disk.bytes,
        "seeks": start.disk.seeks,
        "busy_ns": start.disk.busy_ns,
        "queue_depth_max": start.disk.queue_depth_max,
        "run": start.report.as_ref().map(|report| &report.document),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::tests::example;

    #[test]
    fn the_document_holds_what_was_measured() {
        let document = document(&example(&[42_800, 42_900, 1_699], 1_300));
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
