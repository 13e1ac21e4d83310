// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of a machine for programs: `foreread.status/2`.

use foreread_boot::Verdict;
use serde::Serialize;

use super::Machine;
use crate::apply::StatusReport;
use crate::apply::json::StatusJson;

/// The document. The parts of the machine are null where devices, their history, or another system
/// were asked for.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Document<'a> {
    schema: &'static str,
    /// The service; null where another system is looked at.
    watch: Option<Part<WatchDocument>>,
    /// The stored profiles; null where another system is looked at.
    profiles: Option<Part<ProfilesDocument<'a>>>,
    /// Replays of boots; null where another system is looked at.
    boot: Option<Part<BootDocument>>,
    /// Passes of `layout`; null where another system is looked at.
    layout: Option<Part<LayoutDocument>>,
    /// The kernel module; null where another system is looked at.
    module: Option<Part<ModuleDocument>>,
    #[serde(flatten)]
    read_ahead: StatusJson<'a>,
}

/// A part that was read, or why it was not.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum Part<T> {
    Read(T),
    Unknown {
        /// Why it isn't known.
        unknown: String,
    },
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WatchDocument {
    /// Whether one runs.
    running: bool,
    /// Number of its process; null where none runs.
    pid: Option<u32>,
    since_unix_s: Option<u64>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ProfilesDocument<'a> {
    /// Where they are stored.
    directory: &'a str,
    /// Profiles that are stored.
    stored: u64,
    /// Those that the next run replays.
    replayed: u64,
    /// Profiles that can not be read.
    unreadable: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct BootDocument {
    /// Whether boots are recorded.
    enabled: bool,
    /// What replays were worth so far.
    verdict: Verdict,
    saved_ns: Option<i64>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LayoutDocument {
    /// Passes that came to their end.
    finished_passes: u64,
    /// Passes that `layout resume` can go on with.
    stopped_passes: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ModuleDocument {
    /// Whether it is loaded.
    loaded: bool,
    /// Devices that it reads ahead of, by name or number.
    devices: Vec<String>,
}

pub fn document<'a>(machine: Option<&'a Machine>, read_ahead: &'a StatusReport) -> Document<'a> {
    Document {
        schema: "foreread.status/2",
        watch: machine.map(|machine| {
            part(&machine.watcher, |running| WatchDocument {
                running: running.is_some(),
                pid: running.as_ref().map(|running| running.pid),
                since_unix_s: running.as_ref().map(|running| running.since_unix_s),
            })
        }),
        profiles: machine.map(|machine| {
            part(&machine.profiles, |profiles| ProfilesDocument {
                directory: &profiles.directory,
                stored: profiles.stored,
                replayed: profiles.replayed,
                unreadable: profiles.unreadable,
            })
        }),
        boot: machine.map(|machine| {
            part(&machine.boot, |boot| BootDocument {
                enabled: boot.is_enabled,
                verdict: boot.worth.verdict,
                saved_ns: boot.worth.saved_ns(),
            })
        }),
        layout: machine.map(|machine| {
            part(&machine.passes, |passes| LayoutDocument {
                finished_passes: passes.finished,
                stopped_passes: passes.stopped,
            })
        }),
        module: machine.map(|machine| {
            part(&machine.module, |module| ModuleDocument {
                loaded: module.is_loaded,
                devices: module.taken.iter().map(|(name, _)| name.clone()).collect(),
            })
        }),
        read_ahead: StatusJson::of(read_ahead),
    }
}

fn part<'a, T, D>(read: &'a Result<T, String>, of: impl FnOnce(&'a T) -> D) -> Part<D> {
    match read {
        Ok(read) => Part::Read(of(read)),
        Err(why) => Part::Unknown {
            unknown: why.clone(),
        },
    }
}
