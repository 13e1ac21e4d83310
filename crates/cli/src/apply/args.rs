// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of `apply` and `rollback`.

use std::path::PathBuf;

use clap::Args;
use foreread_core::KiB;

use crate::advise::args::ExpectedArguments;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sudo foreread apply sda                       what `foreread advise sda` says\n  \
    sudo foreread apply /srv --read-ahead 2M      another size, for what is mounted there\n  \
    sudo foreread apply --all --persist           all devices, and new ones as they appear\n\n\
    DEVICE is a name (sda), a path (/dev/sda), a number (8:0) or a mount point.\n\n\
    Exit status: 0 done, 2 when nothing could be changed, 64 when only a part could. Undo it by \
    `foreread rollback`.")]
pub struct ApplyArguments {
    /// The devices to change.
    #[arg(value_name = "DEVICE", conflicts_with = "all")]
    pub devices: Vec<String>,
    /// All devices for which something else is advised than is set.
    #[arg(long)]
    pub all: bool,
    /// The largest readahead window to set, such as 512K, in place of what is advised; 0K turns
    /// readahead off.
    #[arg(long, value_name = "SIZE", requires = "devices", value_parser = kib)]
    pub read_ahead: Option<KiB>,
    /// Change even what somebody else has set since.
    #[arg(long, requires = "devices")]
    pub take_over: bool,
    /// Install a udev rule that applies what is advised to new devices and mounts.
    #[arg(long)]
    pub persist: bool,
    /// Say what would be changed, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// How udev calls it, for one new device: quiet, and without a journal none is changed.
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["devices", "all", "persist", "dry_run"])]
    pub udev: Option<String>,
    #[command(flatten)]
    pub expected: ExpectedArguments,
    #[command(flatten)]
    pub tree: TreeArguments,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sudo foreread rollback sda                  as it was before the first `apply`\n  \
    sudo foreread rollback --all --persist      everything, and the udev rule too\n\n\
    What somebody else has set since stays.\n\n\
    Exit status: 0 done, 1 when there was nothing to undo, 2 when nothing could be undone, 64 when \
    only a part could.")]
pub struct RollbackArguments {
    /// The devices to restore.
    #[arg(value_name = "DEVICE", conflicts_with = "all")]
    pub devices: Vec<String>,
    /// All devices that were changed.
    #[arg(long)]
    pub all: bool,
    /// Remove the udev rule.
    #[arg(long)]
    pub persist: bool,
    #[command(flatten)]
    pub tree: TreeArguments,
}

/// Arguments that `apply`, `status` and `rollback` share.
#[derive(Debug, Args)]
pub struct TreeArguments {
    /// The root directory of the system, with its /sys, /proc, /etc and /run.
    #[arg(long = "root", value_name = "DIR", default_value = "/")]
    pub sysroot: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// KiB of a page of 4 KiB, the smallest that a kernel has.
const PAGE_KIB: u64 = 4;
/// The kernel's windows have 32 bits for pages, and twice this under `FADV_SEQUENTIAL`.
const READ_AHEAD_KIB_MAX: u64 = 1 << 30;

fn kib(text: &str) -> Result<KiB, String> {
    let size: KiB = text
        .parse()
        .map_err(|error: foreread_core::SizeError| error.to_string())?;
    if !size.count().is_multiple_of(PAGE_KIB) {
        return Err(format!("{text}: readahead is in whole pages of 4 KiB"));
    }
    if size.count() > READ_AHEAD_KIB_MAX {
        return Err(format!("{text}: no kernel reads so far ahead"));
    }
    Ok(size)
}
