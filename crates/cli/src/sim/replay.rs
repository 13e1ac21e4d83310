// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread sim --replay`: the decisions of a log of `watch`, made again from the same events.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use foreread_core::policy::Decision;
use foreread_watch::call::{Call, Called, Decided, Remembered};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::output::note;
use crate::text;
use crate::trace::EXIT_PARTLY;
use crate::watch::calls;

const SCHEMA: &str = "foreread.sim.replay/1";
const LOG_SCHEMA: &str = "foreread.watch.log/1";
/// Another decision than that of the log.
const EXIT_DIFFERS: u8 = 1;

/// What came of it.
#[derive(Debug, Default)]
struct Replayed {
    calls: u64,
    decisions: u64,
    windows: u64,
    /// The first call that is not in the log, though a later one is.
    lost: Option<u64>,
    differs: Option<Box<Differs>>,
}

#[derive(Debug)]
struct Differs {
    number: u64,
    logged: Decided,
    made: Decision,
}

/// Replays a log to its end, or to the first decision that differs, or call that was lost.
pub fn replay(path: &Path, is_json: bool) -> Result<ExitCode> {
    let replayed = read(path)?;
    if replayed.calls == 0 && replayed.lost.is_none() {
        bail!(
            "{} has no calls of the policy; they are in what `foreread watch --log` writes when \
             large files are read",
            path.display()
        );
    }
    match is_json {
        true => text::print_json(&document(&replayed))?,
        false => text::print(&people(&replayed))?,
    }
    if let Some(number) = replayed.lost {
        note(&format!(
            "call {number} was lost when the log was written; what comes after it can't be replayed"
        ));
    }
    Ok(match (&replayed.differs, replayed.lost) {
        (Some(_), _) => ExitCode::from(EXIT_DIFFERS),
        (None, Some(_)) => ExitCode::from(EXIT_PARTLY),
        (None, None) => ExitCode::SUCCESS,
    })
}

fn read(path: &Path) -> Result<Replayed> {
    let cannot = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(cannot)?;
    let length = file.metadata().with_context(cannot)?.len();
    // Hides itself where stderr is no terminal.
    let bar = ProgressBar::new(length);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {bytes} of {total_bytes}") {
        bar.set_style(style);
    }
    let mut replayed = Replayed::default();
    let mut remembered = Remembered::new();
    for (number, line) in (1u64..).zip(BufReader::new(file).lines()) {
        let line = line.with_context(cannot)?;
        bar.inc(line.len() as u64 + 1);
        let in_line = || format!("{}, line {number}", path.display());
        let value: Value = serde_json::from_str(&line).with_context(in_line)?;
        if value["schema"] != LOG_SCHEMA {
            bail!("{}: this is no {LOG_SCHEMA}", in_line());
        }
        if let Some(call) = calls::parse(&value).with_context(in_line)?
            && !take(&mut replayed, &mut remembered, call)
        {
            break;
        }
    }
    bar.finish_and_clear();
    Ok(replayed)
}

/// Makes a call; whether to go on.
fn take(replayed: &mut Replayed, remembered: &mut Remembered, call: Call) -> bool {
    let expected = replayed.calls + 1;
    if call.number != expected {
        replayed.lost = Some(expected);
        return false;
    }
    replayed.calls += 1;
    let made = remembered.make(&call);
    let (Called::Access(logged), Some(made)) = (call.what, made) else {
        return true;
    };
    replayed.decisions += 1;
    replayed.windows += made.every_window(&logged.limits).count() as u64;
    if logged.decision.bytes() == made.bytes() {
        return true;
    }
    replayed.differs = Some(Box::new(Differs {
        number: call.number,
        logged: *logged,
        made,
    }));
    false
}

fn people(replayed: &Replayed) -> String {
    let Replayed {
        calls,
        decisions,
        windows,
        ..
    } = replayed;
    match &replayed.differs {
        None => {
            format!("{decisions} decisions in {calls} calls, {windows} windows: all the same\n")
        }
        Some(differs) => format!(
            "call {}, page {}: the log {}; now it {}\n",
            differs.number,
            differs.logged.access.index,
            differs.logged.decision.explain(),
            differs.made.explain()
        ),
    }
}

fn document(replayed: &Replayed) -> Value {
    let differs = replayed.differs.as_ref().map(|differs| {
        json!({
            "number": differs.number,
            "logged": differs.logged.decision.explain(),
            "made": differs.made.explain(),
        })
    });
    json!({
        "schema": SCHEMA,
        "calls": replayed.calls,
        "decisions": replayed.decisions,
        "windows": replayed.windows,
        "lost_from": replayed.lost,
        "differs": differs,
    })
}
