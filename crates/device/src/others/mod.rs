// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other programs that set readahead: udev rules, TuneD, nfsrahead, options of mounts. Pure
//! functions from the text of their files; every text has an answer.

mod fstab;
mod glob;
mod nfs_conf;
mod tuned;
mod udev;

use crate::facts::{Device, DeviceKind};
use crate::transport::Transport;

pub use fstab::fstab;
pub use nfs_conf::nfs_conf;
pub use tuned::{ProfileText, tuned};
pub use udev::udev_rules;

/// The program that sets readahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setter {
    /// A rule of udev.
    Udev,
    /// The active profile of TuneD.
    Tuned,
    /// nfsrahead, which udev calls for each NFS mount.
    NfsRahead,
    /// An option of a mount.
    Fstab,
}

impl Setter {
    /// The common name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Udev => "udev rule",
            Self::Tuned => "TuneD profile",
            Self::NfsRahead => "nfsrahead",
            Self::Fstab => "mount option",
        }
    }
}

/// The value that it sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherValue {
    /// A size in KiB.
    Kib(u64),
    /// A size in KiB, unless it is more already.
    AtLeastKib(u64),
    /// A value that the text doesn't show, such as the output of a program.
    Unknown,
}

/// One place that sets readahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherSetting {
    /// The program that sets it.
    pub setter: Setter,
    /// File and line, such as `/etc/udev/rules.d/60-disk.rules:3`.
    pub place: String,
    /// The value that it sets.
    pub value: OtherValue,
    /// Conditions on the device.
    pub conditions: Vec<Condition>,
}

/// A condition on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The property of the device.
    pub what: Subject,
    /// Patterns between `|`.
    pub patterns: String,
    /// Whether it must not meet them.
    pub is_negated: bool,
}

/// A property of a device that a condition checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The kernel's name: of a disk its own, of a setting (`bdi`) its directory's.
    KernelName,
    /// The name of the disk, in a rule for disks.
    DiskName,
    /// `block` or `bdi`.
    Subsystem,
    /// Whether it says that it rotates.
    Rotational,
    /// Whether its medium can be taken out.
    Removable,
    /// `disk` or `partition`.
    DeviceType,
    /// Where it is mounted.
    MountPoint,
    /// The type of the file system.
    FsType,
    /// Whether TuneD tunes the device at all: disks that stay, of buses that it knows.
    TunedDisk,
    /// Something that isn't looked at here.
    Other,
}

/// Whether a setting is meant for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Meant {
    /// It isn't.
    No,
    /// It may be: it depends on properties that aren't known here.
    Perhaps,
    /// It is.
    Yes,
}

impl OtherSetting {
    /// Whether it is meant for this device.
    #[must_use]
    pub fn meant_for(&self, device: &Device) -> Meant {
        let all = self
            .conditions
            .iter()
            .map(|c| c.holds(device, self.is_for_bdi()));
        all.min().unwrap_or(Meant::Yes)
    }

    /// A rule for settings (`bdi`) themselves and not for disks.
    fn is_for_bdi(&self) -> bool {
        self.conditions
            .iter()
            .any(|c| c.what == Subject::Subsystem && !c.is_negated && c.patterns.contains("bdi"))
    }
}

impl Condition {
    fn holds(&self, device: &Device, for_bdi: bool) -> Meant {
        let flag = |flag: Option<bool>| flag.map(|flag| if flag { "1" } else { "0" });
        let block = device.block();
        let text: Option<&str> = match self.what {
            Subject::KernelName if for_bdi => Some(&device.bdi),
            Subject::KernelName | Subject::DiskName => match &device.kind {
                DeviceKind::Block(_) => Some(&device.identity.name),
                DeviceKind::Mount(_) => return Meant::No,
            },
            Subject::Subsystem => {
                let is_block = block.is_some() && self.meets("block");
                let is_meant = is_block || self.meets("bdi");
                return if is_meant { Meant::Yes } else { Meant::No };
            }
            Subject::Rotational => flag(block.and_then(|block| block.rotational)),
            Subject::Removable => flag(block.map(|block| block.is_removable)),
            Subject::DeviceType => block.map(|_| "disk"),
            Subject::MountPoint => {
                let any = device.mount_points.iter().any(|at| self.meets(at));
                return if any { Meant::Yes } else { Meant::No };
            }
            Subject::FsType => match device.mount() {
                Some(mount) => Some(&mount.fs_type),
                None => return Meant::No,
            },
            Subject::TunedDisk => return tuned_disk(device),
            Subject::Other => None,
        };
        match text {
            None => Meant::Perhaps,
            Some(text) if self.meets(text) => Meant::Yes,
            Some(_) => Meant::No,
        }
    }

    fn meets(&self, text: &str) -> bool {
        glob::meets(&self.patterns, text) != self.is_negated
    }
}

fn tuned_disk(device: &Device) -> Meant {
    let Some(block) = device.block() else {
        return Meant::No;
    };
    let is_tuned =
        !block.is_removable && !matches!(block.transport, Transport::Optical | Transport::Network);
    if is_tuned { Meant::Yes } else { Meant::No }
}

/// A number of KiB at the start of a text, as an attribute takes it.
fn kib_of(text: &str) -> OtherValue {
    text.trim()
        .parse()
        .map_or(OtherValue::Unknown, OtherValue::Kib)
}

/// Sectors of 512 bytes as KiB, rounded down as the kernel does.
fn kib_of_sectors(sectors: u64) -> OtherValue {
    OtherValue::Kib(sectors / 2)
}
