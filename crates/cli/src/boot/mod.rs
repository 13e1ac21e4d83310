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

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use foreread_boot::{History, Stored};
use foreread_linux_boot::StateDirectory;
use foreread_profile::{PhaseKind, Profile};

use args::{BootArguments, BootVerb};
use installed::Installed;

use crate::machine_state;

/// It is not enabled.
const EXIT_NOT_ENABLED: u8 = 1;

pub fn boot(arguments: &BootArguments) -> Result<ExitCode> {
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

/// Where profile and history of a system are kept.
fn state_path(root: &Path) -> PathBuf {
    machine_state::directory(root, "boot")
}

/// The same, as a path below the root.
fn state_below(root: &Path) -> Result<PathBuf> {
    let absolute = |path: &Path| std::path::absolute(path).context("no current directory");
    let (root, state) = (absolute(root)?, absolute(&state_path(root))?);
    let below = state.strip_prefix(&root);
    Ok(below.unwrap_or(&state).to_owned())
}

fn state_of(root: &Path) -> StateDirectory {
    StateDirectory::new(state_path(root))
}

/// The profile of the boot, of the system with this root.
pub fn recorded(root: &Path) -> Result<Profile> {
    match state_of(root).profile() {
        (Some(profile), _) => Ok(profile),
        (None, Stored::Unusable(why)) => bail!("{why}"),
        (None, _) => bail!("no boot was recorded yet; see `foreread boot status`"),
    }
}

/// Whether boots are replayed on the system with this root, and the history of its boots.
pub fn standing(root: &Path, note: &mut dyn FnMut(&str)) -> Result<(bool, History)> {
    let is_enabled = Installed::read(root, &state_below(root)?)?.is_some();
    Ok((is_enabled, state_of(root).history(note)))
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
