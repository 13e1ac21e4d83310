// SPDX-License-Identifier: MIT OR Apache-2.0
//! The examples of all help texts, by `tests/guest/examples.sh`: each is run with the installed
//! package, in a directory that has what they name and none of the sources.

use std::path::Path;
use std::time::Duration;

use foreread_guest::{Disk, GuestError};

use super::{Beside, Case, packaged};
use crate::context::{Context, GUEST_SCRIPTS, Row};

pub const CASE: Case = Case {
    name: "examples",
    about: "each example of each help text, run with the installed package",
    beside: Beside::Another,
    run,
};

const SCRIPT: &str = "examples.sh";
/// Files that the examples name, where they are in this repository.
const NAMED: [(&str, &str); 3] = [
    ("tests/scenarios/dd.toml", "dd.toml"),
    ("tests/scenarios/sweep-intel-x25m-ssd-80G.toml", "x25m.toml"),
    ("tests/blktrace/plug-stalled.blkparse", "sda.txt"),
];
const DISK_MIB: u32 = 600;
/// Most of some 90 examples take seconds in an emulated processor, and endless ones are ended.
const TIME_LIMIT: Duration = Duration::from_secs(3600);

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    const NAME: &str = "examples of help texts";
    let Some(mut guest) = packaged::guest(context, kernel, SCRIPT)? else {
        return Ok(vec![packaged::skipped(NAME)]);
    };
    for (path, name) in NAMED {
        guest = guest.file(Path::new(GUEST_SCRIPTS).join("../..").join(path), name);
    }
    let outcome = guest
        .disk(Disk::blank("data", DISK_MIB))
        .disk(Disk::blank("spare", DISK_MIB))
        .time_limit(TIME_LIMIT)
        .script(format!(
            "modprobe -a fuse loop\n\
             mkdir -p /mnt/data; mkfs.ext4 -q $(disk data); mount $(disk data) /mnt/data\n\
             mkfs.ext4 -q $(disk spare)\n\
             WORK=/mnt/data SPARE=$(disk spare) ./{SCRIPT}"
        ))
        .run()?;
    let said: Vec<&str> = outcome.output.lines().collect();
    let counted = said.last().copied().unwrap_or_default();
    let counted = counted.strip_prefix("examples: ").unwrap_or("none ran");
    Ok(vec![
        Row::asserted(NAME, "all run", counted, outcome.status == 0).detail(said.join("\n")),
    ])
}
