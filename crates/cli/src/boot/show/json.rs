// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread.boot.show/1`: who needs what of the boot's profile, why, and how long units waited.

use foreread_boot::{FileNeed, Mode, UnitNeeds};
use foreread_profile::dump::kind_name;
use foreread_profile::{DevicePages, NodeId, Profile, Uses};
use serde::Serialize;

use super::super::phase_name;
use super::weight::recordings;
use super::{Chosen, Traced, first_need, uses};
use crate::text::escaped;

/// `foreread.boot.show/1`. Times are from the start of the recording.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ShowJson {
    schema: &'static str,
    recorded_unix_s: u64,
    /// Release of the kernel.
    kernel: String,
    /// The boot that was traced last; null where none was, or its trace can't be read.
    trace: Option<TraceJson>,
    /// In the order in which they begin.
    phases: Vec<PhaseJson>,
    /// Units that needed something.
    units: Vec<UnitJson>,
    /// Block devices of which pages were needed: metadata, labels, partition tables.
    devices: Vec<DeviceJson>,
    /// With `--unit`: the files of which it needed pages first. With `--files`: all files. In the
    /// order of need.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<Vec<FileJson>>,
    /// With `--unit`: the paths that it looked at first and of which no page is in the profile. Of
    /// these the metadata is read ahead.
    #[serde(skip_serializing_if = "Option::is_none")]
    paths: Option<Vec<PathJson>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TraceJson {
    /// The kernel's random name of the boot.
    boot: String,
    /// Release of the kernel.
    kernel: String,
    /// Which replay it got.
    mode: Mode,
    /// When it reached its target, since the kernel's start; null if it did not.
    reached_ns: Option<u64>,
    stored_unix_s: u64,
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
    /// Time with a read of its processes in flight, in the boot that was traced last. Null without
    /// a trace, and for what is no unit or not in the trace.
    waited_ns: Option<u64>,
    /// Of that, time in which the disk served the replay: an approximation, as in `boot chart`.
    behind_replay_ns: Option<u64>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DeviceJson {
    /// Where a file system on it is mounted.
    pub(super) mount_point: String,
    /// Whether it is the whole disk, and the file system is on a partition of it.
    pub(super) whole_disk: bool,
    /// Null where no page was needed.
    pub(super) first_need_ns: Option<u64>,
    pub(super) last_need_ns: Option<u64>,
    /// Of 4 KiB each.
    pub(super) pages: u64,
    /// Runs of pages that lie together and were needed at about the same time.
    pub(super) ranges: u64,
}

impl DeviceJson {
    pub(super) fn of(device: &DevicePages) -> Self {
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
    /// The unit that needed these pages first; empty where it isn't known.
    unit: String,
    need_ns: u64,
    /// `initramfs`, `sysinit`, `target` or `session`; null where it has none.
    phase: Option<&'static str>,
    /// Pages of its data. Those of its metadata are not known by file: see `devices`.
    pages: u64,
    /// The unit that needed anything of the file first, be it its name.
    first_unit: String,
    first_need_ns: u64,
    /// How any unit used it: `executed`, `mapped`, `read`, `listed` or `looked-up`.
    uses: Vec<&'static str>,
    /// 255 for what was needed in each boot of late, less for what was not.
    weight: u8,
    /// The recorded boots that needed it, as the weight tells: `all`, `the last 2`, `not the last`.
    recordings: String,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PathJson {
    /// Where it is.
    path: String,
    /// `file`, `directory`, `symlink`, or `absent` for what was looked for and not there.
    kind: &'static str,
    need_ns: u64,
    /// `initramfs`, `sysinit`, `target` or `session`; null where it has none.
    phase: Option<&'static str>,
    /// How any unit used it: `executed`, `mapped`, `read`, `listed` or `looked-up`.
    uses: Vec<&'static str>,
    /// 255 for what was needed in each boot of late, less for what was not.
    weight: u8,
    /// The recorded boots that needed it, as the weight tells: `all`, `the last 2`, `not the last`.
    recordings: String,
}

pub(super) fn document(
    profile: &Profile,
    units: &[UnitNeeds],
    traced: Option<&Traced>,
    chosen: &Chosen,
) -> ShowJson {
    let phase = |phase: &foreread_profile::Phase| PhaseJson {
        phase: phase_name(phase.kind),
        start_ns: phase.start_ns,
    };
    let of_unit = |needs: &UnitNeeds| unit(needs, traced);
    let of_file = |need: &FileNeed| file(profile, need);
    let of_path = |node: &NodeId| path(profile, *node);
    let (files, paths) = match chosen {
        Chosen::Units => (None, None),
        Chosen::Files(files) => (Some(files), None),
        Chosen::Unit { files, paths, .. } => (Some(files), Some(paths)),
    };
    ShowJson {
        schema: "foreread.boot.show/1",
        recorded_unix_s: profile.source.recorded_unix_s,
        kernel: escaped(&profile.source.kernel),
        trace: traced.map(|traced| TraceJson {
            boot: traced.trace.boot.clone(),
            kernel: traced.trace.kernel.clone(),
            mode: traced.trace.mode,
            reached_ns: traced.trace.reached_ns,
            stored_unix_s: traced.trace.stored_unix_s,
        }),
        phases: profile.phases.iter().map(phase).collect(),
        units: units.iter().map(of_unit).collect(),
        devices: profile.devices.iter().map(DeviceJson::of).collect(),
        files: files.map(|files| files.iter().map(of_file).collect()),
        paths: paths.map(|paths| paths.iter().map(of_path).collect()),
    }
}

fn unit(needs: &UnitNeeds, traced: Option<&Traced>) -> UnitJson {
    let waits = traced.and_then(|traced| traced.waits(&needs.unit));
    UnitJson {
        unit: escaped(&needs.unit),
        first_need_ns: needs.first_need_ns,
        last_need_ns: needs.last_need_ns,
        files: needs.files,
        pages: needs.pages,
        paths: needs.paths,
        waited_ns: waits.map(|waits| waits.waited_ns),
        behind_replay_ns: waits.map(|waits| waits.behind_replay_ns),
    }
}

fn file(profile: &Profile, need: &FileNeed) -> FileJson {
    let (first_need_ns, first_unit) = first_need(profile, need);
    let weight = profile.node(need.node).map_or(0, |node| node.weight);
    FileJson {
        path: escaped(&profile.path(need.node)),
        unit: escaped(profile.unit(need.unit)),
        need_ns: need.need_ns,
        phase: need.phase.map(phase_name),
        pages: need.pages,
        first_unit: escaped(profile.unit(first_unit)),
        first_need_ns,
        uses: uses(profile.node(need.node).map_or(Uses(0), |node| node.uses)),
        weight,
        recordings: recordings(weight),
    }
}

fn path(profile: &Profile, id: NodeId) -> PathJson {
    let node = profile.node(id).copied().unwrap_or_default();
    PathJson {
        path: escaped(&profile.path(id)),
        kind: kind_name(node.kind),
        need_ns: node.need_ns,
        phase: profile.phase_at(node.need_ns).map(phase_name),
        uses: uses(node.uses),
        weight: node.weight,
        recordings: recordings(node.weight),
    }
}
