// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--csv`: every cell under each policy, one a line, with plain numbers.

use super::json::{CellReport, CompareReport, PolicyReport};
use crate::sim::human::quoted;

const HEADER: &str = "workload,device,memory_kib,read_ahead_kib,unplug,count,held_out,policy,\
                      stall_ns,least,to_linux,elapsed_ns,latency_ns_p99,requests,fetched_pages,\
                      distinct_pages,wasted_pages,windows,thrashes,victim_stall_ns,\
                      victim_latency_ns_p99\n";

pub fn of(report: &CompareReport<'_>) -> String {
    let mut text = HEADER.to_owned();
    for cell in &report.cells {
        let coordinates = coordinates(cell);
        for policy in &cell.policies {
            text += &([&coordinates[..], &numbers(policy)].concat().join(",") + "\n");
        }
    }
    text
}

fn coordinates(cell: &CellReport<'_>) -> [String; 7] {
    let place = &cell.place;
    [
        quoted(place.workload),
        quoted(place.device),
        place.memory_kib.to_string(),
        place.read_ahead_kib.to_string(),
        quoted(place.unplug),
        place.count.to_string(),
        cell.is_held_out.to_string(),
    ]
}

fn numbers(policy: &PolicyReport) -> [String; 14] {
    let some = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
    let ratio = policy.to_linux;
    [
        policy.policy.to_owned(),
        policy.stall_ns.to_string(),
        policy.least.to_string(),
        ratio.map_or(String::new(), |ratio| format!("{ratio:.6}")),
        policy.elapsed_ns.to_string(),
        policy.latency_ns_p99.to_string(),
        policy.requests.to_string(),
        policy.fetched_pages.to_string(),
        policy.distinct_pages.to_string(),
        policy.wasted_pages.to_string(),
        policy.windows.to_string(),
        policy.thrashes.to_string(),
        some(policy.victim_stall_ns),
        some(policy.victim_latency_ns_p99),
    ]
}
