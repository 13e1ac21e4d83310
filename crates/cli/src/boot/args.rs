// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `foreread boot`.

use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, Subcommand};

/// Reads the value of `--root`, in every verb. Paths below the root begin with it, so a relative
/// one is made absolute.
fn root_directory() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(std::path::absolute)
}

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = "Examples:\n  \
    sudo foreread boot enable     from the next boot on: it is recorded, later ones are replayed\n  \
    sudo foreread boot enable --initramfs    the same, from before systemd starts\n  \
    sudo foreread boot status     what that was worth, from boots with it and without\n  \
    sudo foreread boot show       which unit needed what, and when\n  \
    sudo foreread boot chart --next    have the next boot traced\n  \
    sudo foreread boot chart --output boot.html    draw the boot that was traced last\n  \
    sudo foreread boot export --portable web.profile    for the first boot of others\n  \
    sudo foreread boot import web.profile    what fits of it is replayed at the next boot\n  \
    sudo foreread boot disable    undo it, to the last file\n\n\
    Exit status: 0 done, 1 when it is not enabled, 2 usage or failure, 64 when something\n\
    was left alone."
)]
pub struct BootArguments {
    #[command(subcommand)]
    pub what: BootVerb,
}

#[derive(Debug, Subcommand)]
pub enum BootVerb {
    /// Record the next boot, and replay it ahead of later ones.
    #[command(
        after_help = "Example:\n  sudo foreread boot enable --dry-run    what it would change\n\n\
        Exit status: 0 done, 2 when it can't be done here, 64 when something was left\n\
        alone."
    )]
    Enable(EnableArguments),
    /// Undo what enable has changed.
    #[command(after_help = "Example:\n  sudo foreread boot disable\n\n\
        Exit status: 0 done, 1 when it was not enabled, 2 when it fails, 64 when something\n\
        was left alone.")]
    Disable(ChangeArguments),
    /// Show what earlier boots were given, and what that was worth.
    #[command(after_help = "Example:\n  sudo foreread boot status\n\n\
        Exit status: 0 it is enabled, 1 it isn't, 2 when that can't be read.")]
    Status(StatusArguments),
    /// Show who needs what of the boot, and when.
    #[command(after_help = "Example:\n  sudo foreread boot show --unit ssh\n\n\
        Exit status: 0 done, 2 when no boot was recorded yet.")]
    Show(ShowArguments),
    /// Draw a traced boot, or two of them beside each other.
    #[command(
        after_help = "Example:\n  sudo foreread boot chart --output boot.html\n\n\
        Exit status: 0 done, 2 when no boot was traced yet."
    )]
    Chart(ChartArguments),
    /// Write the profile of the boot to a file, for this system or for others.
    #[command(
        after_help = "Example:\n  sudo foreread boot export --portable web.profile\n\n\
        Exit status: 0 done, 2 when there is nothing to export or it can't be written."
    )]
    Export(ExportArguments),
    /// Take a profile from another system, for the first boot.
    #[command(
        after_help = "Example:\n  sudo foreread boot import web.profile --dry-run\n\n\
        Exit status: 0 done, 2 when the profile can't be used."
    )]
    Import(ImportArguments),
    /// Go beside a boot; the unit that enable writes does this.
    #[command(hide = true)]
    Serve(ServeArguments),
}

impl BootVerb {
    /// The root directory of the system that it looks at or changes.
    pub fn root(&self) -> &Path {
        match self {
            Self::Enable(arguments) => &arguments.change.root,
            Self::Disable(arguments) => &arguments.root,
            Self::Status(arguments) => &arguments.root,
            Self::Show(arguments) => &arguments.root,
            Self::Chart(arguments) => &arguments.root,
            Self::Export(arguments) => &arguments.root,
            Self::Import(arguments) => &arguments.root,
            Self::Serve(_) => Path::new("/"),
        }
    }
}

#[derive(Debug, Args)]
pub struct EnableArguments {
    /// Begin in the initramfs, before systemd starts. Installs hooks for initramfs-tools or dracut,
    /// and builds the initramfs of this kernel anew.
    #[arg(long)]
    pub initramfs: bool,
    #[command(flatten)]
    pub change: ChangeArguments,
}

