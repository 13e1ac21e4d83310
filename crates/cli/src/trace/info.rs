// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread trace info`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::{Context, Result};
use foreread_core::{Bytes, grouped};
use foreread_trace::{Findings, Header, Kind, Summary, TimeIs};
use serde::Serialize;

use super::args::InfoArguments;
use super::exit_code;
use super::findings::{self, FindingsReport};
use super::input::Input;
use crate::output::percent;
use crate::text;

/// `foreread trace info`. The whole trace is read.
pub fn info(arguments: &InfoArguments) -> Result<ExitCode> {
    let mut input = Input::open(&arguments.input, arguments.how.options())?;
    let header = input.events.header().clone();
    let mut summary = Summary::new(header.page_bytes);
    while let Some(event) = input
        .events
        .next_event()
        .with_context(|| input.name.clone())?
    {
        summary.add(&event);
    }
    let found = input.events.findings().clone();
    let name = input.name.clone();
    // Nothing is drawn over what follows.
    drop(input);
    if arguments.json {
        text::print_json(&InfoReport::of(&name, &header, &summary, &found))?;
    } else {
        text::print(&human(&header, &summary, &found))?;
        findings::tell(&name, &found);
    }
    Ok(exit_code(&found))
}

fn human(header: &Header, summary: &Summary, found: &Findings) -> String {
    let mut out = String::new();
    let mut line = |what: &str, value: &str| {
        // Writing to a string can't fail.
        let _ = writeln!(out, "{what:<13}{value}");
    };
    line("source", header.source.name());
    if let Some(ns) = header.started_unix_ns {
        line("started", &text::date(ns / 1_000_000_000));
    }
    if !header.command.is_empty() {
        line("command", &text::command_line(&header.command));
    }
    if !header.kernel.is_empty() {
        line("kernel", &text::escaped(&header.kernel));
    }
    let (first_ns, last_ns) = summary.times_ns.unwrap_or((0, 0));
    let meaning = match header.time_is {
        TimeIs::Returned => "; times are those of the return",
        TimeIs::Began => "; times are those of the beginning",
        TimeIs::Order => "; only their order is known",
    };
    let lasts = seconds(last_ns - first_ns);
    line("lasts", &format!("{lasts}{meaning}"));
    line("threads", &grouped(summary.threads));
    line("files", &grouped(summary.files));
    let kinds = Kind::ALL.iter().zip(summary.accesses);
    let kinds: Vec<String> = kinds
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| format!("{} {kind}", grouped(count)))
        .collect();
    line("accesses", &kinds.join(", "));
    let reads = summary.reads();
    let (pages, is_exact) = summary.distinct_pages();
    let about = if is_exact { "" } else { "about " };
    let distinct = pages.saturating_mul(u64::from(header.page_bytes));
    let bytes = Bytes::new(summary.bytes).human().to_string();
    line("read", &bytes);
    let distinct = Bytes::new(distinct).human();
    line(
        "distinct",
        &format!("{about}{distinct} in {} pages", grouped(pages)),
    );
    let sequential = percent(summary.sequential, reads);
    line("sequential", &format!("{sequential} of reads"));
    if summary.with_waited > 0 {
        let share = percent(summary.waited, summary.with_waited);
        let waited = seconds(summary.waited_ns);
        line("waited", &format!("{waited} in {share} of accesses"));
    }
    for (what, count) in found.left_out.iter() {
        line("left out", &format!("{} {}", grouped(count), what.words()));
    }
    out
}

/// With a millisecond's precision, or what there is below.
fn seconds(ns: u64) -> String {
    match ns {
        0..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.3} s", ns as f64 / 1e9),
    }
}

/// A trace.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct InfoReport<'a> {
    schema: &'static str,
    /// Name of the trace.
    file: &'a str,
    /// The program that recorded it.
    source: &'static str,
    /// The end of an access that its time is of.
    time_is: &'static str,
    started_unix_ns: Option<u64>,
    /// The command that was recorded.
    command: Vec<String>,
    /// Kernel release of the machine.
    kernel: String,
    page_bytes: u32,
    /// Times of the first access and of the last.
    first_ns: Option<u64>,
    last_ns: Option<u64>,
    /// Threads in it.
    threads: u64,
    files: u64,
    /// Extents of all files.
    extents: u64,
    /// Accesses by the name of their kind.
    accesses: BTreeMap<&'static str, u64>,
    /// Bytes of all reads.
    read_bytes: u64,
    /// Different pages read.
    distinct_pages: u64,
    /// Whether `distinct_pages` is exact; else it is an estimate.
    distinct_pages_exact: bool,
    /// Reads that begin where the one before in the same stream ended.
    sequential: u64,
    reads: u64,
    /// Accesses whose waiting time is known.
    accesses_with_waited: u64,
    accesses_that_waited: u64,
    /// Waiting time of all accesses together.
    waited_ns: u64,
    /// Accesses that are not in the trace, by their kind.
    left_out: BTreeMap<&'static str, u64>,
    /// What could not be read, and what was left out.
    findings: FindingsReport,
}

impl<'a> InfoReport<'a> {
    fn of(name: &'a str, header: &Header, summary: &Summary, found: &Findings) -> Self {
        let kinds = Kind::ALL.iter().zip(summary.accesses);
        let command = header.command.iter();
        let (distinct_pages, distinct_pages_exact) = summary.distinct_pages();
        Self {
            schema: "foreread.trace-info/1",
            file: name,
            source: header.source.name(),
            time_is: header.time_is.name(),
            started_unix_ns: header.started_unix_ns,
            command: command.map(|word| text::escaped(word)).collect(),
            kernel: text::escaped(&header.kernel),
            page_bytes: header.page_bytes,
            first_ns: summary.times_ns.map(|times| times.0),
            last_ns: summary.times_ns.map(|times| times.1),
            threads: summary.threads,
            files: summary.files,
            extents: summary.extents,
            accesses: kinds.map(|(kind, count)| (kind.name(), count)).collect(),
            read_bytes: summary.bytes,
            distinct_pages,
            distinct_pages_exact,
            sequential: summary.sequential,
            reads: summary.reads(),
            accesses_with_waited: summary.with_waited,
            accesses_that_waited: summary.waited,
            waited_ns: summary.waited_ns,
            left_out: findings::left_out(found),
            findings: FindingsReport::of(found),
        }
    }
}
