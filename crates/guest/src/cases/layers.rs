// SPDX-License-Identifier: MIT OR Apache-2.0
//! `run -- grep` on the kinds of block devices that lie between a file system and a disk. The
//! script `tests/guest/replay-mappings.sh` sets them up and measures.
//!
//! The case judges whether a replay fetches at all: once, replays on dm-crypt fetched nothing and
//! reported nothing. [`hdd`](super::hdd) judges the gain. The disks here answer at once, and the
//! emulated processor reads a file nearly as soon as the replay.

use std::time::Duration;

use foreread_guest::{Bus, Disk, GuestError};

use super::{Beside, Case, PREPARE, ratio};
use crate::context::{Context, Row};

pub const CASE: Case = Case {
    name: "layers",
    about: "second `run -- grep -rq` through 700 files on each kind of device: requests at the disk",
    beside: Beside::Another,
    run,
};

const SCRIPT: &str = "replay-mappings.sh";
/// Limit of the second run's requests, in percent of those of the kernel alone. Requests vary by 1
/// to 2 percent between runs.
const REQUESTS_MAX_PERCENT: u64 = 95;
/// Some fifteen kinds, each with a file system to make and three cold runs.
const TIME_LIMIT: Duration = Duration::from_secs(1_200);
/// Disks in memory take some of it.
const MEMORY_MIB: u32 = 3_072;

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let outcome = context
        .guest_with(kernel, SCRIPT)?
        .disk(Disk::blank("data", 2_048))
        .disk(Disk::blank("nvme", 1_024).on(Bus::Nvme))
        .memory_mib(MEMORY_MIB)
        .command_line("memmap=512M!2G")
        .time_limit(TIME_LIMIT)
        .script(format!(
            "{PREPARE}modprobe nvme; udevadm settle\n\
             ln -s \"$(command -v make-bcache)\" .\n./{SCRIPT}"
        ))
        .run()?;
    let rows: Vec<Row> = outcome.output.lines().filter_map(row).collect();
    if rows.is_empty() {
        return Err(GuestError::Unexpected(format!(
            "{SCRIPT} measured nothing: {}",
            outcome.output.trim()
        )));
    }
    Ok(rows)
}

/// One line of the script: `KIND ALONE FIRST SECOND SAID`, or `KIND skipped: REASON`.
fn row(line: &str) -> Option<Row> {
    let (kind, rest) = line.split_once(' ')?;
    let name = format!("{kind}, second run, requests");
    let target = format!("at most {REQUESTS_MAX_PERCENT} %");
    if let Some(reason) = rest.trim_start().strip_prefix("skipped: ") {
        let mut row = Row::told(name, format!("skipped: {reason}"));
        row.target = target;
        return Some(row);
    }
    let mut words = rest.split_whitespace();
    let mut number = || words.next()?.parse::<u64>().ok();
    let (alone, _first, second) = (number()?, number()?, number()?);
    let said: Vec<&str> = words.collect();
    if alone == 0 {
        // Drivers of memory, such as brd and pmem, keep no statistics.
        return Some(Row::told(name, "counts no requests"));
    }
    if kind == "zram" {
        // Memory as well: the program is ahead of the replay, and requests of a page don't merge.
        return Some(Row::told(name, ratio(alone, second)));
    }
    let enough = second * 100 <= alone * REQUESTS_MAX_PERCENT;
    Some(Row::asserted(name, target, ratio(alone, second), enough).detail(said.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Verdict;

    #[test]
    fn lines_of_the_script_become_rows() {
        let line = "crypt      1600   1598     80  replayed 22 MiB, 100 % used";
        let reached = row(line).unwrap();
        assert_eq!(reached.name, "crypt, second run, requests");
        assert_eq!(reached.value, "80 of 1,600 (1/20.0)");
        assert_eq!(reached.verdict, Verdict::Reached);
        let missed = row("thin  1600 1598 1597  replayed 0 bytes").unwrap();
        assert_eq!(missed.verdict, Verdict::Missed);
        assert_eq!(missed.detail, "replayed 0 bytes");
        let none = row("pmem  0 0 0  replayed 12 MiB").unwrap();
        assert_eq!(none.value, "counts no requests");
        let memory = row("zram  779 777 767  replayed 4.3 MiB").unwrap();
        assert_eq!(memory.verdict, Verdict::Told);
        let skipped = row("bcache   skipped: no make-bcache").unwrap();
        assert_eq!(skipped.value, "skipped: no make-bcache");
        assert_eq!(
            row("mapping   alone  first second").map(|row| row.name),
            None
        );
        assert_eq!(row("6.1.0-56-cloud-amd64").map(|row| row.name), None);
    }
}
