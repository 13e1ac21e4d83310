// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread watch -- grep`: a directory tree without a profile. Requests are told here and judged
//! in [`hdd`](super::hdd), where the disk is slower than the processor.

use foreread_guest::{Disk, GuestError};
use foreread_testbed::workload::{ABSENT_PATTERN, SMALL_FILES};

use super::{Beside, Case, PREPARE, ratio};
use crate::context::{Context, Row};

pub const CASE: Case = Case {
    name: "watch",
    about: "`watch -- grep -rq`, cold, first run and no profile, through the same files",
    beside: Beside::Another,
    run,
};

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let script = format!(
        "{PREPARE}
mount $(disk data) /mnt/data
drop_caches; point alone; grep -rq {ABSENT_PATTERN} /mnt/data/tree; point alone-end
drop_caches
point watch
./foreread watch -- grep -rq {ABSENT_PATTERN} /mnt/data/tree 2>/run/out/said
echo $? >/run/out/status
point watch-end
cat /run/out/said
"
    );
    let outcome = context
        .guest(kernel)?
        .disk(Disk::image("data", &context.tree(SMALL_FILES)?))
        .script(script)
        .run()?;
    let alone = outcome.between("alone", "alone-end")?.disk("data").reads;
    let watched = outcome.between("watch", "watch-end")?.disk("data").reads;
    let said = outcome.file("said")?;
    let status = outcome.file("status")?;
    Ok(vec![
        Row::told("first run, requests", ratio(alone, watched)).detail(said.trim().to_owned()),
        // grep finds nothing and ends with 1; watch passes that on. 64 is: it ran unwatched.
        Row::asserted(
            "exit status",
            "1, the command's own",
            status.trim(),
            status.trim() == "1",
        ),
    ])
}
