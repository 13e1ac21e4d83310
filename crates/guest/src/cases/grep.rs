// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cold `grep -rq` through small files: alone, and three times by `foreread run`. Requests are
//! told here and judged in [`hdd`](super::hdd), where the disk is slower than the processor.

use foreread_guest::{Disk, GuestError};
use foreread_testbed::workload::{ABSENT_PATTERN, SMALL_FILES};
use serde_json::Value;

use super::{Beside, Case, PREPARE, grouped, ratio};
use crate::context::{Context, Row, document};

pub const CASE: Case = Case {
    name: "grep",
    about: "`run -- grep -rq`, cold, through 8,000 small files on ext4: requests at the virtual disk",
    beside: Beside::Another,
    run,
};

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let script = format!(
        "{PREPARE}
mount $(disk data) /mnt/data
drop_caches; point alone; grep -rq {ABSENT_PATTERN} /mnt/data/tree; point alone-end
for run in 1 2 3; do
    drop_caches
    point run$run
    ./foreread run --json --output /run/out/run$run.json -- grep -rq {ABSENT_PATTERN} /mnt/data/tree
    point run$run-end
done
./foreread show --json -- grep -rq {ABSENT_PATTERN} /mnt/data/tree >/run/out/profile.json
"
    );
    let outcome = context
        .guest(kernel)?
        .disk(Disk::image("data", &context.tree(SMALL_FILES)?))
        .script(script)
        .run()?;
    let reads = |point: &str| -> Result<u64, GuestError> {
        let between = outcome.between(point, &format!("{point}-end"))?;
        Ok(between.disk("data").reads)
    };
    let alone = reads("alone")?;
    let (first, second, third) = (reads("run1")?, reads("run2")?, reads("run3")?);
    let first_report = document(&outcome, "run1.json")?;
    let report = document(&outcome, "run2.json")?;
    let profile = document(&outcome, "profile.json").unwrap_or(Value::Null);

    let recorder = first_report["recorder"].as_str().unwrap_or("none");
    let blind_spots = profile["source"]["blind_spots"].as_array();
    let blind_spots = blind_spots.map(|spots| {
        let spots = spots.iter().filter_map(Value::as_str);
        spots.collect::<Vec<_>>().join(", ")
    });
    let sees_all = blind_spots.as_deref() == Some("");
    let seen = match blind_spots.as_deref() {
        None => format!("{recorder}, no profile"),
        Some("") => format!("{recorder}, none"),
        Some(spots) => format!("{recorder}, {spots}"),
    };
    let troubles = first_report["trouble"].as_array().into_iter().flatten();
    let troubles: Vec<&str> = troubles.filter_map(Value::as_str).collect();
    let accounting = accounting(&report["accounting"]);
    Ok(vec![
        Row::told("the kernel alone, requests", grouped(alone)),
        Row::told("first run, requests", grouped(first)),
        Row::told("second run, requests", ratio(alone, second)),
        Row::told("third run, requests", ratio(alone, third)),
        Row::asserted(
            "recorder and blind spots",
            "bpf, none",
            seen,
            recorder == "bpf" && sees_all,
        )
        .detail(troubles.join("; ")),
        Row::asserted(
            "accounting of the second run",
            "known, adds up",
            accounting.0,
            accounting.1,
        ),
    ])
}

/// The pages that a replay fetched and their use, and whether that is known and adds up.
fn accounting(of: &Value) -> (String, bool) {
    let pages = |key: &str| of[key].as_u64();
    let parts = [
        "used_on_time_pages",
        "used_late_pages",
        "wasted_pages",
        "resident_unused_pages",
        "in_flight_pages",
    ];
    let parts: Option<Vec<u64>> = parts.into_iter().map(pages).collect();
    match (pages("fetched_pages"), parts) {
        (Some(fetched), Some(parts)) => {
            let used = parts[0] + parts[1];
            let text = format!("{} pages, {} used", grouped(fetched), grouped(used));
            (text, fetched > 0 && fetched == parts.iter().sum::<u64>())
        }
        _ => ("unknown".to_owned(), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn accounting_must_be_known_and_add_up() {
        let mut account = json!({
            "fetched_pages": 1_010, "used_on_time_pages": 900, "used_late_pages": 100,
            "wasted_pages": 0, "resident_unused_pages": 10, "in_flight_pages": 0
        });
        let exact = accounting(&account);
        assert_eq!(exact, ("1,010 pages, 1,000 used".to_owned(), true));
        account["wasted_pages"] = json!(1);
        assert!(!accounting(&account).1, "one page too many");
        assert_eq!(accounting(&Value::Null), ("unknown".to_owned(), false));
    }
}
