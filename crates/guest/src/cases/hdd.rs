// SPDX-License-Identifier: MIT OR Apache-2.0
//! `run -- grep` on a modelled hard disk: seeks, and what recording costs.

use foreread_guest::{Disk, GuestError};
use foreread_model::DiskParameters;
use foreread_testbed::workload::ABSENT_PATTERN;

use super::{Case, PREPARE, ratio};
use crate::context::{Context, Row};

pub const CASE: Case = Case {
    name: "hdd",
    about: "`run -- grep -rq`, cold, through 1,400 small files on a modelled hard disk",
    run,
};

const FILES: usize = 1_400;
/// The second run may make one request where the kernel alone makes so many.
const FEWER: u64 = 8;

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    // The kernel alone first without being measured: the guest's own programs are in memory then.
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
measure record ./foreread run --
measure replay ./foreread run --
"
    );
    let hdd = DiskParameters::preset("hdd")
        .ok_or_else(|| GuestError::Unexpected("the model has no hdd".to_owned()))?;
    let outcome = context
        .guest(kernel)?
        .disk(Disk::modelled("data", &context.tree(FILES)?, hdd))
        .script(script)
        .run()?;
    let reads = |name: &str| -> Result<u64, GuestError> {
        let between = outcome.between(name, &format!("{name}-end"))?;
        Ok(between.disk("data").reads)
    };
    let seconds = |name: &str| -> Result<f64, GuestError> {
        let text = outcome.file(name)?;
        let mut times = text.split_whitespace().map(str::parse::<f64>);
        match (times.next(), times.next()) {
            (Some(Ok(begin)), Some(Ok(end))) => Ok(end - begin),
            _ => Err(GuestError::Unexpected(format!("`{text}` are no two times"))),
        }
    };
    let (alone, second) = (reads("alone")?, reads("replay")?);
    let (alone_s, record_s, replay_s) = (seconds("alone")?, seconds("record")?, seconds("replay")?);
    let seeks = outcome.modelled.get("data").map_or(0, |disk| disk.seeks);
    Ok(vec![
        Row::asserted(
            "second run, requests",
            format!("at most 1/{FEWER}"),
            ratio(alone, second),
            second * FEWER <= alone,
        ),
        Row::told(
            "the kernel alone, recording, second run, s of the guest's clock",
            format!("{alone_s:.1}, {record_s:.1}, {replay_s:.1}"),
        ),
        Row::told(
            "recording takes longer by, % (a guess: one run each)",
            format!("{:.0}", (record_s / alone_s - 1.0) * 100.0),
        ),
        Row::told("seeks of the disk, all runs", seeks),
    ])
}
