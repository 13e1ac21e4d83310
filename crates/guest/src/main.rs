// SPDX-License-Identifier: MIT OR Apache-2.0
//! `make guests`: runs Foreread under every kernel of the list, in virtual machines, and writes the
//! table of what came of it.
#![forbid(unsafe_code)]

mod bad_boot;
mod bad_profiles;
mod begin;
mod boot_machine;
mod boots;
mod cases;
mod context;
mod matrix;
mod random;
mod report;
mod verifier;
mod whole_files;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::slice;
use std::time::Duration;

use clap::{Parser, Subcommand};
use foreread_guest::{Disk, Guest, GuestError, Lab};
use foreread_model::{DiskParameters, PRESET_NAMES};

/// Runs things under other kernels, in virtual machines made of Debian's packages.
#[derive(Debug, Parser)]
#[command(
    name = "foreread-guests",
    version,
    max_term_width = 100,
    after_help = "Exit status: 0 when every target was reached or its miss is known; 1 when one was missed \
                  or a case failed; 2 when guests can't be had here. `run` ends as its script does."
)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Build what is missing of the lab, and say where everything is.
    Build,
    /// Run one shell script in one guest and print its output.
    Run(RunArguments),
    /// Boot one machine several times in virtual time, and keep what each boot leaves.
    Boots(boots::BootsArguments),
    /// Run every case under every kernel, print the table, and write it.
    Matrix(matrix::MatrixArguments),
}

#[derive(Debug, clap::Args)]
struct RunArguments {
    /// The kernel, as in tests/guest/kernels.list.
    #[arg(long)]
    kernel: String,
    /// A file to have beside the script, under its own name; several times for several.
    #[arg(long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A disk, NAME=IMAGE or NAME=SIZE in MiB; NAME=IMAGE@hdd reads at the speed of that model.
    /// `disk NAME` in the script prints its device.
    #[arg(long = "disk", value_name = "NAME=WHAT")]
    disks: Vec<String>,
    /// Where to put the files that the script leaves in /run/out.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Memory of the guest, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 2048)]
    memory: u32,
    /// Stop the guest after so many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    time_limit: u64,
    /// Print the kernel's console, too.
    #[arg(long)]
    console: bool,
    /// The script; `-` for standard input.
    script: PathBuf,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().verb {
        Verb::Build => build(),
        Verb::Run(arguments) => run(&arguments),
        Verb::Boots(arguments) => boots::boots(&arguments),
        Verb::Matrix(arguments) => matrix::matrix(&arguments),
    };
    done.unwrap_or_else(|error| {
        eprintln!("foreread-guests: {error}");
        ExitCode::from(match error {
            GuestError::Lacking(_) => 2,
            _ => 1,
        })
    })
}

fn build() -> Result<ExitCode, GuestError> {
    let lab = Lab::build(&[])?;
    println!("image\t{}", lab.image().display());
    for kernel in lab.kernels() {
        println!(
            "{}\t{}\t{}\t{}",
            kernel.name,
            kernel.release,
            kernel.vmlinuz().display(),
            kernel.btf().display()
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn run(arguments: &RunArguments) -> Result<ExitCode, GuestError> {
    let lab = Lab::build(slice::from_ref(&arguments.kernel))?;
    let path = &arguments.script;
    let script = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        fs::read_to_string(path)
    };
    let script = script.map_err(|error| {
        GuestError::Unexpected(format!("cannot read {}: {error}", path.display()))
    })?;
    let mut guest = Guest::new(&lab, &arguments.kernel)?
        .script(script)
        .memory_mib(arguments.memory)
        .time_limit(Duration::from_secs(arguments.time_limit));
    for file in &arguments.files {
        let name = file.file_name().map(|name| name.to_string_lossy());
        guest = guest.file(file, &name.unwrap_or_default());
    }
    for disk in &arguments.disks {
        guest = guest.disk(disk_of(disk)?);
    }
    let outcome = guest.run()?;
    if arguments.console {
        eprint!("{}", outcome.console);
    }
    print!("{}", outcome.output);
    if let Some(folder) = &arguments.out {
        copy_files(outcome.files(), folder).map_err(|error| {
            GuestError::Unexpected(format!("cannot copy to {}: {error}", folder.display()))
        })?;
    }
    Ok(ExitCode::from(u8::try_from(outcome.status).unwrap_or(1)))
}

/// `NAME=SIZE` in MiB, `NAME=IMAGE`, or `NAME=IMAGE@MODEL`.
fn disk_of(text: &str) -> Result<Disk, GuestError> {
    let Some((name, what)) = text.split_once('=') else {
        return Err(GuestError::Unexpected(format!(
            "`{text}` is no disk: NAME=IMAGE or NAME=SIZE in MiB is one"
        )));
    };
    if let Ok(size_mib) = what.parse() {
        return Ok(Disk::blank(name, size_mib));
    }
    // An image of such a name is an image.
    if let Some((image, model)) = what.rsplit_once('@')
        && !Path::new(what).exists()
    {
        let Some(parameters) = DiskParameters::preset(model) else {
            return Err(GuestError::Unexpected(format!(
                "no disk model is called `{model}`; there are {}",
                PRESET_NAMES.join(", ")
            )));
        };
        return Ok(Disk::modelled(name, Path::new(image), parameters));
    }
    Ok(Disk::image(name, Path::new(what)))
}

fn copy_files(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_files(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// A file in the folder of this program.
fn beside_this_program(name: &str) -> Result<PathBuf, GuestError> {
    let own = std::env::current_exe();
    own.map(|path| path.with_file_name(name))
        .map_err(|error| GuestError::Unexpected(format!("no path of this program: {error}")))
}
