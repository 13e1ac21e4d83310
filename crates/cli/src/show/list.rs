// SPDX-License-Identifier: MIT OR Apache-2.0
//! All profiles of the store, a line each.

use std::path::{Path, PathBuf};

use anyhow::Result;
use foreread_core::{Bytes, grouped};
use foreread_profile::benefit::{judge, saved_ns};
use foreread_profile::{Profile, Run};
use serde::Serialize;

use super::Shown;
use crate::output::{pages, time};
use crate::store::Store;
use crate::table::{finished, table};
use crate::text::{self, command_line, date, escaped, escaped_path, printable};

/// Columns that a command line with its directory may take in the list.
const COMMAND_COLUMNS_MAX: usize = 60;

/// Prints what is there; `foreread.profiles/1` as JSON.
pub fn list(store: &Store, as_json: bool) -> Result<()> {
    let found = found(store)?;
    if as_json {
        return text::print_json(&ListReport::of(store.directory(), &found));
    }
    let directory = escaped_path(store.directory());
    if found.is_empty() {
        return text::print(&format!(
            "no profiles in {directory} yet; `foreread run -- COMMAND` records one\n"
        ));
    }
    text::print(&human(&directory, &found))
}

/// A file of the store: its name, and the profile in it.
pub type Found = (String, Result<Shown>);

/// Reads all profiles of a store, by name.
pub fn found(store: &Store) -> Result<Vec<Found>> {
    let files = store.files()?.into_iter();
    let read = |path: PathBuf| {
        let name = escaped_path(Path::new(path.file_name().unwrap_or_default()));
        (name, Shown::read(path))
    };
    Ok(files.map(read).collect())
}

fn human(directory: &str, found: &[Found]) -> String {
    let mut table = table(&[
        "profile",
        "last run",
        "data",
        "runs",
        "saved",
        "replay",
        "command, directory",
    ]);
    let mut stored_bytes = 0;
    let mut unreadable = String::new();
    for (name, shown) in found {
        match shown {
            Ok(shown) => {
                stored_bytes += shown.stored_bytes;
                table.add_row(row(name, shown));
            }
            Err(error) => {
                unreadable += &format!("unreadable: {}\n", printable(&format!("{error:#}")))
            }
        }
    }
    format!(
        "{}{unreadable}\n{} {}, {}, in {directory}\n",
        finished(table, &[0, 1, 5, 6]),
        grouped(found.len() as u64),
        if found.len() == 1 {
            "profile"
        } else {
            "profiles"
        },
        Bytes::new(stored_bytes).human()
    )
}

fn row(name: &str, shown: &Shown) -> [String; 7] {
    let profile = &shown.profile;
    let saved = last_saved(&profile.runs);
    let saved = saved.map_or("-".to_owned(), |ns| {
        format!(
            "{}{}",
            if ns < 0 { "-" } else { "" },
            time(ns.unsigned_abs())
        )
    });
    [
        name.trim_end_matches(".frp").to_owned(),
        last_run_unix_s(profile).map_or("-".to_owned(), day),
        pages(profile.total_pages()),
        profile.runs.len().to_string(),
        saved,
        if judge(&profile.runs).replays() {
            "on"
        } else {
            "off"
        }
        .to_owned(),
        shortened(&format!(
            "{}, {}",
            command_line(&profile.program.arguments),
            escaped(&profile.program.directory)
        )),
    ]
}

/// When the latest run started, in seconds since 1970; `None` without a run that has a date.
pub fn last_run_unix_s(profile: &Profile) -> Option<u64> {
    let starts = profile.runs.iter().map(|run| run.started_unix_s);
    starts.filter(|start_s| *start_s > 0).max()
}

fn day(unix_s: u64) -> String {
    date(unix_s)
        .split(' ')
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Time saved, in ns, by the latest run for which it is known.
pub fn last_saved(runs: &[Run]) -> Option<i64> {
    let saved = |(index, run)| saved_ns(runs.get(..index).unwrap_or(&[]), run);
    runs.iter().enumerate().rev().find_map(saved)
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= COMMAND_COLUMNS_MAX {
        return text.to_owned();
    }
    text.chars()
        .take(COMMAND_COLUMNS_MAX - 1)
        .chain(['…'])
        .collect()
}

/// The profiles of the store.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ListReport<'a> {
    schema: &'static str,
    /// The directory of the store.
    directory: String,
    /// Stored profiles.
    profiles: Vec<ListedReport<'a>>,
}

/// One file of the store.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum ListedReport<'a> {
    Readable(ReadableReport<'a>),
    Unreadable {
        /// The name of the file.
        name: &'a str,
        /// Why it can't be read.
        error: String,
    },
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ReadableReport<'a> {
    /// The name of the file.
    name: &'a str,
    /// The program, its arguments and its working directory.
    executable: String,
    /// Those of the command, without its name.
    arguments: Vec<String>,
    /// Where the command ran.
    directory: String,
    /// Size of the file.
    stored_bytes: u64,
    /// Pages that the profile names.
    pages: u64,
    /// Runs that it remembers.
    runs: usize,
    /// When the latest run started, in seconds since 1970.
    last_run_unix_s: Option<u64>,
    /// Time that the latest run with a measurement saved; negative when it lost time.
    last_saved_ns: Option<i64>,
    /// Whether the next run replays it.
    next_run_replays: bool,
}

impl<'a> ListReport<'a> {
    pub fn of(directory: &Path, found: &'a [Found]) -> Self {
        let profiles = found.iter().map(|(name, shown)| match shown {
            Ok(shown) => ListedReport::Readable(ReadableReport::of(name, shown)),
            Err(error) => ListedReport::Unreadable {
                name,
                error: format!("{error:#}"),
            },
        });
        Self {
            schema: "foreread.profiles/1",
            directory: escaped_path(directory),
            profiles: profiles.collect(),
        }
    }
}

impl<'a> ReadableReport<'a> {
    fn of(name: &'a str, shown: &Shown) -> Self {
        let profile = &shown.profile;
        let arguments = profile.program.arguments.iter();
        Self {
            name,
            executable: escaped(&profile.program.executable),
            arguments: arguments.map(|argument| escaped(argument)).collect(),
            directory: escaped(&profile.program.directory),
            stored_bytes: shown.stored_bytes,
            pages: profile.total_pages(),
            runs: profile.runs.len(),
            last_run_unix_s: last_run_unix_s(profile),
            last_saved_ns: last_saved(&profile.runs),
            next_run_replays: judge(&profile.runs).replays(),
        }
    }
}
