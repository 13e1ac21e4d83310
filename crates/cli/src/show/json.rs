// SPDX-License-Identifier: MIT OR Apache-2.0
//! A profile for programs: `foreread.show/1`. `docs/show.md` describes the fields.

use foreread_profile::benefit::{Reason, Verdict, judge, saved_ns};
use foreread_profile::need::{Phase, PhaseLimits, nodes_by_need, phases};
use foreread_profile::{
    Mount, NodeId, NodeKind, PAGE_BYTES, PageRange, Profile, Program, Run, Source,
};
use serde::Serialize;

use super::{Shown, words};
use crate::text::{escaped, escaped_path};

/// A profile. Times are from the start of the program, unless they are `unix_s`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ShowReport {
    schema: &'static str,
    /// The file of the profile.
    file: String,
    /// Its size.
    stored_bytes: u64,
    /// The command that was recorded.
    program: ProgramReport,
    /// How it was recorded.
    source: SourceReport,
    /// File systems of the files.
    mounts: Vec<MountReport>,
    /// Nodes of each kind.
    files: u64,
    directories: u64,
    /// Symbolic links.
    symlinks: u64,
    /// Paths that were looked for and not there.
    absent: u64,
    /// Pages in all ranges.
    pages: u64,
    page_bytes: u64,
    /// Ranges of pages.
    ranges: usize,
    /// In the order of need.
    phases: Vec<PhaseReport>,
    /// The oldest first.
    runs: Vec<RunReport>,
    /// What replays were worth so far.
    judgement: JudgementReport,
    /// With `--files`: the nodes that are needed, by need.
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<Vec<NodeReport>>,
}

/// The program of the latest recording.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ProgramReport {
    /// Path of the program.
    executable: String,
    /// Those of the command, without its name.
    arguments: Vec<String>,
    /// Its working directory.
    directory: String,
}

/// The latest recording.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SourceReport {
    /// Name of the recorder.
    recorder: String,
    /// Accesses that the recorder could not see.
    blind_spots: Vec<&'static str>,
    /// Events that the kernel had no room for.
    events_lost: u64,
    recorded_unix_s: u64,
    /// Kernel release of the machine.
    kernel: String,
}

/// A file system at the time of recording.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MountReport {
    /// Type of the file system, as in `/proc/mounts`.
    fs_type: String,
    /// Where it is mounted.
    mount_point: String,
    /// Major number of the device.
    device_major: u32,
    /// Minor number of the device.
    device_minor: u32,
}

/// A part of the run without long gaps between needs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PhaseReport {
    first_need_ns: u64,
    last_need_ns: u64,
    pages: u64,
    /// Ranges of pages.
    ranges: usize,
}

/// A run of the program; none is "not measured".
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RunReport {
    started_unix_s: u64,
    /// What the run did with the profile.
    mode: &'static str,
    /// From start to exit of the program.
    wall_ns: u64,
    /// Time that its threads waited for reads.
    stall_ns: Option<u64>,
    /// Share of the profile's pages that were cached before the start.
    cached_before_permille: Option<u16>,
    /// Pages that the program itself had to fetch.
    missed_pages: Option<u64>,
    /// Pages that the replay fetched.
    fetched_pages: u64,
    used_on_time_pages: Option<u64>,
    used_late_pages: Option<u64>,
    /// Time saved against the first run; negative when it was slower.
    saved_ns: Option<i64>,
}

/// Whether the next run replays, and why.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct JudgementReport {
    /// `on`, `off` or `retry`.
    replay: &'static str,
    /// Whether the next run replays it.
    next_run_replays: bool,
    /// The judgement as a sentence.
    words: String,
    /// Why replay is off.
    reason: Option<&'static str>,
    /// When the run started that turned replay off.
    #[serde(skip_serializing_if = "Option::is_none")]
    since_unix_s: Option<u64>,
    /// Runs until replay is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    runs_until_retry: Option<u32>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct NodeReport {
    /// Where it is.
    path: String,
    /// File, directory or symbolic link.
    kind: &'static str,
    /// When it was first needed.
    need_ns: u64,
    /// 255 when every run needed it; falls with each run that does not.
    weight: u8,
    /// Number of the inode.
    inode: u64,
    /// Generation of the inode; 0 where unknown.
    generation: u32,
    size_bytes: u64,
    /// Time of the last change of the content, since 1970.
    mtime_ns: i64,
    /// In the order of the file.
    ranges: Vec<RangeReport>,
}

/// Pages of one file that were accessed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RangeReport {
    /// First page, of 4 KiB, from 0.
    start_page: u64,
    pages: u64,
    need_ns: u64,
    /// How sure it is to be read: 255 for always.
    weight: u8,
}

