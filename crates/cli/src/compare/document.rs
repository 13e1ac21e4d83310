// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every cell and the summaries for programs: `foreread.compare/1`. `docs/compare.md` describes the
//! fields.

use foreread_sim::matrix::{Cell, Numbers, Summary};
use serde_json::{Map, Value, json};

use super::{Compared, Part};

const PAGE_KIB: u64 = 4;

pub fn of(compared: &Compared) -> Value {
    let matrix = &compared.matrix;
    let workloads = matrix.workloads.iter().enumerate();
    let workloads = workloads.map(|(number, workload)| {
        json!({
            "name": workload.name,
            "workload": workload.scenario.workload,
            "about": workload.scenario.about,
            "random": workload.scenario.is_random,
            "held_out": compared.held_out.as_ref().map(|held| held[number]),
        })
    });
    let policies = matrix.policies.iter().map(|policy| policy.name());
    let parts = compared.parts();
    let parts = parts.iter().map(|part| summaries(compared, part));
    let cells = matrix.cells.iter().map(|at| cell(compared, at));
    json!({
        "schema": "foreread.compare/1",
        "page_bytes": PAGE_KIB * 1024,
        "policies": policies.collect::<Vec<_>>(),
        "workloads": workloads.collect::<Vec<_>>(),
        "parts": parts.collect::<Vec<_>>(),
        "cells": cells.collect::<Vec<_>>(),
    })
}

fn summaries(compared: &Compared, part: &Part) -> Value {
    let matrix = &compared.matrix;
    let in_part = |cell: &&Cell| compared.is_in(part, cell);
    let cells = || matrix.cells.iter().filter(in_part);
    let places = 0..matrix.policies.len();
    let policies = places.map(|place| {
        summary(
            compared,
            &matrix.summary(place, |cell| compared.is_in(part, cell)),
        )
    });
    json!({
        "held_out": part.held_out,
        "workloads": compared.workloads(part),
        "cells": cells().count(),
        "equal_cells": cells().filter(|cell| matrix.is_equal(cell)).count(),
        "policies": policies.collect::<Vec<_>>(),
    })
}

fn summary(compared: &Compared, summary: &Summary) -> Value {
    let worst = summary.worst.map(|worst| {
        let mut value = place(compared, &compared.matrix.cells[worst.cell]);
        value.insert("to_linux".to_owned(), worst.to_base.into());
        Value::Object(value)
    });
    json!({
        "policy": summary.policy.name(),
        "least_cells": summary.least_cells,
        "stall_ns": u64::try_from(summary.stall_ns).unwrap_or(u64::MAX),
        "to_linux": summary.to_base,
        "to_linux_mean": summary.to_base_mean,
        "to_linux_median": summary.to_base_median,
        "worst": worst,
        "to_oracle": summary.to_oracle,
        "to_oracle_median": summary.to_oracle_median,
        "amplification": summary.amplification,
        "random_amplification": summary.random_amplification,
        "thrash_percent": summary.thrash_percent,
    })
}

/// The coordinates of a cell.
fn place(compared: &Compared, cell: &Cell) -> Map<String, Value> {
    let workload = &compared.matrix.workloads[cell.workload];
    let run = &cell.run;
    let fields = [
        ("workload", Value::from(workload.name.clone())),
        ("device", run.device.name.clone().into()),
        ("memory_kib", (run.memory_pages * PAGE_KIB).into()),
        (
            "read_ahead_kib",
            (u64::from(run.read_ahead_pages) * PAGE_KIB).into(),
        ),
        (
            "unplug",
            workload.scenario.queues[run.queue].0.clone().into(),
        ),
        ("count", run.count.into()),
    ];
    let fields = fields.into_iter();
    fields
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn cell(compared: &Compared, cell: &Cell) -> Value {
    let matrix = &compared.matrix;
    let policies = matrix.policies.iter().zip(&cell.numbers).enumerate();
    let policies = policies.map(|(place, (policy, numbers))| {
        let mut value = counted(numbers);
        value["policy"] = policy.name().into();
        value["least"] = matrix.is_least(cell, place).into();
        value["to_linux"] = matrix.to_base(cell, place).into();
        value["to_oracle"] = matrix.to_oracle(cell, place).into();
        value
    });
    let mut value = place(compared, cell);
    let more = [
        ("least_stall_ns", Value::from(matrix.least_ns(cell))),
        ("equal", matrix.is_equal(cell).into()),
        ("policies", policies.collect()),
    ];
    value.extend(more.map(|(name, value)| (name.to_owned(), value)));
    Value::Object(value)
}

fn counted(numbers: &Numbers) -> Value {
    json!({
        "stall_ns": numbers.stall_ns,
        "elapsed_ns": numbers.elapsed_ns,
        "latency_ns_p99": numbers.latency_ns_p99,
        "requests": numbers.requests,
        "fetched_pages": numbers.fetched_pages,
        "distinct_pages": numbers.distinct_pages,
        "wasted_pages": numbers.wasted_pages,
        "amplification": numbers.amplification(),
        "windows": numbers.windows,
        "thrashes": numbers.thrashes,
        "thrash_percent": numbers.thrash_percent(),
        "victim_stall_ns": numbers.victim.map(|victim| victim.stall_ns),
        "victim_latency_ns_p99": numbers.victim.map(|victim| victim.latency_ns_p99),
    })
}
