// SPDX-License-Identifier: MIT OR Apache-2.0
//! Block devices, from `/sys/block`.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use foreread_device::{
    Block, Device, DeviceKind, DeviceNumber, Identity, MapperMaker, Partition, Stack, Transport,
};
use thiserror::Error;

use super::attribute::{Attributes, read_text, reason};

/// Between a disk and its USB device are block, target, host and interface.
const USB_LEVELS_MAX: usize = 8;
/// Limit of udev's record of a device, which is a few lines.
const UDEV_DATA_BYTES_MAX: u64 = 64 << 10;

/// All disks with their partitions, in the order of their names.
pub struct Disks {
    pub devices: Vec<Device>,
    pub partitions: Vec<Partition>,
    /// The disk of each number and name, of disks and partitions.
    by_number: HashMap<DeviceNumber, DeviceNumber>,
    by_name: HashMap<String, DeviceNumber>,
}

impl Disks {
    /// Reads `/sys/block`. What can't be read is named in `unseen`.
    pub fn read(sysroot: &Path, boot: Option<&str>, unseen: &mut Vec<String>) -> Self {
        let all = names(&sysroot.join("sys/block"), "/sys/block", unseen);
        Self::of(sysroot, all, boot, unseen)
    }

    /// Reads one disk and all that it is stacked on.
    pub fn read_below(
        sysroot: &Path,
        name: &str,
        boot: Option<&str>,
        unseen: &mut Vec<String>,
    ) -> Self {
        let mut found = vec![name.to_owned()];
        let mut next = 0;
        while let Some(name) = found.get(next) {
            let slaves = sysroot.join("sys/block").join(name).join("slaves");
            for slave in names(&slaves, "slaves", &mut Vec::new()) {
                let disk = disk_of_part(&slaves.join(&slave)).unwrap_or(slave);
                if !found.contains(&disk) {
                    found.push(disk);
                }
            }
            next += 1;
        }
        Self::of(sysroot, found, boot, unseen)
    }

    fn of(
        sysroot: &Path,
        names: Vec<String>,
        boot: Option<&str>,
        unseen: &mut Vec<String>,
    ) -> Self {
        let mut disks = Self {
            devices: Vec::new(),
            partitions: Vec::new(),
            by_number: HashMap::new(),
            by_name: HashMap::new(),
        };
        let mut below: Vec<Vec<String>> = Vec::new();
        for name in names {
            // A path of a multipath NVMe disk, which has no number and nothing to set.
            if is_nvme_path(&name) {
                continue;
            }
            match disk(sysroot, &name, boot) {
                Ok((device, partitions, members)) => {
                    disks.know(&name, device.number, device.number);
                    for part in &partitions {
                        disks.know(&part.name, part.number, part.disk);
                    }
                    disks.devices.push(device);
                    disks.partitions.extend(partitions);
                    below.push(members);
                }
                Err(why) => unseen.push(format!("{name}: {why}")),
            }
        }
        for (device, names) in disks.devices.iter_mut().zip(below) {
            for name in names {
                match disks.by_name.get(&name) {
                    Some(number) if !device.members.contains(number) => {
                        device.members.push(*number);
                    }
                    Some(_) => {}
                    None => device.unseen.push(format!("slaves/{name}: no such disk")),
                }
            }
        }
        disks
    }

    fn know(&mut self, name: &str, number: DeviceNumber, disk: DeviceNumber) {
        self.by_number.insert(number, disk);
        self.by_name.insert(name.to_owned(), disk);
    }

    /// The disk with this number, or of the partition with it.
    pub fn disk_of(&self, number: DeviceNumber) -> Option<DeviceNumber> {
        self.by_number.get(&number).copied()
    }

    /// The disk of this name, or of the partition.
    pub fn disk_named(&self, name: &str) -> Option<DeviceNumber> {
        self.by_name.get(name).copied()
    }
}

/// The disk that a partition is on, from the directory of the partition.
fn disk_of_part(directory: &Path) -> Option<String> {
    let part = fs::canonicalize(directory).ok()?;
    if !part.join("partition").exists() {
        return None;
    }
    Some(part.parent()?.file_name()?.to_str()?.to_owned())
}

/// The sorted names in a directory; one that isn't there has none.
pub fn names(directory: &Path, shown: &str, unseen: &mut Vec<String>) -> Vec<String> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) => {
            unseen.push(format!("{shown}: {}", reason(&error)));
            return Vec::new();
        }
    };
    let name = |entry: fs::DirEntry| entry.file_name().into_string().ok();
    let mut names: Vec<String> = entries.flatten().filter_map(name).collect();
    names.sort_by_key(|name| natural(name));
    names
}

