// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cold `grep` on a modelled hard disk: requests by `run` and by `watch`, and the cost of
//! recording.
//!
//! Requests are judged here. An unmodelled virtual disk answers at once, and the emulated processor
//! takes longer for a file than that disk. So the program would keep up with the readahead there.

use std::time::Duration;

use foreread_guest::{GuestError, Outcome};
use foreread_testbed::workload::{ABSENT_PATTERN, SMALL_FILES};
use serde_json::Value;

use super::{Beside, Case, PREPARE, ratio};
use crate::context::{Context, Row, document};

pub const CASE: Case = Case {
    name: "hdd",
    about: "`run` and `watch -- grep -rq`, cold, through 8,000 small files on a modelled hard disk",
    beside: Beside::Nothing,
    run,
};

/// The second run may make one request for this many of the kernel alone.
const FEWER_BY_RUN: u64 = 20;
/// The same of `watch`, at its first sight of the files.
const FEWER_BY_WATCH: u64 = 8;
/// Maximum slowdown of a command that is recorded.
const SLOWER_MAX_PERCENT: f64 = 3.0;
/// It takes 130 s where nothing else runs.
const TIME_LIMIT: Duration = Duration::from_secs(900);

/// Measures a command: its requests, and when it began and ended by the guest's clock. Before each,
/// the programs themselves are brought into memory: they lie on another disk.
const MEASURE: &str = "
mount $(disk data) /mnt/data
seconds() { cut -d ' ' -f 1 /proc/uptime; }
measure() {
    name=$1; shift
    drop_caches; cat ./foreread /usr/bin/grep >/dev/null; grep -q x /dev/null
    begin=$(seconds); point $name
    \"$@\" grep -rq $PATTERN /mnt/data/tree
    point $name-end; echo \"$begin $(seconds)\" >/run/out/$name
}
without_profiles() {
    export FOREREAD_STATE_DIR=$(mktemp -d /run/foreread-state.XXXXXX)
}
";

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let outcome = measured(
        context,
        kernel,
        "measure alone env
measure record ./foreread run --json --output /run/out/record.json --
measure replay ./foreread run --
without_profiles
measure watch ./foreread watch --
",
    )?;
    let reads = |name: &str| -> Result<u64, GuestError> {
        let between = outcome.between(name, &format!("{name}-end"))?;
        Ok(between.disk("data").reads)
    };
    let (alone, second, watched) = (reads("alone")?, reads("replay")?, reads("watch")?);
    let times: Result<Vec<String>, GuestError> = ["alone", "record", "replay", "watch"]
        .iter()
        .map(|name| Ok(format!("{:.1}", seconds(&outcome, name)?)))
        .collect();
    let mut slower = vec![slower_percent(&outcome, "")?];
    // One pair of runs is exact to about 3 % only. The disk answers in real time, but the speed of
    // the emulated processor depends on the host's scheduler.
    if slower.iter().any(|percent| *percent > SLOWER_MAX_PERCENT) {
        let more = measured(context, kernel, MORE_PAIRS)?;
        slower.push(slower_percent(&more, "-2")?);
        slower.push(slower_percent(&more, "-3")?);
    }
    let all: Vec<String> = slower
        .iter()
        .map(|percent| format!("{percent:.1}"))
        .collect();
    slower.sort_by(f64::total_cmp);
    let median = slower[slower.len() / 2];
    let steps = &document(&outcome, "record.json")?["steps_ns"];
    let seeks = outcome.modelled.get("data").map_or(0, |disk| disk.seeks);
    Ok(vec![
        Row::asserted(
            "`run`, second run, requests",
            format!("at most 1/{FEWER_BY_RUN}"),
            ratio(alone, second),
            second * FEWER_BY_RUN <= alone,
        ),
        Row::asserted(
            "`watch`, first run and no profile, requests",
            format!("at most 1/{FEWER_BY_WATCH}"),
            ratio(alone, watched),
            watched * FEWER_BY_WATCH <= alone,
        ),
        Row::told(
            "alone, recording, second run, watched: s of the guest's clock",
            times?.join(", "),
        ),
        Row::asserted(
            "a recorded command takes longer by, % (the median counts)",
            format!("at most {SLOWER_MAX_PERCENT}"),
            all.join(", "),
            median <= SLOWER_MAX_PERCENT,
        ),
        Row::told(
            "loading the recorder, writing the profile, s",
            format!(
                "{:.1}, {:.1}",
                step_s(steps, "start_recorder"),
                step_s(steps, "resolve")
            ),
        ),
        Row::told("seeks of the disk, all runs", seeks),
    ])
}

/// Two more pairs of the runs that show the cost of recording, in turn.
const MORE_PAIRS: &str = "for pair in 2 3; do
    measure alone-$pair env
    without_profiles
    measure record-$pair ./foreread run --json --output /run/out/record-$pair.json --
done
";

/// Output of a guest in which these commands are measured.
fn measured(context: &Context<'_>, kernel: &str, commands: &str) -> Result<Outcome, GuestError> {
    context
        .guest(kernel)?
        .disk(context.hdd(SMALL_FILES)?)
        .time_limit(TIME_LIMIT)
        .script(format!(
            "{PREPARE}\nPATTERN={ABSENT_PATTERN}\n{MEASURE}{commands}"
        ))
        .run()
}

/// Slowdown of the command of this pair when it was recorded.
///
/// The emulated processor is 10 to 20 times slower than a real one, so the steps before and after
/// the command are left out. `foreread doctor` tells how long they take on a real machine.
fn slower_percent(outcome: &Outcome, pair: &str) -> Result<f64, GuestError> {
    let report = document(outcome, &format!("record{pair}.json"))?;
    let command_s = step_s(&report["steps_ns"], "command");
    let alone_s = seconds(outcome, &format!("alone{pair}"))?;
    Ok((command_s / alone_s - 1.0) * 100.0)
}

fn step_s(steps: &Value, name: &str) -> f64 {
    steps[name].as_u64().unwrap_or(0) as f64 / 1e9
}

/// Duration of a run by the guest's clock.
fn seconds(outcome: &Outcome, name: &str) -> Result<f64, GuestError> {
    let text = outcome.file(name)?;
    let mut times = text.split_whitespace().map(str::parse::<f64>);
    match (times.next(), times.next()) {
        (Some(Ok(begin)), Some(Ok(end))) => Ok(end - begin),
        _ => Err(GuestError::Unexpected(format!("`{text}` are no two times"))),
    }
}
