// SPDX-License-Identifier: MIT OR Apache-2.0
//! `apply --udev`: what the udev rule calls for a device that has just appeared.
//!
//! It is quiet, for its output goes into udev's database, and it never fails: a device without a
//! size of its own keeps the kernel's.

use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use foreread_device::{Applied, DeviceNumber, Expected, Origin, udev_property};
use foreread_linux_sizing::devices;

use super::change::{change, wish};
use crate::advise::Advised;
use crate::{output, text};

/// How long to wait until what has a new number is mounted. The number is given out when mounting
/// begins, and a server may take its time; `nfsrahead` waits in the same way.
const MOUNT_WAIT: Duration = Duration::from_secs(5);
const MOUNT_LOOK: Duration = Duration::from_millis(50);

pub fn apply(name: &str, sysroot: &Path) -> Result<ExitCode> {
    if let Err(error) = set(name, sysroot) {
        // udev shows it in its log.
        output::error(&error);
    }
    Ok(ExitCode::SUCCESS)
}

fn set(name: &str, sysroot: &Path) -> Result<()> {
    let Some((advised, number)) = find(name, sysroot) else {
        return Ok(());
    };
    let own = advised.all().find(|(device, _)| device.number == number);
    let Some((device, advice)) = own else {
        return Ok(());
    };
    // In a conflict the other setting stays: an administrator may have chosen it.
    let Some(kib) = advice.advised_kib.filter(|_| advice.conflicts.is_empty()) else {
        return Ok(());
    };
    let wish = wish(device, advice, kib, Origin::Udev, false);
    for applied in change(sysroot, &[wish])? {
        match applied {
            Applied::Changed { to_kib, .. } => text::print(&(udev_property(to_kib) + "\n"))?,
            Applied::Failed(error) => output::note(&error.to_string()),
            _ => {}
        }
    }
    Ok(())
}

/// The device, unless it has no size yet or none that matters.
fn find(name: &str, sysroot: &Path) -> Option<(Advised, DeviceNumber)> {
    let mut waited = Duration::ZERO;
    let mut is_elsewhere = false;
    loop {
        let advised = Advised::read_for(sysroot, name, Expected::default());
        if let Some(device) = advised.machine.find(name) {
            let is_ready = !device.is_idle() && device.read_ahead_kib.is_some();
            let number = device.number;
            return is_ready.then_some((advised, number));
        }
        // Only what has no block device becomes known later than its number.
        if !name.starts_with("0:") || waited >= MOUNT_WAIT {
            return None;
        }
        // The mount failed, or it is one of another mount namespace, such as a container's.
        if !devices::has_setting(sysroot, name) || is_elsewhere {
            return None;
        }
        // Where it is mounted for others only, ours has it by now or never.
        is_elsewhere = devices::is_mounted_anywhere(sysroot, name);
        if is_elsewhere {
            continue;
        }
        thread::sleep(MOUNT_LOOK);
        waited += MOUNT_LOOK;
    }
}
