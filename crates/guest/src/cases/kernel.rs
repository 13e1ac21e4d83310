// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread kernel` with the real module, by `tests/guest/kernel.sh`.

use std::time::Duration;

use foreread_guest::{Disk, Guest, GuestError, Lab};

use super::module::module_of;
use super::{Beside, Case};
use crate::context::{Context, GUEST_SCRIPTS, Row};

pub const CASE: Case = Case {
    name: "kernel",
    about: "`foreread kernel`: the module loaded, a device read ahead of by its policy, settings changed, and unloaded",
    beside: Beside::Another,
    run,
};

const DISK_MIB: u32 = 128;

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let lab = Lab::build_module()?;
    let outcome = Guest::new(&lab, kernel)?
        .file(&context.foreread, "foreread")
        .file(module_of(&lab, kernel)?, "foreread.ko")
        .file(format!("{GUEST_SCRIPTS}/kernel.sh"), "kernel.sh")
        .disk(Disk::blank("data", DISK_MIB))
        .time_limit(Duration::from_secs(300))
        .script("DISK=$(disk data) ./kernel.sh")
        .run()?;
    let is_last = outcome.output.lines().last() == Some("kernel: passed");
    let has_passed = outcome.status == 0 && is_last;
    let value = if has_passed { "passed" } else { "not passed" };
    let row = Row::asserted("load, set, status, unload", "passed", value, has_passed);
    Ok(vec![row.detail(outcome.output.trim_end())])
}
