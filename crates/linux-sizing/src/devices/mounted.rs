// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds mounts and their mount points, and the mounts that have a readahead setting of their own.
//! The latter are NFS, FUSE and others without a block device, and btrfs beside its disks.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::Path;

use foreread_device::{Device, DeviceKind, DeviceNumber, Identity, Mount, Stack};
use foreread_sys::mounts::{MountPoint, Mounts};

use super::attribute::{Attributes, read_text, reason};
use super::block::{Disks, names};

/// Containers have many mounts; more than this is no mountinfo.
const MOUNTINFO_BYTES_MAX: u64 = 64 << 20;

/// The mounts that a sysroot's first process of ours sees.
pub fn read(sysroot: &Path, unseen: &mut Vec<String>) -> Mounts {
    let path = sysroot.join("proc/self/mountinfo");
    match read_text(&path, MOUNTINFO_BYTES_MAX) {
        Ok(text) => Mounts::parse(text.as_bytes()),
        Err(error) => {
            unseen.push(format!("/proc/self/mountinfo: {}", reason(&error)));
            Mounts::default()
        }
    }
}

/// Whether some process has a file system of this number (`0:45`) mounted, in whatever mount
/// namespace: that of a container, say.
pub fn is_mounted_anywhere(sysroot: &Path, number: &str) -> bool {
    let Ok(entries) = fs::read_dir(sysroot.join("proc")) else {
        return false;
    };
    let mut namespaces = HashSet::new();
    let of_processes = entries.flatten().map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
    });
    of_processes
        // One process for each namespace. Where that can't be told, each may have its own.
        .filter(|path| fs::read_link(path.join("ns/mnt")).map_or(true, |ns| namespaces.insert(ns)))
        .filter_map(|path| read_text(&path.join("mountinfo"), MOUNTINFO_BYTES_MAX).ok())
        .any(|text| {
            text.lines()
                .any(|line| line.split(' ').nth(2) == Some(number))
        })
}

/// Notes mount points at their disks, and files of loop devices at theirs.
pub fn join(sysroot: &Path, disks: &mut Disks, mounts: &Mounts) {
    let mut at: HashMap<DeviceNumber, Vec<String>> = HashMap::new();
    for point in mounts.points() {
        let Some(disk) = disks.disk_of(number(point)) else {
            continue;
        };
        let points = at.entry(disk).or_default();
        let shown = text(&point.mount_point);
        if !points.contains(&shown) {
            points.push(shown);
        }
    }
    let below: Vec<Option<DeviceNumber>> = disks
        .devices
        .iter()
        .map(|device| match &device.block()?.stack {
            Stack::Loop { backing_file } => backing(sysroot, disks, mounts, backing_file.as_ref()?),
            _ => None,
        })
        .collect();
    for (device, below) in disks.devices.iter_mut().zip(below) {
        device.mount_points = at.remove(&device.number).unwrap_or_default();
        device.members.extend(below);
    }
}

/// The device that holds the file of a loop device. In another mount namespace the path may lead
/// elsewhere, so a file that isn't there has none; a server isn't asked, it may not answer.
fn backing(sysroot: &Path, disks: &Disks, mounts: &Mounts, path: &str) -> Option<DeviceNumber> {
    let point = mounts.points().get(mounts.mount_of(path.as_bytes())?)?;
    let of = number(point);
    let is_local = of.major != 0;
    let inside = sysroot.join(path.trim_start_matches('/'));
    let is_missing = || {
        let found = fs::symlink_metadata(&inside);
        found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    };
    if is_local && is_missing() {
        return None;
    }
    Some(disks.disk_of(of).unwrap_or(of))
}

fn number(point: &MountPoint) -> DeviceNumber {
    DeviceNumber {
        major: point.major,
        minor: point.minor,
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A mounted file system without a block device: its mounts, the first one first.
struct Superblock<'a> {
    number: DeviceNumber,
    points: Vec<&'a MountPoint>,
}

impl Superblock<'_> {
    fn fs_type(&self) -> String {
        self.points
            .first()
            .map(|point| text(&point.fs_type))
            .unwrap_or_default()
    }

    fn source(&self) -> String {
        self.points
            .first()
            .map(|point| text(&point.source))
            .unwrap_or_default()
    }
}

/// The mounts with a setting of their own, in the order in which they were mounted.
pub fn devices(
    sysroot: &Path,
    mounts: &Mounts,
    disks: &Disks,
    boot: Option<&str>,
    unseen: &mut Vec<String>,
) -> Vec<Device> {
    let mut of_number: BTreeMap<DeviceNumber, usize> = BTreeMap::new();
    let mut superblocks: Vec<Superblock<'_>> = Vec::new();
    let own = |point: &&MountPoint| {
        // An overlay reads with the settings of its layers.
        point.major == 0 && !point.is_virtual() && point.fs_type != b"overlay"
    };
    for point in mounts.points().iter().filter(own) {
        let number = number(point);
        let index = *of_number.entry(number).or_insert(superblocks.len());
        match superblocks.get_mut(index) {
            Some(superblock) => superblock.points.push(point),
            None => superblocks.push(Superblock {
                number,
                points: vec![point],
            }),
        }
    }
    let mut nothing = Vec::new();
    let settings = names(
        &sysroot.join("sys/class/bdi"),
        "/sys/class/bdi",
        &mut nothing,
    );
    let named = Named::read(sysroot, disks, &settings);
    let mut devices = Vec::new();
    for superblock in &superblocks {
        match named.of(superblock, &superblocks) {
            Found::Setting { bdi, members } => {
                devices.push(device(sysroot, superblock, bdi, members, boot));
            }
            Found::None => {}
            Found::Unclear(why) => {
                let at = superblock.points.first().map(|p| text(&p.mount_point));
                unseen.push(format!("{}: {why}", at.unwrap_or_default()));
            }
        }
    }
    if !devices.is_empty() {
        unseen.extend(nothing);
    }
    devices
}

