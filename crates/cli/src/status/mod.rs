// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread status`: the state of the whole machine, a line for each part of Foreread.
//!
//! In: this machine. Out: who watches it, how many profiles are stored, what was set, what a replay
//! of the boot is worth, how far moves of files got. Each part that can't be read says why; the
//! others are told all the same. Changes nothing, needs no root.

pub mod args;
mod human;
pub mod json;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use foreread_boot::{Worth, worth};
use foreread_profile::benefit::judge;

use self::args::StatusArguments;
use crate::apply::StatusReport;
use crate::store::{self, Store};
use crate::watch::service::{Running, running};
use crate::{apply, boot, kernel, layout, output, text};

/// Something isn't as it was applied.
const EXIT_NOT_IN_FORCE: u8 = 1;

/// Where dpkg keeps the list of the package's files while it is installed.
const PACKAGE_LIST: &str = "/var/lib/dpkg/info/foreread.list";

/// The state of a machine.
pub struct Machine {
    /// The process that watches the whole machine, if one does.
    watcher: Result<Option<Running>, String>,
    profiles: Result<Profiles, String>,
    boot: Result<Boot, String>,
    passes: Result<Passes, String>,
    module: Result<Module, String>,
    /// Whether dpkg has installed Foreread.
    is_packaged: bool,
}

/// What `run` keeps for this user.
struct Profiles {
    /// In a form to print.
    directory: String,
    stored: u64,
    /// Those that the next run replays.
    replayed: u64,
    unreadable: u64,
}

/// Replays of the boot.
struct Boot {
    is_enabled: bool,
    worth: Worth,
}

/// The kernel module.
struct Module {
    is_loaded: bool,
    /// Devices that it reads ahead of, by name or number, with the policy of each.
    taken: Vec<(String, String)>,
}

/// Moves of files.
struct Passes {
    finished: u64,
    /// Those that were stopped in the middle.
    stopped: u64,
}

/// `foreread status`.
pub fn status(arguments: &StatusArguments) -> Result<ExitCode> {
    let root = &arguments.tree.sysroot;
    let read_ahead = apply::status(root, &arguments.devices, arguments.history)?;
    // Of another system only what was set is known.
    let is_here = root == Path::new("/");
    let is_whole = is_here && arguments.devices.is_empty() && !arguments.history;
    let machine = is_whole.then(Machine::read);
    if arguments.tree.json {
        text::print_json(&json::document(machine.as_ref(), &read_ahead))?;
    } else {
        text::print(&human::of(machine.as_ref(), &read_ahead))?;
    }
    Ok(code(&read_ahead))
}

fn code(read_ahead: &StatusReport) -> ExitCode {
    match read_ahead.is_in_force() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EXIT_NOT_IN_FORCE),
    }
}

impl Machine {
    fn read() -> Self {
        let told = |error: anyhow::Error| format!("{error:#}");
        Self {
            watcher: running().map_err(told),
            profiles: Profiles::read().map_err(told),
            boot: Boot::read(Path::new("/")).map_err(told),
            passes: Passes::read().map_err(told),
            module: Module::read().map_err(told),
            is_packaged: Path::new(PACKAGE_LIST).exists(),
        }
    }
}

impl Profiles {
    fn read() -> Result<Self> {
        let store = Store::find()?;
        let mut profiles = Self {
            directory: text::escaped_path(store.directory()),
            stored: 0,
            replayed: 0,
            unreadable: 0,
        };
        for path in store.files()? {
            profiles.stored += 1;
            match store::read(&path) {
                Ok(profile) => profiles.replayed += u64::from(judge(&profile.runs).replays()),
                Err(_) => profiles.unreadable += 1,
            }
        }
        Ok(profiles)
    }
}

impl Boot {
    fn read(root: &Path) -> Result<Self> {
        let (is_enabled, history) = boot::standing(root, &mut output::note)?;
        Ok(Self {
            is_enabled,
            worth: worth(&history),
        })
    }
}

impl Module {
    fn read() -> Result<Self> {
        let taken = kernel::taken(Path::new("/"))?;
        Ok(Self {
            is_loaded: taken.is_some(),
            taken: taken.unwrap_or_default(),
        })
    }
}

impl Passes {
    fn read() -> Result<Self> {
        let mut passes = Self {
            finished: 0,
            stopped: 0,
        };
        for stored in layout::stored_passes()? {
            match stored.pass.is_finished {
                true => passes.finished += 1,
                false => passes.stopped += 1,
            }
        }
        Ok(passes)
    }
}
