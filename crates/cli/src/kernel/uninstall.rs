// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread kernel uninstall`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use foreread_linux_module::{Kernel, Settings, build, dkms, unload};
use serde::Serialize;

use super::args::UninstallArguments;
use super::journal::{ForKernel, Installed};
use super::{EXIT_NOT_THERE, check_root, state_path};
use crate::text::{self, escaped_path};
use crate::{EXIT_PARTLY, output};

/// `foreread.kernel.uninstall/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UninstallJson {
    schema: &'static str,
    /// Whether nothing was done, as was asked.
    dry_run: bool,
    /// Whether there was something to undo.
    was_installed: bool,
    /// Whether the module was loaded, and is or would be unloaded.
    was_loaded: bool,
    /// Files that somebody else has changed, which stay.
    stay: Vec<String>,
}

pub fn uninstall(arguments: &UninstallArguments) -> Result<ExitCode> {
    let root = &arguments.place.root;
    let state = state_path(root);
    let installed = Installed::read(&state)?;
    let was_loaded = Settings::of(root).is_some();
    let mut stay = Vec::new();
    if let Some(installed) = installed.as_ref().filter(|_| !arguments.dry_run) {
        check_root(root)?;
        if was_loaded && !arguments.for_upgrade {
            unload(&Kernel::running(root)?)?;
        }
        let mut due = installed.due();
        if arguments.for_upgrade && installed.uses_dkms() && dkms::is_there() {
            // Also those that were installed later.
            for release in dkms::kernels(&installed.version)? {
                due.set(ForKernel::by_dkms(&release));
            }
        }
        if !installed.is_due {
            stay = remove(installed, root)?;
        }
        if arguments.for_upgrade {
            due.write(&state)?;
        } else {
            Installed::forget(&state)?;
        }
    }
    note_those_that_stay(&stay);
    let code = match (&installed, stay.is_empty()) {
        (None, _) => ExitCode::from(EXIT_NOT_THERE),
        (Some(_), true) => ExitCode::SUCCESS,
        (Some(_), false) => ExitCode::from(EXIT_PARTLY),
    };
    if arguments.place.json {
        text::print_json(&UninstallJson {
            schema: "foreread.kernel.uninstall/1",
            dry_run: arguments.dry_run,
            was_installed: installed.is_some(),
            was_loaded,
            stay,
        })?;
    } else if let Some(installed) = &installed {
        text::print(&said(installed, arguments.dry_run, was_loaded))?;
    } else {
        text::print("It is not installed.\n")?;
    }
    Ok(code)
}

/// Removes what was installed. Returns the files that somebody else has changed; they stay.
pub fn remove(installed: &Installed, root: &Path) -> Result<Vec<String>> {
    // If DKMS doesn't know it any more, somebody has removed it there.
    if installed.uses_dkms() && dkms::is_there() && dkms::knows(&installed.version)? {
        dkms::remove(&installed.version)?;
    }
    let mut stay = Vec::new();
    for built in installed.kernels.iter().filter_map(ForKernel::built) {
        match build::is_as_built(&built) {
            Some(false) => stay.push(escaped_path(&built.path)),
            _ => build::remove(&Kernel::named(root, &built.release)?, &built)?,
        }
    }
    Ok(stay)
}

/// Tells of files that somebody else has changed.
pub fn note_those_that_stay(paths: &[String]) {
    for path in paths {
        output::note(&format!("{path} was changed by somebody else and stays"));
    }
}

fn said(installed: &Installed, dry_run: bool, was_loaded: bool) -> String {
    let (would, unloaded) = match (dry_run, was_loaded) {
        (true, true) => ("Would remove", "Would unload the module.\n"),
        (true, false) => ("Would remove", ""),
        (false, true) => ("Removed", "Unloaded the module.\n"),
        (false, false) => ("Removed", ""),
    };
    let by = match installed.uses_dkms() {
        true => " from DKMS and from all kernels",
        false => "",
    };
    let kernels = installed.kernels.iter();
    let releases: Vec<&str> = kernels.map(|kernel| kernel.release.as_str()).collect();
    let releases = releases.join(", ");
    format!("{unloaded}{would} it{by}; it was installed for {releases}.\n")
}
