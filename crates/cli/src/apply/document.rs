// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `apply`, `status` and `rollback` say to programs.

use foreread_device::{Applied, Entry, RolledBack, Standing};
use foreread_sys::open_files::OpenFiles;
use serde_json::{Value, json};

use super::report::{ApplyReport, Done, RollbackReport, StatusReport};

pub fn applied(report: &ApplyReport) -> Value {
    json!({
        "schema": "foreread.apply/1",
        "dry_run": report.dry_run,
        "wishes": report.wishes.iter().map(|(device, wish)| json!({
            "device": device.identity.name,
            "number": wish.number,
            "now_kib": device.read_ahead_kib,
            "read_ahead_kib": wish.kib,
            "because": wish.reason,
        })).collect::<Vec<_>>(),
        "changes": report.done.iter().map(done).collect::<Vec<_>>(),
        "open_files": holders(&report.holders),
        "udev_rule": report.installed.map(|changed| json!({
            "path": report.rule,
            "changed": changed,
        })),
    })
}

fn done(done: &Done) -> Value {
    let (outcome, from_kib, now_kib, error) = match &done.applied {
        Applied::Changed { from_kib, to_kib } => ("changed", Some(*from_kib), Some(*to_kib), None),
        Applied::AlreadySo => ("already_so", None, Some(done.wish.kib), None),
        Applied::Foreign { now_kib } => ("foreign", None, Some(*now_kib), None),
        Applied::Manual { now_kib } => ("manual", None, Some(*now_kib), None),
        Applied::Gone { replaced: true } => ("replaced", None, None, None),
        Applied::Gone { replaced: false } => ("gone", None, None, None),
        Applied::Failed(error) => ("failed", None, None, Some(error.to_string())),
    };
    json!({
        "device": done.device.identity.name,
        "number": done.wish.number,
        "outcome": outcome,
        "was_kib": from_kib,
        "now_kib": now_kib,
        "error": error,
        "undo": matches!(done.applied, Applied::Changed { .. })
            .then(|| format!("foreread rollback {}", done.device.handle())),
    })
}

fn holders(found: &OpenFiles) -> Value {
    json!({
        "descriptors": found.open(),
        "mapped_files": found.mapped(),
        "unseen_processes": found.unseen,
        "processes": found.holders.iter().map(|holder| json!({
            "pid": holder.pid,
            "name": holder.name,
            "descriptors": holder.open,
            "mapped_files": holder.mapped,
        })).collect::<Vec<_>>(),
    })
}

pub fn status(report: &StatusReport) -> Value {
    json!({
        "schema": "foreread.status/1",
        "applied": report.open.iter().map(|(entry, standing)| {
            let now_kib = match standing {
                Standing::Ours | Standing::Manual => Some(entry.wanted_kib()),
                Standing::Foreign { now_kib } => Some(*now_kib),
                Standing::Gone { .. } => None,
            };
            json!({
                "state": standing.name(),
                "now_kib": now_kib,
                "entry": entry_of(entry),
            })
        }).collect::<Vec<_>>(),
        "ended": report.closed.as_ref().map(|closed| {
            closed.iter().map(entry_of).collect::<Vec<_>>()
        }),
        "udev_rule": {
            "path": report.rule_path,
            "state": report.rule.name(),
        },
    })
}

fn entry_of(entry: &Entry) -> Value {
    json!({
        "device": entry.identity.name,
        "number": entry.number,
        "serial": entry.identity.serial,
        "was_kib": entry.original_kib,
        "set_kib": entry.wanted_kib(),
        "steps": entry.steps.iter().map(|step| json!({
            "from_kib": step.from_kib,
            "to_kib": step.to_kib,
            "because": step.reason,
            "origin": step.origin,
            "unix_s": step.unix_s,
        })).collect::<Vec<_>>(),
        "ended": entry.ended.map(|(ending, unix_s)| json!({
            "how": ending,
            "unix_s": unix_s,
        })),
    })
}

pub fn rolled_back(report: &RollbackReport) -> Value {
    json!({
        "schema": "foreread.rollback/1",
        "changes": report.undone.iter().map(|(entry, answer)| {
            let (outcome, now_kib, error) = match answer {
                RolledBack::Restored { to_kib, .. } => ("restored", Some(*to_kib), None),
                RolledBack::Foreign { now_kib } => ("foreign", Some(*now_kib), None),
                RolledBack::Gone { replaced: true } => ("replaced", None, None),
                RolledBack::Gone { replaced: false } => ("gone", None, None),
                RolledBack::Failed(error) => ("failed", None, Some(error.to_string())),
            };
            json!({
                "device": entry.identity.name,
                "number": entry.number,
                "outcome": outcome,
                "was_kib": entry.wanted_kib(),
                "now_kib": now_kib,
                "error": error,
            })
        }).collect::<Vec<_>>(),
        "udev_rule": report.removed.map(|removed| json!({
            "path": report.rule,
            "removed": removed,
        })),
    })
}