impl ShowReport {
    pub fn of(shown: &Shown, with_files: bool) -> Self {
        let profile = &shown.profile;
        let known_mounts = profile
            .mounts
            .iter()
            .filter(|mount| !mount.fs_type.is_empty());
        let phases = phases(profile, &PhaseLimits::default());
        Self {
            schema: "foreread.show/1",
            file: escaped_path(&shown.path),
            stored_bytes: shown.stored_bytes,
            program: ProgramReport::of(&profile.program),
            source: SourceReport::of(&profile.source),
            mounts: known_mounts.map(MountReport::of).collect(),
            files: shown.count(NodeKind::File),
            directories: shown.count(NodeKind::Directory),
            symlinks: shown.count(NodeKind::Symlink),
            absent: shown.count(NodeKind::Absent),
            pages: profile.total_pages(),
            page_bytes: PAGE_BYTES,
            ranges: profile.ranges.len(),
            phases: phases.iter().map(PhaseReport::of).collect(),
            runs: runs(&profile.runs),
            judgement: JudgementReport::of(&profile.runs),
            nodes: with_files.then(|| nodes(profile)),
        }
    }
}

impl ProgramReport {
    fn of(program: &Program) -> Self {
        let arguments = program.arguments.iter();
        Self {
            executable: escaped(&program.executable),
            arguments: arguments.map(|argument| escaped(argument)).collect(),
            directory: escaped(&program.directory),
        }
    }
}

impl SourceReport {
    fn of(source: &Source) -> Self {
        Self {
            recorder: words::recorder(source.recorder).to_lowercase(),
            blind_spots: words::blind_spot_names(source.blind_spots),
            events_lost: source.events_lost,
            recorded_unix_s: source.recorded_unix_s,
            kernel: escaped(&source.kernel),
        }
    }
}

impl MountReport {
    fn of(mount: &Mount) -> Self {
        Self {
            fs_type: escaped(&mount.fs_type),
            mount_point: escaped(&mount.mount_point),
            device_major: mount.device_major,
            device_minor: mount.device_minor,
        }
    }
}

impl PhaseReport {
    fn of(phase: &Phase) -> Self {
        Self {
            first_need_ns: phase.first_need_ns,
            last_need_ns: phase.last_need_ns,
            pages: phase.pages,
            ranges: phase.ranges.len(),
        }
    }
}

fn runs(runs: &[Run]) -> Vec<RunReport> {
    let report = |(index, run): (usize, &Run)| RunReport {
        started_unix_s: run.started_unix_s,
        mode: words::mode(run.mode),
        wall_ns: run.wall_ns,
        stall_ns: run.stall_ns,
        cached_before_permille: run.cached_before_permille,
        missed_pages: run.missed_pages,
        fetched_pages: run.fetched_pages,
        used_on_time_pages: run.used_on_time_pages,
        used_late_pages: run.used_late_pages,
        saved_ns: saved_ns(runs.get(..index).unwrap_or(&[]), run),
    };
    runs.iter().enumerate().map(report).collect()
}

impl JudgementReport {
    fn of(runs: &[Run]) -> Self {
        let verdict = judge(runs);
        let (replay, reason, since_unix_s, runs_until_retry) = match verdict {
            Verdict::Replay => ("on", None, None, None),
            Verdict::Off {
                reason,
                since_unix_s,
                runs_until_retry,
            } => (
                "off",
                Some(reason),
                Some(since_unix_s),
                Some(runs_until_retry),
            ),
            Verdict::Retry { reason } => ("retry", Some(reason), None, None),
        };
        Self {
            replay,
            next_run_replays: verdict.replays(),
            words: words::judgement(runs),
            reason: reason.map(|reason| match reason {
                Reason::NotFaster { .. } => "not-faster",
                Reason::Wasteful { .. } => "wasteful",
                Reason::Forgotten => "forgotten",
            }),
            since_unix_s,
            runs_until_retry,
        }
    }
}

fn nodes(profile: &Profile) -> Vec<NodeReport> {
    let nodes = nodes_by_need(profile).into_iter();
    nodes.filter_map(|id| NodeReport::of(profile, id)).collect()
}

impl NodeReport {
    fn of(profile: &Profile, id: NodeId) -> Option<Self> {
        let node = profile.node(id)?;
        Some(Self {
            path: escaped(&profile.path(id)),
            kind: words::kind(node.kind),
            need_ns: node.need_ns,
            weight: node.weight,
            inode: node.identity.inode,
            generation: node.identity.generation,
            size_bytes: node.identity.size_bytes,
            mtime_ns: node.identity.mtime_ns,
            ranges: profile.ranges(id).iter().map(RangeReport::of).collect(),
        })
    }
}

impl RangeReport {
    fn of(range: &PageRange) -> Self {
        Self {
            start_page: range.start_page,
            pages: range.pages,
            need_ns: range.need_ns,
            weight: range.weight,
        }
    }
}
