// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread kernel`: the policies as a kernel module, built, installed, loaded and set.

pub mod args;
pub mod install;
mod journal;
pub mod load;
pub mod status;
pub mod uninstall;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use foreread_linux_module::{Kernel, Of, Settings};
use foreread_sys::block_device;

use args::{KernelArguments, KernelVerb};

use crate::machine_state;

/// The policy of a device that the kernel reads ahead of.
pub const OFF: &str = "off";
/// The watchdog's verdict on a policy that stays.
pub const OK: &str = "ok";
/// It is not loaded, or not installed.
const EXIT_NOT_THERE: u8 = 1;

pub fn kernel(arguments: &KernelArguments) -> Result<ExitCode> {
    match &arguments.what {
        KernelVerb::Install(arguments) => install::install(arguments),
        KernelVerb::Uninstall(arguments) => uninstall::uninstall(arguments),
        KernelVerb::Load(arguments) => load::load(arguments),
        KernelVerb::Set(arguments) => load::set(arguments),
        KernelVerb::Status(arguments) => status::status(arguments),
        KernelVerb::Unload(arguments) => load::unload(arguments),
    }
}

/// The devices that a loaded module reads ahead of, by name or else by number, each with its
/// policy; `None` if it isn't loaded.
pub fn taken(root: &Path) -> Result<Option<Vec<(String, String)>>> {
    let Some(settings) = Settings::of(root) else {
        return Ok(None);
    };
    let devices = settings.devices()?.into_iter();
    let taken = devices.filter(|device| device.policy != OFF);
    let named = taken.map(|device| {
        let name = match device.of {
            Of::Device(_) => node_name(device.of).unwrap_or_else(|| device.of.to_string()),
            Of::Default => "all others".to_owned(),
        };
        (name, device.policy)
    });
    Ok(Some(named.collect()))
}

/// The name of the device that settings hold for; `None` if it has none, or they are those of all
/// others.
pub fn node_name(of: Of) -> Option<String> {
    match of {
        Of::Device(number) => block_device::node_name(number),
        Of::Default => None,
    }
}

/// Only root changes this system. Another root directory is changed by whoever may write there.
fn check_root(root: &Path) -> Result<()> {
    if root == Path::new("/") && !rustix::process::geteuid().is_root() {
        bail!("only root can do that; try sudo");
    }
    Ok(())
}

/// The kernel of this name, or the one that runs.
fn kernel_of(root: &Path, release: Option<&str>) -> Result<Kernel> {
    Ok(match release {
        Some(release) => Kernel::named(root, release)?,
        None => Kernel::running(root)?,
    })
}

/// The directory of the list of installations, in which modules are built, too.
fn state_path(root: &Path) -> PathBuf {
    machine_state::directory(root, "kernel")
}
