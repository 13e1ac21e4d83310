// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of `foreread status`.

use clap::Args;

use crate::apply::args::TreeArguments;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    foreread status\n  \
    foreread status sda --history    each change of one device, and when\n\n\
    States of a device: `ours`, as advised and applied. `manual`, as a person named it to apply. \
    `foreign`, somebody else has set another value since. `gone`, the device is no longer there.\n\n\
    Exit status: 0 all that was applied is in force, 1 something is foreign or gone, 2 when it \
    can't be told.")]
pub struct StatusArguments {
    /// Only the readahead of these devices: a name (sda), a path, a number (8:0) or a mount point.
    #[arg(value_name = "DEVICE")]
    pub devices: Vec<String>,
    /// Each change of readahead, also what has ended.
    #[arg(long)]
    pub history: bool,
    #[command(flatten)]
    pub tree: TreeArguments,
}
