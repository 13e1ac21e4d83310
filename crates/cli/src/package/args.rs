// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `package`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub struct PackageArguments {
    #[command(subcommand)]
    pub part: Part,
}

#[derive(Debug, Subcommand)]
pub enum Part {
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
