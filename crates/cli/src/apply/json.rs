// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reports of `apply`, `status` and `rollback` for programs: `foreread.apply/1`,
//! `foreread.rollback/1`, and the readahead of `foreread.status/2`. Sizes are the kernel's maximum
//! windows.

use std::borrow::Cow;

use foreread_device::{
    Applied, Device, DeviceNumber, Ending, Entry, Origin, RolledBack, Standing, Step, Wish,
};
use foreread_sys::open_files::{Holder, OpenFiles};
use serde::Serialize;

use super::report::{ApplyReport, Done, RollbackReport, StatusReport};

/// The request, and the changes of `apply`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ApplyJson<'a> {
    schema: &'static str,
    /// Whether nothing was changed, as was asked.
    dry_run: bool,
    /// Sizes that were asked for, or that `advise` recommends.
    wishes: Vec<WishDocument<'a>>,
    /// What came of each.
    changes: Vec<ChangeDocument<'a>>,
    /// Files that keep the old size until they are opened again.
    open_files: OpenFilesDocument<'a>,
    /// Where it was asked for.
    udev_rule: Option<InstalledDocument<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WishDocument<'a> {
    /// Name of the device.
    device: &'a str,
    /// `MAJOR:MINOR`.
    #[cfg_attr(test, schemars(with = "String"))]
    number: DeviceNumber,
    now_kib: Option<u64>,
    read_ahead_kib: u64,
    /// The reason, in words.
    because: &'a str,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ChangeDocument<'a> {
    /// Name of the device.
    device: &'a str,
    /// `MAJOR:MINOR`.
    #[cfg_attr(test, schemars(with = "String"))]
    number: DeviceNumber,
    /// `changed`, `already_so`, `foreign`, `manual`, `replaced`, `gone` or `failed`.
    outcome: &'static str,
    was_kib: Option<u64>,
    now_kib: Option<u64>,
    /// Why it failed.
    error: Option<String>,
    /// The command that undoes it.
    undo: Option<String>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct OpenFilesDocument<'a> {
    /// Descriptors of all processes.
    descriptors: u64,
    mapped_files: u64,
    /// Processes that could not be looked into.
    unseen_processes: u64,
    /// Processes that have files of the device open.
    processes: Vec<HolderDocument<'a>>,
}

/// A process with open files.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct HolderDocument<'a> {
    /// Number of the process.
    pid: u32,
    /// Name of the process.
    name: &'a str,
    /// Open files.
    descriptors: u64,
    mapped_files: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct InstalledDocument<'a> {
    /// Where it is.
    path: Cow<'a, str>,
    /// Whether it was another one before.
    changed: bool,
}

/// The changes that are in force.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StatusJson<'a> {
    /// Changes that are in force.
    applied: Vec<StandingDocument<'a>>,
    /// Where they were asked for.
    ended: Option<Vec<EntryDocument<'a>>>,
    /// The rule that `apply --udev` installs.
    udev_rule: RuleDocument<'a>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StandingDocument<'a> {
    /// State of the change, as in docs/status.md.
    state: &'static str,
    /// None where the device is gone.
    now_kib: Option<u64>,
    /// The changes of this device in the journal.
    entry: EntryDocument<'a>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RuleDocument<'a> {
    /// Where it is.
    path: Cow<'a, str>,
    /// Whether it is there, and as Foreread wrote it.
    state: &'static str,
}

/// An entry of the journal: the changes of one device.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct EntryDocument<'a> {
    /// Name of the device.
    device: &'a str,
    /// `MAJOR:MINOR`.
    #[cfg_attr(test, schemars(with = "String"))]
    number: DeviceNumber,
    /// As the device tells it; null where it does not.
    serial: Option<&'a str>,
    /// The size before the first change.
    was_kib: u64,
    /// The size that the last change set.
    set_kib: u64,
    /// The oldest first.
    steps: Vec<StepDocument<'a>>,
    /// How and when its changes ended; null while they are in force.
    ended: Option<EndedDocument>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StepDocument<'a> {
    from_kib: u64,
    to_kib: u64,
    /// The reason, in words.
    because: &'a str,
    /// Who asked for it.
    origin: Origin,
    unix_s: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct EndedDocument {
    /// What ended it.
    how: Ending,
    unix_s: u64,
}

/// The changes that `rollback` undid.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RollbackJson<'a> {
    schema: &'static str,
    /// What came of each.
    changes: Vec<UndoneDocument<'a>>,
    /// Where its removal was asked for.
    udev_rule: Option<RemovedDocument<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct UndoneDocument<'a> {
    /// Name of the device.
    device: &'a str,
    /// `MAJOR:MINOR`.
    #[cfg_attr(test, schemars(with = "String"))]
    number: DeviceNumber,
    /// `restored`, `foreign`, `replaced`, `gone` or `failed`.
    outcome: &'static str,
    was_kib: u64,
    now_kib: Option<u64>,
    /// Why it failed.
    error: Option<String>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RemovedDocument<'a> {
    /// Where it is.
    path: Cow<'a, str>,
    /// Whether it was there.
    removed: bool,
}

