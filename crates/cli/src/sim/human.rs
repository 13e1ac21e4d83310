// SPDX-License-Identifier: MIT OR Apache-2.0
//! One table of all runs, for people and as CSV, and what was expected of them.

use foreread_core::{Bytes, grouped};
use foreread_sim::engine::{Outcome, Stats};
use foreread_sim::scenario::{Checked, Combination, Metric, Tolerance};

use super::Ran;
use crate::table::{finished, table};
use crate::text::printable;

const PAGE_KIB: u64 = 4;

pub fn of(ran: &Ran) -> String {
    let mut text = String::new();
    if !ran.scenario.about.is_empty() {
        text += &format!("{}\n\n", printable(&ran.scenario.about.replace('\n', " ")));
    }
    text += &runs_table(ran);
    if ran.runs.len() == 1 {
        text += &parts_table(ran);
    }
    if !ran.checked.is_empty() {
        text += &format!("\n{}", expected_table(ran));
    }
    text
}

/// A column: its name, and its cell for a run.
pub type Column<'a> = (&'static str, Box<dyn Fn(&Combination) -> String + 'a>);
/// Picks the part of a run that a number stands for.
type Part<'a> = &'a dyn Fn(&Outcome, usize) -> Stats;

/// The coordinates of a run: policy, device and window always, others where they differ.
pub fn coordinates(ran: &Ran) -> Vec<Column<'_>> {
    let scenario = &ran.scenario;
    let mut columns: Vec<Column<'_>> = vec![
        ("policy", Box::new(|run| run.policy.to_string())),
        ("device", Box::new(|run| printable(&run.device.name))),
        (
            "read-ahead",
            Box::new(|run| kib(u64::from(run.read_ahead_pages))),
        ),
    ];
    if scenario.memory_pages.len() > 1 {
        columns.push(("memory", Box::new(|run| kib(run.memory_pages))));
    }
    if scenario.queues.len() > 1 {
        let name = |run: &Combination| scenario.queues[run.queue].0.clone();
        columns.push(("unplug", Box::new(name)));
    }
    if scenario.counts.len() > 1 {
        columns.push(("programs", Box::new(|run| run.count.to_string())));
    }
    columns
}

/// So many pages, as people type them: `128K`, `256M`.
pub fn kib(pages: u64) -> String {
    let kib = pages * PAGE_KIB;
    match kib {
        kib if kib >= 1 << 20 && kib.is_multiple_of(1 << 20) => format!("{}G", kib >> 20),
        kib if kib >= 1024 && kib.is_multiple_of(1024) => format!("{}M", kib >> 10),
        kib => format!("{kib}K"),
    }
}

fn runs_table(ran: &Ran) -> String {
    let coordinates = coordinates(ran);
    let mut header: Vec<&str> = coordinates.iter().map(|(name, _)| *name).collect();
    let left: Vec<usize> = vec![0, 1];
    header.extend([
        "time",
        "MB/s",
        "waited",
        "requests",
        "seeks",
        "fetched",
        "on time",
        "late",
        "wasted",
        "unused",
        "in flight",
        "ampl.",
        "p99",
        "max",
    ]);
    let mut rows = table(&header);
    for (run, outcome) in ran.runs.iter().zip(&ran.outcomes) {
        let mut row: Vec<String> = coordinates.iter().map(|(_, of)| of(run)).collect();
        row.push(time(outcome.elapsed_ns));
        row.push(format!("{:.1}", outcome.bytes_per_s() / 1e6));
        row.extend(counted(&outcome.total));
        rows.add_row(row);
    }
    finished(rows, &left)
}

/// The columns that runs and their parts share.
fn counted(stats: &Stats) -> Vec<String> {
    let pages = &stats.pages;
    let amplification = pages.amplification();
    vec![
        time(stats.stall_ns),
        grouped(stats.requests),
        grouped(stats.seeks),
        grouped(pages.fetched),
        grouped(pages.used_on_time),
        grouped(pages.used_late),
        grouped(pages.wasted),
        grouped(pages.resident_unused),
        grouped(pages.in_flight),
        amplification.map_or("-".to_owned(), |times| format!("{times:.2}")),
        time(stats.latencies.permille_ns(990)),
        time(stats.latencies.max_ns()),
    ]
}

