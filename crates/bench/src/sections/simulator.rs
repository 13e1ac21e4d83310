// SPDX-License-Identifier: MIT OR Apache-2.0
//! The speed of the simulator, and its distance from measurements on real machines.

use foreread_core::grouped;
use foreread_measure::MeasureError;
use foreread_sim::Scenario;
use foreread_sim::engine::{Keep, Outcome, Simulation};
use serde_json::json;

use super::costs::elapsed_ns;
use crate::context::Context;
use crate::report::{Row, Section, Target};

/// Scenarios that are played for speed: name, scenario, and millions of page accesses a second.
const SPEED: [(&str, &str, f64); 3] = [
    (
        "sequential, large folios",
        include_str!("simulator/scan-folios.toml"),
        20.0,
    ),
    (
        "sequential, folios of a page",
        include_str!("simulator/scan-pages.toml"),
        20.0,
    ),
    ("mixed suite", include_str!("simulator/mixed.toml"), 5.0),
];

/// A table and its scenario.
macro_rules! tables {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../../tests/scenarios/", $name, ".toml"))),)*]
    };
}

const TABLES: [(&str, &str); 14] = tables![
    "hdd-io-size",
    "sweep-intel-x25m-ssd-80G",
    "sweep-sandisk-sata5000-ssd-30G",
    "sweep-teclast-coolflash-usb-32G",
    "sweep-sandisk-cruzer-usb-4G",
    "sweep-generic-usb-2G",
    "parallel-hp-eva-multipath",
    "parallel-striped-sata-hw-raid",
    "unplug-gain",
    "dd-2005",
    "two-readers-2005",
    "label-probe",
    "label-probe-capped",
    "thrashing",
];

pub fn measure(context: &mut Context) -> Result<Section, MeasureError> {
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    for (name, text, least) in SPEED {
        context.say(&format!("simulator: {name}"));
        rows.push(speed(name, text, least, context.quick)?);
    }
    for (name, text) in TABLES {
        context.say(&format!("simulator: the table {name}"));
        rows.push(fidelity(name, text, &mut notes)?);
    }
    Ok(Section {
        name: "simulator",
        about: "Page accesses that the simulator plays on one core, in millions per second (the \
                best of the rounds); and, for each table of measured machines, the share of rows \
                within the tolerance that the scenario gives."
            .to_owned(),
        header: vec!["what", "of", "M/s or %"],
        rows,
        notes,
    })
}

fn parse(name: &str, text: &str) -> Result<Scenario, MeasureError> {
    Scenario::parse(name, text).map_err(|error| MeasureError::Report("read", error.to_string()))
}

fn runs(scenario: &Scenario) -> Vec<Outcome> {
    let run = |run| Simulation::new(scenario.setup(run), Keep::default()).run();
    scenario.combinations().iter().map(run).collect()
}

fn speed(name: &str, text: &str, least: f64, quick: bool) -> Result<Row, MeasureError> {
    let scenario = parse(name, text)?;
    let (mut best_ns, mut accesses) = (f64::INFINITY, 0);
    for _ in 0..if quick { 2 } else { 5 } {
        let (outcomes, ns) = elapsed_ns(|| runs(&scenario));
        accesses = outcomes.iter().map(|o| o.total.pages.accesses).sum();
        best_ns = best_ns.min(ns);
    }
    Ok(Row {
        cells: vec![name.to_owned(), format!("{} accesses", grouped(accesses))],
        value: accesses as f64 * 1e3 / best_ns.max(1.0),
        digits: 1,
        target: Target::AtLeast(least),
        details: json!({ "accesses": accesses, "best_ns": best_ns }),
    })
}

fn fidelity(name: &str, text: &str, notes: &mut Vec<String>) -> Result<Row, MeasureError> {
    let scenario = parse(name, text)?;
    let rows = scenario.check(&scenario.combinations(), &runs(&scenario));
    let reached = rows.iter().filter(|row| row.reached).count();
    if let Some(reason) = rows.iter().find_map(|row| row.known_short.as_ref()) {
        notes.push(format!("{name}: {reason}."));
    }
    Ok(Row {
        cells: vec![name.to_owned(), format!("{reached} of {} rows", rows.len())],
        value: reached as f64 * 100.0 / rows.len().max(1) as f64,
        digits: 0,
        target: Target::AtLeast(90.0),
        details: json!({ "rows": rows.len(), "reached": reached }),
    })
}
