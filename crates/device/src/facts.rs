// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts about each device that has a readahead setting, as the kernel reports them. They are not
//! judged here; `class.rs` does that.

use crate::identity::{DeviceNumber, Identity};
use crate::transport::Transport;

/// Something with a readahead setting of its own: a whole disk, a volume, or a mount without a
/// block device. Partitions have none; they read with their disk's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Number of the block device; for a mount, the number of its superblock.
    pub number: DeviceNumber,
    /// Properties that tell it from others of the same name.
    pub identity: Identity,
    /// The name of its directory in `/sys/class/bdi`: mostly its number, of some file systems a
    /// name such as `btrfs-1`.
    pub bdi: String,
    /// Its kind, a block device or a mount, with the properties of that.
    pub kind: DeviceKind,
    /// The largest window of readahead now, in KiB; `None` when it can't be read.
    pub read_ahead_kib: Option<u64>,
    /// Devices that it reads from: disks of an array or a volume, disks under a file system, the
    /// device of a loop device's file. Partitions stand here as their disks.
    pub members: Vec<DeviceNumber>,
    /// Where file systems on it, or on its partitions, are mounted.
    pub mount_points: Vec<String>,
    /// Attributes that are there for other devices and couldn't be read or understood, each with
    /// why.
    pub unseen: Vec<String>,
}

/// The kind of device that reads ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A block device.
    Block(Block),
    /// A mount that has no block device, or a file system with a setting beside its devices'.
    Mount(Mount),
}

/// Properties that a block device reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// How the kernel reaches it.
    pub transport: Transport,
    /// Whether it says that it rotates. Virtual disks and USB sticks often say so, wrongly.
    pub rotational: Option<bool>,
    /// Whether its medium can be taken out.
    pub is_removable: bool,
    /// Whether it must be written in zones (`host-aware`, `host-managed`).
    pub is_zoned: bool,
    /// Smallest request that it likes, in bytes: of a striped device its chunk.
    pub io_min_bytes: Option<u64>,
    /// Request that it likes best, in bytes: of a striped device a stripe. `None` when it says 0,
    /// which means unknown.
    pub io_opt_bytes: Option<u64>,
    /// Largest request that the kernel gives it, in KiB.
    pub max_sectors_kib: Option<u64>,
    /// The devices that it is stacked on.
    pub stack: Stack,
}

/// How a block device is made of others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stack {
    /// It isn't.
    #[default]
    None,
    /// A mapping of the device mapper.
    Mapper {
        /// The program that made it.
        maker: MapperMaker,
        /// The name under `/dev/mapper`.
        mapping: String,
    },
    /// A software RAID.
    Raid {
        /// As md names it: `raid0`, `raid1`, `raid5`, `linear`.
        level: String,
        /// How much one disk holds before the next one goes on, in bytes.
        chunk_bytes: Option<u64>,
        /// Disks of the array, spares not counted.
        disks: Option<u32>,
    },
    /// A file as a device.
    Loop {
        /// The file; `None` while nothing is attached.
        backing_file: Option<String>,
    },
    /// A disk with a cache on another one.
    Bcache,
}

/// The maker of a mapping, from the prefix of its UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapperMaker {
    /// A logical volume.
    Lvm,
    /// Encryption.
    Crypt,
    /// One disk over several paths.
    Multipath,
    /// A partition of another mapping.
    Partition,
    /// Anything else.
    Other,
}

impl MapperMaker {
    /// By the UUID of a mapping, such as `CRYPT-LUKS2-...`.
    #[must_use]
    pub fn of_uuid(uuid: &str) -> Self {
        let prefix = uuid.split('-').next().unwrap_or_default();
        match prefix {
            "LVM" => Self::Lvm,
            "CRYPT" => Self::Crypt,
            "mpath" => Self::Multipath,
            _ if prefix.starts_with("part") => Self::Partition,
            _ => Self::Other,
        }
    }
}

/// Properties of a mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mount {
    /// Type, such as `nfs4` or `fuse.sshfs`.
    pub fs_type: String,
    /// The mounted source, such as `server:/export`.
    pub source: String,
    /// Options of the superblock, such as `rw,vers=4.2,rsize=1048576`.
    pub options: String,
}

