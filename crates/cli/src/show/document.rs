// SPDX-License-Identifier: MIT OR Apache-2.0
//! A profile for programs: `foreread.show/1`. `docs/show.md` describes the fields.

use foreread_profile::benefit::{Reason, Verdict, judge, saved_ns};
use foreread_profile::need::{PhaseLimits, nodes_by_need, phases};
use foreread_profile::{NodeId, NodeKind, PAGE_BYTES, Profile, Run};
use serde_json::{Value, json};

use super::{Shown, words};
use crate::text::{escaped, escaped_path};

pub fn of(shown: &Shown, with_files: bool) -> Value {
    let profile = &shown.profile;
    let (program, source) = (&profile.program, &profile.source);
    let mut value = json!({
        "schema": "foreread.show/1",
        "file": escaped_path(&shown.path),
        "stored_bytes": shown.stored_bytes,
        "program": {
            "executable": escaped(&program.executable),
            "arguments": program.arguments.iter().map(|a| escaped(a)).collect::<Vec<_>>(),
            "directory": escaped(&program.directory),
        },
        "source": {
            "recorder": words::recorder(source.recorder).to_lowercase(),
            "blind_spots": words::blind_spot_names(source.blind_spots),
            "events_lost": source.events_lost,
            "recorded_unix_s": source.recorded_unix_s,
            "kernel": escaped(&source.kernel),
        },
        "mounts": mounts(profile),
        "files": shown.count(NodeKind::File),
        "directories": shown.count(NodeKind::Directory),
        "symlinks": shown.count(NodeKind::Symlink),
        "absent": shown.count(NodeKind::Absent),
        "pages": profile.total_pages(),
        "page_bytes": PAGE_BYTES,
        "ranges": profile.ranges.len(),
        "phases": phases_of(profile),
        "runs": runs(&profile.runs),
        "judgement": judgement(&profile.runs),
    });
    if with_files {
        let nodes = nodes_by_need(profile).into_iter();
        value["nodes"] = nodes.filter_map(|id| node(profile, id)).collect();
    }
    value
}

fn mounts(profile: &Profile) -> Value {
    let known = profile
        .mounts
        .iter()
        .filter(|mount| !mount.fs_type.is_empty());
    known
        .map(|mount| {
            json!({
                "fs_type": escaped(&mount.fs_type),
                "mount_point": escaped(&mount.mount_point),
                "device_major": mount.device_major,
                "device_minor": mount.device_minor,
            })
        })
        .collect()
}

fn phases_of(profile: &Profile) -> Value {
    let phases = phases(profile, &PhaseLimits::default()).into_iter();
    phases
        .map(|phase| {
            json!({
                "first_need_ns": phase.first_need_ns,
                "last_need_ns": phase.last_need_ns,
                "pages": phase.pages,
                "ranges": phase.ranges.len(),
            })
        })
        .collect()
}

fn runs(runs: &[Run]) -> Value {
    let value = |(index, run): (usize, &Run)| {
        json!({
            "started_unix_s": run.started_unix_s,
            "mode": words::mode(run.mode),
            "wall_ns": run.wall_ns,
            "stall_ns": run.stall_ns,
            "cached_before_permille": run.cached_before_permille,
            "missed_pages": run.missed_pages,
            "fetched_pages": run.fetched_pages,
            "used_on_time_pages": run.used_on_time_pages,
            "used_late_pages": run.used_late_pages,
            "saved_ns": saved_ns(runs.get(..index).unwrap_or(&[]), run),
        })
    };
    runs.iter().enumerate().map(value).collect()
}

fn judgement(runs: &[Run]) -> Value {
    let verdict = judge(runs);
    let (name, reason) = match verdict {
        Verdict::Replay => ("on", None),
        Verdict::Off { reason, .. } => ("off", Some(reason)),
        Verdict::Retry { reason } => ("retry", Some(reason)),
    };
    let mut value = json!({
        "replay": name,
        "next_run_replays": verdict.replays(),
        "words": words::judgement(runs),
        "reason": reason.map(|reason| match reason {
            Reason::NotFaster { .. } => "not-faster",
            Reason::Wasteful { .. } => "wasteful",
            Reason::Forgotten => "forgotten",
        }),
    });
    if let Verdict::Off {
        since_unix_s,
        runs_until_retry,
        ..
    } = verdict
    {
        value["since_unix_s"] = since_unix_s.into();
        value["runs_until_retry"] = runs_until_retry.into();
    }
    value
}

fn node(profile: &Profile, id: NodeId) -> Option<Value> {
    let node = profile.node(id)?;
    let ranges = profile.ranges(id).iter().map(|range| {
        json!({
            "start_page": range.start_page,
            "pages": range.pages,
            "need_ns": range.need_ns,
            "weight": range.weight,
        })
    });
    Some(json!({
        "path": escaped(&profile.path(id)),
        "kind": words::kind(node.kind),
        "need_ns": node.need_ns,
        "weight": node.weight,
        "inode": node.identity.inode,
        "generation": node.identity.generation,
        "size_bytes": node.identity.size_bytes,
        "mtime_ns": node.identity.mtime_ns,
        "ranges": ranges.collect::<Value>(),
    }))
}
