// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread boot`: a boot is recorded, and replayed ahead of later ones.

pub mod args;
pub mod chart;
pub mod enable;
pub mod exchange;
mod installed;
mod items;
pub mod serve;
pub mod show;
pub mod status;
mod this_system;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use foreread_boot::{History, Stored};
use foreread_linux_boot::StateDirectory;
use foreread_profile::{PhaseKind, Profile};
use foreread_sys::root_directory::RootDirectory;

use args::{BootArguments, BootVerb};
use installed::{Installed, directory_of};

use crate::machine_state;
use crate::text::escaped_path;

/// It is not enabled.
const EXIT_NOT_ENABLED: u8 = 1;

pub fn boot(arguments: &BootArguments) -> Result<ExitCode> {
    // A link in an image may lead nowhere there, and somewhere here.
    find_state(arguments.what.root())?;
    match &arguments.what {
        BootVerb::Enable(arguments) => enable::enable(arguments),
        BootVerb::Disable(arguments) => enable::disable(arguments),
        BootVerb::Status(arguments) => status::status(arguments),
        BootVerb::Show(arguments) => show::show(arguments),
        BootVerb::Chart(arguments) => chart::chart(arguments),
        BootVerb::Export(arguments) => exchange::export(arguments),
        BootVerb::Import(arguments) => exchange::import(arguments),
        BootVerb::Serve(arguments) => serve::serve(arguments),
    }
}

/// The system with this root directory.
fn open_root(root: &Path) -> Result<RootDirectory> {
    RootDirectory::open(root).with_context(|| format!("cannot open {}", escaped_path(root)))
}

/// The directory of profile and history, as a path below the root.
fn state_below(root: &RootDirectory) -> Result<PathBuf> {
    let state = std::path::absolute(machine_state::directory(root.path(), "boot"));
    let state = state.context("no current directory")?;
    let below = state.strip_prefix(root.path());
    Ok(below.unwrap_or(&state).to_owned())
}

/// Where profile and history of a system are kept.
fn find_state(root: &Path) -> Result<PathBuf> {
    let root = open_root(root)?;
    directory_of(&root, &state_below(&root)?)
}

/// The same, after [`boot`] has found it.
fn state_path(root: &Path) -> PathBuf {
    find_state(root).unwrap_or_else(|_| machine_state::directory(root, "boot"))
}

fn state_of(root: &Path) -> StateDirectory {
    StateDirectory::new(state_path(root))
}

/// The profile of the boot, of the system with this root.
pub fn recorded(root: &Path) -> Result<Profile> {
    match StateDirectory::new(find_state(root)?).profile() {
        (Some(profile), _) => Ok(profile),
        (None, Stored::Unusable(why)) => bail!("{why}"),
        (None, _) => bail!("no boot was recorded yet; see `foreread boot status`"),
    }
}

/// Whether boots are replayed on the system with this root, and the history of its boots.
pub fn standing(root: &Path, note: &mut dyn FnMut(&str)) -> Result<(bool, History)> {
    let root = open_root(root)?;
    let state = state_below(&root)?;
    let is_enabled = Installed::read(&root, &state)?.is_some();
    let state = StateDirectory::new(directory_of(&root, &state)?);
    Ok((is_enabled, state.history(note)))
}

/// The name of a part of a boot, as it is shown.
pub const fn phase_name(phase: PhaseKind) -> &'static str {
    match phase {
        PhaseKind::Initramfs => "initramfs",
        PhaseKind::Sysinit => "sysinit",
        PhaseKind::Target => "target",
        PhaseKind::Session => "session",
    }
}