/// A name with its first number apart, so that sd2 comes before sd10, and sdz before sdaa.
fn natural(name: &str) -> (String, usize, u64, String) {
    let letters = name
        .find(|c: char| c.is_ascii_digit())
        .unwrap_or(name.len());
    let (front, rest) = name.split_at(letters);
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let number = rest[..digits].parse().unwrap_or(0);
    let family: String = front.chars().take(2).collect();
    (family, front.len(), number, name.to_owned())
}

fn is_nvme_path(name: &str) -> bool {
    let Some((controller, path)) = name
        .strip_prefix("nvme")
        .and_then(|rest| rest.split_once('c'))
    else {
        return false;
    };
    !controller.is_empty() && controller.bytes().all(|b| b.is_ascii_digit()) && path.contains('n')
}

/// A disk by itself, without the devices that it is stacked on; `None` when it has gone.
pub fn one(sysroot: &Path, name: &str, boot: Option<&str>) -> Option<Device> {
    disk(sysroot, name, boot).ok().map(|(device, ..)| device)
}

/// Why a disk can't be told.
#[derive(Debug, Error)]
enum NoDisk {
    /// Attributes that can't be read, each with its reason.
    #[error("{}", .0.join(", "))]
    Unseen(Vec<String>),
    #[error("dev: `{0}` is no device number")]
    NoNumber(String),
}

/// A disk, its partitions, and the names of the devices that it is stacked on.
fn disk(
    sysroot: &Path,
    name: &str,
    boot: Option<&str>,
) -> Result<(Device, Vec<Partition>, Vec<String>), NoDisk> {
    let mut all = Attributes::of(sysroot.join("sys/block").join(name));
    let Some(number) = all.text("dev") else {
        return Err(NoDisk::Unseen(all.unseen));
    };
    let number: DeviceNumber = match number.parse() {
        Ok(number) => number,
        Err(_) => return Err(NoDisk::NoNumber(number)),
    };
    // Where it isn't a link, as before Linux 2.6.25, the name must do.
    let link = fs::read_link(sysroot.join("sys/block").join(name)).unwrap_or_default();
    let transport = Transport::of_disk(name, &link.to_string_lossy());
    let capacity_bytes = all
        .number("size")
        .and_then(|sectors| sectors.checked_mul(512));
    let stack = stack(name, &mut all);
    let members = members(&stack, &mut all);
    let serial = serial(&all, transport)
        .or_else(|| usb_serial(sysroot, name, transport))
        .or_else(|| udev_serial(sysroot, number));
    let identity = Identity {
        name: name.to_owned(),
        serial,
        model: model(&all, transport),
        // A multipath device without paths says 0, a drive without a medium too.
        capacity_bytes: capacity_bytes.filter(|bytes| *bytes > 0),
        disk_sequence: all
            .text_if_any("diskseq")
            .and_then(|text| text.parse().ok()),
        boot: boot.map(str::to_owned),
    };
    let has_partitions = !matches!(
        stack,
        Stack::Mapper { .. } | Stack::Loop { backing_file: None }
    );
    let partitions = match has_partitions {
        true => partitions(&mut all, name, number),
        false => Vec::new(),
    };
    let zoned = all.text_if_any("queue/zoned");
    let block = Block {
        transport,
        rotational: all.flag("queue/rotational"),
        is_removable: all.text_if_any("removable").is_some_and(|text| text == "1"),
        is_zoned: zoned.is_some_and(|text| text != "none"),
        io_min_bytes: all
            .number("queue/minimum_io_size")
            .filter(|bytes| *bytes > 0),
        io_opt_bytes: all
            .number("queue/optimal_io_size")
            .filter(|bytes| *bytes > 0),
        max_sectors_kib: all.number("queue/max_sectors_kb"),
        stack,
    };
    let device = Device {
        number,
        identity,
        bdi: number.to_string(),
        kind: DeviceKind::Block(block),
        read_ahead_kib: all.number("queue/read_ahead_kb"),
        members: Vec::new(),
        mount_points: Vec::new(),
        unseen: all.unseen,
    };
    Ok((device, partitions, members))
}

