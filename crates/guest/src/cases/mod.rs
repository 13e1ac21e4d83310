// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cases of the matrix, one file each. A case boots one guest with one kernel and returns rows.
//!
//! A new case is a file here with a [`Case`] value, and its line in [`CASES`].

mod check_kernel;
mod cold_start;
mod doctor;
mod grep;
mod hdd;
mod layers;
pub mod programs;
mod stat;
mod watch;

use foreread_guest::GuestError;

use crate::context::{Context, Row};

/// One case.
pub struct Case {
    /// What `--case` selects it by.
    pub name: &'static str,
    /// What it shows, for the page.
    pub about: &'static str,
    /// Boots the guest with this kernel. An error fails the case under this kernel only.
    pub run: fn(&Context<'_>, &str) -> Result<Vec<Row>, GuestError>,
}

/// In the order of the table.
pub const CASES: [&Case; 9] = [
    &doctor::CASE,
    &programs::CASE,
    &grep::CASE,
    &watch::CASE,
    &stat::CASE,
    &hdd::CASE,
    &layers::CASE,
    &cold_start::CASE,
    &check_kernel::CASE,
];

/// What scripts that run foreread begin with: a folder for profiles, and the modules that foreread
/// does not load by itself.
const PREPARE: &str = "set -u
export FOREREAD_STATE_DIR=/run/foreread-state
mkdir -m 700 $FOREREAD_STATE_DIR
modprobe -a fuse loop
mkdir -p /mnt/data
";

/// How much larger `alone` is than `with`, as people say it: `7,554 -> 350, 1/21.6`.
fn ratio(alone: u64, with: u64) -> String {
    let factor = alone as f64 / with.max(1) as f64;
    format!("{} of {} (1/{factor:.1})", grouped(with), grouped(alone))
}

/// With commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
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
