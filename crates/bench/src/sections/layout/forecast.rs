// SPDX-License-Identifier: MIT OR Apache-2.0
//! How near the forecasts of `foreread layout` come to replays, before a move and after it.

use std::path::Path;
use std::process::Command;

use foreread_measure::MeasureError;
use foreread_measure::disk::{Layout, ModelledDisk, preset};
use foreread_measure::foreread::Foreread;
use foreread_measure::names::ALL_PROGRAM_NAMES;
use foreread_measure::programs::Program;
use foreread_model::Counters;
use serde_json::{Value, json};

use super::{applied, recorded, shown};
use crate::context::Context;
use crate::report::{Row, Section, Target};

/// Of the time that the disk is busy with a replay, in per cent.
const TARGET_PERCENT: Target = Target::AtMost(10.0);

/// Replays of each program on each disk.
const REPLAYS: usize = 3;

pub fn measure(context: &mut Context) -> Result<Section, MeasureError> {
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    for name in context.programs_of(&ALL_PROGRAM_NAMES) {
        let devices = context.devices_of(&["hdd", "usb"]);
        let Some(first) = devices.first() else {
            continue;
        };
        let mut disk = ModelledDisk::start(preset(first)?, Layout::Ext4)?;
        let program = match Program::install(&name, &mut disk) {
            Ok(program) => program,
            Err(error) if error.lacking().is_some() => {
                notes.push(format!("{name} is left out: {error}."));
                continue;
            }
            Err(error) => return Err(error),
        };
        let foreread = Foreread::new(&context.foreread)?;
        let profile = recorded(&foreread, &program, &disk)?;
        // What was said of a replay after the move, before it.
        let mut promised = Value::Null;
        for device in &devices {
            context.say(&format!("layout: {} on {device}", program.title()));
            let shown = shown_on(&foreread, &disk, &profile, device)?;
            if *device == "hdd" {
                promised = shown["after"].clone();
            }
            let done = replayed(&foreread, &disk, &profile)?;
            rows.push(row(&program, device, "before", &shown["now"], &done));
        }
        disk.set_parameters(preset("hdd")?)?;
        // ext4 asks at its mount whether the disk has a head.
        disk.forget()?;
        let moved = disk
            .testbed()
            .instantly(|| applied(&foreread, &disk, &profile));
        match moved {
            Ok(moved) if moved["moved_bytes"] != 0 => {}
            Ok(moved) => {
                notes.push(format!(
                    "{name}: nothing is moved: {}.",
                    moved["skipped"][0]
                ));
                continue;
            }
            Err(error) => {
                notes.push(format!("{name}: nothing is moved: {error}."));
                continue;
            }
        }
        for device in &devices {
            let shown = shown_on(&foreread, &disk, &profile, device)?;
            let done = replayed(&foreread, &disk, &profile)?;
            let is_promised = *device == "hdd" && !promised.is_null();
            let forecast = if is_promised {
                &promised
            } else {
                &shown["now"]
            };
            rows.push(row(&program, device, "after", forecast, &done));
        }
    }
    Ok(Section {
        name: "layout",
        about:
            "What `foreread layout show` forecasts of a replay, and what the modelled disk did in \
                one: the time that it was busy,\nand the seeks of its head; the median of three. \
                Then `layout apply --disk hdd` moves the files. The forecast of\n`after` on hdd is \
                the one that was made before the move, on usb one of the files where they are then."
                .to_owned(),
        header: vec![
            "program",
            "disk",
            "move",
            "forecast s",
            "replay s",
            "seeks forecast",
            "seeks",
            "off by %",
        ],
        rows,
        notes,
    })
}

fn shown_on(
    foreread: &Foreread,
    disk: &ModelledDisk,
    profile: &Path,
    device: &str,
) -> Result<Value, MeasureError> {
    disk.set_parameters(preset(device)?)?;
    shown(foreread, disk, profile, device)
}

/// What the disk did in the median of some replays, with nothing in memory.
fn replayed(
    foreread: &Foreread,
    disk: &ModelledDisk,
    profile: &Path,
) -> Result<Counters, MeasureError> {
    let mut replays = Vec::new();
    for _ in 0..REPLAYS {
        replays.push(one_replay(foreread, disk, profile)?);
    }
    replays.sort_by_key(|counters| counters.busy_ns);
    Ok(replays[REPLAYS / 2])
}

fn one_replay(
    foreread: &Foreread,
    disk: &ModelledDisk,
    profile: &Path,
) -> Result<Counters, MeasureError> {
    disk.forget()?;
    disk.testbed().drop_caches()?;
    disk.testbed().reset_counters();
    let mut command = Command::new(foreread.executable());
    foreread.set_environment(&mut command);
    let output = command.arg("replay").arg(profile).output();
    let output = output.map_err(MeasureError::system("start foreread"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(MeasureError::Report("foreread replay", why));
    }
    Ok(disk.testbed().counters())
}

fn row(program: &Program, device: &str, when: &str, forecast: &Value, done: &Counters) -> Row {
    let number = |name: &str| forecast[name].as_u64().unwrap_or(0);
    let seconds = |ns: u64| format!("{:.3}", ns as f64 / 1e9);
    let off = number("time_ns").abs_diff(done.busy_ns) as f64 / done.busy_ns.max(1) as f64;
    // Without a head, nothing counts seeks.
    let has_head = done.seeks > 0;
    let seeks = |seeks: u64| match has_head {
        true => seeks.to_string(),
        false => String::new(),
    };
    Row {
        cells: vec![
            program.title().to_owned(),
            device.to_owned(),
            when.to_owned(),
            seconds(number("time_ns")),
            seconds(done.busy_ns),
            seeks(number("seeks")),
            seeks(done.seeks),
        ],
        value: off * 100.0,
        digits: 1,
        target: TARGET_PERCENT,
        details: json!({
            "forecast": forecast,
            "busy_ns": done.busy_ns,
            "seeks": done.seeks,
            "requests": done.requests,
            "bytes": done.bytes,
        }),
    }
}
