// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `foreread layout`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use foreread_model::DiskParameters;

use super::device::disk;
use crate::named_profile::ProfileArguments as NamedProfile;

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = "Examples:\n  \
    foreread layout show -- git status    where it lies, and what a replay takes\n  \
    foreread layout show --boot --svg boot.svg    the same of the boot, as a picture\n  \
    foreread layout plan build.frp --output build.plan    which file would go where, and why\n  \
    sudo foreread layout apply build.frp    move them; Ctrl-C stops, `resume` goes on\n  \
    sudo foreread layout undo    move them back to where they were\n  \
    foreread layout order boot.frp --builder squashfs --tree root --output root.sort\n  \
    mksquashfs root root.squashfs -sort root.sort    what is read first lies first\n\n\
    Only apply, resume and undo move something.\n\n\
    Exit status: 0 done, 1 when no plan is worth it, 2 usage or failure, 64 done in part."
)]
pub struct LayoutArguments {
    #[command(subcommand)]
    pub what: LayoutVerb,
}

#[derive(Debug, Subcommand)]
pub enum LayoutVerb {
    /// Show where the files of a profile lie, and what its replay takes now and after a new layout.
    #[command(after_help = "Example:\n  foreread layout show -- git status\n\n\
        Exit status: 0 done, 2 when there is no such profile.")]
    Show(ShowArguments),
    /// Plan a new layout: which part of which file would go where, and what stays.
    #[command(
        after_help = "Example:\n  foreread layout plan build.frp --output build.plan\n\n\
        Exit status: 0 done, 1 when no plan is worth it, 2 when there is no such profile."
    )]
    Plan(PlanArguments),
    /// Move files to where a plan puts them. ext4 only.
    #[command(after_help = "Example:\n  sudo foreread layout apply build.frp\n\n\
        Exit status: 0 done, 1 when nothing may be moved or it isn't worth it, 2 failure, 64 stopped.")]
    Apply(ApplyArguments),
    /// Go on with a pass that was stopped.
    #[command(after_help = "Example:\n  sudo foreread layout resume\n\n\
        Exit status: 0 done, 2 when there is nothing to go on with, 64 stopped again.")]
    Resume(MovingArguments),
    /// Move what the last `apply` has moved back to where it was.
    #[command(after_help = "Example:\n  sudo foreread layout undo\n\n\
        Exit status: 0 done, 2 when there is nothing to undo, 64 when some files stay where they are.")]
    Undo(MovingArguments),
    /// Show how much of what was moved still lies in order, and whether another pass is worth it.
    #[command(after_help = "Example:\n  sudo foreread layout status\n\n\
        Exit status: 0 done, 2 when the passes can't be read.")]
    Status(MovingArguments),
    /// Write the order of need for who builds an image.
    #[command(
        after_help = "Example:\n  foreread layout order boot.frp --builder squashfs --tree root -o root.sort\n\n\
        Exit status: 0 done, 2 when there is no such profile or the list can't be written."
    )]
    Order(OrderArguments),
}

/// Who reads the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Builder {
    /// A sort file: mksquashfs DIRECTORY IMAGE -sort FILE
    Squashfs,
    /// A list: tar --create --null --no-recursion --directory DIRECTORY --files-from FILE
    Tar,
}

/// The profile.
#[derive(Debug, Args)]
#[group(id = "profile_or_boot")]
pub struct ProfileArguments {
    /// The profile of the boot.
    #[arg(long, conflicts_with_all = ["profile", "command"],
          required_unless_present_any = ["profile", "command"])]
    pub boot: bool,
    #[command(flatten)]
    pub named: NamedProfile,
}

/// The profile, and the disk.
#[derive(Debug, Args)]
pub struct WhatArguments {
    /// Take the disk for this one in place of what `probe` has measured: hdd, usb, cloud, nvme, or
    /// one of them with other parameters, such as hdd,seek_min_ns=2ms.
    #[arg(long, value_name = "DISK", value_parser = disk)]
    pub disk: Option<DiskParameters>,
    #[command(flatten)]
    pub profile: ProfileArguments,
}

#[derive(Debug, Args)]
pub struct ShowArguments {
    #[command(flatten)]
    pub what: WhatArguments,
    /// List each file: where it lies, and in how many pieces.
    #[arg(long)]
    pub files: bool,
    /// Draw position on the disk over the order of need, now and after a new layout, as SVG.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
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

#[derive(Debug, Args)]
pub struct ApplyArguments {
    #[command(flatten)]
    pub what: WhatArguments,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct MovingArguments {
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "foreread layout order [OPTIONS] --builder NAME --tree DIR PROFILE\n       \
    foreread layout order [OPTIONS] --builder NAME --tree DIR -- COMMAND..."
)]
pub struct OrderArguments {
    /// Who is to read it.
    #[arg(long, value_name = "NAME")]
    pub builder: Builder,
    /// The directory that the image is made of. Only files that it has are named.
    #[arg(long, value_name = "DIR")]
    pub tree: PathBuf,
    /// Where the image was mounted when the profile was recorded.
    #[arg(long = "mounted-at", value_name = "DIR", default_value = "/")]
    pub top: PathBuf,
    /// Write to this file; by default to standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print what was found as JSON; needs --output.
    #[arg(long, requires = "output")]
    pub json: bool,
    #[command(flatten)]
    pub profile: ProfileArguments,
}
