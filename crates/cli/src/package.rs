// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread package`, which is hidden: what `make install` and `make deb` put beside the program,
//! made from the program's own command line.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, CommandFactory, Subcommand};
use clap_complete::Shell;

use crate::args::Arguments;

#[derive(Debug, Args)]
pub struct PackageArguments {
    #[command(subcommand)]
    part: Part,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Write a manual page for each verb.
    Man {
        /// Where to.
        directory: PathBuf,
    },
    /// Write completions for bash, zsh and fish.
    Completions {
        /// Where to.
        directory: PathBuf,
    },
    /// Print the rule that `apply --persist` installs.
    UdevRule {
        /// Where the program will be.
        #[arg(long, default_value = "/usr/local/bin/foreread")]
        program: String,
    },
    /// Add the pages of a file that are cached to a bitmap (see scripts/start-pages.sh).
    StartPages {
        /// An executable, on a file system that reads nothing ahead.
        file: PathBuf,
        /// The bitmap; made when it isn't there.
        bitmap: PathBuf,
    },
}

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
    foreread_linux::start_pages::add_cached(&opened, &mut pages).with_context(cannot)?;
    fs::write(bitmap, &pages).with_context(|| format!("cannot write {}", bitmap.display()))
}
