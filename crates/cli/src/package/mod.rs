// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread package`, which is hidden: what `make install` and `make deb` put beside the program,
//! made from the program's own command line.

pub mod args;

use std::fs::{self, File};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Arguments;
use args::{PackageArguments, Part};

pub fn package(arguments: &PackageArguments) -> Result<ExitCode> {
    match &arguments.part {
        Part::Man { directory } => man_pages(directory)?,
        Part::Completions { directory } => completions(directory)?,
        Part::UdevRule { program } => crate::text::print(&foreread_device::udev_rule(program)?)?,
        Part::StartPages { file, bitmap } => start_pages(file, bitmap)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn man_pages(directory: &Path) -> Result<()> {
    let cannot = || format!("cannot write manual pages into {}", directory.display());
    fs::create_dir_all(directory).with_context(cannot)?;
    clap_mangen::generate_to(Arguments::command(), directory).with_context(cannot)
}

fn completions(directory: &Path) -> Result<()> {
    let cannot = || format!("cannot write completions into {}", directory.display());
    fs::create_dir_all(directory).with_context(cannot)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut Arguments::command(), "foreread", directory)
            .with_context(cannot)?;
    }
    Ok(())
}

fn start_pages(file: &Path, bitmap: &Path) -> Result<()> {
    let cannot = || format!("cannot tell what of {} is cached", file.display());
    let mut pages = fs::read(bitmap).unwrap_or_default();
    let opened = File::open(file).with_context(cannot)?;
    foreread_sys::start_pages::add_cached(&opened, &mut pages).with_context(cannot)?;
    fs::write(bitmap, &pages).with_context(|| format!("cannot write {}", bitmap.display()))
}