impl<'a> ApplyJson<'a> {
    pub fn of(report: &'a ApplyReport) -> Self {
        Self {
            schema: "foreread.apply/1",
            dry_run: report.dry_run,
            wishes: report.wishes.iter().map(WishDocument::of).collect(),
            changes: report.done.iter().map(ChangeDocument::of).collect(),
            open_files: OpenFilesDocument::of(&report.holders),
            udev_rule: report.installed.map(|changed| InstalledDocument {
                path: report.rule.to_string_lossy(),
                changed,
            }),
        }
    }
}

impl<'a> WishDocument<'a> {
    fn of((device, wish): &'a (Device, Wish)) -> Self {
        Self {
            device: &device.identity.name,
            number: wish.number,
            now_kib: device.read_ahead_kib,
            read_ahead_kib: wish.kib,
            because: &wish.reason,
        }
    }
}

impl<'a> ChangeDocument<'a> {
    fn of(done: &'a Done) -> Self {
        let (outcome, was_kib, now_kib, error) = match &done.applied {
            Applied::Changed { from_kib, to_kib } => {
                ("changed", Some(*from_kib), Some(*to_kib), None)
            }
            Applied::AlreadySo => ("already_so", None, Some(done.wish.kib), None),
            Applied::Foreign { now_kib } => ("foreign", None, Some(*now_kib), None),
            Applied::Manual { now_kib } => ("manual", None, Some(*now_kib), None),
            Applied::Gone { replaced: true } => ("replaced", None, None, None),
            Applied::Gone { replaced: false } => ("gone", None, None, None),
            Applied::Failed(error) => ("failed", None, None, Some(error.to_string())),
        };
        let is_changed = matches!(done.applied, Applied::Changed { .. });
        Self {
            device: &done.device.identity.name,
            number: done.wish.number,
            outcome,
            was_kib,
            now_kib,
            error,
            undo: is_changed.then(|| format!("foreread rollback {}", done.device.handle())),
        }
    }
}

impl<'a> OpenFilesDocument<'a> {
    fn of(found: &'a OpenFiles) -> Self {
        Self {
            descriptors: found.open(),
            mapped_files: found.mapped(),
            unseen_processes: found.unseen,
            processes: found.holders.iter().map(HolderDocument::of).collect(),
        }
    }
}

impl<'a> HolderDocument<'a> {
    fn of(holder: &'a Holder) -> Self {
        Self {
            pid: holder.pid,
            name: &holder.name,
            descriptors: holder.open,
            mapped_files: holder.mapped,
        }
    }
}

impl<'a> StatusJson<'a> {
    pub fn of(report: &'a StatusReport) -> Self {
        let ended = report.closed.as_ref();
        Self {
            applied: report.open.iter().map(StandingDocument::of).collect(),
            ended: ended.map(|ended| ended.iter().map(EntryDocument::of).collect()),
            udev_rule: RuleDocument {
                path: report.rule_path.to_string_lossy(),
                state: report.rule.name(),
            },
        }
    }
}

impl<'a> StandingDocument<'a> {
    fn of((entry, standing): &'a (Entry, Standing)) -> Self {
        Self {
            state: standing.name(),
            now_kib: match standing {
                Standing::Ours | Standing::Manual => Some(entry.wanted_kib()),
                Standing::Foreign { now_kib } => Some(*now_kib),
                Standing::Gone { .. } => None,
            },
            entry: EntryDocument::of(entry),
        }
    }
}

impl<'a> EntryDocument<'a> {
    fn of(entry: &'a Entry) -> Self {
        Self {
            device: &entry.identity.name,
            number: entry.number,
            serial: entry.identity.serial.as_deref(),
            was_kib: entry.original_kib,
            set_kib: entry.wanted_kib(),
            steps: entry.steps.iter().map(StepDocument::of).collect(),
            ended: entry
                .ended
                .map(|(how, unix_s)| EndedDocument { how, unix_s }),
        }
    }
}

impl<'a> StepDocument<'a> {
    fn of(step: &'a Step) -> Self {
        Self {
            from_kib: step.from_kib,
            to_kib: step.to_kib,
            because: &step.reason,
            origin: step.origin,
            unix_s: step.unix_s,
        }
    }
}

impl<'a> RollbackJson<'a> {
    pub fn of(report: &'a RollbackReport) -> Self {
        Self {
            schema: "foreread.rollback/1",
            changes: report.undone.iter().map(UndoneDocument::of).collect(),
            udev_rule: report.removed.map(|removed| RemovedDocument {
                path: report.rule.to_string_lossy(),
                removed,
            }),
        }
    }
}

impl<'a> UndoneDocument<'a> {
    fn of((entry, answer): &'a (Entry, RolledBack)) -> Self {
        let (outcome, now_kib, error) = match answer {
            RolledBack::Restored { to_kib, .. } => ("restored", Some(*to_kib), None),
            RolledBack::Foreign { now_kib } => ("foreign", Some(*now_kib), None),
            RolledBack::Gone { replaced: true } => ("replaced", None, None),
            RolledBack::Gone { replaced: false } => ("gone", None, None),
            RolledBack::Failed(error) => ("failed", None, Some(error.to_string())),
        };
        Self {
            device: &entry.identity.name,
            number: entry.number,
            outcome,
            was_kib: entry.wanted_kib(),
            now_kib,
            error,
        }
    }
}
