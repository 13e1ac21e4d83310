// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scenarios of `tests/scenarios/` against measurements on real machines. A row reaches its
//! value, or says in the scenario why it doesn't.
#![forbid(unsafe_code)]

use std::fs;
use std::path::PathBuf;

use foreread_sim::Scenario;
use foreread_sim::engine::{Keep, Simulation};
use foreread_sim::scenario::{Checked, Combination};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios")
}

fn names() -> Vec<String> {
    let entries = fs::read_dir(folder()).expect("tests/scenarios");
    let names = entries.flatten().map(|entry| entry.file_name());
    let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
    names.retain(|name| name.ends_with(".toml"));
    names.sort();
    names
}

fn scenario(name: &str) -> Scenario {
    let text = fs::read_to_string(folder().join(name)).expect(name);
    Scenario::parse(name, &text).unwrap_or_else(|error| panic!("{error}"))
}

fn checked(name: &str) -> (Scenario, Vec<Combination>, Vec<Checked>) {
    let scenario = scenario(name);
    let runs = scenario.combinations();
    let run = |run| Simulation::new(scenario.setup(run), Keep::default()).run();
    let outcomes: Vec<_> = runs.iter().map(run).collect();
    for outcome in &outcomes {
        assert!(
            outcome.total.pages.balances(),
            "{name}: {:?}",
            outcome.total
        );
    }
    let rows = scenario.check(&runs, &outcomes);
    (scenario, runs, rows)
}

fn describe(name: &str, runs: &[Combination], row: &Checked) -> String {
    let run = &runs[row.run];
    format!(
        "{name}: {} {} KiB, {} programs: {} {} expected, {:.2} got",
        run.policy,
        run.read_ahead_pages * 4,
        run.count,
        row.metric.name(),
        row.expected,
        row.got
    )
}

#[test]
fn every_measured_row_is_reached_or_says_why_not() {
    let (mut wrong, mut rows_seen) = (Vec::new(), 0);
    for name in names() {
        let (_, runs, rows) = checked(&name);
        rows_seen += rows.len();
        for row in &rows {
            // A reason that is not needed any more has to go, too.
            if row.reached == row.known_short.is_some() {
                wrong.push(describe(&name, &runs, row));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(rows_seen > 180, "{rows_seen} rows");
}

#[test]
fn nine_rows_in_ten_of_each_sweep_are_near_or_the_device_is_named() {
    // The X25-M goes on speeding up with the size of requests up to 2 MiB: no two parameters do.
    const TOO_RICH: [&str; 1] = ["sweep-intel-x25m-ssd-80G.toml"];
    for name in names().iter().filter(|name| name.starts_with("sweep-")) {
        let (_, _, rows) = checked(name);
        let near = rows.iter().filter(|row| row.reached).count();
        let enough = near * 10 >= rows.len() * 9;
        assert_eq!(
            enough,
            !TOO_RICH.contains(&&**name),
            "{name}: {near} of {}",
            rows.len()
        );
    }
}

#[test]
fn throughput_has_come_to_its_plateau_at_the_marked_row() {
    for name in names().iter().filter(|name| name.starts_with("sweep-")) {
        let (_, _, rows) = checked(name);
        let best = rows.iter().map(|row| row.got).fold(0.0, f64::max);
        let marked = rows.iter().filter(|row| row.mark == "plateau");
        let lowest = marked.map(|row| row.got).fold(f64::MAX, f64::min);
        assert!(lowest > best * 0.96, "{name}: {lowest:.1} of {best:.1}");
    }
}

#[test]
fn what_was_fitted_says_how() {
    for name in names() {
        let scenario = scenario(&name);
        let fitted = scenario.fit_notes().is_some_and(|fit| !fit.how.is_empty());
        let (_, _, rows) = checked(&name);
        assert!(fitted || !rows.iter().any(|row| row.fitted), "{name}");
    }
}
