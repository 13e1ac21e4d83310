// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of requests, parts of their lives, who asked; and the stories of the worst.

use std::collections::BTreeMap;

use foreread_blocktrace::{DepthSummary, Group, Leg, Request, Stats, story, time};
use foreread_core::{Bytes, grouped};

use super::Analyzed;
use crate::table::{finished, table};
use crate::text::printable;

/// More groups are no table for people.
const ROWS_MAX: usize = 20;

pub fn of(analyzed: &Analyzed) -> String {
    let report = &analyzed.report;
    let mut text = heading(analyzed);
    text += &devices(analyzed);
    for (name, stats) in [("reads", &report.reads), ("other requests", &report.others)] {
        if stats.requests > 0 {
            text += &legs(name, stats);
        }
    }
    if report.by_process.len() > 1 {
        text += &processes(&report.by_process);
    }
    text += &verdict(analyzed);
    text += &worst(analyzed);
    text + &left_out(analyzed)
}

fn heading(analyzed: &Analyzed) -> String {
    let (first, last) = analyzed.report.span_ns.unwrap_or((0, 0));
    format!(
        "{}: {} events in {}\n",
        printable(&analyzed.source),
        grouped(analyzed.report.counts.events),
        time(last - first),
    )
}

fn kind(is_read: bool) -> &'static str {
    if is_read { "reads" } else { "others" }
}

fn devices(analyzed: &Analyzed) -> String {
    let report = &analyzed.report;
    let mut rows = table(&[
        "device",
        "",
        "requests",
        "data",
        "bios",
        "back merged",
        "front",
        "held back",
        "for",
        "busy",
        "depth mean",
        "max",
    ]);
    for ((group, is_read), stats) in report.by_device.iter().take(ROWS_MAX) {
        let depth = match group {
            Group::Device(device) => report.depths.get(device),
            _ => None,
        };
        rows.add_row([
            name(group),
            kind(*is_read).to_owned(),
            grouped(stats.requests),
            Bytes::new(stats.bytes).human().to_string(),
            grouped(stats.bios),
            grouped(stats.back_merges + stats.merged_with_request),
            grouped(stats.front_merges),
            grouped(stats.held.requests),
            time(stats.held.held_ns),
            depth.map_or(String::new(), busy),
            depth.map_or(String::new(), |depth| {
                format!("{:.2}", depth.in_flight_mean)
            }),
            depth.map_or(String::new(), |depth| grouped(depth.in_flight_max)),
        ]);
    }
    format!(
        "\n{}{}",
        finished(rows, &[0, 1]),
        more(report.by_device.len())
    )
}

fn busy(depth: &DepthSummary) -> String {
    crate::output::percent(depth.busy_ns, depth.traced_ns)
}

fn more(groups: usize) -> String {
    match groups.saturating_sub(ROWS_MAX) {
        0 => String::new(),
        more => format!("and {more} more; --json has them all\n"),
    }
}

fn name(group: &Group) -> String {
    match group {
        Group::Process(name, pid) => format!("{} ({pid})", printable(name)),
        Group::Device(device) => device.to_string(),
        Group::Unknown => "not in the trace".to_owned(),
        Group::Others => "all others".to_owned(),
    }
}

fn legs(name: &str, stats: &Stats) -> String {
    let mut rows = table(&[name, "", "seen", "p50", "p90", "p99", "max"]);
    for leg in Leg::ALL {
        let times = stats.legs.of(leg);
        if times.count() == 0 {
            continue;
        }
        let mut row = vec![
            leg.words().to_owned(),
            leg.name().to_owned(),
            grouped(times.count()),
        ];
        row.extend([500, 900, 990].map(|permille| time(times.permille_ns(permille))));
        row.push(time(times.max_ns()));
        rows.add_row(row);
    }
    format!("\n{}", finished(rows, &[0, 1]))
}

fn processes(by_process: &BTreeMap<(Group, bool), Stats>) -> String {
    let mut rows = table(&[
        "process",
        "",
        "requests",
        "data",
        "Q2D p50",
        "p99",
        "max",
        "D2C p50",
        "p99",
        "held back",
        "for",
    ]);
    let mut sorted: Vec<_> = by_process.iter().collect();
    sorted.sort_by_key(|(_, stats)| std::cmp::Reverse((stats.held.held_ns, stats.requests)));
    for ((group, is_read), stats) in sorted.into_iter().take(ROWS_MAX) {
        let before = |permille| known(stats, Leg::QueueToIssue, permille);
        let device = |permille| known(stats, Leg::IssueToComplete, permille);
        rows.add_row([
            name(group),
            kind(*is_read).to_owned(),
            grouped(stats.requests),
            Bytes::new(stats.bytes).human().to_string(),
            before(500),
            before(990),
            before(1000),
            device(500),
            device(990),
            grouped(stats.held.requests),
            time(stats.held.held_ns),
        ]);
    }
    format!("\n{}{}", finished(rows, &[0, 1]), more(by_process.len()))
}

