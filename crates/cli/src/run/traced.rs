// SPDX-License-Identifier: MIT OR Apache-2.0
//! `record --trace`: each access of a command, as a trace.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use foreread_core::grouped;
use foreread_linux_recorder::{TraceError, TraceRecorder, Traced};
use foreread_sys::child;
use serde::Serialize;

use super::command::{remedy, words};
use crate::alone::not_started;
use crate::args::{RecordArguments, RecorderChoice};
use crate::output;
use crate::text;
use crate::trace::output::Output;

/// How often the recorder's ring buffer is emptied.
const DRAIN_EVERY: Duration = Duration::from_millis(20);

/// Runs the command and writes its trace to `path`.
pub fn record(arguments: &RecordArguments, path: &std::path::Path) -> Result<ExitCode> {
    if !matches!(
        arguments.recorder,
        RecorderChoice::Auto | RecorderChoice::Bpf
    ) {
        bail!("only the BPF recorder sees each access: leave --recorder out with --trace");
    }
    let started = Instant::now();
    let (file, writer) = Output::create(path)?;
    let mut recorder = match TraceRecorder::start(writer, words(&arguments.command)) {
        Ok(recorder) => recorder,
        Err(TraceError::Write(error)) => {
            return Err(error).with_context(|| format!("cannot write {}", path.display()));
        }
        Err(TraceError::Bpf(error)) => bail!(
            "only the BPF recorder can record a trace: {error}; {}",
            remedy()
        ),
    };
    for missing in recorder.lacking() {
        output::note(&missing.to_string());
    }
    let mut running = match child::spawn(&arguments.command) {
        Ok(running) => running,
        Err(error) => return Ok(not_started(&error, &arguments.command)),
    };
    // The command goes on when the trace can't be written.
    let mut written = Ok(());
    let status = running.wait_with(Some(DRAIN_EVERY), || {
        if written.is_ok() {
            written = recorder.drain();
        }
    });
    let took = started.elapsed();
    let cannot = || format!("cannot write {}", path.display());
    written.with_context(cannot)?;
    let (_, traced) = recorder.finish().with_context(cannot)?;
    file.finish()?;
    let document = || text::json(&TracedReport::of(&traced, took));
    output::outcome(arguments.json.then(document), &line(&traced, took));
    child::end_as(status)
}

fn line(traced: &Traced, took: Duration) -> String {
    let mut line = format!(
        "recorded {} accesses of {} files in {:.2} s; {} of them waited, {:.2} s in all",
        grouped(traced.accesses),
        grouped(traced.files),
        took.as_secs_f64(),
        grouped(traced.waited),
        Duration::from_nanos(traced.waited_ns).as_secs_f64(),
    );
    if traced.lost > 0 {
        line += &format!("; {} events were lost", grouped(traced.lost));
    }
    line
}

/// A command whose accesses were recorded.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TracedReport {
    schema: &'static str,
    /// From start to exit of the command.
    wall_ns: u64,
    accesses: u64,
    accesses_that_waited: u64,
    /// Waiting time of all accesses together.
    waited_ns: u64,
    /// Files that were accessed.
    files: u64,
    /// Size of the trace.
    bytes: u64,
    /// Events that the kernel had no room for.
    events_lost: u64,
}

impl TracedReport {
    fn of(traced: &Traced, took: Duration) -> Self {
        Self {
            schema: "foreread.record-trace/1",
            wall_ns: u64::try_from(took.as_nanos()).unwrap_or(u64::MAX),
            accesses: traced.accesses,
            accesses_that_waited: traced.waited,
            waited_ns: traced.waited_ns,
            files: traced.files,
            bytes: traced.bytes,
            events_lost: traced.lost,
        }
    }
}
