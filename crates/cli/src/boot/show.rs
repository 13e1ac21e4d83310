// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread boot show`: who needs what of the boot's profile, when, and why it is in there.
//!
//! In: the profile of the boot, and the trace of the boot that was traced last, if there is one.
//! Out: units, or files, as text or as a document. A trace knows reads by disk and position, and a
//! profile knows files; neither has what joins them. So waiting times are known by unit alone.

mod json;
mod weight;

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use foreread_boot::chart::{Chart, chart as sum_up};
use foreread_boot::trace::{BootTrace, unit_of_group};
use foreread_boot::{FileNeed, UnitNeeds, file_needs, unit_needs};
use foreread_profile::{NodeId, NodeKind, Profile, Uses};

// The schema is made from it.
#[cfg(test)]
pub use json::ShowJson;

use super::args::ShowArguments;
use super::chart::headline;
use super::{phase_name, recorded, state_of};
use crate::output;
use crate::table::{finished, table};
use crate::text::{self, escaped};

/// Files that `--files` lists as text: some screens full. A boot of 40 services has 2,000.
const FILES_SHOWN_MAX: usize = 100;

/// The boot that was traced last.
struct Traced {
    trace: BootTrace,
    chart: Chart,
}

/// How long a unit waited for disks in a traced boot.
#[derive(Clone, Copy)]
struct Waits {
    waited_ns: u64,
    /// The part of that in which the disk served the replay.
    behind_replay_ns: u64,
}

impl Traced {
    /// Waits of the systemd unit that a control group belongs to; `None` if it belongs to none, or
    /// the trace lacks it.
    fn waits(&self, group: &[u8]) -> Option<Waits> {
        let name = unit_of_group(std::str::from_utf8(group).ok()?)?;
        let unit = self.chart.units.iter().find(|unit| unit.name == name)?;
        Some(Waits {
            waited_ns: unit.waited_ns(),
            behind_replay_ns: unit.served.replay_ns,
        })
    }
}

/// What is shown.
enum Chosen {
    /// All units.
    Units,
    /// All files, in the order of need.
    Files(Vec<FileNeed>),
    /// What one unit needed first, in the order of need.
    Unit {
        units: Vec<UnitNeeds>,
        files: Vec<FileNeed>,
        /// Paths without pages.
        paths: Vec<NodeId>,
    },
}