/// Programs and files of a single run, where there are several but not too many for people.
fn parts_table(ran: &Ran) -> String {
    const ROWS_MAX: usize = 40;
    let (Some(run), Some(outcome)) = (ran.runs.first(), ran.outcomes.first()) else {
        return String::new();
    };
    let setup = ran.scenario.setup(run);
    let mut text = String::new();
    let programs = setup.programs.iter().map(|program| &program.name);
    let files = setup.files.iter().map(|file| &file.name);
    let by_program = |outcome: &Outcome, at| outcome.part(|program, _| program == at);
    let by_file = |outcome: &Outcome, at| outcome.part(|_, file| file == at);
    let kinds: [(&str, Vec<&String>, Part<'_>); 2] = [
        ("program", programs.collect(), &by_program),
        ("file", files.collect(), &by_file),
    ];
    for (kind, names, part) in kinds {
        if !(2..=ROWS_MAX).contains(&names.len()) {
            continue;
        }
        let mut rows = table(&[
            kind,
            "waited",
            "requests",
            "seeks",
            "fetched",
            "on time",
            "late",
            "wasted",
            "unused",
            "in flight",
            "ampl.",
            "p99",
            "max",
        ]);
        for (at, name) in names.iter().enumerate() {
            let mut row = vec![printable(name)];
            row.extend(counted(&part(outcome, at)));
            rows.add_row(row);
        }
        text += &format!("\n{}", finished(rows, &[0]));
    }
    text
}

fn expected_table(ran: &Ran) -> String {
    let coordinates = coordinates(ran);
    let mut header: Vec<&str> = coordinates.iter().map(|(name, _)| *name).collect();
    header.extend(["", "expected", "got", "within", "", "why"]);
    let last = header.len() - 1;
    let mut rows = table(&header);
    for row in &ran.checked {
        let Some(run) = ran.runs.get(row.run) else {
            continue;
        };
        let mut cells: Vec<String> = coordinates.iter().map(|(_, of)| of(run)).collect();
        cells.extend([
            row.metric.name().to_owned(),
            number(row.metric, row.expected),
            number(row.metric, row.got),
            tolerance(row),
            if row.reached { "reached" } else { "short" }.to_owned(),
            why(row),
        ]);
        rows.add_row(cells);
    }
    let reached = ran.checked.iter().filter(|row| row.reached).count();
    let all = ran.checked.len();
    format!(
        "{}\n{reached} of {all} rows reached\n",
        finished(rows, &[0, 1, last - 5, last - 1, last])
    )
}

fn number(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Seconds | Metric::TimesAsLong => format!("{value:.2}"),
        _ => format!("{value:.1}"),
    }
}

fn tolerance(row: &Checked) -> String {
    match row.tolerance {
        Tolerance::Percent(percent) => format!("{percent} %"),
        Tolerance::Absolute(value) => format!("{value}"),
        Tolerance::AtLeast => "at least".to_owned(),
        Tolerance::AtMost => "at most".to_owned(),
    }
}

fn why(row: &Checked) -> String {
    match (&row.known_short, row.reached) {
        (Some(reason), false) => printable(reason),
        _ if row.fitted => "fitted".to_owned(),
        _ => printable(&row.mark),
    }
}

/// A time with three digits: `1.23 ms`.
pub fn time(ns: u64) -> String {
    let value = ns as f64;
    let (scaled, unit) = match ns {
        0 => return "0".to_owned(),
        1..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (value / 1e3, "us"),
        1_000_000..1_000_000_000 => (value / 1e6, "ms"),
        _ => (value / 1e9, "s"),
    };
    match scaled {
        scaled if scaled >= 100.0 => format!("{scaled:.0} {unit}"),
        scaled if scaled >= 10.0 => format!("{scaled:.1} {unit}"),
        scaled => format!("{scaled:.2} {unit}"),
    }
}

/// Bytes for people.
pub fn size(bytes: u64) -> String {
    Bytes::new(bytes).human().to_string()
}

/// All runs, one a line, with plain numbers.
pub fn csv(ran: &Ran) -> String {
    let mut text = String::from(
        "policy,device,read_ahead_kib,memory_kib,unplug,programs,elapsed_ns,bytes_per_s,stall_ns,\
         requests,request_bytes,seeks,fetched_pages,used_on_time_pages,used_late_pages,\
         wasted_pages,resident_unused_pages,in_flight_pages,accesses,distinct_pages,refaults,\
         thrashes,latency_ns_p50,latency_ns_p99,latency_ns_max\n",
    );
    for (run, outcome) in ran.runs.iter().zip(&ran.outcomes) {
        let (stats, pages) = (&outcome.total, &outcome.total.pages);
        let cells = [
            run.policy.to_string(),
            quoted(&run.device.name),
            (u64::from(run.read_ahead_pages) * PAGE_KIB).to_string(),
            (run.memory_pages * PAGE_KIB).to_string(),
            quoted(&ran.scenario.queues[run.queue].0),
            outcome.programs.len().to_string(),
            outcome.elapsed_ns.to_string(),
            bytes_per_s(outcome).to_string(),
            stats.stall_ns.to_string(),
            stats.requests.to_string(),
            stats.request_bytes.to_string(),
            stats.seeks.to_string(),
            pages.fetched.to_string(),
            pages.used_on_time.to_string(),
            pages.used_late.to_string(),
            pages.wasted.to_string(),
            pages.resident_unused.to_string(),
            pages.in_flight.to_string(),
            pages.accesses.to_string(),
            pages.distinct.to_string(),
            pages.refaults.to_string(),
            pages.thrashes.to_string(),
            stats.latencies.permille_ns(500).to_string(),
            stats.latencies.permille_ns(990).to_string(),
            stats.latencies.max_ns().to_string(),
        ];
        text += &(cells.join(",") + "\n");
    }
    text
}

/// Throughput as programs read it: the same number in CSV and JSON.
pub fn bytes_per_s(outcome: &Outcome) -> u64 {
    outcome.bytes_per_s().round() as u64
}

/// A cell of CSV, quoted where it has to be (RFC 4180).
pub fn quoted(name: &str) -> String {
    if name.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        name.to_owned()
    }
}