/// Time that `permille` of the requests do not exceed; `-` if no request in the trace has this leg.
fn known(stats: &Stats, leg: Leg, permille: u64) -> String {
    let times = stats.legs.of(leg);
    match times.count() {
        0 => "-".to_owned(),
        _ => time(times.permille_ns(permille)),
    }
}

fn verdict(analyzed: &Analyzed) -> String {
    let report = &analyzed.report;
    let over = time(analyzed.held_over_ns);
    let stats = match report.reads.requests {
        0 => &report.others,
        _ => &report.reads,
    };
    let what = if report.reads.requests == 0 {
        "requests"
    } else {
        "reads"
    };
    if stats.held.requests == 0 {
        let longest = time(stats.legs.of(Leg::QueueToIssue).max_ns());
        return format!(
            "\nNo {what} were held back for {over} or longer; at most {longest} from \
                        queue to issue.\n"
        );
    }
    let mut by = Vec::new();
    for (held, who) in [
        (&stats.by_plug, "a plug"),
        (&stats.by_scheduler, "the scheduler"),
    ] {
        if held.requests > 0 {
            let (requests, ns) = (grouped(held.requests), time(held.held_ns));
            by.push(format!("{requests} by {who} for {ns} in all"));
        }
    }
    let idle_ns: u64 = report
        .depths
        .values()
        .map(|d| d.idle_while_reads_waited_ns)
        .sum();
    let idle = match (idle_ns, report.depths.len()) {
        (0, _) => String::new(),
        (ns, 1) => format!(
            " The device stood idle for {} while reads waited.",
            time(ns)
        ),
        (ns, _) => format!(
            " Devices stood idle for {} in all while reads waited.",
            time(ns)
        ),
    };
    format!(
        "\nHeld back for {over} or longer: {} of {} {what}: {}.{idle}\n",
        grouped(stats.held.requests),
        grouped(stats.requests),
        by.join(", "),
    )
}

fn worst(analyzed: &Analyzed) -> String {
    let report = &analyzed.report;
    if report.worst.is_empty() {
        return String::new();
    }
    let (first_ns, _) = report.span_ns.unwrap_or((0, 0));
    let mut text = "\nThe worst, with their time since the first event:\n".to_owned();
    for request in &report.worst {
        let since_ns = request.begin_ns().saturating_sub(first_ns);
        text += &format!(
            "  {:>12.6} s  {}\n",
            since_ns as f64 / 1e9,
            line(request, analyzed.held_over_ns)
        );
    }
    text
}

/// One request in one line.
pub fn line(request: &Request, over_ns: u64) -> String {
    let asker = request
        .asker()
        .map_or("asked before the trace".to_owned(), |bio| {
            format!("{} ({})", printable(&bio.process), bio.pid)
        });
    format!(
        "{} {} {}+{} {asker}: {}",
        request.device,
        request.rwbs.0,
        request.sector,
        request.sectors,
        printable(&story(request, over_ns)),
    )
}

/// Counts of requests that the tables leave out, wholly or in part.
fn left_out(analyzed: &Analyzed) -> String {
    let counts = &analyzed.report.counts;
    let incomplete = analyzed.report.reads.incomplete + analyzed.report.others.incomplete;
    let counted = [
        (
            incomplete,
            "requests have a part of their life outside of the trace",
        ),
        (
            counts.lost,
            "events were lost: what they belong to is incomplete or missing",
        ),
        (analyzed.bad_lines, "lines could not be read"),
        (
            counts.unknown_actions,
            "events have an action that is not known here",
        ),
        (
            analyzed.report.late_events,
            "events came too late to be put in order",
        ),
        (
            counts.given_up,
            "requests or bios were given up, for too many were under way",
        ),
        (
            counts.of_other_devices,
            "events are of devices beyond the first 256",
        ),
    ];
    let counted = counted.into_iter().filter(|(count, _)| *count > 0);
    let lines: String = counted
        .map(|(n, what)| format!("{} {what}\n", grouped(n)))
        .collect();
    match lines.as_str() {
        "" => lines,
        _ => format!("\n{lines}"),
    }
}
