// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads of foreread itself from a cold disk.

use std::path::Path;

use foreread_guest::GuestError;

use super::{Beside, Case, PREPARE};
use crate::context::{Context, Row};

pub const CASE: Case = Case {
    name: "cold-start",
    about: "what `foreread run` reads from a cold disk for itself until its command is executed",
    beside: Beside::Another,
    run,
};

const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../scripts/own-cold-start.sh"
);
/// With a profile: a start on which a user waits.
const KB_MAX: u64 = 2_000;
const WITH_PROFILE: &str = "with a profile:";
const WITHOUT_PROFILE: &str = "without a profile:";

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let outcome = context
        .guest(kernel)?
        .file(Path::new(SCRIPT), "own-cold-start.sh")
        .script(format!(
            "{PREPARE}START_PAGES=true sh ./own-cold-start.sh ./foreread"
        ))
        .run()?;
    let kb = |line: &str| own_kb(&outcome.output, line);
    let with_profile = kb(WITH_PROFILE)?;
    Ok(vec![
        Row::asserted(
            "own cold start with a profile, kB read",
            format!("at most {KB_MAX}"),
            with_profile,
            with_profile <= KB_MAX,
        ),
        Row::told("the same when it records", kb(WITHOUT_PROFILE)?),
    ])
}

/// The last number of a line of the script: kB that foreread itself reads. The C library and the
/// dynamic linker, which are always in memory, are left out:
///
/// ```text
/// with a profile:     3678 KiB in 135 requests; without C library and dynamic linker  1706 KiB
/// ```
fn own_kb(output: &str, line: &str) -> Result<u64, GuestError> {
    let found = output.lines().find(|text| text.starts_with(line));
    let kib = found
        .and_then(|text| text.rsplit_once(" KiB")?.0.rsplit(' ').next())
        .and_then(|number| number.parse::<u64>().ok());
    kib.map(|kib| (kib * 1024).div_ceil(1000)).ok_or_else(|| {
        let said = output.lines().last().unwrap_or("nothing");
        GuestError::Unexpected(format!("own-cold-start.sh ended with: {said}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_of_the_right_line_counts() {
        let output = "a heading\n\
            without a profile:  4417 KiB in 160 requests; without C library and dynamic linker  2549 KiB\n\
            with a profile:     3678 KiB in 135 requests; without C library and dynamic linker  1706 KiB\n";
        let kb = |line| own_kb(output, line).ok();
        assert_eq!(kb(WITH_PROFILE), Some(1_747));
        assert_eq!(kb(WITHOUT_PROFILE), Some(2_611));
        assert!(own_kb("own-cold-start: no loop device", WITH_PROFILE).is_err());
    }
}
