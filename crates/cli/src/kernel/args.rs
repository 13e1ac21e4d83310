// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `foreread kernel`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use foreread_core::Bytes;

use crate::typed::size;

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = "Examples:\n  \
    sudo foreread kernel install    build the module, and install it for this kernel\n  \
    sudo foreread kernel load sdb --policy foreread    from now on sdb is read ahead of by it\n  \
    foreread kernel status    what is loaded, and what it has done\n  \
    sudo foreread kernel set sdb --policy leap    change it while I/O runs\n  \
    sudo foreread kernel unload    the kernel reads ahead of all devices again\n  \
    sudo foreread kernel uninstall    undo the installation, to the last file\n\n\
    Exit status: 0 done, 1 when it is not loaded or not installed, 2 usage or failure, 64 done in \
    part."
)]
pub struct KernelArguments {
    #[command(subcommand)]
    pub what: KernelVerb,
}

#[derive(Debug, Subcommand)]
pub enum KernelVerb {
    /// Build the module for a kernel, and install it. Loads nothing.
    #[command(
        after_help = "Example:\n  sudo foreread kernel install --dry-run    what it needs, and would do\n\n\
        With DKMS it is built anew for each kernel that is installed later; without, for this \
        kernel only.\n\n\
        Exit status: 0 done, 2 when something is missing or the build fails."
    )]
    Install(InstallArguments),
    /// Undo what install has done, and unload the module.
    #[command(after_help = "Example:\n  sudo foreread kernel uninstall\n\n\
        Exit status: 0 done, 1 when it was not installed, 2 failure, 64 when a file was changed by \
        somebody else and stays.")]
    Uninstall(UninstallArguments),
    /// Load the module, and give devices a policy.
    #[command(
        after_help = "Example:\n  sudo foreread kernel load sdb --policy foreread\n\n\
        DEVICE is a name (sda), a path (/dev/sda), a number (8:0) or a mount point. Without one \
        the module only waits for `foreread kernel set`.\n\n\
        Exit status: 0 done, 2 when it can't be loaded."
    )]
    Load(LoadArguments),
    /// Change the policy of devices while the module is loaded.
    #[command(after_help = "Example:\n  \
        sudo foreread kernel set /srv --policy off    the kernel's own again\n\n\
        Exit status: 0 done, 1 when the module isn't loaded, 2 failure.")]
    Set(SetArguments),
    /// Show whether the module is installed and loaded, which device has which policy, and what
    /// these did.
    #[command(after_help = "Example:\n  foreread kernel status --json\n\n\
        Exit status: 0 it is loaded, 1 it isn't, 2 when that can't be read.")]
    Status(StatusArguments),
    /// Unload the module. The kernel reads ahead of all devices again.
    #[command(after_help = "Example:\n  sudo foreread kernel unload\n\n\
        Exit status: 0 done, 1 when it isn't loaded, 2 failure.")]
    Unload(UnloadArguments),
}

/// Which kernel, and of which system.
#[derive(Debug, Args)]
pub struct PlaceArguments {
    /// Root directory of the system.
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct InstallArguments {
    /// The kernel to build for, as `uname -r` prints it; by default the one that runs.
    #[arg(long, value_name = "RELEASE")]
    pub kernel: Option<String>,
    /// Sources of the module; by default those that were installed with this program.
    #[arg(long, value_name = "DIR")]
    pub sources: Option<PathBuf>,
    /// Build with make, for this kernel only, also where DKMS is installed.
    #[arg(long)]
    pub without_dkms: bool,
    /// Build it for a kernel that it was not tested on, with make.
    #[arg(long)]
    pub force: bool,
    /// Say what is missing and what would be done, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// As the package does it after an upgrade: installs again what uninstall --for-upgrade has
    /// removed.
    #[arg(long, hide = true, conflicts_with_all = ["kernel", "dry_run", "force"])]
    pub after_upgrade: bool,
    #[command(flatten)]
    pub place: PlaceArguments,
}

#[derive(Debug, Args)]
pub struct UninstallArguments {
    /// Say what would be done, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// As the package does it before an upgrade: what is loaded stays, and what was installed is
    /// remembered.
    #[arg(long, hide = true, conflicts_with = "dry_run")]
    pub for_upgrade: bool,
    #[command(flatten)]
    pub place: PlaceArguments,
}

/// How windows are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReadBy {
    /// By the kernel's function where that makes large folios, by the module elsewhere.
    Auto,
    /// By the module.
    Issue,
    /// By the kernel's function.
    Steer,
}

impl ReadBy {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Issue => "issue",
            Self::Steer => "steer",
        }
    }
}

/// Settings of devices.
#[derive(Debug, Args)]
pub struct Wish {
    /// How their windows are read.
    #[arg(long, value_name = "NAME")]
    pub read_by: Option<ReadBy>,
    /// No window is larger; 0K removes the bound.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub window_max: Option<Bytes>,
}

#[derive(Debug, Args)]
pub struct LoadArguments {
    /// Devices that are given a policy.
    #[arg(value_name = "DEVICE", conflicts_with = "all")]
    pub devices: Vec<String>,
    /// Give it to all devices that have none of their own.
    #[arg(long)]
    pub all: bool,
    /// The policy that they are given; `foreread kernel status` lists all.
    #[arg(long, value_name = "NAME", default_value = "foreread")]
    pub policy: String,
    /// Load it on a kernel that it was not tested on.
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub wish: Wish,
    #[command(flatten)]
    pub place: PlaceArguments,
}

#[derive(Debug, Args)]
pub struct SetArguments {
    /// The devices.
    #[arg(
        value_name = "DEVICE",
        conflicts_with = "all",
        required_unless_present = "all"
    )]
    pub devices: Vec<String>,
    /// All devices that have no policy of their own.
    #[arg(long)]
    pub all: bool,
    /// Their policy; `off` gives them back to the kernel.
    #[arg(long, value_name = "NAME")]
    pub policy: String,
    #[command(flatten)]
    pub wish: Wish,
    #[command(flatten)]
    pub place: PlaceArguments,
}

#[derive(Debug, Args)]
pub struct StatusArguments {
    #[command(flatten)]
    pub place: PlaceArguments,
}

#[derive(Debug, Args)]
pub struct UnloadArguments {
    #[command(flatten)]
    pub place: PlaceArguments,
}
