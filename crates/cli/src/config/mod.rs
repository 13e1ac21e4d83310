// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread config`: which defaults of options are set, and by which file.

pub mod args;
pub mod defaults;
pub mod files;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Command, CommandFactory};
use serde::Serialize;

use self::args::ConfigArguments;
use self::defaults::{Defaults, OPTIONS};
use crate::args::Arguments;
use crate::table::{finished, table};
use crate::text::{self, escaped_path, printable};

/// `foreread.config/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ConfigReport {
    schema: &'static str,
    /// The files that are read, the last one counts most; those that aren't there, too.
    files: Vec<String>,
    /// Options that have a default of their own.
    options: Vec<OptionReport>,
}

/// An option that a file can set.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct OptionReport {
    /// Null for an option of all verbs.
    verb: Option<&'static str>,
    /// Name of the option.
    option: &'static str,
    /// As it would be typed; null where the option isn't given.
    value: Option<String>,
    /// The file that sets it; null where it is the program's own.
    file: Option<String>,
}

/// `foreread config`.
pub fn config(arguments: &ConfigArguments) -> Result<ExitCode> {
    let defaults = files::read()?;
    let mut command = Arguments::command();
    command.build();
    let options = OPTIONS.map(|(verb, option)| report(&defaults, &command, verb, option));
    let report = ConfigReport {
        schema: "foreread.config/1",
        files: files::paths()
            .iter()
            .map(|path| escaped_path(path))
            .collect(),
        options: options.into(),
    };
    match arguments.json {
        true => text::print_json(&report)?,
        false => text::print(&human(&report))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn report(
    defaults: &Defaults,
    command: &Command,
    verb: &'static str,
    option: &'static str,
) -> OptionReport {
    let set = defaults.get(verb, option);
    OptionReport {
        verb: (!verb.is_empty()).then_some(verb),
        option,
        value: match set {
            Some(set) => Some(set.value.clone()),
            None => own(command, verb, option),
        },
        file: set.map(|set| escaped_path(&set.file)),
    }
}

/// The program's own default.
fn own(command: &Command, verb: &str, option: &str) -> Option<String> {
    let command = match verb {
        "" => command,
        verb => command.find_subcommand(verb)?,
    };
    let mut args = command.get_arguments();
    let arg = args.find(|arg| arg.get_long() == Some(option))?;
    let values = arg.get_default_values().iter();
    let values: Vec<String> = values.map(|value| value.to_string_lossy().into()).collect();
    (!values.is_empty()).then(|| values.join(","))
}

fn human(report: &ConfigReport) -> String {
    let mut rows = table(&["verb", "option", "value", "set by"]);
    for option in &report.options {
        rows.add_row([
            option.verb.unwrap_or("all").to_owned(),
            option.option.to_owned(),
            printable(option.value.as_deref().unwrap_or("-")),
            option.file.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    let files = report.files.join(", then ");
    format!("{}\nFiles: {files}\n", finished(rows, &[0, 1, 2, 3]))
}
