// SPDX-License-Identifier: MIT OR Apache-2.0
//! A layout for programs: `foreread.layout/1`, a plan `foreread.layout.plan/1`, and what was moved.
//! `docs/layout.md` describes the fields.

use std::collections::{BTreeMap, HashMap};

use foreread_layout::{FileOnDisk, Forecast, Left, Move, PhaseAccount, Plan, Run, Why};
use foreread_profile::NodeId;
use serde::Serialize;

use super::moving::{Done, Report};
use super::status::Status;
use super::{Laid, Layout};
use crate::boot::phase_name;
use crate::text::{escaped, escaped_path};

/// `foreread.layout/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ShowReport {
    schema: &'static str,
    /// The file of the profile, or "the boot".
    profile: String,
    /// In the order of their mount points.
    file_systems: Vec<FileSystemReport>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FileSystemReport {
    /// Where it is mounted.
    mount_point: String,
    /// Number of the device, such as 8:1.
    device: String,
    /// Type of the file system, as in `/proc/mounts`.
    fs_type: String,
    /// Whether the disk has a head.
    has_head: bool,
    /// Where the model of the device is from: given, measured or assumed.
    model: &'static str,
    /// What a seek takes, or, without a head, a request.
    seek_ns: u64,
    bandwidth_bytes_per_s: u64,
    /// Whether the forecasts count what is read of the metadata.
    counts_metadata: bool,
    files: usize,
    gone_files: u64,
    /// Bytes in free runs; none where the file system doesn't tell.
    free_bytes: Option<u64>,
    /// Sums by phase. A profile that is not of a boot has one phase.
    phases: Vec<PhaseReport>,
    /// Forecast of a replay where the files lie.
    now: ForecastReport,
    /// Forecast of a replay in a new layout.
    after: ForecastReport,
    /// Whether moving gains at least 5 %.
    is_worth_it: bool,
    /// Parts of files that are moved.
    moves: usize,
    moved_bytes: u64,
    /// Parts that stay, by reason.
    stays: Vec<StaysReport>,
    /// With `--files`: each file, in the order of need.
    #[serde(skip_serializing_if = "Option::is_none")]
    each: Option<Vec<FileReport>>,
}

/// What is read in a phase of a boot; of a program, all.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PhaseReport {
    /// `initramfs`, `sysinit`, `target` or `session`; null where it has none.
    phase: Option<&'static str>,
    files: u64,
    bytes: u64,
    /// Pieces, if each file is read by itself.
    fragments: u64,
    /// Separate places on the device.
    places: u64,
    span_bytes: u64,
}

/// What a replay takes.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ForecastReport {
    time_ns: u64,
    /// The part of it until all metadata is there.
    metadata_ns: u64,
    requests: u64,
    seeks: u64,
    bytes: u64,
}

/// Parts of files that stay, by reason.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StaysReport {
    /// The reason, in words.
    why: String,
    /// Parts of files.
    parts: u64,
    bytes: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FileReport {
    /// Where it is.
    path: String,
    need_ns: u64,
    wanted_bytes: u64,
    /// Of the wanted bytes: where they start on the device, in order of the file.
    places: Vec<RunReport>,
}

/// Bytes that lie together.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RunReport {
    offset_bytes: u64,
    place_bytes: u64,
    length_bytes: u64,
}

