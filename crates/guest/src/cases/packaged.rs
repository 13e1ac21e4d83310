// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scripts that install the package of `make deb` in a guest. The last line of one that held is
//! `NAME: passed`, where its file is `NAME.sh`; each line before it says what did not hold.

use std::time::Duration;

use foreread_guest::{Disk, Guest, GuestError, Outcome};

use crate::context::{Context, Row};

/// A script, and the disks that it finds in `TREE` and `SPARE`.
pub struct Packaged {
    /// The name of its row.
    pub row: &'static str,
    /// Its file in `tests/guest`.
    pub script: &'static str,
    /// Files of the tree on a modelled hard disk.
    pub files: usize,
    /// Size of another disk, if it wants one.
    pub spare_mib: Option<u32>,
    /// When it is ended.
    pub time_limit: Duration,
}

impl Packaged {
    /// Runs it under a kernel. Returns its row, and what it printed.
    pub fn run(
        &self,
        context: &Context<'_>,
        kernel: &str,
    ) -> Result<(Row, Option<Outcome>), GuestError> {
        let Some(guest) = guest(context, kernel, self.script)? else {
            return Ok((skipped(self.row), None));
        };
        let mut guest = guest.disk(context.hdd(self.files)?);
        let mut set = "TREE=/mnt/data/tree".to_owned();
        if let Some(spare_mib) = self.spare_mib {
            guest = guest.disk(Disk::blank("spare", spare_mib));
            set += " SPARE=$(disk spare)";
        }
        let outcome = guest
            .time_limit(self.time_limit)
            .script(format!(
                "mkdir -p /mnt/data; mount $(disk data) /mnt/data\n{set} ./{}",
                self.script
            ))
            .run()?;
        let name = self.script.trim_end_matches(".sh");
        let passed = format!("{name}: passed");
        let is_last = outcome.output.lines().last() == Some(passed.as_str());
        let has_passed = outcome.status == 0 && is_last;
        let value = if has_passed { "passed" } else { "not passed" };
        let row = Row::asserted(self.row, "passed", value, has_passed);
        Ok((row.detail(outcome.output.trim_end()), Some(outcome)))
    }
}

/// A guest that has the script and the package beside it; `None` if there is no package.
pub fn guest<'a>(
    context: &'a Context<'_>,
    kernel: &str,
    script: &str,
) -> Result<Option<Guest<'a>>, GuestError> {
    let Some((package, name)) = &context.package else {
        return Ok(None);
    };
    let guest = context.guest_with(kernel, script)?;
    Ok(Some(guest.file(package, name)))
}

/// The row of a case that needs a package where there is none.
pub fn skipped(row: &'static str) -> Row {
    Row::told(row, "skipped: no package; make deb builds it")
}
