// SPDX-License-Identifier: MIT OR Apache-2.0
//! A local disk that stops to answer, by `tests/guest/hung-disk.sh`: the service goes on with other
//! disks, and can be restarted.

use std::time::Duration;

use super::packaged::Packaged;
use super::{Beside, Case};

pub const CASE: Case = Case {
    name: "hung-disk",
    about: "the service beside a local disk that stops to answer in the middle of a traversal",
    beside: Beside::Another,
    run: |context, kernel| Ok(vec![PACKAGED.run(context, kernel)?.0]),
};

const PACKAGED: Packaged = Packaged {
    row: "a local disk that does not answer",
    script: "hung-disk.sh",
    files: 700,
    spare_mib: Some(500),
    time_limit: Duration::from_secs(1_200),
};