/// `foreread.layout.plan/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PlanReport {
    schema: &'static str,
    /// Name or path of the profile.
    profile: String,
    /// In the order of their mount points.
    file_systems: Vec<PlanOnFileSystem>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PlanOnFileSystem {
    /// Where it is mounted.
    mount_point: String,
    /// `MAJOR:MINOR`.
    device: String,
    /// Type of the file system, as in `/proc/mounts`.
    fs_type: String,
    block_bytes: u64,
    /// Whether moving gains at least 5 %.
    is_worth_it: bool,
    /// Forecast of a replay where the files lie.
    now: ForecastReport,
    /// Forecast of a replay in a new layout.
    after: ForecastReport,
    /// In the order of need.
    moves: Vec<MoveReport>,
    /// Parts of files that can not be moved.
    stays: Vec<PartStays>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MoveReport {
    /// Where it is.
    path: String,
    /// Number of the inode.
    inode: u64,
    /// Generation of the inode; 0 where unknown.
    generation: u32,
    /// `initramfs`, `sysinit`, `target` or `session`; null where it has none.
    phase: Option<&'static str>,
    need_ns: u64,
    /// The part of the file.
    offset_bytes: u64,
    length_bytes: u64,
    /// Its bytes on the disk, without holes.
    bytes: u64,
    /// Where it lies.
    from: Vec<RunReport>,
    /// Where it goes.
    to_bytes: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PartStays {
    /// Where it is.
    path: String,
    bytes: u64,
    /// The reason, in words.
    why: String,
}

/// `foreread.layout.apply/1`, `foreread.layout.resume/1` and `foreread.layout.undo/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MovedReport {
    schema: String,
    /// The oldest first.
    passes: Vec<PassReport>,
    /// File systems on which nothing may be moved.
    refused: Vec<RefusedReport>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PassReport {
    /// Number of the pass.
    pass: u64,
    /// Name or path of the profile.
    profile: String,
    /// Where it is mounted.
    mount_point: String,
    /// `MAJOR:MINOR`.
    device: String,
    moved_bytes: u64,
    /// They were in their place before.
    there_bytes: u64,
    /// Of those moved: written by somebody meanwhile, and so not compared.
    written_bytes: u64,
    time_ns: u64,
    /// Whether it was stopped before its end.
    is_stopped: bool,
    /// Parts that stayed where they were.
    skipped: Vec<PartStays>,
    /// Forecast of a replay before the pass; only of `apply`.
    replay_before: Option<ForecastReport>,
    /// Forecast of a replay now; only of `apply`.
    replay_now: Option<ForecastReport>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RefusedReport {
    /// Where it is mounted.
    file_system: String,
    /// The reason, in words.
    why: String,
}

/// `foreread.layout.status/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StatusReport {
    schema: &'static str,
    /// The oldest first.
    passes: Vec<StandingReport>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StandingReport {
    /// Number of the pass.
    pass: u64,
    /// Name or path of the profile.
    profile: String,
    planned_unix_s: u64,
    /// Where it is mounted.
    file_system: String,
    /// Whether it came to its end.
    is_finished: bool,
    bytes: u64,
    /// Where the bytes are; none where that can't be looked up.
    there_bytes: Option<u64>,
    to_do_bytes: Option<u64>,
    elsewhere_bytes: Option<u64>,
    /// A replay, now and after a new pass; none where that isn't known.
    now: Option<ForecastReport>,
    /// Forecast of a replay after another pass; null where unknown.
    after: Option<ForecastReport>,
    /// Whether another pass gains at least 5 %; null where unknown.
    is_worth_it: Option<bool>,
    /// Why something isn't known.
    why: Option<String>,
}

/// What `apply`, `resume` or `undo` did.
pub fn moved(report: &Report) -> MovedReport {
    let pass = |done: &Done| {
        let files = &done.stored.pass.files;
        let path = |number: usize| files.get(number).map_or("", |file| file.path.as_str());
        let skipped = done.moved.skipped.iter();
        PassReport {
            pass: done.stored.number,
            profile: done.stored.pass.profile.clone(),
            mount_point: escaped_path(&done.mount_point),
            device: done.device.to_string(),
            moved_bytes: done.moved.bytes,
            there_bytes: done.moved.there_bytes,
            written_bytes: done.moved.written_bytes,
            time_ns: u64::try_from(done.time.as_nanos()).unwrap_or(u64::MAX),
            is_stopped: done.moved.is_stopped,
            skipped: skipped
                .map(|(file, bytes, why)| PartStays {
                    path: path(*file).to_owned(),
                    bytes: *bytes,
                    why: why.to_string(),
                })
                .collect(),
            replay_before: done.replay.as_ref().map(|(before, _)| forecast(before)),
            replay_now: done.replay.as_ref().map(|(_, now)| forecast(now)),
        }
    };
    MovedReport {
        schema: format!("foreread.layout.{}/1", report.verb),
        passes: report.done.iter().map(pass).collect(),
        refused: report
            .refused
            .iter()
            .map(|refused| RefusedReport {
                file_system: refused.file_system.clone(),
                why: refused.why.clone(),
            })
            .collect(),
    }
}

/// How passes stand.
pub fn status(all: &[Status]) -> StatusReport {
    let of = |status: &Status| {
        let pass = &status.stored.pass;
        let plan = status.plan.as_ref();
        let standing = status.standing.as_ref().ok();
        StandingReport {
            pass: status.stored.number,
            profile: pass.profile.clone(),
            planned_unix_s: pass.planned_unix_s,
            file_system: status.file_system.clone(),
            is_finished: pass.is_finished,
            bytes: pass.bytes(),
            there_bytes: standing.map(|standing| standing.there_bytes),
            to_do_bytes: standing.map(|standing| standing.to_do_bytes),
            elsewhere_bytes: standing.map(|standing| standing.elsewhere_bytes),
            now: plan.map(|plan| forecast(&plan.before)),
            after: plan.map(|plan| forecast(&plan.after)),
            is_worth_it: plan.map(Plan::is_worth_it),
            why: status.standing.as_ref().err().cloned(),
        }
    };
    StatusReport {
        schema: "foreread.layout.status/1",
        passes: all.iter().map(of).collect(),
    }
}

pub fn show(layout: &Layout, with_files: bool) -> ShowReport {
    let of = |laid: &Laid| FileSystemReport {
        mount_point: escaped_path(&laid.found.mount_point),
        device: laid.found.device.to_string(),
        fs_type: escaped(&laid.found.fs_type),
        has_head: laid.device.has_head(),
        model: laid.origin.name(),
        seek_ns: laid.device.seek_ns(),
        bandwidth_bytes_per_s: laid.device.disk.bandwidth_bytes_per_s,
        counts_metadata: laid.found.metadata.is_some(),
        files: laid.found.files.len(),
        gone_files: laid.found.gone_files,
        free_bytes: laid.found.free.as_ref().map(|free| free.bytes()),
        phases: laid.account.phases.iter().map(phase).collect(),
        now: forecast(&laid.plan.before),
        after: forecast(&laid.plan.after),
        is_worth_it: laid.plan.is_worth_it(),
        moves: laid.plan.moves.len(),
        moved_bytes: laid.plan.bytes(),
        stays: stays(&laid.plan.left)
            .into_iter()
            .map(|(why, (parts, bytes))| StaysReport {
                why: said(why),
                parts,
                bytes,
            })
            .collect(),
        each: with_files.then(|| each(layout, laid)),
    };
    ShowReport {
        schema: "foreread.layout/1",
        profile: layout.name.clone(),
        file_systems: layout.laid.iter().map(of).collect(),
    }
}

pub fn plan(layout: &Layout) -> PlanReport {
    PlanReport {
        schema: "foreread.layout.plan/1",
        profile: layout.name.clone(),
        file_systems: layout
            .laid
            .iter()
            .map(|laid| plan_on(layout, laid))
            .collect(),
    }
}

fn plan_on(layout: &Layout, laid: &Laid) -> PlanOnFileSystem {
    let files = laid.found.files.iter();
    let files: HashMap<NodeId, &FileOnDisk> = files.map(|file| (file.node, file)).collect();
    PlanOnFileSystem {
        mount_point: escaped_path(&laid.found.mount_point),
        device: laid.found.device.to_string(),
        fs_type: escaped(&laid.found.fs_type),
        block_bytes: laid.found.block_bytes,
        is_worth_it: laid.plan.is_worth_it(),
        now: forecast(&laid.plan.before),
        after: forecast(&laid.plan.after),
        moves: laid
            .plan
            .moves
            .iter()
            .map(|one| move_of(layout, files.get(&one.node).copied(), one))
            .collect(),
        stays: laid
            .plan
            .left
            .iter()
            .map(|left| PartStays {
                path: layout.path(left.node),
                bytes: left.bytes,
                why: said(left.why),
            })
            .collect(),
    }
}

/// Numbers of parts and bytes that stay, by reason.
pub fn stays(left: &[Left]) -> BTreeMap<Why, (u64, u64)> {
    let mut stays: BTreeMap<Why, (u64, u64)> = BTreeMap::new();
    for left in left {
        let entry = stays.entry(left.why).or_default();
        entry.0 += 1;
        entry.1 += left.bytes;
    }
    stays
}

/// A reason in words.
pub fn said(why: Why) -> String {
    match why {
        Why::Obstacle(obstacle) => obstacle.to_string(),
        Why::LongRuns => "it lies in long runs".to_owned(),
        Why::NoRoom => "no free run is large enough".to_owned(),
    }
}

fn phase(account: &PhaseAccount) -> PhaseReport {
    PhaseReport {
        phase: account.phase.map(phase_name),
        files: account.files,
        bytes: account.bytes,
        fragments: account.fragments,
        places: account.places,
        span_bytes: account.span_bytes,
    }
}

fn forecast(forecast: &Forecast) -> ForecastReport {
    ForecastReport {
        time_ns: forecast.time_ns,
        metadata_ns: forecast.metadata_ns,
        requests: forecast.requests,
        seeks: forecast.seeks,
        bytes: forecast.bytes,
    }
}

fn each(layout: &Layout, laid: &Laid) -> Vec<FileReport> {
    super::by_need(&laid.found.files)
        .into_iter()
        .map(|file| FileReport {
            path: layout.path(file.node),
            need_ns: file.first_need_ns().unwrap_or(0),
            wanted_bytes: file.wanted_bytes(),
            places: file.wanted_runs().map(|(one, _)| run(&one)).collect(),
        })
        .collect()
}

fn run(run: &Run) -> RunReport {
    RunReport {
        offset_bytes: run.offset_bytes,
        place_bytes: run.place_bytes,
        length_bytes: run.length_bytes,
    }
}

fn move_of(layout: &Layout, file: Option<&FileOnDisk>, one: &Move) -> MoveReport {
    let identity = layout.profile.node(one.node).map(|node| node.identity);
    let identity = identity.unwrap_or_default();
    let end_bytes = one.offset_bytes.saturating_add(one.length_bytes);
    let runs = file.map_or(&[][..], |file| &file.runs);
    let from = runs
        .iter()
        .filter_map(|run| run.part(one.offset_bytes, end_bytes));
    MoveReport {
        path: layout.path(one.node),
        inode: identity.inode,
        generation: identity.generation,
        phase: one.phase.map(phase_name),
        need_ns: one.need_ns,
        offset_bytes: one.offset_bytes,
        length_bytes: one.length_bytes,
        bytes: one.bytes,
        from: from.map(|part| run(&part)).collect(),
        to_bytes: one.to_bytes,
    }
}
