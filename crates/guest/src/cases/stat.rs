// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread stat -- grep`: where pages that were read ahead went.

use foreread_guest::{Disk, GuestError};
use foreread_testbed::workload::ABSENT_PATTERN;
use serde_json::Value;

use super::{Beside, Case, PREPARE, grouped};
use crate::context::{Context, Row, document};

pub const CASE: Case = Case {
    name: "stat",
    about: "`stat --by machine -- grep -rq`, cold, through 1,400 files",
    beside: Beside::Another,
    run,
};

const FILES: usize = 1_400;
/// By how much the requests of `stat` may differ from those at the disk, percent: metadata is the
/// file system's, and belongs to no file.
const REQUESTS_OFF_PERCENT: u64 = 25;

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let script = format!(
        "{PREPARE}
mount $(disk data) /mnt/data
drop_caches; point stat
./foreread stat --by machine --json --output /run/out/stat.json \\
    -- grep -rq {ABSENT_PATTERN} /mnt/data/tree
point stat-end
"
    );
    let outcome = context
        .guest(kernel)?
        .disk(Disk::image("data", &context.tree(FILES)?))
        .script(script)
        .run()?;
    let at_disk = outcome.between("stat", "stat-end")?.disk("data").reads;
    let found = document(&outcome, "stat.json").map(|report| counts(&report));
    let said = outcome.output.trim().to_owned();
    let Ok(Some(counts)) = found else {
        return Ok(vec![
            Row::asserted(
                "fetched pages, by what became of them",
                "add up",
                "refused",
                false,
            )
            .detail(said),
        ]);
    };
    let sum = counts.used_on_time + counts.used_late + counts.other;
    let off = counts.requests.abs_diff(at_disk) * 100;
    Ok(vec![
        Row::asserted(
            "fetched pages, by what became of them",
            "add up",
            format!(
                "{} fetched, {} used",
                grouped(counts.fetched),
                grouped(counts.used_on_time + counts.used_late)
            ),
            counts.fetched > 0 && counts.fetched == sum,
        )
        .detail(said),
        Row::asserted(
            "requests by stat, at the disk",
            format!("at most {REQUESTS_OFF_PERCENT} % apart"),
            format!("{}, {}", grouped(counts.requests), grouped(at_disk)),
            off <= at_disk * REQUESTS_OFF_PERCENT,
        ),
    ])
}

#[derive(Debug, PartialEq, Eq)]
struct Counts {
    fetched: u64,
    used_on_time: u64,
    used_late: u64,
    other: u64,
    requests: u64,
}

/// The sums over all lines of the document.
fn counts(report: &Value) -> Option<Counts> {
    let lines = report["lines"].as_array()?;
    let sum = |key: &str| {
        let values = lines.iter().map(|line| line["since_start"][key].as_u64());
        values.sum::<Option<u64>>()
    };
    Some(Counts {
        fetched: sum("fetched_pages")?,
        used_on_time: sum("used_on_time_pages")?,
        used_late: sum("used_late_pages")?,
        other: sum("wasted_pages")? + sum("resident_unused_pages")? + sum("in_flight_pages")?,
        requests: sum("requests")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counts_are_sums_over_lines_since_the_start() {
        let line = |fetched: u64| {
            json!({"since_start": {
                "fetched_pages": fetched, "used_on_time_pages": fetched, "used_late_pages": 0,
                "wasted_pages": 1, "resident_unused_pages": 2, "in_flight_pages": 3, "requests": 4
            }})
        };
        let found = counts(&json!({"lines": [line(10), line(20)]})).unwrap();
        assert_eq!((found.fetched, found.other, found.requests), (30, 12, 8));
        let unknown = json!({"lines": [{"since_start": {"fetched_pages": null}}]});
        assert_eq!(counts(&unknown), None);
    }
}
