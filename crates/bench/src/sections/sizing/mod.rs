// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether `foreread probe` finds the plateau of ten devices, and how long it takes.

mod sweep;

use foreread_device::SIZES_KIB;
use foreread_measure::disk::preset;
use foreread_measure::foreread::Foreread;
use foreread_measure::{MeasureError, process};
use foreread_model::DiskParameters;
use foreread_testbed::{Testbed, TestbedConfig};
use serde_json::{Value, json};

use crate::context::Context;
use crate::report::{Row, Section, Target};
use sweep::Swept;

/// Published sweeps of 400 MiB by readahead size (Message-ID <20100301052651.857984880@intel.com>).
/// Each has the time of a request of that size, and the size that was marked as the plateau.
const PUBLISHED: &str = include_str!("devices.tsv");
/// Devices without a published mark: their mark is the result of a long sweep.
const STANDARD: [&str; 5] = ["hdd", "usb", "cloud", "nvme", "nfs"];
/// Parts that aren't written take no memory.
const CAPACITY_BYTES: u64 = 8 << 30;
const SLOW_BYTES_PER_S: f64 = 20e6;
const SECONDS_MAX: f64 = 10.0;
const SECONDS_MAX_SLOW: f64 = 60.0;
/// Minimum throughput of the found size, in percent of the best.
const SHARE_MIN: f64 = 98.0;

struct Device {
    name: String,
    disk: DiskParameters,
    marked_kib: Option<u64>,
}

/// One run of `foreread probe`.
struct Probed {
    plateau_kib: u64,
    seconds: f64,
    document: Value,
}

pub fn measure(context: &mut Context) -> Result<Section, MeasureError> {
    let foreread = Foreread::new(&context.foreread)?;
    let times = if context.quick { 1 } else { 5 };
    let mut rows = Vec::new();
    for device in devices()? {
        context.say(&format!("sizing: {}, a long sweep", device.name));
        let testbed = Testbed::start(TestbedConfig::new(device.disk.clone(), CAPACITY_BYTES))?;
        let rounds = if context.quick { 1 } else { 3 };
        let swept = Swept::of(&testbed, rounds)?;
        let mut probed = Vec::new();
        for time in 1..=times {
            context.say(&format!("sizing: {}, probe {time} of {times}", device.name));
            probed.push(probe(&testbed, &foreread)?);
        }
        rows.extend(rows_of(&device, &swept, &probed));
    }
    Ok(Section {
        name: "sizing",
        about: "`foreread probe` on devices of published sweeps and on the five standard disks: in \
                how many runs the plateau it found is the marked size or next to it, the slowest \
                run, and the throughput at the worst size found, in percent of the best of a long \
                sweep. Of the standard disks, the mark is what the long sweep says."
            .to_owned(),
        header: vec!["device", "marked", "found", "what", "measured"],
        rows,
        notes: vec![
            "A request of the testbed is at most 1 MiB, and the time of a published device depends \
             on the request: so the sweep of `intel-x25m-ssd-80G` ends at the size below its mark."
                .to_owned(),
            "`nvme` and `nfs` are bound by this machine's processors: loop device and FUSE copy each \
             byte twice."
                .to_owned(),
        ],
    })
}

fn devices() -> Result<Vec<Device>, MeasureError> {
    let mut devices = Vec::new();
    for line in PUBLISHED.lines().filter(|line| !line.starts_with('#')) {
        let mut cells = line.split('\t');
        let mut cell = || cells.next().unwrap_or_default();
        let (name, marked, times) = (cell().to_owned(), cell(), cell());
        let mut disk = preset("usb")?;
        let wrong = |error: String| MeasureError::Report("devices.tsv", error);
        disk.set("latency_ns", "0")
            .and_then(|()| disk.set("transfer_times", times))
            .map_err(|error| wrong(error.to_string()))?;
        let marked = marked.parse::<u64>();
        devices.push(Device {
            name,
            disk,
            marked_kib: Some(marked.map_err(|error| wrong(error.to_string()))?),
        });
    }
    for name in STANDARD {
        devices.push(Device {
            name: name.to_owned(),
            disk: preset(name)?,
            marked_kib: None,
        });
    }
    Ok(devices)
}

fn probe(testbed: &Testbed, foreread: &Foreread) -> Result<Probed, MeasureError> {
    let mut command = testbed.command(foreread.executable());
    foreread.set_environment(&mut command);
    command.arg("probe").arg("--json").arg(testbed.device());
    let printed = process::output_of(&mut command)?;
    let unreadable = |what: String| MeasureError::Report("foreread probe", what);
    let document: Value =
        serde_json::from_slice(&printed).map_err(|error| unreadable(error.to_string()))?;
    let number = |key: &str| {
        let number = document.get(key).and_then(Value::as_u64);
        number.ok_or_else(|| unreadable(format!("there is no {key}")))
    };
    Ok(Probed {
        plateau_kib: number("plateau_kib")?,
        seconds: number("elapsed_ns")? as f64 / 1e9,
        document,
    })
}

fn place(kib: u64) -> usize {
    SIZES_KIB
        .iter()
        .position(|size| *size == kib)
        .unwrap_or(usize::MAX)
}

fn rows_of(device: &Device, swept: &Swept, probed: &[Probed]) -> [Row; 3] {
    let marked_kib = device.marked_kib.unwrap_or_else(|| swept.plateau_kib());
    let near = |run: &&Probed| place(run.plateau_kib).abs_diff(place(marked_kib)) <= 1;
    let hits = probed.iter().filter(near).count() as f64;
    let slowest = probed.iter().map(|run| run.seconds).fold(0.0, f64::max);
    let shares = probed.iter().map(|run| swept.percent_at(run.plateau_kib));
    let share = shares.fold(100.0, f64::min);
    let limit = if swept.best_bytes_per_s() >= SLOW_BYTES_PER_S {
        SECONDS_MAX
    } else {
        SECONDS_MAX_SLOW
    };
    let found: Vec<String> = probed
        .iter()
        .map(|run| run.plateau_kib.to_string())
        .collect();
    let row = |what: &str, value, digits, target| Row {
        cells: vec![
            device.name.clone(),
            marked_kib.to_string(),
            found.join(" "),
            what.to_owned(),
        ],
        value,
        digits,
        target,
        details: json!({
            "device": device.name,
            "what": what,
            "sweep": swept.document(),
            "probes": probed.iter().map(|run| run.document.clone()).collect::<Value>(),
        }),
    };
    [
        row(
            "runs at the mark or next to it",
            hits,
            0,
            Target::AtLeast(probed.len() as f64),
        ),
        row("slowest run, s", slowest, 1, Target::AtMost(limit)),
        row("percent of the best", share, 1, Target::AtLeast(SHARE_MIN)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_ten_devices_and_their_marks_are_sizes() {
        let devices = devices().unwrap();
        assert_eq!(devices.len(), 10);
        let marks = devices.iter().filter_map(|device| device.marked_kib);
        assert_eq!(marks.filter(|kib| place(*kib) < SIZES_KIB.len()).count(), 5);
    }
}
