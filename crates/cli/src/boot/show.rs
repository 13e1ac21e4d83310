// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread boot show`: who needs what of the boot's profile, and when.

use std::process::ExitCode;

use anyhow::{Result, bail};
use foreread_boot::{FileNeed, UnitNeeds, file_needs, unit_needs};
use foreread_profile::{DevicePages, Profile};
use serde::Serialize;

use super::args::ShowArguments;
use super::{phase_name, recorded};
use crate::output;
use crate::table::{finished, table};
use crate::text::{self, escaped};

/// `foreread.boot.show/1`. Times are from the start of the recording.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ShowJson {
    schema: &'static str,
    recorded_unix_s: u64,
    /// Release of the kernel.
    kernel: String,
    /// In the order in which they begin.
    phases: Vec<PhaseJson>,
    /// Units that needed something.
    units: Vec<UnitJson>,
    /// Block devices of which pages were needed: metadata, labels, partition tables.
    devices: Vec<DeviceJson>,
    /// With `--unit`: the files that it needed first.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<Vec<FileJson>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PhaseJson {
    /// `initramfs`, `sysinit`, `target` or `session`; null where it has none.
    phase: &'static str,
    start_ns: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct UnitJson {
    /// Name of the systemd unit.
    unit: String,
    first_need_ns: u64,
    last_need_ns: u64,
    files: u64,
    pages: u64,
    /// Files and directories.
    paths: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DeviceJson {
    /// Where a file system on it is mounted.
    mount_point: String,
    /// Whether it is the whole disk, and the file system is on a partition of it.
    whole_disk: bool,
    /// Null where no page was needed.
    first_need_ns: Option<u64>,
    last_need_ns: Option<u64>,
    /// Of 4 KiB each.
    pages: u64,
    /// Runs of pages that lie together and were needed at about the same time.
    ranges: u64,
}

impl DeviceJson {
    fn of(device: &DevicePages) -> Self {
        let needs = || device.ranges.iter().map(|range| range.need_ns);
        Self {
            mount_point: escaped(&device.mount_point),
            whole_disk: device.is_whole_disk,
            first_need_ns: needs().min(),
            last_need_ns: needs().max(),
            pages: device.ranges.iter().map(|range| range.pages).sum(),
            ranges: device.ranges.len() as u64,
        }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FileJson {
    /// Where it is.
    path: String,
    need_ns: u64,
    /// `initramfs`, `sysinit`, `target` or `session`; null where it has none.
    phase: Option<&'static str>,
    pages: u64,
    /// 255 for what was needed in each boot of late, less for what was not.
    weight: u8,
}

pub fn show(arguments: &ShowArguments) -> Result<ExitCode> {
    let profile = recorded(&arguments.root)?;
    let units = unit_needs(&profile);
    let files = match &arguments.unit {
        None => None,
        Some(name) => Some(files_of(&profile, &units, name)?),
    };
    if arguments.json {
        text::print_json(&document(&profile, &units, files.as_deref()))?;
    } else {
        text::print(&match &files {
            Some(files) => human_files(&profile, files),
            None => human_units(&units) + &human_devices(&profile),
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The files of the one unit that is called so: by its whole path, or by its last name.
fn files_of(profile: &Profile, units: &[UnitNeeds], name: &str) -> Result<Vec<FileNeed>> {
    let is_called = |unit: &[u8]| {
        let last = unit.rsplit(|b| *b == b'/').next().unwrap_or_default();
        let stem = last.strip_suffix(b".service").unwrap_or(last);
        [unit, last, stem].contains(&name.as_bytes())
    };
    if !units.iter().any(|needs| is_called(&needs.unit)) {
        bail!("no unit {name} needed anything; `foreread boot show` lists those that did");
    }
    let mut files = file_needs(profile);
    files.retain(|need| is_called(profile.unit(need.unit)));
    Ok(files)
}

fn document(profile: &Profile, units: &[UnitNeeds], files: Option<&[FileNeed]>) -> ShowJson {
    let file = |need: &FileNeed| FileJson {
        path: escaped(&profile.path(need.node)),
        need_ns: need.need_ns,
        phase: need.phase.map(phase_name),
        pages: need.pages,
        weight: profile.node(need.node).map_or(0, |node| node.weight),
    };
    ShowJson {
        schema: "foreread.boot.show/1",
        recorded_unix_s: profile.source.recorded_unix_s,
        kernel: escaped(&profile.source.kernel),
        phases: profile
            .phases
            .iter()
            .map(|phase| PhaseJson {
                phase: phase_name(phase.kind),
                start_ns: phase.start_ns,
            })
            .collect(),
        units: units
            .iter()
            .map(|needs| UnitJson {
                unit: escaped(&needs.unit),
                first_need_ns: needs.first_need_ns,
                last_need_ns: needs.last_need_ns,
                files: needs.files,
                pages: needs.pages,
                paths: needs.paths,
            })
            .collect(),
        devices: profile.devices.iter().map(DeviceJson::of).collect(),
        files: files.map(|files| files.iter().map(file).collect()),
    }
}

fn human_units(units: &[UnitNeeds]) -> String {
    let mut rows = table(&["Needed from", "To", "Data", "Files", "Paths", "Unit"]);
    for needs in units {
        rows.add_row(vec![
            output::time(needs.first_need_ns),
            output::time(needs.last_need_ns),
            output::pages(needs.pages),
            needs.files.to_string(),
            needs.paths.to_string(),
            match needs.unit.is_empty() {
                true => "(unknown)".to_owned(),
                false => escaped(&needs.unit),
            },
        ]);
    }
    finished(rows, &[5]) + "\nEach file and page is listed for the unit that needed it first.\n"
}

/// Nothing if no page of a block device was needed.
fn human_devices(profile: &Profile) -> String {
    if profile.devices.is_empty() {
        return String::new();
    }
    let mut rows = table(&["Needed from", "To", "Data", "Ranges", "Block device"]);
    let time = |need_ns: Option<u64>| need_ns.map_or_else(String::new, output::time);
    for device in profile.devices.iter().map(DeviceJson::of) {
        rows.add_row(vec![
            time(device.first_need_ns),
            time(device.last_need_ns),
            output::pages(device.pages),
            device.ranges.to_string(),
            match device.whole_disk {
                true => format!("the disk below {}", device.mount_point),
                false => format!("that of {}", device.mount_point),
            },
        ]);
    }
    format!("\n{}", finished(rows, &[4]))
}

fn human_files(profile: &Profile, files: &[FileNeed]) -> String {
    let mut rows = table(&["Needed at", "Data", "Phase", "File"]);
    for need in files {
        rows.add_row(vec![
            output::time(need.need_ns),
            output::pages(need.pages),
            need.phase.map_or("", phase_name).to_owned(),
            escaped(&profile.path(need.node)),
        ]);
    }
    finished(rows, &[2, 3])
}
