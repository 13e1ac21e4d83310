// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread trace head`.

use std::process::ExitCode;

use anyhow::{Context, Result};
use foreread_core::grouped;
use foreread_trace::{Access, Event, Flags, Known};
use serde::Serialize;

use super::args::HeadArguments;
use super::findings::{self, FindingsReport};
use super::input::Input;
use crate::table::{finished, table};
use crate::text;

/// `foreread trace head`.
pub fn head(arguments: &HeadArguments) -> Result<ExitCode> {
    let mut input = Input::open(&arguments.input, arguments.how.options())?;
    let mut known = Known::default();
    let mut accesses = Vec::new();
    while (accesses.len() as u64) < arguments.lines {
        let Some(event) = input
            .events
            .next_event()
            .with_context(|| input.name.clone())?
        else {
            break;
        };
        known.learn(&event);
        if let Event::Access(access) = event {
            accesses.push(access);
        }
    }
    let found = input.events.findings().clone();
    let name = input.name.clone();
    drop(input);
    if arguments.json {
        let rows = accesses.iter();
        text::print_json(&HeadReport {
            schema: "foreread.trace-head/1",
            file: &name,
            accesses: rows
                .map(|access| AccessReport::of(access, &known))
                .collect(),
            findings: FindingsReport::of(&found),
        })?;
    } else {
        text::print(&human(&accesses, &known))?;
        findings::tell(&name, &found);
    }
    Ok(ExitCode::SUCCESS)
}

fn human(accesses: &[Access], known: &Known) -> String {
    let mut rows = table(&[
        "time s",
        "pid",
        "tid",
        "kind",
        "offset",
        "bytes",
        "waited us",
        "took us",
        "file",
    ]);
    for access in accesses {
        let (path, pid, tid) = names(access, known);
        let micros = |ns: Option<u64>| match ns {
            Some(ns) => format!("{:.1}", ns as f64 / 1e3),
            None => "-".to_owned(),
        };
        let mut kind = access.kind.name().to_owned();
        for flag in flags(access.flags) {
            kind += " ";
            kind += flag;
        }
        rows.add_row([
            format!("{:.6}", access.time_ns as f64 / 1e9),
            pid.to_string(),
            tid.to_string(),
            kind,
            grouped(access.offset_bytes),
            grouped(access.length_bytes),
            micros(access.waited_ns),
            micros(access.duration_ns),
            path,
        ]);
    }
    finished(rows, &[3, 8])
}

fn names(access: &Access, known: &Known) -> (String, u32, u32) {
    let path = known
        .file(access.file)
        .map(|file| text::escaped(&file.path));
    let thread = known.thread(access.thread);
    let (pid, tid) = thread.map_or((0, 0), |thread| (thread.pid, thread.tid));
    (path.unwrap_or_default(), pid, tid)
}

fn flags(flags: Flags) -> Vec<&'static str> {
    let names = Flags::NAMES.into_iter();
    names
        .filter(|(flag, _)| flags.contains(*flag))
        .map(|(_, name)| name)
        .collect()
}

/// The first accesses of a trace.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HeadReport<'a> {
    schema: &'static str,
    /// Name of the trace.
    file: &'a str,
    accesses: Vec<AccessReport>,
    /// What could not be read, and what was left out.
    findings: FindingsReport,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct AccessReport {
    /// Time of the trace.
    time_ns: u64,
    /// Number of the process.
    pid: u32,
    /// Number of the thread.
    tid: u32,
    /// Its path.
    file: String,
    /// The number of its open file, from 1; 0 where the trace does not say.
    stream: u32,
    /// How it was accessed.
    kind: &'static str,
    offset_bytes: u64,
    length_bytes: u64,
    /// What else is known of it.
    flags: Vec<&'static str>,
    /// Time of it that the thread waited; none where the trace does not say.
    waited_ns: Option<u64>,
    duration_ns: Option<u64>,
}

impl AccessReport {
    fn of(access: &Access, known: &Known) -> Self {
        let (file, pid, tid) = names(access, known);
        Self {
            time_ns: access.time_ns,
            pid,
            tid,
            file,
            stream: access.stream,
            kind: access.kind.name(),
            offset_bytes: access.offset_bytes,
            length_bytes: access.length_bytes,
            flags: flags(access.flags),
            waited_ns: access.waited_ns,
            duration_ns: access.duration_ns,
        }
    }
}
