// SPDX-License-Identifier: MIT OR Apache-2.0
//! How near the forecast of `foreread layout` comes to a replay.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use foreread_measure::MeasureError;
use foreread_measure::disk::{Layout, ModelledDisk, preset};
use foreread_measure::foreread::Foreread;
use foreread_measure::names::ALL_PROGRAM_NAMES;
use foreread_measure::programs::Program;
use foreread_model::Counters;
use serde_json::{Value, json};

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
        for device in devices {
            context.say(&format!("layout: {} on {device}", program.title()));
            disk.set_parameters(preset(device)?)?;
            let shown = shown(&foreread, &disk, &profile, device)?;
            let mut replays = Vec::new();
            for _ in 0..REPLAYS {
                replays.push(replayed(&foreread, &disk, &profile)?);
            }
            replays.sort_by_key(|counters| counters.busy_ns);
            rows.push(row(&program, device, &shown, &replays[REPLAYS / 2]));
        }
    }
    Ok(Section {
        name: "layout",
        about:
            "What `foreread layout show` forecasts of a replay, and what the modelled disk did in \
                one: the time that it was busy,\nand the seeks of its head; the median of three. \
                `after` is the forecast of a replay after the planned moves."
                .to_owned(),
        header: vec![
            "program",
            "disk",
            "forecast s",
            "replay s",
            "seeks forecast",
            "seeks",
            "after s",
            "seeks after",
            "off by %",
        ],
        rows,
        notes,
    })
}

/// The profile of a run that the disk took no time for.
fn recorded(
    foreread: &Foreread,
    program: &Program,
    disk: &ModelledDisk,
) -> Result<PathBuf, MeasureError> {
    disk.forget()?;
    let profile = foreread.state().join("layout.frp");
    let before: [OsString; 5] = [
        foreread.executable().into(),
        "record".into(),
        "--output".into(),
        profile.clone().into(),
        "--".into(),
    ];
    let mut command = program.command(disk, &before);
    foreread.set_environment(&mut command);
    let done = disk.testbed().instantly(|| command.output());
    done.map_err(MeasureError::system("start foreread"))?;
    match profile.exists() {
        true => Ok(profile),
        false => Err(MeasureError::Report(
            "foreread record",
            "it kept no profile".to_owned(),
        )),
    }
}

/// What is said of the disk.
fn shown(
    foreread: &Foreread,
    disk: &ModelledDisk,
    profile: &Path,
    device: &str,
) -> Result<Value, MeasureError> {
    let bad = |why: String| MeasureError::Report("foreread layout", why);
    let mut command = Command::new(foreread.executable());
    foreread.set_environment(&mut command);
    command.args(["layout", "show", "--json", "--disk", device]);
    let output = disk.testbed().instantly(|| command.arg(profile).output());
    let output = output.map_err(MeasureError::system("start foreread"))?;
    let document: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| bad(error.to_string()))?;
    let at = disk.root().to_string_lossy().into_owned();
    let all = document["file_systems"].as_array();
    let ours = all.and_then(|all| all.iter().find(|one| one["mount_point"] == at.as_str()));
    ours.cloned().ok_or_else(|| bad(format!("nothing of {at}")))
}

/// What the disk did in one replay, with nothing in memory.
fn replayed(
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

fn row(program: &Program, device: &str, shown: &Value, done: &Counters) -> Row {
    let number = |part: &str, name: &str| shown[part][name].as_u64().unwrap_or(0);
    let seconds = |ns: u64| format!("{:.3}", ns as f64 / 1e9);
    let forecast_ns = number("now", "time_ns");
    let off = forecast_ns.abs_diff(done.busy_ns) as f64 / done.busy_ns.max(1) as f64;
    // Without a head, nothing counts seeks.
    let has_head = done.seeks > 0;
    let seeks = |seeks: u64| {
        if has_head {
            seeks.to_string()
        } else {
            String::new()
        }
    };
    Row {
        cells: vec![
            program.title().to_owned(),
            device.to_owned(),
            seconds(forecast_ns),
            seconds(done.busy_ns),
            seeks(number("now", "seeks")),
            seeks(done.seeks),
            seconds(number("after", "time_ns")),
            seeks(number("after", "seeks")),
        ],
        value: off * 100.0,
        digits: 1,
        target: TARGET_PERCENT,
        details: json!({
            "forecast": shown["now"],
            "after": shown["after"],
            "is_worth_it": shown["is_worth_it"],
            "moved_bytes": shown["moved_bytes"],
            "busy_ns": done.busy_ns,
            "seeks": done.seeks,
            "requests": done.requests,
            "bytes": done.bytes,
        }),
    }
}
