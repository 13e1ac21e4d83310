// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel module: `linux` by module against stock, decisions against the core, refusals.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use foreread_core::grouped;
use foreread_guest::{Disk, Guest, GuestError, Lab, Outcome};
use foreread_sim::module_records::{Replayed, replay};

use super::{Beside, Case};
use crate::context::{Context, GUEST_SCRIPTS, Row};

pub const CASE: Case = Case {
    name: "module",
    about: "`foreread.ko`: `linux` by module asks the disk for what stock does; decisions are the core's",
    beside: Beside::Another,
    run,
};

const FILE_SYSTEMS: [&str; 2] = ["ext4", "xfs"];
/// Sizes of the disks in MiB. 300 MiB is the least for XFS.
const DISK_MIB: u32 = 320;
const SPARE_MIB: u32 = 64;
/// A program runs four times on each of two file systems, and a recorded one under ten policies.
/// One run takes 0.3 s, and three times that beside other load.
const SECONDS_A_PROGRAM: u64 = 8;
const SECONDS_A_RECORDED_PROGRAM: u64 = 20;
/// At most one program in so many may be one whose requests stock doesn't repeat.
const UNSTEADY_ONE_IN: u64 = 10;

/// The numbers that the script left, by name.
pub type Results = HashMap<String, Vec<u64>>;

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let lab = Lab::build_module()?;
    let (programs, recorded, seed) = (context.programs, context.recorded, context.seed);
    let seconds =
        u64::from(programs) * SECONDS_A_PROGRAM + u64::from(recorded) * SECONDS_A_RECORDED_PROGRAM;
    let script = format!(
        "set -u
. ./module.sh
module_prepare
module_same {programs} {seed}
module_record {recorded} {seed}
module_refusals
module_log
"
    );
    let outcome = guest_of_readers(&lab, kernel)?
        .time_limit(Duration::from_secs(300 + seconds))
        .script(script)
        .run()?;
    let results = results(&outcome.file("results")?);
    let mut rows = Vec::new();
    for kind in FILE_SYSTEMS {
        rows.push(same_requests(&results, kind));
    }
    rows.push(agreed(&results));
    rows.push(replayed(&outcome, &results)?);
    let refused = of(&results, "refused");
    rows.push(Row::asserted(
        "a second user of ftrace and wrong input are refused",
        "7 of 7, said once",
        format!("{refused:?}"),
        refused == [7, 1],
    ));
    rows.push(log_row(&outcome, &results)?);
    Ok(rows)
}

/// A guest with the module, the random programs of reads, and the disks that `module_prepare` of
/// its script makes file systems on.
pub(super) fn guest_of_readers<'lab>(
    lab: &'lab Lab,
    kernel: &str,
) -> Result<Guest<'lab>, GuestError> {
    Ok(Guest::new(lab, kernel)?
        .file(module_of(lab, kernel)?, "foreread.ko")
        .file(format!("{GUEST_SCRIPTS}/module.sh"), "module.sh")
        .file(format!("{GUEST_SCRIPTS}/readers.py"), "readers.py")
        .disk(Disk::blank("ext4", DISK_MIB))
        .disk(Disk::blank("xfs", DISK_MIB))
        .disk(Disk::blank("spare", SPARE_MIB)))
}

/// The name of a policy in a table. Scripts write `off` for the kernel without one.
pub(super) fn policy_name(policy: &str) -> &str {
    match policy {
        "off" => "stock",
        policy => policy,
    }
}

/// The module for a kernel.
pub fn module_of(lab: &Lab, kernel: &str) -> Result<PathBuf, GuestError> {
    lab.kernel(kernel)?.module().ok_or_else(|| {
        GuestError::Unexpected("the lab names no kernel module; remove it and build again".into())
    })
}

pub fn results(text: &str) -> Results {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next()?.to_owned();
            Some((name, words.filter_map(|word| word.parse().ok()).collect()))
        })
        .collect()
}

/// The numbers of a name; none where the script did not come to it.
pub fn of<'results>(results: &'results Results, name: &str) -> &'results [u64] {
    results.get(name).map_or(&[], Vec::as_slice)
}

/// Programs that asked the disk for what stock asked for. In a few, stock does not repeat its own
/// requests. One of its further runs must have those of the module.
fn same_requests(results: &Results, kind: &str) -> Row {
    let calls: u64 = of(results, &format!("calls-{kind}")).iter().sum();
    let (value, all) = match of(results, &format!("same-{kind}")) {
        [same, 0, of] => (
            format!("{} of {}", grouped(*same), grouped(*of)),
            same == of && *of > 0,
        ),
        [same, unsteady, of] => (
            format!(
                "{} of {}, {} of them in further runs of stock",
                grouped(same + unsteady),
                grouped(*of),
                grouped(*unsteady)
            ),
            same + unsteady == *of && unsteady * UNSTEADY_ONE_IN <= *of,
        ),
        _ => ("not run".to_owned(), false),
    };
    Row::asserted(
        format!("{kind}: programs with stock's requests"),
        "all",
        value,
        all && calls > 0,
    )
    .detail(format!("{calls} calls went to the module"))
}

