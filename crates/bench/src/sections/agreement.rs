// SPDX-License-Identifier: MIT OR Apache-2.0
//! How near the simulator comes to real programs on the testbed.

use std::path::PathBuf;

use foreread_bench::agreement::{self, Agreement};
use foreread_measure::MeasureError;
use foreread_measure::disk::{Layout, ModelledDisk, preset};
use foreread_measure::names::ALL_PROGRAM_NAMES;
use foreread_measure::programs::Program;
use serde_json::json;

use super::cold::seconds;
use crate::context::Context;
use crate::report::{Row, Section, Target};

/// The disks that the machine's own share is small on.
const DEVICES: [&str; 3] = ["hdd", "usb", "cloud"];
/// Maximum relative error of the simulated time and requests against the real ones.
const TIME_OFF: f64 = 0.1;
const REQUESTS_OFF: f64 = 0.05;

pub fn measure(context: &mut Context) -> Result<Section, MeasureError> {
    let scratch = tempfile::tempdir().map_err(MeasureError::system("make a directory"))?;
    let keep = context.keep.clone();
    let directory = keep.clone().unwrap_or_else(|| scratch.path().to_owned());
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    for name in context.programs_of(&ALL_PROGRAM_NAMES) {
        let mut disk = ModelledDisk::start(preset(DEVICES[0])?, Layout::Ext4)?;
        let program = match Program::install(&name, &mut disk) {
            Ok(program) => program,
            Err(error) if error.lacking().is_some() => {
                notes.push(format!("{name} is left out: {error}."));
                continue;
            }
            Err(error) => return Err(error),
        };
        let devices = context.devices.clone();
        for device in devices.iter().filter(|d| DEVICES.contains(&d.as_str())) {
            context.say(&format!("agreement: {} on {device}", program.title()));
            disk.set_parameters(preset(device)?)?;
            let path: PathBuf = directory.join(format!("{name}-{device}"));
            let trace = path.with_extension("frt");
            let runs = if context.quick { 1 } else { 3 };
            let measured = agreement::measure(&disk, &program, &context.foreread, runs, &trace)?;
            if keep.is_some() {
                agreement::write_requests(&measured, &path)?;
            }
            rows.extend(rows_of(&program, device, &measured));
        }
    }
    Ok(Section {
        name: "agreement",
        about: "Programs from a cold disk with the kernel's default readahead, for real and \
                simulated from their own recorded traces under `linux`: time in seconds, and \
                requests. The ratio is simulated by real."
            .to_owned(),
        header: vec!["program", "disk", "what", "real", "simulated", "off, %"],
        rows,
        notes,
    })
}

fn rows_of(program: &Program, device: &str, measured: &Agreement) -> [Row; 2] {
    let row = |what: &str, real: String, simulated: String, ratio: f64, off: f64| Row {
        cells: vec![
            program.title().to_owned(),
            device.to_owned(),
            what.to_owned(),
            real,
            simulated,
        ],
        value: (ratio - 1.0).abs() * 100.0,
        digits: 1,
        target: Target::AtMost(off * 100.0),
        details: json!({
            "program": program.name(),
            "disk": device,
            "ratio": ratio,
            "real_ns": measured.real.iter().map(|start| start.wall_ns).collect::<Vec<_>>(),
            "host_ns": measured.host_ns,
            "recorded_ns": measured.recorded_ns,
            "simulated_ns": measured.simulated.elapsed_ns,
            "real_requests": measured.real_requests(),
            "simulated_requests": measured.requests.len(),
            "real_bytes": measured.real_bytes(),
            "simulated_bytes": measured.simulated_bytes(),
        }),
    };
    [
        row(
            "time",
            seconds(measured.real_ns()),
            seconds(measured.simulated.elapsed_ns),
            measured.time_ratio(),
            TIME_OFF,
        ),
        row(
            "requests",
            format!("{:.0}", measured.real_requests()),
            measured.requests.len().to_string(),
            measured.requests_ratio(),
            REQUESTS_OFF,
        ),
    ]
}