impl Mount {
    /// The value of an option, such as `rsize`.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options
            .split(',')
            .filter_map(|option| option.split_once('='))
            .find_map(|(key, value)| (key == name).then_some(value))
    }

    /// The largest read request to the server, in bytes (`rsize`); `None` where none is said.
    #[must_use]
    pub fn rsize_bytes(&self) -> Option<u64> {
        self.option("rsize")?
            .parse()
            .ok()
            .filter(|bytes| *bytes > 0)
    }
}

impl Device {
    /// Its properties as a block device; `None` for a mount.
    #[must_use]
    pub fn block(&self) -> Option<&Block> {
        match &self.kind {
            DeviceKind::Block(block) => Some(block),
            DeviceKind::Mount(_) => None,
        }
    }

    /// Its properties as a mount; `None` for a block device.
    #[must_use]
    pub fn mount(&self) -> Option<&Mount> {
        match &self.kind {
            DeviceKind::Mount(mount) => Some(mount),
            DeviceKind::Block(_) => None,
        }
    }

    /// Whether it holds nothing that readahead could be for: a loop device without a file, a drive
    /// of memory. Left out of lists unless it is named.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.block().is_some_and(|block| {
            matches!(block.transport, Transport::Memory)
                || block.stack == Stack::Loop { backing_file: None }
        })
    }
}

/// A part of a disk. It has no setting of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its own number.
    pub number: DeviceNumber,
    /// Its name, such as `sda1`.
    pub name: String,
    /// The disk that it is a part of.
    pub disk: DeviceNumber,
}

/// Everything with a readahead setting, and the properties of the machine that advice needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Disks by name, then mounts.
    pub devices: Vec<Device>,
    /// Parts of the disks.
    pub partitions: Vec<Partition>,
    /// Memory of the machine in bytes; `None` when it can't be read.
    pub memory_bytes: Option<u64>,
    /// Properties of the whole machine that couldn't be read, each with the reason.
    pub unseen: Vec<String>,
}

impl Machine {
    /// The device with this number.
    #[must_use]
    pub fn device(&self, number: DeviceNumber) -> Option<&Device> {
        self.devices.iter().find(|device| device.number == number)
    }

    /// Finds a device by a name (`sda`), a path (`/dev/sda`, `/dev/mapper/home`), a partition of
    /// either form, which is its disk, a number (`8:0`), a mount point or the source of a mount.
    #[must_use]
    pub fn find(&self, what: &str) -> Option<&Device> {
        let name = what.strip_prefix("/dev/").unwrap_or(what);
        let name = name.strip_prefix("mapper/").unwrap_or(name);
        // The kernel writes the slash of a name such as cciss/c0d0 as an exclamation mark.
        let name = name.replace('/', "!");
        let number: Option<DeviceNumber> = what.trim().parse().ok();
        let is_meant = |device: &&Device| {
            device.identity.name == name
                || Some(device.number) == number
                || device.mapping().is_some_and(|mapping| mapping == name)
        };
        let part = |part: &&Partition| part.name == name || Some(part.number) == number;
        let point = if what == "/" {
            what
        } else {
            what.trim_end_matches('/')
        };
        self.devices
            .iter()
            .find(is_meant)
            .or_else(|| self.device(self.partitions.iter().find(part)?.disk))
            .or_else(|| {
                // A mount's own setting counts, where its disks have another.
                let all = self.devices.iter().rev();
                let mut at = all.filter(|device| device.mount_points.iter().any(|p| p == point));
                at.next()
            })
            .or_else(|| {
                let source = |device: &&Device| device.mount().is_some_and(|m| m.source == what);
                self.devices.iter().find(source)
            })
    }
}

impl Device {
    /// The name under `/dev/mapper`.
    #[must_use]
    pub fn mapping(&self) -> Option<&str> {
        match &self.block()?.stack {
            Stack::Mapper { mapping, .. } => Some(mapping),
            _ => None,
        }
    }
}

impl Device {
    /// Text to type for it: its name, or its number where the name would have to be quoted.
    #[must_use]
    pub fn handle(&self) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:!".contains(c);
        match self.identity.name.chars().all(plain) {
            true => self.identity.name.clone(),
            false => self.number.to_string(),
        }
    }
}