#[derive(Debug, Args)]
pub struct ChangeArguments {
    /// Say what would be changed, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// The root directory of the system, such as an image that is being built.
    #[arg(long, value_name = "DIR", default_value = "/", value_parser = root_directory())]
    pub root: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct StatusArguments {
    /// The root directory of the system.
    #[arg(long, value_name = "DIR", default_value = "/", value_parser = root_directory())]
    pub root: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ShowArguments {
    /// Show the files that this unit needed first: `ssh`, `ssh.service`, or its whole path.
    #[arg(long, value_name = "UNIT")]
    pub unit: Option<String>,
    /// Show the files of all units, those needed first; as text the first 100.
    #[arg(long, conflicts_with = "unit")]
    pub files: bool,
    /// The root directory of the system.
    #[arg(long, value_name = "DIR", default_value = "/", value_parser = root_directory())]
    pub root: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ChartArguments {
    /// Have the next boot traced; nothing is drawn now.
    #[arg(long, conflicts_with_all = ["boots", "output", "json"])]
    pub next: bool,
    /// The file of the drawing: SVG, or HTML where its name ends in .html. Without it, SVG is
    /// printed.
    #[arg(short, long, value_name = "FILE", conflicts_with = "json")]
    pub output: Option<PathBuf>,
    /// The root directory of the system.
    #[arg(long, value_name = "DIR", default_value = "/", value_parser = root_directory())]
    pub root: PathBuf,
    /// Print one JSON document of sums, and draw nothing.
    #[arg(long)]
    pub json: bool,
    /// Traced boots, at most two: -1 is the newest (the default), -2 the one before; or the
    /// beginning of the number of a boot.
    #[arg(value_name = "BOOT", num_args = 0..=2, allow_negative_numbers = true)]
    pub boots: Vec<String>,
}

#[derive(Debug, Args)]
pub struct ExportArguments {
    /// For systems with the same packages: files are known by path and size, and those of persons
    /// are left out.
    #[arg(long)]
    pub portable: bool,
    /// The root directory of the system.
    #[arg(long, value_name = "DIR", default_value = "/", value_parser = root_directory())]
    pub root: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
    /// The file. In /usr/lib/foreread/boot.d, under a name that ends in .profile, it is used for
    /// the first boot of an image.
    #[arg(value_name = "FILE")]
    pub output: PathBuf,
}

#[derive(Debug, Args)]
pub struct ImportArguments {
    /// Say how much of it fits, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Replace the profile of this system's own boots.
    #[arg(long)]
    pub replace: bool,
    /// The root directory of the system, such as an image that is being built.
    #[arg(long, value_name = "DIR", default_value = "/", value_parser = root_directory())]
    pub root: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
    /// The profile, as `boot export` writes it.
    #[arg(value_name = "FILE")]
    pub profile: PathBuf,
}

#[derive(Debug, Args)]
pub struct ServeArguments {
    /// A file that is made when the boot reaches its target.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/run/foreread-boot-reached"
    )]
    pub reached: PathBuf,
    /// A file whose lock is held by the process that goes beside this boot.
    #[arg(long, value_name = "FILE", default_value = "/run/foreread-boot.lock")]
    pub lock: PathBuf,
    /// This is an initramfs, and it has mounted the root file system here.
    #[arg(long, value_name = "DIR")]
    pub new_root: Option<PathBuf>,
    /// Seconds without reads of disks after which the boot is over.
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    pub idle: u64,
    /// Seconds after which replay and recording end, whether the boot is over or not.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub at_most: u64,
    /// Print one JSON document at the end.
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::ffi::CStr;
    use std::os::unix::ffi::OsStrExt;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        serve: ServeArguments,
    }

    #[test]
    fn a_start_finds_the_lock_of_another_process() {
        let alone = Alone::parse_from(["serve"]);
        let lock = foreread_sys::start_pages::BOOT_LOCK.to_bytes();
        assert_eq!(alone.serve.lock.as_os_str().as_bytes(), lock);
    }

    #[test]
    fn a_start_requests_the_history_and_the_profile() {
        use foreread_linux_boot::{HISTORY, PROFILE, StateDirectory};
        let state = StateDirectory::new(crate::machine_state::directory(Path::new(""), "boot"));
        let files = [HISTORY, PROFILE].map(|name| Path::new("/").join(state.file(name)));
        let requested = foreread_sys::start_pages::BOOT_FILES.map(CStr::to_bytes);
        assert_eq!(
            files.each_ref().map(|f| f.as_os_str().as_bytes()),
            requested
        );
    }
}
