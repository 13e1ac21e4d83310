// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--live`: events of the running kernel instead of a text.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use foreread_blocktrace::{Action, Analysis, Event, Letters, Options, Order, Rwbs};
use foreread_linux_blocks::{BlockWatcher, DISKS_MAX, Disk, find};
use foreread_sys::child;
use foreread_sys::interrupt::Interrupt;
use foreread_sys::save;

use super::Analyzed;
use crate::alone::not_started;
use crate::args::AnalyzeArguments;
use crate::output;

/// How often the ring is emptied.
const DRAIN_EVERY: Duration = Duration::from_millis(10);

/// Where events go: into the analysis, and into a file if one is asked for.
struct Sink {
    analysis: Analysis,
    order: Order,
    saved: Option<BufWriter<File>>,
    last: Option<Event>,
}

/// The analysis, and the exit status of the command, if there was one.
pub struct Watched {
    pub analyzed: Analyzed,
    pub status: Option<ExitStatus>,
}

/// Watches until the command ends, the time is over or the user interrupts.
///
/// # Errors
/// As an exit code where the command could not be started.
pub fn watch(arguments: &AnalyzeArguments, options: Options) -> Result<Result<Watched, ExitCode>> {
    let disks = disks(arguments)?;
    let held_over_ns = options.held_over_ns;
    let mut sink = Sink {
        analysis: Analysis::new(options),
        order: Order::default(),
        saved: match &arguments.output {
            Some(path) => Some(BufWriter::new(
                save::create(path).with_context(saving(path))?,
            )),
            None => None,
        },
        last: None,
    };
    let watcher = BlockWatcher::start(&disks)?;
    for missing in watcher.lacking() {
        output::note(&missing.to_string());
    }
    let status = if arguments.command.is_empty() {
        let limit = arguments.for_ns.map(Duration::from_nanos);
        until_interrupted(&watcher, &mut sink, limit)?;
        None
    } else {
        match during(&watcher, &mut sink, arguments)? {
            Ok(status) => Some(status),
            Err(code) => return Ok(Err(code)),
        }
    };
    sink.take(&watcher)?;
    let names: Vec<&str> = disks.iter().map(|disk| disk.name.as_str()).collect();
    let report = sink.finish(watcher.lost(), arguments.output.as_deref())?;
    if report.span_ns.is_none() {
        output::note(&format!(
            "{}: not one request while it was watched",
            names.join(", ")
        ));
    }
    Ok(Ok(Watched {
        analyzed: Analyzed {
            source: names.join(", "),
            report,
            held_over_ns,
            lines: 0,
            bad_lines: 0,
            notes: Vec::new(),
        },
        status,
    }))
}

fn disks(arguments: &AnalyzeArguments) -> Result<Vec<Disk>> {
    let mut disks: Vec<Disk> = Vec::new();
    for path in &arguments.live {
        let disk = find(path)?;
        if disk.is_whole_of_partition {
            let name = &disk.name;
            output::note(&format!(
                "{} lies on {name}: all of {name} is watched",
                path.display()
            ));
        }
        if !disks.iter().any(|known| known.device == disk.device) {
            disks.push(disk);
        }
    }
    if disks.len() > DISKS_MAX {
        bail!(
            "{} disks are too many: at most {DISKS_MAX} can be watched",
            disks.len()
        );
    }
    Ok(disks)
}

fn during(
    watcher: &BlockWatcher,
    sink: &mut Sink,
    arguments: &AnalyzeArguments,
) -> Result<Result<ExitStatus, ExitCode>> {
    let mut running = match child::spawn(&arguments.command) {
        Ok(running) => running,
        Err(error) => {
            return Ok(Err(not_started(&error, &arguments.command)));
        }
    };
    // An error drops what runs, which waits for its end.
    loop {
        let status = running.wait(Some(DRAIN_EVERY));
        sink.take(watcher)?;
        if let Some(status) = status {
            return Ok(Ok(status));
        }
    }
}

fn until_interrupted(
    watcher: &BlockWatcher,
    sink: &mut Sink,
    limit: Option<Duration>,
) -> Result<()> {
    let interrupt = Interrupt::hold().context("cannot wait for Ctrl-C")?;
    let started = Instant::now();
    // Hides itself where stderr is no terminal.
    let bar = output::spinner();
    bar.set_message("watching; Ctrl-C ends it");
    bar.enable_steady_tick(Duration::from_millis(500));
    while limit.is_none_or(|limit| started.elapsed() < limit) {
        let is_over = interrupt
            .wait(DRAIN_EVERY)
            .context("cannot wait for Ctrl-C")?;
        sink.take(watcher)?;
        if is_over {
            break;
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn saving(path: &Path) -> impl Fn() -> String {
    let path = path.display().to_string();
    move || format!("cannot save {path}")
}

impl Sink {
    fn take(&mut self, watcher: &BlockWatcher) -> Result<()> {
        for event in watcher.drain() {
            if let Some(event) = self.order.push(event) {
                self.put(event)?;
            }
        }
        Ok(())
    }

    fn put(&mut self, event: Event) -> Result<()> {
        if let Some(saved) = &mut self.saved {
            writeln!(saved, "{event}").context("cannot save events")?;
        }
        self.last = Some(event.clone());
        self.analysis.event(event);
        Ok(())
    }

    fn finish(mut self, lost: u64, path: Option<&Path>) -> Result<foreread_blocktrace::Report> {
        while let Some(event) = self.order.pop() {
            self.put(event)?;
        }
        if lost > 0 {
            self.put(lost_note(lost, self.last.as_ref()))?;
        }
        if let (Some(mut saved), Some(path)) = (self.saved, path) {
            saved.flush().with_context(saving(path))?;
        }
        Ok(self.analysis.finish())
    }
}

/// That events were lost, as an event: so that it is told again when the file is analyzed.
fn lost_note(events: u64, last: Option<&Event>) -> Event {
    Event {
        device: last.map_or_else(Default::default, |last| last.device),
        cpu: 0,
        sequence: 0,
        time_ns: last.map_or(0, |last| last.time_ns),
        pid: 0,
        action: Action::Lost { events },
        rwbs: Rwbs(Letters::default()),
        sector: 0,
        sectors: 0,
        elapsed_ns: None,
        process: Box::from(""),
    }
}
