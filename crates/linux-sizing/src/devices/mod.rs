// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything with a readahead setting: its properties, the place of the setting, and other
//! programs that set it. Read below any directory that looks like the root of a machine; nothing is
//! changed, and no missing or broken file makes the whole fail.

mod attribute;
mod block;
mod mounted;
mod others;

use std::fs;
use std::path::{Path, PathBuf};

use foreread_device::{Device, DeviceKind, DeviceNumber, Machine, Stack};
use foreread_sys::block_device::number_at;

use attribute::{Attributes, read_text, reason};

pub use others::others;

/// The machine below `sysroot`, which is `/` for this one.
#[must_use]
pub fn read(sysroot: &Path) -> Machine {
    let mut unseen = Vec::new();
    let boot = boot(sysroot);
    let mut disks = block::Disks::read(sysroot, boot.as_deref(), &mut unseen);
    let mounts = mounted::read(sysroot, &mut unseen);
    mounted::join(sysroot, &mut disks, &mounts);
    let others = mounted::devices(sysroot, &mounts, &disks, boot.as_deref(), &mut unseen);
    let memory_bytes = memory_bytes(sysroot, &mut unseen);
    let mut devices = disks.devices;
    devices.extend(others);
    Machine {
        devices,
        partitions: disks.partitions,
        memory_bytes,
        unseen,
    }
}

/// Finds the device that the user names, as [`Machine::find`] does. This machine's own devices are
/// also found by every other path of theirs, such as `/dev/disk/by-id/...`.
#[must_use]
pub fn find<'a>(machine: &'a Machine, sysroot: &Path, what: &str) -> Option<&'a Device> {
    machine.find(what).or_else(|| {
        let is_here = sysroot == Path::new("/");
        let number = number_at(Path::new(is_here.then_some(what)?))?;
        machine.find(&number.to_string())
    })
}

/// Whether a setting of this name, such as `0:45`, exists: it goes with the file system that it
/// belongs to.
#[must_use]
pub fn has_setting(sysroot: &Path, name: &str) -> bool {
    sysroot.join("sys/class/bdi").join(name).exists()
}

/// Whether the file system of a setting is mounted in some mount namespace, ours or another.
#[must_use]
pub fn is_mounted_anywhere(sysroot: &Path, name: &str) -> bool {
    let number = name.split('-').next().unwrap_or(name);
    mounted::is_mounted_anywhere(sysroot, number)
}

/// The part of the machine that advice for one disk needs: the disk, the devices that it is stacked
/// on, and the memory. `None` when only [`read`] can tell: for mounts, and for loop devices, which
/// lie on the disk of their file.
#[must_use]
pub fn read_below(sysroot: &Path, name: &str) -> Option<Machine> {
    let mut unseen = Vec::new();
    let boot = boot(sysroot);
    let disks = block::Disks::read_below(sysroot, name, boot.as_deref(), &mut unseen);
    let is_loop = |device: &Device| {
        let block = device.block();
        block.is_some_and(|block| matches!(block.stack, Stack::Loop { .. }))
    };
    if disks.devices.is_empty() || disks.devices.iter().any(is_loop) {
        return None;
    }
    Some(Machine {
        devices: disks.devices,
        partitions: disks.partitions,
        memory_bytes: memory_bytes(sysroot, &mut unseen),
        unseen,
    })
}

/// The device that has this number now. Only the disk itself is read, since its identity and its
/// setting need no more. The devices that it is stacked on and its mount points are left out.
#[must_use]
pub fn device(sysroot: &Path, number: DeviceNumber) -> Option<Device> {
    if number.major == 0 {
        return read(sysroot).device(number).cloned();
    }
    let link = fs::read_link(sysroot.join(format!("sys/dev/block/{number}"))).ok()?;
    let disk = block::one(
        sysroot,
        link.file_name()?.to_str()?,
        boot(sysroot).as_deref(),
    )?;
    (disk.number == number).then_some(disk)
}

fn boot(sysroot: &Path) -> Option<String> {
    Attributes::of(sysroot.join("proc/sys/kernel/random")).text_if_any("boot_id")
}

/// The file with the setting of a device, in KiB.
#[must_use]
pub fn setting(sysroot: &Path, device: &Device) -> PathBuf {
    match device.kind {
        DeviceKind::Block(_) => sysroot
            .join("sys/block")
            .join(&device.identity.name)
            .join("queue/read_ahead_kb"),
        DeviceKind::Mount(_) => sysroot
            .join("sys/class/bdi")
            .join(&device.bdi)
            .join("read_ahead_kb"),
    }
}

fn memory_bytes(sysroot: &Path, unseen: &mut Vec<String>) -> Option<u64> {
    let text = match read_text(&sysroot.join("proc/meminfo"), 64 << 10) {
        Ok(text) => text,
        Err(error) => {
            unseen.push(format!("/proc/meminfo: {}", reason(&error)));
            return None;
        }
    };
    let total = text.lines().find_map(|line| {
        let kib = line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?;
        kib.trim().parse::<u64>().ok()?.checked_mul(1024)
    });
    if total.is_none() {
        unseen.push("/proc/meminfo: it says no MemTotal".to_owned());
    }
    total
}
