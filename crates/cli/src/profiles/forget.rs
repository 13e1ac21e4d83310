// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread profiles forget`: removes stored profiles.
//!
//! In: names, or an age. Out: the files that were removed. Only files of the directory of profiles
//! are removed, under the lock that a run takes to save.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use foreread_core::Bytes;
use foreread_sys::clock::now_unix_s;
use serde::Serialize;

use super::args::ForgetArguments;
use crate::output::counted;
use crate::show;
use crate::store::{self, Store};
use crate::text::{self, escaped_path};

/// Nothing was there to forget.
const EXIT_NOTHING: u8 = 1;

/// Profiles that were removed, or would be: `foreread.profiles.forget/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ForgetReport {
    schema: &'static str,
    /// Whether nothing was changed, as was asked.
    dry_run: bool,
    /// Names of the files.
    forgotten: Vec<String>,
    /// Size of the files.
    bytes: u64,
}

pub fn forget(arguments: &ForgetArguments) -> Result<ExitCode> {
    let store = Store::find()?;
    let chosen = chosen(arguments, &store)?;
    let size = |path: &PathBuf| path.metadata().map_or(0, |metadata| metadata.len());
    let report = ForgetReport {
        schema: "foreread.profiles.forget/1",
        dry_run: arguments.dry_run,
        bytes: chosen.iter().map(size).sum(),
        forgotten: chosen.iter().map(|path| name(path)).collect(),
    };
    if !arguments.dry_run && !chosen.is_empty() {
        store.remove(&chosen)?;
    }
    match arguments.json {
        true => text::print_json(&report)?,
        false => text::print(&human(&report))?,
    }
    Ok(match chosen.is_empty() {
        true => ExitCode::from(EXIT_NOTHING),
        false => ExitCode::SUCCESS,
    })
}

fn chosen(arguments: &ForgetArguments, store: &Store) -> Result<Vec<PathBuf>> {
    let mut files = store.files()?;
    if arguments.all {
        return Ok(files);
    }
    if let Some(age_ns) = arguments.unused_for_ns {
        let now_unix_s = now_unix_s();
        files.retain(|path| is_unused(path, age_ns / 1_000_000_000, now_unix_s));
        return Ok(files);
    }
    let named = arguments
        .profiles
        .iter()
        .map(|wanted| stored(wanted, &files));
    named.collect()
}

/// Whether the last run with this profile is so long ago. A profile that can't be read is none that
/// a run uses: then the time counts since it was written.
fn is_unused(path: &Path, age_s: u64, now_unix_s: u64) -> bool {
    let last_run = store::read(path).ok();
    let last_run = last_run.and_then(|profile| show::last_run_unix_s(&profile));
    let written = || {
        let modified = path.metadata().and_then(|metadata| metadata.modified());
        let since = modified.ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(since.as_secs())
    };
    let used_unix_s = last_run.or_else(written).unwrap_or(now_unix_s);
    now_unix_s.saturating_sub(used_unix_s) >= age_s
}

fn stored(wanted: &Path, files: &[PathBuf]) -> Result<PathBuf> {
    let is_it = |path: &&PathBuf| {
        let stem = path.file_stem().map(Path::new);
        path.file_name().map(Path::new) == Some(wanted) || stem == Some(wanted)
    };
    let found = files.iter().find(is_it).cloned();
    let Some(path) = found else {
        bail!(
            "{}: no stored profile has this name; `foreread profiles list` lists them",
            escaped_path(wanted)
        );
    };
    Ok(path)
}

fn name(path: &Path) -> String {
    escaped_path(Path::new(path.file_name().unwrap_or_default()))
}

fn human(report: &ForgetReport) -> String {
    if report.forgotten.is_empty() {
        return "no stored profile is to be removed\n".to_owned();
    }
    let mut text = String::new();
    for name in &report.forgotten {
        text += &format!("{name}\n");
    }
    let what = counted(report.forgotten.len() as u64, "profile", "profiles");
    let size = Bytes::new(report.bytes).human();
    let verb = match report.dry_run {
        true => "would be removed",
        false => "removed",
    };
    text + &format!("{what} {verb}, {size}\n")
}
