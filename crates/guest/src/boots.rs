// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boots one machine several times, and keeps what each boot leaves: for whoever wants to know why
//! a boot takes as long as it does.

use std::path::PathBuf;
use std::process::ExitCode;
use std::slice;

use foreread_guest::{GuestError, Lab};

use crate::begin::Begin;
use crate::boot_machine::{BootMachine, Disks, Setup, System};
use crate::context::installed;
use crate::{beside_this_program, copy_files};

/// Arguments of `boots`.
#[derive(Debug, clap::Args)]
pub struct BootsArguments {
    /// The kernel, as in tests/guest/kernels.list.
    #[arg(long)]
    kernel: String,
    /// The system on the root disk.
    #[arg(long, value_enum, default_value = "services")]
    system: System,
    /// Where foreread begins.
    #[arg(long, value_enum, default_value = "initramfs")]
    begin: Begin,
    /// The model of the root disk.
    #[arg(long, value_name = "MODEL", default_value = "hdd")]
    disk: String,
    /// A profile that comes with the image, for its first boot.
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Put the files on the disk in another order, by the kernel: the same packages on another
    /// machine.
    #[arg(long)]
    relaid: bool,
    /// The file systems of the system.
    #[arg(long, value_enum, default_value = "one")]
    disks: Disks,
    /// What each boot is given: values of `foreread.boot` on the kernel's command line, or `usual`
    /// for none. After `+layout`, `foreread layout apply` moves the files of the boot when it is
    /// over. After `+blocks` the initramfs reads the files of the boot whole, in block order,
    /// before systemd starts; after `+needed` in order of use, while the boot goes on. After
    /// `/MODEL` the root disk has that speed.
    #[arg(
        value_name = "WORD[+layout|+blocks|+needed][/MODEL]",
        default_values = ["record", "plain", "replay", "plain/instant"]
    )]
    words: Vec<String>,
    /// The foreread to test; by default the one beside this program.
    #[arg(long, value_name = "FILE")]
    foreread: Option<PathBuf>,
    /// The machine's memory; 2,048 MiB by default.
    #[arg(long, value_name = "MIB")]
    memory: Option<u32>,
    /// Trace each boot, for `foreread boot chart`. That takes time of the boot.
    #[arg(long)]
    trace: bool,
    /// Where to put what boots leave: reads of the disk (for tests/guest/reads.py), the profile,
    /// and the journal.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Runs the boots, one after the other.
pub fn boots(arguments: &BootsArguments) -> Result<ExitCode, GuestError> {
    let lab = Lab::build_virtual(slice::from_ref(&arguments.kernel))?;
    let scratch = tempfile::tempdir()
        .map_err(|error| GuestError::Unexpected(format!("no temporary folder: {error}")))?;
    let foreread = match &arguments.foreread {
        Some(path) => path.clone(),
        None => beside_this_program("foreread")?,
    };
    let foreread = installed(&foreread, scratch.path())?;
    let BootsArguments { kernel, disk, .. } = arguments;
    let setup = Setup {
        system: arguments.system,
        begin: arguments.begin,
        profile: arguments.profile.as_deref(),
        is_relaid: arguments.relaid,
        disks: arguments.disks,
    };
    let mut machine = BootMachine::new(&lab, &foreread, kernel, disk, setup)?;
    machine.set_traced(arguments.trace);
    if let Some(size_mib) = arguments.memory {
        machine.set_memory_mib(size_mib);
    }
    for (number, word) in arguments.words.iter().enumerate() {
        let (word, disk) = word.split_once('/').unwrap_or((word, disk.as_str()));
        machine.set_disk(disk)?;
        let boot = machine.boot(word)?;
        println!("{number} {word} {disk}: {}", boot.told());
        if let Some(folder) = &arguments.out {
            let folder = folder.join(format!("{number}-{word}-{disk}"));
            copy_files(boot.outcome.files(), &folder).map_err(|error| {
                GuestError::Unexpected(format!("cannot copy to {}: {error}", folder.display()))
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
