// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread report`: one page of HTML, of the machine or of the runs of one program.
//!
//! In: what `show`, `advise`, `status`, `boot status`, `doctor` and a running `watch` know, as
//! values. Out: a page that needs no script and no network, or the same as one JSON document.
//! Nothing is changed. What can't be read is left out, and said in one line.

pub mod args;
mod charts;
mod html;
pub mod json;
mod live;
mod machine;
mod machine_page;
mod profile_page;
mod run_charts;
mod service_page;

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use foreread_sys::save;

use crate::EXIT_PARTLY;
use crate::show::Shown;
use crate::{output, text};
use args::ReportArguments;
use machine::Machine;

/// `foreread report`.
pub fn report(arguments: &ReportArguments) -> Result<ExitCode> {
    check(arguments)?;
    let path = match arguments.profile.is_empty() {
        true => None,
        false => Some(arguments.profile.find()?),
    };
    let Some(path) = path else {
        let machine = Machine::gather(&arguments.sysroot);
        let content = match arguments.json {
            true => format!("{:#}\n", text::json(&json::machine(&machine))),
            false => machine_page::page(&machine),
        };
        write(arguments, &content)?;
        if machine.left_out.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        output::note(&format!("left out: {}", machine.left_out.join("; ")));
        return Ok(ExitCode::from(EXIT_PARTLY));
    };
    let shown = Shown::read(path)?;
    let content = match arguments.json {
        true => format!("{:#}\n", text::json(&json::profile(&shown))),
        false => profile_page::page(&shown),
    };
    write(arguments, &content)?;
    Ok(ExitCode::SUCCESS)
}

/// What can't be done is said before anything is gathered.
fn check(arguments: &ReportArguments) -> Result<()> {
    if !arguments.sysroot.is_dir() {
        bail!(
            "{} is not a directory",
            text::escaped_path(&arguments.sysroot)
        );
    }
    let is_file = to_file(arguments).is_some();
    if !is_file && !arguments.json && std::io::stdout().is_terminal() {
        bail!("a page is nothing for a terminal: name a file, as --output report.html");
    }
    Ok(())
}

/// The file to write to; `None` for standard output.
fn to_file(arguments: &ReportArguments) -> Option<&Path> {
    let file = arguments.output.as_deref();
    file.filter(|file| file.as_os_str() != OsStr::new("-"))
}

fn write(arguments: &ReportArguments, content: &str) -> Result<()> {
    match to_file(arguments) {
        // It names files and programs of the user.
        Some(path) => save::write(path, content.as_bytes())
            .with_context(|| format!("cannot write {}", text::escaped_path(path))),
        None => text::print(content),
    }
}
