// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread show`: what a profile holds, what it was worth, and why replay is on or off.

pub mod args;
mod human;
pub mod json;
pub mod list;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use foreread_profile::{NodeKind, Profile};

use crate::store::{self, Store};
use crate::text;

use args::ShowArguments;
pub use list::{last_run_unix_s, list};
pub use words::{blind_spot_meanings, blind_spot_names, judgement, mode, recorder};

/// `foreread show`.
pub fn show(arguments: &ShowArguments) -> Result<ExitCode> {
    if arguments.profile.is_empty() {
        list(&Store::find()?, arguments.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let shown = Shown::read(arguments.profile.find()?)?;
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
        let profile = store::read(&path)?;
        let stored_bytes = path.metadata().map_or(0, |metadata| metadata.len());
        Ok(Self {
            stored_bytes,
            profile,
            path,
        })
    }

    pub fn count(&self, kind: NodeKind) -> u64 {
        self.profile.of_kind(kind).count() as u64
    }
}
