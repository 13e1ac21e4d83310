// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Debian package on a booted system, by `tests/guest/deb.sh`: installed, its service
//! started, a first cold grep with it, upgraded, removed and purged.

use std::time::Duration;

use super::packaged::Packaged;
use super::{Beside, Case};
use crate::context::Row;

pub const CASE: Case = Case {
    name: "package",
    about: "the package of `make deb`: installed, service started, upgraded, removed, purged",
    beside: Beside::Another,
    run: |context, kernel| {
        let (row, outcome) = PACKAGED.run(context, kernel)?;
        let mut rows = vec![row];
        let said = outcome.map_or_else(String::new, |outcome| outcome.output);
        let cold = said
            .lines()
            .find_map(|line| line.strip_prefix("deb: cold grep: "));
        rows.extend(cold.map(|told| Row::told("first cold grep beside the service", told)));
        Ok(rows)
    },
};

const PACKAGED: Packaged = Packaged {
    row: "install, service, upgrade, purge",
    script: "deb.sh",
    files: 700,
    spare_mib: None,
    time_limit: Duration::from_secs(600),
};
