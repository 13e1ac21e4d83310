// SPDX-License-Identifier: MIT OR Apache-2.0
//! A profile as people name it: by file, by stored name or by command line.
//!
//! In: the operand PROFILE, or a command line after `--`. Out: the path of the profile file, or an
//! error that says how to list or record profiles. Reads no profile.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;

use crate::store::{self, Key, Store};
use crate::text::{command_line_of, escaped_path};

/// One profile.
#[derive(Debug, Args)]
pub struct ProfileArguments {
    /// A profile: a file, or a name as `foreread show` lists it.
    #[arg(value_name = "PROFILE", conflicts_with = "command")]
    pub profile: Option<PathBuf>,
    /// The profile that `run` uses for this command line in this directory.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl ProfileArguments {
    /// Whether no profile is named.
    pub fn is_empty(&self) -> bool {
        self.profile.is_none() && self.command.is_empty()
    }

    /// The file of the profile.
    pub fn find(&self) -> Result<PathBuf> {
        match &self.profile {
            Some(profile) => named(profile),
            None if self.command.is_empty() => {
                bail!("name a profile: a file, a stored name, or a command line after `--`")
            }
            None => of_command(&self.command),
        }
    }
}

/// A file, or else the name of one in the store, with `.frp` or without.
pub fn named(profile: &Path) -> Result<PathBuf> {
    let is_name = profile.components().count() == 1;
    if !is_name || profile.exists() {
        return Ok(profile.to_owned());
    }
    let Ok(store) = Store::find() else {
        return Ok(profile.to_owned());
    };
    let stored = store.directory().join(profile);
    let mut with_suffix = OsString::from(&stored);
    if profile.extension() != Some(OsStr::new("frp")) {
        with_suffix.push(".frp");
    }
    let found = [stored, PathBuf::from(with_suffix)];
    let Some(path) = found.into_iter().find(|path| path.is_file()) else {
        bail!(
            "{}: neither a file nor a stored profile; `foreread show` lists those that are stored",
            escaped_path(profile)
        );
    };
    Ok(path)
}

/// The file of the profile that `run` uses for a command line in the current directory.
fn of_command(command: &[OsString]) -> Result<PathBuf> {
    let name = command.first().map(OsString::as_os_str).unwrap_or_default();
    let Some(executable) = store::find_executable(name) else {
        bail!("{}: command not found", escaped_path(Path::new(name)));
    };
    let path = Store::find()?.path(&Key::of(&executable, command));
    if !path.exists() {
        bail!(
            "no profile of this command line in this directory ({}); \
             `foreread run -- {}` records one, `foreread show` lists all",
            escaped_path(&path),
            command_line_of(command)
        );
    }
    Ok(path)
}
