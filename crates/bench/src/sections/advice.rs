// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time that `foreread advise` takes for 1,000 block devices.

use std::process::Stdio;

use foreread_measure::MeasureError;
use foreread_measure::process;
use foreread_measure::sample::Sample;
use foreread_testbed::fake_sysfs::{FakeDisk, Tree};
use serde_json::json;

use super::costs::milliseconds;
use crate::context::Context;
use crate::report::{Row, Section, Target};

const TARGET_MS: Target = Target::AtMost(1000.0);
const DEVICES: u32 = 1000;
/// Rules of udev that name a disk each, as a configuration that was written by a program has them.
const RULES: u32 = 100;

pub fn measure(context: &mut Context) -> Result<Section, MeasureError> {
    context.say("advice: 1,000 block devices in a made-up tree");
    let directory = std::env::temp_dir().join(format!("foreread-advice-{}", std::process::id()));
    let measured = times(context, &directory);
    // It is ours, and empty of anything else; left behind, it would only take room.
    let _ = std::fs::remove_dir_all(&directory);
    let times = measured?;
    let (low, high) = times.quartiles();
    Ok(Section {
        name: "advice",
        about: format!(
            "`foreread advise` for {DEVICES} block devices in a made-up sysfs, half of them \
             encrypted volumes on the other half, with {RULES} udev rules; the whole command, median."
        ),
        header: vec!["devices", "rounds", "half of them", "ms"],
        rows: vec![Row {
            cells: vec![
                foreread_core::grouped(DEVICES.into()),
                times.len().to_string(),
                format!("{} to {}", milliseconds(low), milliseconds(high)),
            ],
            value: times.median() / 1e6,
            digits: 1,
            target: TARGET_MS,
            details: json!({ "median_ns": times.median() }),
        }],
        notes: Vec::new(),
    })
}

fn times(context: &Context, directory: &std::path::Path) -> Result<Sample, MeasureError> {
    make(directory).map_err(MeasureError::system("make a tree of sysfs".to_owned()))?;
    let rounds = if context.quick { 11 } else { 31 };
    let mut times = Vec::new();
    for _ in 0..rounds {
        let mut command = std::process::Command::new(&context.foreread);
        command.arg("advise").arg("--root").arg(directory);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let ended = process::run_to(&mut command, &[0])?;
        times.push(ended.elapsed.as_nanos() as f64);
    }
    Ok(Sample::new(times))
}

fn make(directory: &std::path::Path) -> std::io::Result<()> {
    let tree = Tree::new(directory)?;
    for index in 0..DEVICES / 2 {
        let name = format!("nvme{index}n1");
        tree.disk(&FakeDisk::nvme(&name, &format!("259:{index}"), 1 << 40))?;
        let mapping = format!("data{index}");
        let uuid = format!("CRYPT-LUKS2-{index}");
        tree.disk(&FakeDisk::mapping(
            index,
            &mapping,
            &uuid,
            &[&name],
            1 << 40,
        ))?;
    }
    let rule =
        |index: u32| format!("KERNEL==\"nvme{index}n1\", ATTR{{queue/read_ahead_kb}}=\"128\"\n");
    let rules: String = (0..RULES).map(rule).collect();
    tree.write("etc/udev/rules.d/60-readahead.rules", &rules)
}