pub fn show(arguments: &ShowArguments) -> Result<ExitCode> {
    let profile = recorded(&arguments.root)?;
    let units = unit_needs(&profile);
    let chosen = match &arguments.unit {
        Some(name) => of_unit(&profile, &units, name)?,
        None if arguments.files => Chosen::Files(whole_files(&profile)),
        None => Chosen::Units,
    };
    let (traced, why_none) = traced_last(&arguments.root);
    let traced = traced.as_ref();
    if arguments.json {
        text::print_json(&json::document(&profile, &units, traced, &chosen))?;
        return Ok(ExitCode::SUCCESS);
    }
    text::print(&match &chosen {
        Chosen::Units => {
            human_units(&units, traced) + &human_waits(traced, &why_none) + &human_devices(&profile)
        }
        Chosen::Files(files) => human_files(&profile, files),
        Chosen::Unit {
            units,
            files,
            paths,
        } => human_unit(&profile, units, traced, &why_none) + &human_needs(&profile, files, paths),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The boot that was traced last; without it, a line on why there is none.
fn traced_last(root: &Path) -> (Option<Traced>, String) {
    let Some(stored) = state_of(root).traces().into_iter().next() else {
        let why = "How long units waited isn't known, since no boot was traced: `foreread boot \
                   chart --next` has the next one traced.";
        return (None, why.to_owned());
    };
    match stored.read() {
        Ok(trace) => {
            let chart = sum_up(&trace);
            (Some(Traced { trace, chart }), String::new())
        }
        Err(error) => {
            output::note(&format!(
                "{error}; `foreread boot chart --next` makes another"
            ));
            let why = "How long units waited isn't known, since the last trace can't be read.";
            (None, why.to_owned())
        }
    }
}

/// Whether a control group is called so: by its whole path, its last name, or its systemd unit.
fn is_called(group: &[u8], name: &str) -> bool {
    let name = name.as_bytes();
    let last = group.rsplit(|b| *b == b'/').next();
    // A unit may have groups of its own: `systemd-udevd.service/udev`.
    let unit = std::str::from_utf8(group).ok().and_then(unit_of_group);
    let mut names = last.into_iter().chain(unit.map(str::as_bytes));
    group == name
        || names.any(|full| [full, full.strip_suffix(b".service").unwrap_or(full)].contains(&name))
}

/// Files and paths that the unit of that name needed first, with the groups below it.
fn of_unit(profile: &Profile, units: &[UnitNeeds], name: &str) -> Result<Chosen> {
    let is_called = |group: &[u8]| is_called(group, name);
    let named = units.iter().filter(|needs| is_called(&needs.unit));
    let units: Vec<UnitNeeds> = named.cloned().collect();
    if units.is_empty() {
        bail!("no unit {name} needed anything; `foreread boot show` lists those that did");
    }
    let mut files = file_needs(profile);
    files.retain(|need| is_called(profile.unit(need.unit)));
    // As in the numbers of paths: a directory on the way to others was not looked at itself.
    let is_path = |node: &foreread_profile::Node| {
        let is_looked_at = node.kind != NodeKind::Directory || node.uses.0 != 0;
        is_looked_at && node.need_ns != u64::MAX && node.range_count == 0
    };
    let nodes = profile.iter().filter(|(_, node)| is_path(node));
    let nodes = nodes.filter(|(_, node)| is_called(profile.unit(node.unit)));
    let mut paths: Vec<(u64, NodeId)> = nodes.map(|(id, node)| (node.need_ns, id)).collect();
    paths.sort_unstable();
    Ok(Chosen::Unit {
        units,
        files,
        paths: paths.into_iter().map(|(_, id)| id).collect(),
    })
}

/// All files, each once: with the unit that needed a page of it first, and the pages of all units.
fn whole_files(profile: &Profile) -> Vec<FileNeed> {
    let mut files: Vec<FileNeed> = Vec::new();
    let mut places: HashMap<NodeId, usize> = HashMap::new();
    for need in file_needs(profile) {
        let place = *places.entry(need.node).or_insert(files.len());
        match files.get_mut(place) {
            Some(known) => known.pages = known.pages.saturating_add(need.pages),
            None => files.push(need),
        }
    }
    files
}

/// When something of a file was first needed, be it its name, and by which unit.
fn first_need(profile: &Profile, need: &FileNeed) -> (u64, u16) {
    let of_pages = (need.need_ns, need.unit);
    match profile.node(need.node) {
        Some(node) if node.need_ns < need.need_ns => (node.need_ns, node.unit),
        _ => of_pages,
    }
}

/// The uses that bring a file into the profile.
fn uses(uses: Uses) -> Vec<&'static str> {
    let names = [
        (Uses::EXECUTED, "executed"),
        (Uses::MAPPED, "mapped"),
        (Uses::READ, "read"),
        (Uses::LISTED, "listed"),
    ];
    let set = names.iter().filter(|(bit, _)| uses.contains(*bit));
    let mut set: Vec<&str> = set.map(|(_, name)| *name).collect();
    if set.is_empty() {
        set.push("looked-up");
    }
    set
}

/// The name of a control group.
fn unit_name(unit: &[u8]) -> String {
    match unit.is_empty() {
        true => "(unknown)".to_owned(),
        false => escaped(unit),
    }
}

fn human_units(units: &[UnitNeeds], traced: Option<&Traced>) -> String {
    let mut header = vec!["Needed from", "To", "Data", "Files", "Paths"];
    if traced.is_some() {
        header.extend(["Waited", "Behind replay"]);
    }
    header.push("Unit");
    let mut rows = table(&header);
    for needs in units {
        let mut row = vec![
            output::time(needs.first_need_ns),
            output::time(needs.last_need_ns),
            output::pages(needs.pages),
            needs.files.to_string(),
            needs.paths.to_string(),
        ];
        if let Some(traced) = traced {
            let waits = traced.waits(&needs.unit);
            let time = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), output::time);
            row.push(time(waits.map(|waits| waits.waited_ns)));
            row.push(time(waits.map(|waits| waits.behind_replay_ns)));
        }
        row.push(unit_name(&needs.unit));
        rows.add_row(row);
    }
    finished(rows, &[header.len() - 1])
        + "\nEach file and page is listed for the unit that needed it first.\n"
}

/// What the columns on waiting are, or why there are none.
fn human_waits(traced: Option<&Traced>, why_none: &str) -> String {
    match traced {
        None => format!("{why_none}\n"),
        Some(traced) => format!(
            "Waited: reads of the unit were in flight, in the boot that was traced last ({}).\n\
             Behind replay: the part of that in which the disk served the replay, about.\n",
            headline(&traced.trace)
        ),
    }
}

