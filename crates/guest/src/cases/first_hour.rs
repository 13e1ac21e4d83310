// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first hour of a new user, by `tests/guest/first-hour.sh`: the package is installed, a
//! command tried, replayed and looked into, the service enabled, everything removed. It takes seven
//! commands, each printed by an earlier one.

use std::time::Duration;

use foreread_guest::GuestError;

use super::{Beside, Case};
use crate::context::{Context, Row};

pub const CASE: Case = Case {
    name: "first-hour",
    about: "seven commands of a new user, from the package to its removal; each is printed by an \
            earlier one",
    beside: Beside::Another,
    run,
};

const SCRIPT: &str = "first-hour.sh";
const FILES: usize = 3_000;
const TIME_LIMIT: Duration = Duration::from_secs(1_800);

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    const NAME: &str = "a new user's seven commands";
    let Some((package, name)) = &context.package else {
        return Ok(vec![Row::told(
            NAME,
            "skipped: no package; make deb builds it",
        )]);
    };
    let outcome = context
        .guest_with(kernel, SCRIPT)?
        .file(package, name)
        .disk(context.hdd(FILES)?)
        .time_limit(TIME_LIMIT)
        .script(format!(
            "mkdir -p /mnt/data; mount $(disk data) /mnt/data\nTREE=/mnt/data/tree ./{SCRIPT}"
        ))
        .run()?;
    let said: Vec<&str> = outcome.output.lines().collect();
    let works = outcome.status == 0 && said.last() == Some(&"first-hour: passed");
    let value = if works { "all work" } else { "not all work" };
    Ok(vec![
        Row::asserted(NAME, "all work", value, works).detail(said.join("\n")),
    ])
}
