// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread trace info`.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::{Context, Result};
use foreread_core::{Bytes, grouped};
use foreread_trace::{Findings, Header, Kind, Summary, TimeIs};
use serde_json::{Value, json};

use super::args::InfoArguments;
use super::input::Input;
use super::{exit_code, findings};
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
        text::print_json(&document(&name, &header, &summary, &found))?;
    } else {
        text::print(&people(&header, &summary, &found))?;
        findings::tell(&name, &found);
    }
    Ok(exit_code(&found))
}

fn people(header: &Header, summary: &Summary, found: &Findings) -> String {
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

fn document(name: &str, header: &Header, summary: &Summary, found: &Findings) -> Value {
    let kinds = Kind::ALL.iter().zip(summary.accesses);
    let kinds: serde_json::Map<_, _> = kinds
        .map(|(kind, count)| (kind.name().to_owned(), json!(count)))
        .collect();
    let command = header.command.iter();
    let (pages, is_exact) = summary.distinct_pages();
    json!({
        "schema": "foreread.trace-info/1",
        "file": name,
        "source": header.source.name(),
        "time_is": header.time_is.name(),
        "started_unix_ns": header.started_unix_ns,
        "command": command.map(|word| text::escaped(word)).collect::<Vec<_>>(),
        "kernel": text::escaped(&header.kernel),
        "page_bytes": header.page_bytes,
        "first_ns": summary.times_ns.map(|times| times.0),
        "last_ns": summary.times_ns.map(|times| times.1),
        "threads": summary.threads,
        "files": summary.files,
        "extents": summary.extents,
        "accesses": kinds,
        "read_bytes": summary.bytes,
        "distinct_pages": pages,
        "distinct_pages_exact": is_exact,
        "sequential": summary.sequential,
        "reads": summary.reads(),
        "accesses_with_waited": summary.with_waited,
        "accesses_that_waited": summary.waited,
        "waited_ns": summary.waited_ns,
        "left_out": findings::left_out(found),
        "findings": findings::document(found),
    })
}
