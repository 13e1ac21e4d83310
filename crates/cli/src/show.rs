// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread show`: what a profile holds, what it was worth, and why replay is on or off.

mod human;
pub mod json;
pub mod list;
mod words;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use foreread_profile::{NodeKind, Profile, decode};

use crate::args::ShowArguments;
use crate::store::{self, Key, Store};
use crate::text;

pub use words::{blind_spot_meanings, blind_spot_names, judgement, mode, recorder};

/// `foreread show`.
pub fn show(arguments: &ShowArguments) -> Result<ExitCode> {
    let path = match (&arguments.program, &arguments.profile) {
        (Some(command), _) => of_program(command)?,
        (None, Some(profile)) => of_name(profile),
        (None, None) => {
            list::list(&Store::find()?, arguments.json)?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    let shown = Shown::read(path)?;
    if arguments.json {
        text::print_json(&json::ShowReport::of(&shown, arguments.files))?;
    } else {
        text::print(&human::of(&shown, arguments.files))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A profile, and the file that it's from.
pub struct Shown {
    pub path: PathBuf,
    pub stored_bytes: u64,
    pub profile: Profile,
}

impl Shown {
    pub fn read(path: PathBuf) -> Result<Self> {
        let bytes =
            store::read_bytes(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let profile = decode(&bytes).with_context(|| path.display().to_string())?;
        Ok(Self {
            stored_bytes: bytes.len() as u64,
            profile,
            path,
        })
    }

    pub fn count(&self, kind: NodeKind) -> u64 {
        self.profile.of_kind(kind).count() as u64
    }
}

/// A file, or else the name of one in the store.
pub fn of_name(profile: &Path) -> PathBuf {
    let is_name = profile.components().count() == 1;
    let stored = Store::find().map(|store| store.directory().join(profile));
    match stored {
        Ok(stored) if is_name && !profile.exists() && stored.exists() => stored,
        _ => profile.to_owned(),
    }
}

pub fn of_program(command: &[OsString]) -> Result<PathBuf> {
    // `--program -- CMD`, as one types it for `run`.
    let command = match command {
        [dashes, rest @ ..] if dashes == "--" => rest,
        all => all,
    };
    let Some(name) = command.first() else {
        bail!("--program needs a command")
    };
    let Some(executable) = store::find_executable(name) else {
        bail!("{}: command not found", name.display());
    };
    let path = Store::find()?.path(&Key::of(&executable, command));
    if !path.exists() {
        bail!(
            "no profile of this command line in this directory ({}); \
             `foreread run -- {}` records one, `foreread show` lists all",
            path.display(),
            name.display()
        );
    }
    Ok(path)
}
