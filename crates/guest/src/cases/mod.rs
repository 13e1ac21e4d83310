// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cases of the matrix, one file each. A case boots one guest with one kernel and returns rows.
//!
//! A new case is a file here with a [`Case`] value, and its line in [`CASES`].

mod accounting;
mod bad_boots;
mod boot;
mod boot_beside;
mod boot_file_systems;
mod boot_layout;
mod boot_usual;
pub mod check_kernel;
mod cold_start;
mod doctor;
mod examples;
pub mod first_boot;
mod first_hour;
mod grep;
mod hdd;
mod hung_disk;
mod kernel;
mod layers;
mod module;
mod module_accounts;
mod module_cost;
pub mod module_live;
mod module_loads;
mod module_mapped;
mod module_nfs;
mod module_readers;
mod package;
mod packaged;
pub mod programs;
mod refusals;
mod small_memory;
mod stat;
mod watch;

use foreread_core::grouped;
use foreread_guest::GuestError;
use serde_json::Value;

use crate::context::{Context, Row, document};

/// One case.
pub struct Case {
    /// The name by which `--case` selects it.
    pub name: &'static str,
    /// The point of the case, for the page.
    pub about: &'static str,
    /// The load that may run on this machine meanwhile.
    pub beside: Beside,
    /// Boots the guest with this kernel. An error fails the case under this kernel only.
    pub run: fn(&Context<'_>, &str) -> Result<Vec<Row>, GuestError>,
}

/// The load that may run on this machine while a case runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Another guest.
    Another,
    /// Nothing but [`Self::Anything`]: how far a replay is ahead depends on the processor.
    Nothing,
    /// Any load. No time matters, so the guest uses the processors while they are idle.
    Anything,
}

/// In the order of the table.
pub const CASES: [&Case; 32] = [
    &doctor::CASE,
    &refusals::CASE,
    &programs::CASE,
    &grep::CASE,
    &watch::CASE,
    &stat::CASE,
    &accounting::CASE,
    &hdd::CASE,
    &layers::CASE,
    &package::CASE,
    &first_hour::CASE,
    &examples::CASE,
    &hung_disk::CASE,
    &boot::CASE,
    &boot_beside::CASE,
    &boot_file_systems::CASE,
    &boot_layout::CASE,
    &boot_usual::CASE,
    &first_boot::CASE,
    &small_memory::CASE,
    &bad_boots::CASE,
    &cold_start::CASE,
    &module::CASE,
    &module_loads::CASE,
    &module_accounts::CASE,
    &module_cost::CASE,
    &module_mapped::CASE,
    &module_live::CASE,
    &module_nfs::CASE,
    &module_readers::CASE,
    &kernel::CASE,
    &check_kernel::CASE,
];

/// The beginning of scripts that run foreread: a folder for profiles, and the modules that foreread
/// does not load by itself.
const PREPARE: &str = "set -u
export FOREREAD_STATE_DIR=/run/foreread-state
mkdir -m 700 $FOREREAD_STATE_DIR
modprobe -a fuse loop
mkdir -p /mnt/data
";

/// The ratio of `alone` to `with` as text: `7,554 -> 350, 1/21.6`.
fn ratio(alone: u64, with: u64) -> String {
    let factor = alone as f64 / with.max(1) as f64;
    format!("{} of {} (1/{factor:.1})", grouped(with), grouped(alone))
}

/// The report of `foreread doctor --json` under a kernel. Several cases look at it, so it is made
/// once.
fn doctor_report(context: &Context<'_>, kernel: &str) -> Result<Value, GuestError> {
    if let Some(report) = context.doctor_report(kernel) {
        return Ok(report);
    }
    let outcome = context
        .guest(kernel)?
        .while_idle()
        .script(format!(
            "{PREPARE}./foreread doctor --json >/run/out/doctor.json"
        ))
        .run()?;
    let report = document(&outcome, "doctor.json")?;
    context.note_doctor_report(kernel, &report);
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(ratio(7_500, 250), "250 of 7,500 (1/30.0)");
    }

    #[test]
    fn no_two_cases_share_a_name() {
        let mut names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CASES.len());
    }
}