fn device(
    sysroot: &Path,
    superblock: &Superblock<'_>,
    bdi: String,
    members: Vec<DeviceNumber>,
    boot: Option<&str>,
) -> Device {
    let mut all = Attributes::of(sysroot.join("sys/class/bdi").join(&bdi));
    let options = superblock
        .points
        .first()
        .map(|point| text(&point.super_options));
    let mut mount_points: Vec<String> = Vec::new();
    for point in &superblock.points {
        let shown = text(&point.mount_point);
        if !mount_points.contains(&shown) {
            mount_points.push(shown);
        }
    }
    Device {
        number: superblock.number,
        identity: Identity {
            name: superblock.source(),
            boot: boot.map(str::to_owned),
            ..Identity::default()
        },
        bdi,
        kind: DeviceKind::Mount(Mount {
            fs_type: superblock.fs_type(),
            source: superblock.source(),
            options: options.unwrap_or_default(),
        }),
        read_ahead_kib: all.number("read_ahead_kb"),
        members,
        mount_points,
        unseen: all.unseen,
    }
}

/// Where the setting of a mount is.
enum Found {
    /// In this directory of `/sys/class/bdi`.
    Setting {
        bdi: String,
        members: Vec<DeviceNumber>,
    },
    /// It has none.
    None,
    /// It can't be told, and why.
    Unclear(String),
}

/// Settings that have a name in place of their superblock's number.
struct Named<'a> {
    settings: &'a [String],
    btrfs: Vec<Btrfs>,
}

/// A mounted btrfs, from `/sys/fs/btrfs`.
struct Btrfs {
    bdi: String,
    /// Names of its devices, and of their mappings.
    names: Vec<String>,
    members: Vec<DeviceNumber>,
}

impl<'a> Named<'a> {
    fn read(sysroot: &Path, disks: &Disks, settings: &'a [String]) -> Self {
        let top = sysroot.join("sys/fs/btrfs");
        let mut nothing = Vec::new();
        let all = names(&top, "", &mut nothing).into_iter();
        let btrfs = all.filter_map(|uuid| {
            let link = fs::read_link(top.join(&uuid).join("bdi")).ok()?;
            let bdi = link.file_name()?.to_str()?.to_owned();
            let mut of_it = names(&top.join(&uuid).join("devices"), "", &mut nothing);
            let mut members: Vec<DeviceNumber> = Vec::new();
            for name in of_it.clone() {
                let Some(number) = disks.disk_named(&name) else {
                    continue;
                };
                if !members.contains(&number) {
                    members.push(number);
                }
                let disk = disks.devices.iter().find(|device| device.number == number);
                of_it.extend(disk.and_then(Device::mapping).map(str::to_owned));
            }
            Some(Btrfs {
                bdi,
                names: of_it,
                members,
            })
        });
        Self {
            settings,
            btrfs: btrfs.collect(),
        }
    }

    fn of(&self, superblock: &Superblock<'_>, all: &[Superblock<'_>]) -> Found {
        let fs_type = superblock.fs_type();
        let numbered = superblock.number.to_string();
        let is_numbered = fs_type == "nfs" || fs_type == "nfs4" || fs_type.starts_with("fuse");
        if is_numbered || self.settings.contains(&numbered) {
            return Found::Setting {
                bdi: numbered,
                members: Vec::new(),
            };
        }
        let alike = all
            .iter()
            .filter(|other| other.fs_type() == fs_type)
            .count();
        if fs_type == "btrfs" {
            return self.of_btrfs(superblock, alike);
        }
        let prefix = format!("{fs_type}-");
        let mut named = self
            .settings
            .iter()
            .filter(|name| name.starts_with(&prefix));
        match (named.next(), named.next()) {
            (Some(bdi), None) if alike == 1 => Found::Setting {
                bdi: bdi.clone(),
                members: Vec::new(),
            },
            (Some(_), _) => Found::Unclear(format!(
                "there is more than one mount of {fs_type}, and nothing tells which of the \
                 settings /sys/class/bdi/{prefix}* is whose"
            )),
            (None, _) => Found::None,
        }
    }

    fn of_btrfs(&self, superblock: &Superblock<'_>, alike: usize) -> Found {
        let source = superblock.source();
        let name = source.strip_prefix("/dev/").unwrap_or(&source);
        let name = name.strip_prefix("mapper/").unwrap_or(name);
        let mut by_name = self.btrfs.iter();
        let found = by_name.find(|btrfs| btrfs.names.iter().any(|of| of == name));
        let only = (alike == 1 && self.btrfs.len() == 1).then(|| self.btrfs.first());
        match found.or(only.flatten()) {
            Some(btrfs) => Found::Setting {
                bdi: btrfs.bdi.clone(),
                members: btrfs.members.clone(),
            },
            None => Found::Unclear(format!(
                "which of /sys/fs/btrfs is the file system on {source} can't be told"
            )),
        }
    }
}
