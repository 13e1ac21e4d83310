// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `foreread layout`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use foreread_model::DiskParameters;

use super::device::disk;

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = "Examples:\n  \
    foreread layout show --program git status    where it lies, and what a replay takes\n  \
    foreread layout show --boot --output boot.svg    the same of the boot, as a picture\n  \
    foreread layout plan build.frp --output build.plan    which file would go where, and why\n\n\
    Nothing is moved.\n\n\
    Exit status: 0 done, 1 when no plan is worth it, 2 usage or failure."
)]
pub struct LayoutArguments {
    #[command(subcommand)]
    pub what: LayoutVerb,
}

#[derive(Debug, Subcommand)]
pub enum LayoutVerb {
    /// Show where the files of a profile lie, and what its replay takes now and after a new layout.
    Show(ShowArguments),
    /// Plan a new layout: which part of which file would go where, and what stays.
    Plan(PlanArguments),
}

/// The profile, and the device.
#[derive(Debug, Args)]
pub struct WhatArguments {
    /// A profile: a file, or a name as `foreread show` lists it.
    #[arg(value_name = "PROFILE", conflicts_with_all = ["program", "boot"],
          required_unless_present_any = ["program", "boot"])]
    pub profile: Option<PathBuf>,
    /// The profile of the boot.
    #[arg(long, conflicts_with = "program")]
    pub boot: bool,
    /// Take the disk for this one in place of what `probe` has measured: hdd, usb, cloud, nvme, or
    /// one of them with other parameters, such as hdd,seek_min_ns=2ms.
    #[arg(long, value_name = "DISK", value_parser = disk)]
    pub disk: Option<DiskParameters>,
    /// The profile that `run` would use for this command line, in this directory. Comes last.
    #[arg(long, value_name = "COMMAND", num_args = 1.., allow_hyphen_values = true)]
    pub program: Option<Vec<OsString>>,
}

#[derive(Debug, Args)]
pub struct ShowArguments {
    #[command(flatten)]
    pub what: WhatArguments,
    /// List each file: where it lies, and in how many pieces.
    #[arg(long)]
    pub files: bool,
    /// Draw it: position on the disk over the order of need, now and after a new layout. An SVG.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct PlanArguments {
    #[command(flatten)]
    pub what: WhatArguments,
    /// Keep the plan in this file, as JSON.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print the plan as JSON.
    #[arg(long)]
    pub json: bool,
}
