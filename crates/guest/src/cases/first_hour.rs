// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first hour of a new user, by `tests/guest/first-hour.sh`: the package is installed, a
//! command tried, replayed and looked into, the service enabled, everything removed. It takes seven
//! commands, each printed by an earlier one.

use std::time::Duration;

use super::packaged::Packaged;
use super::{Beside, Case};

pub const CASE: Case = Case {
    name: "first-hour",
    about: "seven commands of a new user, from the package to its removal; each is printed by an \
            earlier one",
    beside: Beside::Another,
    run: |context, kernel| Ok(vec![PACKAGED.run(context, kernel)?.0]),
};

const PACKAGED: Packaged = Packaged {
    row: "a new user's seven commands",
    script: "first-hour.sh",
    // An emulated processor takes seconds for what a run does besides reading: the reads have to
    // take longer.
    files: 3_000,
    spare_mib: None,
    time_limit: Duration::from_secs(1_800),
};
