// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread boot chart`: draws traced boots, or asks for the trace of the next one.

pub mod json;
mod page;
mod picture;

use std::process::ExitCode;

use anyhow::{Result, bail};
use foreread_boot::chart::{Chart, chart as sum_up};
use foreread_boot::trace::BootTrace;
use foreread_linux_boot::{StateDirectory, StoredTrace};
use foreread_sys::save;

use super::args::ChartArguments;
use super::state_of;
use crate::output;
use crate::text;

/// A traced boot, and what is drawn of it.
pub struct Drawn {
    trace: BootTrace,
    chart: Chart,
}

pub fn chart(arguments: &ChartArguments) -> Result<ExitCode> {
    let state = state_of(&arguments.root);
    if arguments.next {
        return ask_for_next(&state);
    }
    let stored = state.traces();
    let chosen = match arguments.boots.is_empty() {
        true => vec!["-1".to_owned()],
        false => arguments.boots.clone(),
    };
    let mut drawn = Vec::new();
    for name in &chosen {
        let trace = find(&stored, name)?.read()?;
        let chart = sum_up(&trace);
        drawn.push(Drawn { trace, chart });
    }
    if arguments.json {
        text::print_json(&json::document(&drawn))?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_page = arguments.output.as_ref().is_some_and(|path| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("html" | "htm"))
    });
    let drawing = match is_page {
        true => page::page(&drawn),
        false => picture::picture(&drawn),
    };
    match &arguments.output {
        Some(path) => save::write(path, drawing.as_bytes())
            .map_err(|error| anyhow::anyhow!("cannot write {}: {error}", path.display()))?,
        None => text::print(&drawing)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn ask_for_next(state: &StateDirectory) -> Result<ExitCode> {
    if !state.exists() {
        bail!("no boot is recorded here; `foreread boot enable` comes first");
    }
    state.want_trace()?;
    output::report("the next boot is traced; `foreread boot chart` draws it then");
    Ok(ExitCode::SUCCESS)
}

/// The trace that is called so: `-1` is the newest, `-2` the one before, else the beginning of its
/// boot's number.
fn find<'a>(stored: &'a [StoredTrace], name: &str) -> Result<&'a StoredTrace> {
    if stored.is_empty() {
        bail!(
            "no boot was traced yet; `foreread boot chart --next` has the next one traced, if boots \
             are recorded here"
        );
    }
    if let Some(place) = name
        .strip_prefix('-')
        .and_then(|place| place.parse::<usize>().ok())
    {
        let found = place.checked_sub(1).and_then(|place| stored.get(place));
        return found.ok_or_else(|| {
            let boots = output::counted(stored.len() as u64, "boot is", "boots are");
            anyhow::anyhow!("there is no boot {name}: {boots} traced, from -1 for the newest")
        });
    }
    // A whole name may begin another one.
    if let Some(trace) = stored.iter().find(|trace| trace.boot == name) {
        return Ok(trace);
    }
    let mut found = stored.iter().filter(|trace| trace.boot.starts_with(name));
    match (found.next(), found.next()) {
        (Some(trace), None) => Ok(trace),
        (Some(_), Some(_)) => bail!("several traced boots begin with {name}: name more of it"),
        (None, _) => {
            let boots: Vec<&str> = stored.iter().map(|trace| &*trace.boot).collect();
            bail!(
                "no boot {name} was traced; those that were: {}",
                boots.join(", ")
            )
        }
    }
}

/// How the boot went, in a line.
pub fn headline(trace: &BootTrace) -> String {
    let mode = serde_json::to_value(trace.mode).unwrap_or_default();
    let mode = mode.as_str().unwrap_or("unknown").to_owned();
    let reached = match trace.reached_ns {
        Some(at) => format!("target reached after {}", output::time(at)),
        None => "target not reached".to_owned(),
    };
    format!("{mode} boot, Linux {}: {reached}", trace.kernel)
}

/// What disks were read for, in a line.
fn sums(drawn: &Drawn) -> String {
    let Drawn { trace, chart } = drawn;
    let total = |total: foreread_boot::chart::ReadTotal| {
        format!(
            "{}, {} MiB",
            output::counted(total.requests, "read", "reads"),
            total.bytes >> 20
        )
    };
    let lost = match trace.lost_reads {
        0 => String::new(),
        lost => format!(
            " · {} missing",
            output::counted(lost, "read is", "reads are")
        ),
    };
    format!(
        "boot: {} · replay: {} · disks busy for {} · units waited for {} together · traced from {} \
         on{lost}",
        total(chart.demand),
        total(chart.replay),
        output::time(chart.busy_ns),
        output::time(chart.waited_ns),
        output::time(trace.traced_from_ns),
    )
}
