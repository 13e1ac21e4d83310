// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cold `grep` on a modelled hard disk: requests by `run` and by `watch`, and what recording
//! costs.
//!
//! Requests are judged here. A virtual disk as such answers at once, and the emulated processor
//! takes longer for a file than the disk: there the program keeps up with what reads ahead of it.

use std::time::Duration;

use foreread_guest::{GuestError, Outcome};
use foreread_testbed::workload::{ABSENT_PATTERN, SMALL_FILES};

use super::{Case, PREPARE, ratio};
use crate::context::{Context, Row, document};

pub const CASE: Case = Case {
    name: "hdd",
    about: "`run` and `watch -- grep -rq`, cold, through 8,000 small files on a modelled hard disk",
    is_alone: true,
    run,
};

/// The second run may make one request where the kernel alone makes so many.
const FEWER_BY_RUN: u64 = 20;
/// The same of `watch`, at its first sight of the files.
const FEWER_BY_WATCH: u64 = 8;
/// How much longer a command may take when it is recorded.
const SLOWER_MAX_PERCENT: f64 = 3.0;
/// It takes 130 s where nothing else runs.
const TIME_LIMIT: Duration = Duration::from_secs(900);

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    // Before each, the programs themselves are brought into memory: they lie on another disk.
    let script = format!(
        "{PREPARE}
mount $(disk data) /mnt/data
seconds() {{ cut -d ' ' -f 1 /proc/uptime; }}
measure() {{
    name=$1; shift
    drop_caches; cat ./foreread /usr/bin/grep >/dev/null; grep -q x /dev/null
    begin=$(seconds); point $name
    \"$@\" grep -rq {ABSENT_PATTERN} /mnt/data/tree
    point $name-end; echo \"$begin $(seconds)\" >/run/out/$name
}}
measure alone env
measure record ./foreread run --json /run/out/record.json --
measure replay ./foreread run --
export FOREREAD_STATE_DIR=/run/foreread-state-without-profiles
mkdir -m 700 $FOREREAD_STATE_DIR
measure watch ./foreread watch --
"
    );
    let outcome = context
        .guest(kernel)?
        .disk(context.hdd(SMALL_FILES)?)
        .time_limit(TIME_LIMIT)
        .script(script)
        .run()?;
    let reads = |name: &str| -> Result<u64, GuestError> {
        let between = outcome.between(name, &format!("{name}-end"))?;
        Ok(between.disk("data").reads)
    };
    let (alone, second, watched) = (reads("alone")?, reads("replay")?, reads("watch")?);
    let alone_s = seconds(&outcome, "alone")?;
    let times: Result<Vec<String>, GuestError> = ["alone", "record", "replay", "watch"]
        .iter()
        .map(|name| Ok(format!("{:.1}", seconds(&outcome, name)?)))
        .collect();
    // The emulated processor is 10 to 20 times slower than a real one, so the steps before and
    // after the command are left out. `foreread doctor` tells how long they take on a real machine.
    let steps = &document(&outcome, "record.json")?["steps_ns"];
    let step_s = |name: &str| steps[name].as_u64().unwrap_or(0) as f64 / 1e9;
    let slower_percent = (step_s("command") / alone_s - 1.0) * 100.0;
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
            "a recorded command takes longer by, %",
            format!("at most {SLOWER_MAX_PERCENT}"),
            format!("{slower_percent:.1}"),
            slower_percent <= SLOWER_MAX_PERCENT,
        ),
        Row::told(
            "loading the recorder, writing the profile, s",
            format!("{:.1}, {:.1}", step_s("start_recorder"), step_s("resolve")),
        ),
        Row::told("seeks of the disk, all runs", seeks),
    ])
}

/// How long a run took by the guest's clock.
fn seconds(outcome: &Outcome, name: &str) -> Result<f64, GuestError> {
    let text = outcome.file(name)?;
    let mut times = text.split_whitespace().map(str::parse::<f64>);
    match (times.next(), times.next()) {
        (Some(Ok(begin)), Some(Ok(end))) => Ok(end - begin),
        _ => Err(GuestError::Unexpected(format!("`{text}` are no two times"))),
    }
}
