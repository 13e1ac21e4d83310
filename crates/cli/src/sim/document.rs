// SPDX-License-Identifier: MIT OR Apache-2.0
//! All runs for programs: `foreread.sim/1`. `docs/sim.md` describes the fields.

use foreread_core::policy::Reason;
use foreread_sim::engine::{Explained, Explanation, Outcome, Stats};
use foreread_sim::scenario::Checked;
use serde_json::{Value, json};

use super::Ran;

const PAGE_KIB: u64 = 4;

pub fn of(ran: &Ran, with_streams: bool) -> Value {
    let runs = ran.runs.iter().zip(&ran.outcomes);
    let runs: Vec<Value> = runs
        .map(|(run, outcome)| {
            let setup = ran.scenario.setup(run);
            let mut value = json!({
                "policy": run.policy.name(),
                "device": run.device.name,
                "read_ahead_kib": u64::from(run.read_ahead_pages) * PAGE_KIB,
                "memory_kib": run.memory_pages * PAGE_KIB,
                "unplug": ran.scenario.queues[run.queue].0,
                "count": run.count,
                "elapsed_ns": outcome.elapsed_ns,
                "bytes_per_s": outcome.bytes_per_s().round() as u64,
                "total": stats(&outcome.total),
                "programs": programs(outcome, &setup),
                "files": files(outcome, &setup),
                "disks": disks(outcome),
            });
            if with_streams {
                value["streams"] = streams(outcome, &setup);
            }
            if let Some(explanation) = &outcome.explanation {
                value["explanation"] = explained(explanation);
            }
            value
        })
        .collect();
    json!({
        "schema": "foreread.sim/1",
        "scenario": ran.scenario.file,
        "about": ran.scenario.about,
        "page_bytes": PAGE_KIB * 1024,
        "fit": ran.scenario.fit_notes().map(|fit| json!({
            "parameters": fit.parameters,
            "how": fit.how,
        })),
        "runs": runs,
        "expected": ran.checked.iter().map(checked).collect::<Vec<_>>(),
    })
}

fn stats(stats: &Stats) -> Value {
    let pages = &stats.pages;
    let decided = Reason::ALL
        .iter()
        .filter(|reason| stats.reason(**reason) > 0);
    let reasons: serde_json::Map<String, Value> = decided
        .map(|reason| (reason.name().to_owned(), stats.reason(*reason).into()))
        .collect();
    json!({
        "fetched_pages": pages.fetched,
        "used_on_time_pages": pages.used_on_time,
        "used_late_pages": pages.used_late,
        "wasted_pages": pages.wasted,
        "resident_unused_pages": pages.resident_unused,
        "in_flight_pages": pages.in_flight,
        "accesses": pages.accesses,
        "distinct_pages": pages.distinct,
        "amplification": pages.amplification(),
        "refaults": pages.refaults,
        "thrashes": pages.thrashes,
        "calls": stats.calls,
        "stall_ns": stats.stall_ns,
        "latency_ns_p50": stats.latencies.permille_ns(500),
        "latency_ns_p99": stats.latencies.permille_ns(990),
        "latency_ns_max": stats.latencies.max_ns(),
        "requests": stats.requests,
        "request_bytes": stats.request_bytes,
        "seeks": stats.seeks,
        "windows": stats.windows,
        "window_pages": stats.window_pages,
        "decisions": reasons,
    })
}

fn programs(outcome: &Outcome, setup: &foreread_sim::engine::Setup) -> Value {
    let programs = outcome.programs.iter().zip(&setup.programs).enumerate();
    programs
        .map(|(at, (program, setup))| {
            json!({
                "name": setup.name,
                "elapsed_ns": program.elapsed_ns,
                "finished": program.finished,
                "read_bytes": program.read_bytes,
                "total": stats(&outcome.part(|of, _| of == at)),
            })
        })
        .collect()
}

fn files(outcome: &Outcome, setup: &foreread_sim::engine::Setup) -> Value {
    let files = setup.files.iter().enumerate();
    files
        .map(|(at, file)| {
            json!({
                "name": file.name,
                "bytes": file.bytes,
                "disk": file.disk,
                "total": stats(&outcome.part(|_, of| of == at)),
            })
        })
        .collect()
}

fn streams(outcome: &Outcome, setup: &foreread_sim::engine::Setup) -> Value {
    let streams = outcome.streams.iter();
    streams
        .map(|stream| {
            json!({
                "program": setup.programs[stream.program].name,
                "file": setup.files[stream.file].name,
                "total": stats(&stream.stats),
            })
        })
        .collect()
}

fn disks(outcome: &Outcome) -> Value {
    let disks = outcome.disks.iter();
    disks
        .map(|disk| {
            json!({
                "requests": disk.requests,
                "bytes": disk.bytes,
                "busy_ns": disk.busy_ns,
                "seeks": disk.seeks,
                "gaps": disk.gaps,
                "queue_depth_max": disk.queue_depth_max,
            })
        })
        .collect()
}

fn checked(row: &Checked) -> Value {
    json!({
        "run": row.run,
        "against": row.against,
        "metric": row.metric.name(),
        "expected": row.expected,
        "got": row.got,
        "reached": row.reached,
        "fitted": row.fitted,
        "mark": row.mark,
        "short": row.known_short,
    })
}

fn explained(explanation: &Explanation) -> Value {
    let call = &explanation.call;
    json!({
        "access": call.call,
        "start_ns": call.start_ns,
        "took_ns": call.took_ns,
        "stall_ns": call.stall_ns,
        "offset_bytes": call.offset_bytes,
        "bytes": call.bytes,
        "decisions": explanation.decisions.iter().map(decision).collect::<Vec<_>>(),
    })
}

fn decision(explained: &Explained) -> Value {
    let windows = explained.decision.windows().iter();
    let windows = windows.map(|window| {
        json!({
            "start": window.start(),
            "size": window.size(),
            "async_size": window.async_size(),
            "read_pages": window.read_pages(),
            "order": window.order(),
        })
    });
    let before = &explained.before;
    json!({
        "time_ns": explained.time_ns,
        "access": explained.call,
        "kind": format!("{:?}", explained.access.kind),
        "index": explained.access.index,
        "req_pages": explained.access.req_pages,
        "saw_pages": explained.decision.saw_pages,
        "max_pages": explained.decision.max_pages,
        "reason": explained.decision.reason.name(),
        "meaning": explained.decision.reason.meaning(),
        "windows": windows.collect::<Vec<_>>(),
        "fetched_pages": explained.fetched_pages,
        "before": {
            "start": before.start,
            "size": before.size,
            "async_size": before.async_size,
            "ra_pages": before.ra_pages,
            "mmap_miss": before.mmap_miss,
            "order": before.order,
        },
    })
}