fn stack(name: &str, all: &mut Attributes) -> Stack {
    let starts = |prefix: &str| {
        name.strip_prefix(prefix)
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '_'))
    };
    if starts("dm-") {
        let uuid = all.text_if_any("dm/uuid").unwrap_or_default();
        return Stack::Mapper {
            maker: MapperMaker::of_uuid(&uuid),
            mapping: all.text("dm/name").unwrap_or_default(),
        };
    }
    if starts("md") {
        return Stack::Raid {
            level: all.text("md/level").unwrap_or_default(),
            chunk_bytes: all.number("md/chunk_size").filter(|bytes| *bytes > 0),
            disks: all
                .number("md/raid_disks")
                .and_then(|disks| u32::try_from(disks).ok())
                .filter(|disks| *disks > 0),
        };
    }
    if starts("loop") {
        // The kernel writes newlines and the like as they are; the path is the whole text.
        let file = read_text(&all.path("loop/backing_file"), 8192).ok();
        let file = file.map(|text| text.trim_end_matches('\n').to_owned());
        return Stack::Loop {
            backing_file: file.filter(|path| !path.is_empty()),
        };
    }
    match starts("bcache") {
        true => Stack::Bcache,
        false => Stack::None,
    }
}

/// The names in `slaves`.
fn members(stack: &Stack, all: &mut Attributes) -> Vec<String> {
    if !matches!(
        stack,
        Stack::Mapper { .. } | Stack::Raid { .. } | Stack::Bcache
    ) {
        return Vec::new();
    }
    let directory = all.path("slaves");
    names(&directory, "slaves", &mut all.unseen)
}

fn partitions(all: &mut Attributes, name: &str, disk: DeviceNumber) -> Vec<Partition> {
    let mut unseen = Vec::new();
    let inside = names(&all.path(""), "", &mut unseen);
    let parts = inside
        .into_iter()
        .filter(|part| part.len() > name.len() && part.starts_with(name));
    parts
        .filter_map(|part| {
            let number = all.text_if_any(&format!("{part}/dev"))?.parse().ok()?;
            Some(Partition {
                number,
                name: part,
                disk,
            })
        })
        .collect()
}

/// The identification that is written into the device and stays with it.
fn serial(all: &Attributes, transport: Transport) -> Option<String> {
    let names: &[&str] = match transport {
        Transport::Nvme | Transport::NvmeFabric => &["wwid", "device/serial"],
        Transport::Stacked => &["dm/uuid", "md/uuid"],
        Transport::Mmc => &["device/cid"],
        Transport::Loop | Transport::Memory => &[],
        _ => &["device/wwid", "serial", "wwid"],
    };
    names.iter().find_map(|name| all.text_if_any(name))
}

/// That of the USB device which a disk is a part of: the first above it that has one. It is there
/// before udev has asked for any.
fn usb_serial(sysroot: &Path, name: &str, transport: Transport) -> Option<String> {
    if transport != Transport::Usb {
        return None;
    }
    let disk = fs::canonicalize(sysroot.join("sys/block").join(name)).ok()?;
    let above = disk.ancestors().skip(1).take(USB_LEVELS_MAX);
    above
        .filter_map(|directory| read_text(&directory.join("serial"), 256).ok())
        .map(|text| text.trim().to_owned())
        .find(|text| !text.is_empty())
}

/// Where the kernel shows no serial number, udev may have asked for one.
fn udev_serial(sysroot: &Path, number: DeviceNumber) -> Option<String> {
    let path = sysroot.join(format!("run/udev/data/b{number}"));
    let text = read_text(&path, UDEV_DATA_BYTES_MAX).ok()?;
    let serial = text
        .lines()
        .find_map(|line| line.strip_prefix("E:ID_SERIAL="))?;
    (!serial.trim().is_empty()).then(|| serial.trim().to_owned())
}

fn model(all: &Attributes, transport: Transport) -> Option<String> {
    if matches!(
        transport,
        Transport::Stacked | Transport::Loop | Transport::Memory
    ) {
        return None;
    }
    let names = match transport {
        Transport::Mmc => ["device/type", "device/name"],
        _ => ["device/vendor", "device/model"],
    };
    let words: Vec<String> = names
        .iter()
        .filter_map(|name| all.text_if_any(name))
        // The text that virtio and SATA have in the place of a vendor says nothing.
        .filter(|word| !word.starts_with("0x") && word != "ATA")
        .collect();
    (!words.is_empty()).then(|| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_of_people() {
        let mut names = ["sdaa", "sdb", "dm-10", "dm-2", "nvme0n1", "sda", "loop0"];
        names.sort_by_key(|name| natural(name));
        let sorted = ["dm-2", "dm-10", "loop0", "nvme0n1", "sda", "sdb", "sdaa"];
        assert_eq!(names, sorted);
    }

    #[test]
    fn paths_of_nvme_disks_are_told_from_disks() {
        assert!(is_nvme_path("nvme0c1n1"));
        assert!(!is_nvme_path("nvme0n1") && !is_nvme_path("sdc"));
    }
}
