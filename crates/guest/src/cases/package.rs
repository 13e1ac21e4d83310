// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Debian package on a booted system, by `tests/guest/deb.sh`: installed, its service
//! started, a first cold grep with it, upgraded, removed and purged.

use std::time::Duration;

use foreread_guest::GuestError;

use super::{Beside, Case};
use crate::context::{Context, Row};

pub const CASE: Case = Case {
    name: "package",
    about: "the package of `make deb`: installed, service started, upgraded, removed, purged",
    beside: Beside::Another,
    run,
};

const SCRIPT: &str = "deb.sh";
const FILES: usize = 700;
const TIME_LIMIT: Duration = Duration::from_secs(600);

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    const NAME: &str = "install, service, upgrade, purge";
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
    let is_clean = outcome.status == 0 && said.last() == Some(&"deb: passed");
    let value = if is_clean { "clean" } else { "not clean" };
    let mut rows = vec![Row::asserted(NAME, "clean", value, is_clean).detail(said.join("; "))];
    let cold = said
        .iter()
        .find_map(|line| line.strip_prefix("deb: cold grep: "));
    rows.extend(cold.map(|told| Row::told("first cold grep beside the service", told)));
    Ok(rows)
}
