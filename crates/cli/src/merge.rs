// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread merge`: several profiles in one.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use foreread_core::grouped;
use foreread_profile::{PAGE_BYTES, Profile, encode, merge_profiles};
use foreread_sys::save;
use serde::Serialize;

use crate::args::MergeArguments;
use crate::named_profile::named;
use crate::output::{pages, report};
use crate::{store, text};

/// Several profiles that were merged into one.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MergeReport {
    schema: &'static str,
    /// The file that holds the merged profile.
    output: String,
    /// Profiles that were merged.
    profiles: usize,
    /// The next fields are those of the merged profile.
    files: u64,
    pages: u64,
    page_bytes: u64,
    /// Ranges of pages.
    ranges: usize,
    /// Runs that it remembers.
    runs: usize,
    /// Size of its file.
    stored_bytes: usize,
}

/// `foreread merge`. All profiles are read before anything is written.
pub fn merge(arguments: &MergeArguments) -> Result<ExitCode> {
    let mut merged: Option<Profile> = None;
    for path in &arguments.profiles {
        let next = store::read(&named(path)?)?;
        merged = Some(match merged {
            None => next,
            Some(merged) => merge_profiles(&merged, &next),
        });
    }
    let Some(merged) = merged else {
        bail!("nothing to merge: name two profiles or more")
    };
    let bytes = encode(&merged);
    let output = &arguments.output;
    save::replace(output, &bytes)
        .with_context(|| format!("cannot save {}; it is as it was", output.display()))?;
    let files = merged.files().count() as u64;
    if arguments.json {
        text::print_json(&MergeReport {
            schema: "foreread.merge/1",
            output: text::escaped_path(output),
            profiles: arguments.profiles.len(),
            files,
            pages: merged.total_pages(),
            page_bytes: PAGE_BYTES,
            ranges: merged.ranges.len(),
            runs: merged.runs.len(),
            stored_bytes: bytes.len(),
        })?;
    } else {
        report(&format!(
            "merged {} profiles into {}: {} files, {}",
            arguments.profiles.len(),
            output.display(),
            grouped(files),
            pages(merged.total_pages()),
        ));
    }
    Ok(ExitCode::SUCCESS)
}
