// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread boot export` and `foreread boot import`: the profile of a boot for other systems, and
//! from them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use foreread_boot::Stored;
use foreread_boot::portable::portable;
use foreread_core::grouped;
use foreread_linux_boot::{PROFILE, place};
use foreread_profile::{PAGE_BYTES, Profile, encode};
use foreread_sys::save;
use foreread_sys::start_pages::BOOT_LOCK;
use serde::Serialize;

use super::args::{ExportArguments, ImportArguments};
use super::{state_of, state_path};
use crate::output::{counted, pages};
use crate::store;
use crate::text::{self, escaped_path};

/// `foreread.boot.export/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExportJson {
    schema: &'static str,
    /// Path of the file.
    output: String,
    /// Whether it is for other machines, too.
    portable: bool,
    files: u64,
    pages: u64,
    page_bytes: u64,
    stored_bytes: usize,
}

/// `foreread.boot.import/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ImportJson {
    schema: &'static str,
    /// Whether nothing was changed, as was asked.
    dry_run: bool,
    /// Whether it is the system's profile now.
    kept: bool,
    /// Files and directories that are the same on this system.
    same: usize,
    /// Those of another size, or that are something else.
    others: usize,
    /// Paths of the profile that this machine lacks.
    missing: usize,
    /// The next fields are those of the profile that fits.
    files: u64,
    pages: u64,
    page_bytes: u64,
}

fn files_of(profile: &Profile) -> u64 {
    profile.files().count() as u64
}

pub fn export(arguments: &ExportArguments) -> Result<ExitCode> {
    let (profile, stored) = state_of(&arguments.root).profile();
    let profile = match (profile, stored) {
        (Some(profile), _) => profile,
        (None, Stored::Unusable(why)) => bail!("{why}"),
        (None, _) => bail!("no boot was recorded yet; see `foreread boot status`"),
    };
    let profile = match arguments.portable {
        true => portable(&profile),
        false => profile,
    };
    let bytes = encode(&profile);
    let output = &arguments.output;
    save::replace(output, &bytes)
        .with_context(|| format!("cannot save {}; it is as it was", escaped_path(output)))?;
    let files = files_of(&profile);
    if arguments.json {
        text::print_json(&ExportJson {
            schema: "foreread.boot.export/1",
            output: escaped_path(output),
            portable: arguments.portable,
            files,
            pages: profile.total_pages(),
            page_bytes: PAGE_BYTES,
            stored_bytes: bytes.len(),
        })?;
    } else {
        let whose = match arguments.portable {
            true => "for systems with the same packages",
            false => "for this system",
        };
        text::print(&format!(
            "Exported {}, {}, {whose}, to {}.\n",
            counted(files, "file", "files"),
            pages(profile.total_pages()),
            escaped_path(output)
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub fn import(arguments: &ImportArguments) -> Result<ExitCode> {
    let profile = store::read(&arguments.profile)?;
    let root = &arguments.root;
    let state = state_of(root);
    if matches!(state.profile().1, Stored::Own) && !arguments.replace {
        bail!(
            "{} is the profile of this system's own boots, and stays; --replace replaces it",
            escaped_path(&state_path(root).join(PROFILE))
        );
    }
    let (fitting, fit) = place(&profile, root);
    let files = files_of(&fitting);
    if fitting.total_pages() == 0 {
        bail!(
            "nothing of {} is on the system at {}; it was made on another one",
            escaped_path(&arguments.profile),
            escaped_path(root)
        );
    }
    if !arguments.dry_run {
        may_keep(root)?;
        // A tree that becomes an image gets other inode numbers there. The first boot looks them
        // up.
        match is_this_system(root) {
            true => {
                check_that_no_boot_goes_on()?;
                state.keep_profile(&fitting)?;
            }
            false => state.keep_profile(&portable(&fitting))?,
        }
    }
    if arguments.json {
        text::print_json(&ImportJson {
            schema: "foreread.boot.import/1",
            dry_run: arguments.dry_run,
            kept: !arguments.dry_run,
            same: fit.same,
            others: fit.others,
            missing: fit.missing,
            files,
            pages: fitting.total_pages(),
            page_bytes: PAGE_BYTES,
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let (verb, next) = match arguments.dry_run {
        true => ("Would import", ""),
        false => (
            "Imported",
            " The next boot replays it, and records what is missing.",
        ),
    };
    text::print(&format!(
        "{verb} {}, {}: {} paths are the same here, {} are of another kind or size, {} are missing.{next}\n",
        counted(files, "file", "files"),
        pages(fitting.total_pages()),
        grouped(fit.same as u64),
        grouped(fit.others as u64),
        grouped(fit.missing as u64),
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn is_this_system(root: &Path) -> bool {
    root == Path::new("/")
}

/// A boot that is being recorded adds that to the profile that it began with, and keeps the result.
fn check_that_no_boot_goes_on() -> Result<()> {
    let lock = Path::new(OsStr::from_bytes(BOOT_LOCK.to_bytes()));
    // To take the lock makes its file.
    if lock.exists() && matches!(save::try_lock(lock), Ok(None)) {
        bail!(
            "foreread-boot.service still records this boot, and would replace what is imported; \
             try again when it is inactive"
        );
    }
    Ok(())
}

/// The state directory is made by `enable`, which notes it: what is not noted is not undone.
fn may_keep(root: &Path) -> Result<()> {
    if state_of(root).exists() {
        return Ok(());
    }
    bail!(
        "{} is not there; `foreread boot enable` makes it",
        escaped_path(&state_path(root))
    );
}