/// Large folios are made by the kernel's own function; what it decides there is held against the
/// module's decision.
fn agreed(results: &Results) -> Row {
    let sum = |at: usize| -> u64 {
        FILE_SYSTEMS
            .iter()
            .filter_map(|kind| of(results, &format!("agreed-{kind}")).get(at))
            .sum()
    };
    let (agreed, differed) = (sum(0), sum(1));
    Row::asserted(
        "kernel's windows equal to the module's decision",
        "all",
        format!("{} of {}", grouped(agreed), grouped(agreed + differed)),
        differed == 0,
    )
}

fn replayed(outcome: &Outcome, results: &Results) -> Result<Row, GuestError> {
    let mut all = Replayed::default();
    let entries = std::fs::read_dir(outcome.files())
        .map_err(|error| GuestError::Unexpected(format!("cannot list the files: {error}")))?;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with("decisions-") {
            continue;
        }
        let part = replay(&outcome.file(&name)?)
            .map_err(|error| GuestError::Unexpected(format!("{name}: {error}")))?;
        all.by_policy.extend(part.by_policy);
        all.gaps += part.gaps;
        all.first_difference = all.first_difference.or(part.first_difference);
    }
    let made = of(results, "decisions").first().copied().unwrap_or(0);
    let policies = all.by_policy.len();
    let told: Vec<String> = all
        .by_policy
        .iter()
        .map(|(name, (decisions, equal))| format!("{name} {equal} of {decisions}"))
        .collect();
    Ok(Row::asserted(
        "decisions equal to the core's on the host",
        "all, every policy",
        format!(
            "{} of {}, {policies} policies",
            grouped(all.equal()),
            grouped(made)
        ),
        all.is_equal() && all.equal() == made && policies == 10,
    )
    .detail(format!(
        "{}; {} without the events before them; {}",
        told.join(", "),
        all.gaps,
        all.first_difference.unwrap_or_default()
    )))
}

/// The row of what the kernel complained of, with the first words of each complaint.
pub(super) fn log_row(outcome: &Outcome, results: &Results) -> Result<Row, GuestError> {
    let log = outcome.file("dmesg")?;
    let said: Vec<&str> = (log.lines())
        .filter(|line| line.contains("WARNING") || line.contains("BUG"))
        .collect();
    let row = complaints_row(results, "complaints of the kernel, caches left");
    Ok(row.detail(said.join("; ")))
}

/// The row of what was counted in one guest. It is a miss if the script did not come so far.
pub(super) fn complaints_row(results: &Results, name: &str) -> Row {
    match Complaints::of(results) {
        Ok(complaints) => complaints.row(name),
        Err(error) => Row::asserted(name, "0, 0", "?", false).detail(error.to_string()),
    }
}

/// Numbers of warnings in the kernel's log, and of slab caches that the unloaded module left.
#[derive(Clone, Copy, Default)]
pub(super) struct Complaints {
    said: u64,
    left: u64,
}

impl Complaints {
    /// # Errors
    /// When one of them was not counted.
    pub(super) fn of(results: &Results) -> Result<Self, GuestError> {
        let number = |name: &str| {
            let number = of(results, name).first().copied();
            number.ok_or_else(|| GuestError::Unexpected(format!("{name} was not counted")))
        };
        Ok(Self {
            said: number("complaints")?,
            left: number("left")?,
        })
    }

    /// Those of another guest, too.
    pub(super) fn add(&mut self, other: Self) {
        self.said += other.said;
        self.left += other.left;
    }

    /// Reached if none was counted.
    pub(super) fn row(self, name: &str) -> Row {
        let Self { said, left } = self;
        Row::asserted(
            name,
            "0, 0",
            format!("{}, {}", grouped(said), grouped(left)),
            said == 0 && left == 0,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Verdict;

    #[test]
    fn complaints_of_all_guests_count() {
        let complaints = |text: &str| Complaints::of(&results(text));
        let mut all = complaints("complaints 0\nleft 0\n").unwrap();
        assert_eq!(all.row("").verdict, Verdict::Reached);
        all.add(complaints("complaints 0\nleft 1\n").unwrap());
        assert_eq!(all.row("").verdict, Verdict::Missed);
        assert!(complaints("left 0\n").is_err());
        let row = complaints_row(&results("left 0\n"), "");
        assert_eq!((row.verdict, row.value.as_str()), (Verdict::Missed, "?"));
    }

    #[test]
    fn a_program_with_other_requests_is_a_miss() {
        let row = |text: &str| same_requests(&results(text), "ext4");
        let good = row("same-ext4 30 0 30\ncalls-ext4 900 100\n");
        assert_eq!(good.verdict, Verdict::Reached);
        assert_eq!(good.value, "30 of 30");
        let bad = row("same-ext4 29 0 30\ncalls-ext4 900 100\n");
        assert_eq!(bad.verdict, Verdict::Missed);
        let unsteady = row("same-ext4 29 1 30\ncalls-ext4 900 100\n");
        assert_eq!(unsteady.verdict, Verdict::Reached, "{unsteady:?}");
        let many = row("same-ext4 20 10 30\ncalls-ext4 900 100\n");
        assert_eq!(many.verdict, Verdict::Missed, "that shows nothing");
        let idle = row("same-ext4 30 0 30\ncalls-ext4 0 0\n");
        assert_eq!(idle.verdict, Verdict::Missed, "the module was not asked");
        assert_eq!(row("").value, "not run");
    }
}