/// Nothing if no page of a block device was needed.
fn human_devices(profile: &Profile) -> String {
    if profile.devices.is_empty() {
        return String::new();
    }
    let mut rows = table(&["Needed from", "To", "Data", "Ranges", "Block device"]);
    let time = |need_ns: Option<u64>| need_ns.map_or_else(String::new, output::time);
    for device in profile.devices.iter().map(json::DeviceJson::of) {
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

/// What one unit needed in all, and how long it waited.
fn human_unit(
    profile: &Profile,
    units: &[UnitNeeds],
    traced: Option<&Traced>,
    why_none: &str,
) -> String {
    let mut lines = String::new();
    for needs in units {
        lines += &format!(
            "{} was the first to need {} ({}) and {}, from {} to {}.\n",
            unit_name(&needs.unit),
            output::counted(needs.files, "file", "files"),
            output::pages(needs.pages),
            output::counted(needs.paths, "path", "paths"),
            output::time(needs.first_need_ns),
            output::time(needs.last_need_ns),
        );
        let Some(traced) = traced else {
            continue;
        };
        let boot = headline(&traced.trace);
        lines += &match traced.waits(&needs.unit) {
            None => format!("It is not in the trace of the last traced boot ({boot}).\n"),
            Some(waits) => format!(
                "In the boot that was traced last ({boot}) it waited {} for disks, about {} of \
                 that behind the replay.\n",
                output::time(waits.waited_ns),
                output::time(waits.behind_replay_ns),
            ),
        };
    }
    if traced.is_none() {
        lines += &format!("{why_none}\n");
    }
    let recorded = text::date(profile.source.recorded_unix_s);
    lines + &format!("Times of need are from the start of the recording of {recorded}.\n\n")
}

/// The files of one unit, and why each is in the profile.
fn human_needs(profile: &Profile, files: &[FileNeed], paths: &[NodeId]) -> String {
    let mut rows = table(&[
        "Needed at",
        "Data",
        "Phase",
        "Used",
        "Recorded boots",
        "Needed before by",
        "File",
    ]);
    for need in files {
        let node = profile.node(need.node).copied().unwrap_or_default();
        let (first_ns, first_unit) = first_need(profile, need);
        let before = match first_unit == need.unit {
            true => String::new(),
            false => format!(
                "{} at {}",
                unit_name(profile.unit(first_unit)),
                output::time(first_ns)
            ),
        };
        rows.add_row(vec![
            output::time(need.need_ns),
            output::pages(need.pages),
            need.phase.map_or("", phase_name).to_owned(),
            uses(node.uses).join(", "),
            weight::recordings(node.weight),
            before,
            escaped(&profile.path(need.node)),
        ]);
    }
    let mut text = finished(rows, &[2, 3, 4, 5, 6]);
    text += "\nRecorded boots: those that needed the file, by its weight. What five in a row don't \
             need leaves the profile.\n";
    if !paths.is_empty() {
        text += &format!(
            "It looked at {} more and read no page of them: the metadata is read ahead; `--json` \
             lists them.\n",
            output::counted(paths.len() as u64, "path", "paths")
        );
    }
    text
}

/// Files of all units, those needed first.
fn human_files(profile: &Profile, files: &[FileNeed]) -> String {
    let mut rows = table(&[
        "Needed at",
        "Data",
        "Phase",
        "Recorded boots",
        "Unit",
        "File",
    ]);
    for need in files.iter().take(FILES_SHOWN_MAX) {
        let weight = profile.node(need.node).map_or(0, |node| node.weight);
        rows.add_row(vec![
            output::time(need.need_ns),
            output::pages(need.pages),
            need.phase.map_or("", phase_name).to_owned(),
            weight::recordings(weight),
            unit_name(profile.unit(need.unit)),
            escaped(&profile.path(need.node)),
        ]);
    }
    let mut text = finished(rows, &[2, 3, 4, 5]);
    let more = files.get(FILES_SHOWN_MAX..).unwrap_or_default();
    if !more.is_empty() {
        let pages = more.iter().map(|need| need.pages);
        text += &format!(
            "\n{} with {} are needed later; `--json` lists them, and `--unit` those of a unit.\n",
            output::counted(more.len() as u64, "more file", "more files"),
            output::pages(pages.fold(0, u64::saturating_add)),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::is_called;

    #[test]
    fn a_unit_is_found_by_its_path_its_name_and_its_groups() {
        let of = |group: &str, name: &str| is_called(group.as_bytes(), name);
        for name in ["cron", "cron.service", "/system.slice/cron.service"] {
            assert!(of("/system.slice/cron.service", name), "{name}");
            assert!(!of("/system.slice/anacron.service", name), "{name}");
        }
        // systemd-udevd makes a group below its own since 251.
        let below = "/system.slice/systemd-udevd.service/udev";
        for name in ["systemd-udevd", "systemd-udevd.service", "udev", below] {
            assert!(of(below, name), "{name}");
        }
        for name in ["", "system.slice", "systemd"] {
            assert!(!of(below, name), "{name:?}");
        }
        // Those of a user's manager belong to it.
        let of_user = "/user.slice/user-1000.slice/user@1000.service/app.slice/shell.service";
        assert!(of(of_user, "user@1000") && of(of_user, "shell"));
        assert!(!of("/system.slice", ""));
    }
}
