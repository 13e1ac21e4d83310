// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `foreread config`.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  foreread config\n\n\
    A file has a table for each verb, and options by their long names:\n\n  \
    quiet = true\n  [run]\n  budget = \"512M\"\n\n\
    What is typed comes before what is in a file. /etc/foreread/watch.toml, which the service of \
    watch reads, is a file of its own.\n\n\
    Exit status: 0 done, 2 when a file can't be used.")]
pub struct ConfigArguments {
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}
