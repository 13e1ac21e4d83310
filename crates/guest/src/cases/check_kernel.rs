// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread check-kernel`: whether this kernel reads ahead as the model of it does.

use std::time::Duration;

use foreread_guest::GuestError;
use serde_json::Value;

use super::{Beside, Case, PREPARE};
use crate::context::{Context, Row, document};

pub const CASE: Case = Case {
    name: "check-kernel",
    about: "`check-kernel --programs N`, random programs equal on kernel and model, by BPF and residency",
    beside: Beside::Another,
    run,
};

/// How check-kernel can look at the page cache.
pub const WAYS: [&str; 2] = ["bpf", "residency"];
/// 6.1 has no cachestat(2) and takes 0.6 s for each program and file system by residency.
const SECONDS_A_PROGRAM: u64 = 5;

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let (programs, seed) = (context.programs, context.seed);
    let ways = context.ways.join(" ");
    let script = format!(
        "{PREPARE}
for way in {ways}; do
    ./foreread check-kernel --method $way --count {programs} --seed {seed} --json \\
        >/run/out/$way.json 2>/run/out/$way.said
    cat /run/out/$way.said
done
"
    );
    let outcome = context
        .guest(kernel)?
        .time_limit(Duration::from_secs(
            300 + u64::from(programs) * SECONDS_A_PROGRAM,
        ))
        .script(script)
        .run()?;
    let mut rows = Vec::new();
    for way in &context.ways {
        let name = format!("equal programs by {way}");
        let target = "all, on ext4, xfs, btrfs";
        rows.push(match document(&outcome, &format!("{way}.json")) {
            Ok(report) => {
                let (value, all) = equal(&report);
                Row::asserted(name, target, value, all).detail(first_difference(&report))
            }
            Err(_) => {
                let said = outcome.file(&format!("{way}.said"))?;
                Row::asserted(name, target, "refused", false).detail(said.trim().to_owned())
            }
        });
    }
    Ok(rows)
}

/// `30/30/30 of 30`, and whether all of three file systems were.
fn equal(report: &Value) -> (String, bool) {
    let places: Vec<&Value> = report["places"].as_array().into_iter().flatten().collect();
    let number = |place: &Value, key: &str| place[key].as_u64().unwrap_or(0);
    let counts: Vec<String> = places
        .iter()
        .map(|place| number(place, "equal_programs").to_string())
        .collect();
    let of = places.first().map_or(0, |place| number(place, "programs"));
    let all = report["equal"] == true && places.len() == 3 && of > 0;
    (format!("{} of {of}", counts.join("/")), all)
}

/// The first difference of each place, as far as it is told in one line.
fn first_difference(report: &Value) -> String {
    let places = report["places"].as_array().into_iter().flatten();
    let told = places.filter_map(|place| {
        let difference = &place["first_difference"];
        let text = |key: &str| difference[key].as_str().unwrap_or("").to_owned();
        difference.is_object().then(|| {
            format!(
                "{}: program {}, {}: kernel {}, model {}",
                place["name"].as_str().unwrap_or(""),
                difference["program"],
                text("what"),
                text("kernel"),
                text("model")
            )
        })
    });
    told.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn all_of_three_places_must_be_equal() {
        let place = |equal: u64| json!({"name": "ext4", "programs": 30, "equal_programs": equal});
        let good = json!({"equal": true, "places": [place(30), place(30), place(30)]});
        assert_eq!(equal(&good), ("30/30/30 of 30".to_owned(), true));
        let bad = json!({"equal": false, "places": [place(30), place(29), place(30)]});
        assert_eq!(equal(&bad), ("30/29/30 of 30".to_owned(), false));
        let left_out = json!({"equal": true, "places": [place(30)]});
        assert!(!equal(&left_out).1, "two file systems were left out");
        assert!(!equal(&Value::Null).1);
    }
}
