// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread profiles`: lists, shows and removes the profiles that `run` keeps.

pub mod args;
pub mod forget;

use std::process::ExitCode;

use anyhow::Result;

use self::args::{ProfilesArguments, ProfilesVerb};
use crate::show;
use crate::store::Store;

/// `foreread profiles`.
pub fn profiles(arguments: &ProfilesArguments) -> Result<ExitCode> {
    match &arguments.what {
        ProfilesVerb::List(arguments) => {
            show::list(&Store::find()?, arguments.json)?;
            Ok(ExitCode::SUCCESS)
        }
        ProfilesVerb::Show(arguments) => show::show(arguments),
        ProfilesVerb::Forget(arguments) => forget::forget(arguments),
    }
}
