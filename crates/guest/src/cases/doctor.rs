// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of `foreread doctor` on this kernel.

use foreread_guest::GuestError;

use super::{Beside, Case, doctor_report};
use crate::context::{Context, Row};

pub const CASE: Case = Case {
    name: "doctor",
    about: "`foreread doctor`: whether everything works, and with which recorder",
    beside: Beside::Anything,
    run,
};

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let report = doctor_report(context, kernel)?;
    let lacking: Vec<String> = report["checks"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|check| check["status"] == "lacking")
        .map(|check| {
            let text = |key: &str| check[key].as_str().unwrap_or("").to_owned();
            format!("{}: {}", text("name"), text("found"))
        })
        .collect();
    let recorder = report["recorder"].as_str().unwrap_or("none").to_owned();
    let is_bpf = recorder == "bpf";
    Ok(vec![
        Row::asserted("recorder in use", "bpf", recorder, is_bpf),
        Row::asserted(
            "what is lacking",
            "nothing",
            if lacking.is_empty() {
                "nothing".to_owned()
            } else {
                lacking.len().to_string()
            },
            lacking.is_empty(),
        )
        .detail(lacking.join("; ")),
    ])
}
