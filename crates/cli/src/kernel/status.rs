// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread kernel status`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use foreread_core::grouped;
use foreread_linux_module::{
    DeviceSettings, Kernel, Settings, Sources, VERSION, loaded_version, tested_names,
};
use serde::Serialize;

use super::args::StatusArguments;
use super::journal::{Builder, Installed};
use super::{EXIT_NOT_THERE, OK, node_name, state_path};
use crate::table::{finished, table};
use crate::text::{self, escaped_path};

/// Counters that are shown to people; all are in the document.
const SHOWN: [(&str, &str); 4] = [
    ("fetched_pages", "fetched"),
    ("used_on_time_pages", "used"),
    ("used_late_pages", "late"),
    ("wasted_pages", "wasted"),
];
/// Names of policies that fit into a line of 80 columns.
const POLICIES_A_LINE: usize = 4;

/// `foreread.kernel.status/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StatusJson {
    schema: &'static str,
    /// The kernel that runs, as `uname -r` prints it.
    kernel: String,
    /// Whether the module was tested on it.
    is_tested: bool,
    /// The file that modprobe loads for this kernel; null if there is none.
    module: Option<String>,
    /// The builder that `kernel install` used for this kernel; null if it was not called, or if
    /// that can't be read.
    builder: Option<Builder>,
    /// Where the module's sources are; null if there are none of this version.
    sources: Option<String>,
    /// Each thing that a build for this kernel lacks, with the remedy.
    lacks: Vec<String>,
    /// Whether it is loaded.
    is_loaded: bool,
    /// Version of the loaded module; null where none is loaded, or it doesn't say.
    version: Option<String>,
    /// Policies that it has.
    policies: Vec<String>,
    /// Devices with settings of their own; the last one stands for all others.
    devices: Vec<DeviceJson>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DeviceJson {
    /// Its number, MAJOR:MINOR, or `default`.
    device: String,
    /// Its name in `/dev`; null of a file system without a device, and of `default`.
    name: Option<String>,
    /// The policy that reads ahead of it; `off` stands for the kernel.
    policy: String,
    /// How windows are read: `auto`, `issue` or `steer`.
    read_by: String,
    /// No window is larger; 0 means no such bound.
    window_max_pages: u64,
    /// The verdict of its watchdog: `ok`, or why it has taken the policy away.
    watchdog: String,
    /// The module's counters, by the names of docs/kernel-module.md.
    counters: BTreeMap<String, u64>,
}

pub fn status(arguments: &StatusArguments) -> Result<ExitCode> {
    let found = gather(&arguments.place.root)?;
    if arguments.place.json {
        text::print_json(&found)?;
    } else {
        text::print(&human(&found))?;
    }
    Ok(match found.is_loaded {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EXIT_NOT_THERE),
    })
}

fn gather(root: &Path) -> Result<StatusJson> {
    let kernel = Kernel::running(root)?;
    let settings = Settings::of(root);
    let (policies, devices) = match &settings {
        Some(settings) => (settings.policies()?, settings.devices()?),
        None => (Vec::new(), Vec::new()),
    };
    // Only root may read what was written down; everybody sees what is loaded.
    let installed = Installed::read(&state_path(root)).unwrap_or_default();
    Ok(StatusJson {
        schema: "foreread.kernel.status/1",
        is_tested: kernel.is_tested(),
        module: kernel.module().map(|path| escaped_path(&path)),
        builder: installed.and_then(|installed| installed.builder(kernel.release())),
        sources: Sources::find(root, None)
            .ok()
            .map(|sources| escaped_path(sources.directory())),
        lacks: kernel.lacks().iter().map(ToString::to_string).collect(),
        kernel: kernel.release().to_owned(),
        is_loaded: settings.is_some(),
        version: loaded_version(root),
        policies,
        devices: devices.into_iter().map(document_of).collect(),
    })
}

fn document_of(device: DeviceSettings) -> DeviceJson {
    DeviceJson {
        device: device.of.to_string(),
        name: node_name(device.of),
        policy: device.policy,
        read_by: device.act,
        window_max_pages: device.window_max_pages,
        watchdog: device.watchdog,
        counters: device.counters.into_iter().collect(),
    }
}

fn human(found: &StatusJson) -> String {
    let mut said = String::new();
    let mut line = |name: &str, state: &str| said += &format!("{name:10} {state}\n");
    line("loaded", &loaded(found));
    line("installed", &installed(found));
    let tested = match found.is_tested {
        true => "the module was tested on it".to_owned(),
        false => format!("the module was tested on Linux {} only", tested_names()),
    };
    line("kernel", &format!("{}; {tested}", found.kernel));
    if !found.is_loaded {
        return said;
    }
    for (at, names) in found.policies.chunks(POLICIES_A_LINE).enumerate() {
        let name = if at == 0 { "policies" } else { "" };
        line(name, &names.join(", "));
    }
    let mut devices = table(
        &["device", "name", "policy", "read by"]
            .into_iter()
            .chain(SHOWN.map(|(_, title)| title))
            .collect::<Vec<_>>(),
    );
    for device in &found.devices {
        let name = match device.device.as_str() {
            "default" => "all others",
            _ => device.name.as_deref().unwrap_or("-"),
        };
        let mut row = vec![
            device.device.clone(),
            text::printable(name),
            text::printable(&device.policy),
            device.read_by.clone(),
        ];
        let counters = &device.counters;
        row.extend(SHOWN.map(|(name, _)| grouped(counters.get(name).copied().unwrap_or(0))));
        devices.add_row(row);
    }
    said += &format!("\n{}", finished(devices, &[0, 1, 2, 3]));
    said += "Pages of 4 KiB: fetched; used on time; used late, as a reader waited; wasted\n";
    for device in found.devices.iter().filter(|device| device.watchdog != OK) {
        let verdict = text::printable(&device.watchdog);
        said += &format!("{}: watchdog: {verdict}\n", device.device);
    }
    said
}

fn loaded(found: &StatusJson) -> String {
    match (&found.version, found.is_loaded) {
        (_, false) if found.module.is_some() => {
            "no; `sudo foreread kernel load DEVICE --policy NAME` loads it".to_owned()
        }
        (_, false) => "no".to_owned(),
        (Some(version), true) if version != VERSION => format!(
            "yes, of version {}; this program is {VERSION}: unload it and load it again",
            text::printable(version)
        ),
        (_, true) => "yes; `sudo foreread kernel unload` gives all devices back".to_owned(),
    }
}

fn installed(found: &StatusJson) -> String {
    let by = match found.builder {
        Some(Builder::Dkms) => ", by DKMS",
        Some(Builder::Make) | None => "",
    };
    match &found.module {
        Some(path) => format!("{path}{by}"),
        None if found.sources.is_none() => {
            format!("no, and its sources of version {VERSION} aren't there either")
        }
        None if found.lacks.is_empty() => "no; `sudo foreread kernel install` builds it".to_owned(),
        None => format!("no, and to build it: {}", found.lacks.join("; ")),
    }
}
