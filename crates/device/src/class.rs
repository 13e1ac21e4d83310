// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classes of devices without a measurement, and the size that suits each. Each size rests on a
//! documented value or a measured table; `docs/advise.md` has the list.

use foreread_core::grouped;

use crate::facts::{Block, Device, DeviceKind, Mount};
use crate::transport::Transport;

/// Where nothing more is known, in KiB: with it measured solid-state disks came within 7 % of their
/// best, and measured arrays gave 9 to 42 % more than with the kernel's 128.
pub const DEFAULT_KIB: u64 = 512;
/// For streams on local disks, as TuneD's throughput profiles set it: a disk of 100 MB/s and 8 ms
/// then transfers for five sixths of its time.
const STREAMING_KIB: u64 = 4096;
/// Requests of a window on NFS: the kernel's own choice until Linux 5.4.
const NFS_REQUESTS: u64 = 15;

/// The main use of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// Large files from start to end, and little else.
    Sequential,
    /// Some of everything.
    #[default]
    Mixed,
    /// Files mapped into memory and read here and there, as search engines do.
    Mapped,
    /// Small reads all over, as most databases do.
    Random,
}

/// The class of a device, by its performance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A local NVMe disk.
    Nvme,
    /// Another solid-state disk.
    SolidState,
    /// A disk with a head.
    Rotating,
    /// A USB stick.
    Stick,
    /// A USB disk.
    UsbDisk,
    /// An SD card, or eMMC.
    Card,
    /// A disk of a virtual machine; the device behind it can't be seen.
    Virtual,
    /// A volume that a cloud sells.
    CloudVolume,
    /// A disk array or RAID controller.
    Array,
    /// A block device over the network.
    NetworkBlock,
    /// Memory.
    Memory,
    /// NFS.
    Nfs,
    /// SMB.
    Smb,
    /// A file system whose server process runs here.
    Fuse,
    /// btrfs, beside its disks.
    Btrfs,
    /// A file system that reads ahead by itself, or with a setting of its own.
    Own,
    /// Nothing more is known.
    Unknown,
}

/// The size that suits a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suited {
    /// The size in KiB; `None` if the setting is to be left alone.
    pub kib: Option<u64>,
    /// In a few words.
    pub brief: String,
    /// The rest of a sentence that begins with the device.
    pub why: String,
}

impl Class {
    /// The class of a device, from its transport, its name and, where it can be trusted, its
    /// rotational attribute.
    #[must_use]
    pub fn of(device: &Device) -> Self {
        match &device.kind {
            DeviceKind::Mount(mount) => Self::of_mount(mount),
            DeviceKind::Block(block) => {
                let model = device.identity.model.as_deref().unwrap_or_default();
                Self::of_block(block, model)
            }
        }
    }

    /// Whether a disk is rotational, as far as sysfs can be believed: virtual disks and cloud
    /// volumes report `rotational` without regard to the real medium.
    #[must_use]
    pub fn has_head(transport: Transport, model: &str, says_it_rotates: bool) -> bool {
        says_it_rotates
            && !is_volume(model)
            && !is_virtual_model(model)
            && !matches!(
                transport,
                Transport::Virtio | Transport::Xen | Transport::HyperV | Transport::Memory
            )
    }

    fn of_block(block: &Block, model: &str) -> Self {
        if is_volume(model) {
            return Self::CloudVolume;
        }
        let is_virtual = is_virtual_model(model);
        match block.transport {
            Transport::Virtio | Transport::Xen | Transport::HyperV => Self::Virtual,
            Transport::Memory => Self::Memory,
            Transport::Usb if block.is_removable => Self::Stick,
            Transport::Usb => Self::UsbDisk,
            Transport::Mmc => Self::Card,
            Transport::Network | Transport::NvmeFabric => Self::NetworkBlock,
            Transport::Ata | Transport::Sas | Transport::Scsi if is_virtual => Self::Virtual,
            Transport::Nvme if is_virtual => Self::Virtual,
            Transport::Nvme => Self::Nvme,
            Transport::FibreChannel | Transport::Iscsi | Transport::Scsi => Self::Array,
            Transport::Ata | Transport::Sas => match block.rotational {
                Some(true) => Self::Rotating,
                Some(false) => Self::SolidState,
                None => Self::Unknown,
            },
            Transport::Optical | Transport::Loop | Transport::Stacked | Transport::Unknown => {
                Self::Unknown
            }
        }
    }

    fn of_mount(mount: &Mount) -> Self {
        /// They fetch ahead from their servers by themselves, in their own sizes.
        const PREFETCHING: [&str; 8] = [
            "fuse.mountpoint-s3",
            "fuse.gcsfuse",
            "fuse.juicefs",
            "fuse.rclone",
            "fuse.goofys",
            "fuse.ceph-fuse",
            "fuse.glusterfs",
            "fuse.blobfuse2",
        ];
        match mount.fs_type.as_str() {
            "nfs" | "nfs4" => Self::Nfs,
            "cifs" | "smb3" => Self::Smb,
            "btrfs" => Self::Btrfs,
            "ceph" | "lustre" | "9p" | "afs" => Self::Own,
            fs_type if PREFETCHING.contains(&fs_type) => Self::Own,
            // Mountpoint's name in mountinfo is its source.
            "fuse" if mount.source == "mountpoint-s3" => Self::Own,
            fs_type if fs_type.starts_with("fuse") => Self::Fuse,
            _ => Self::Unknown,
        }
    }

    /// The common name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nvme => "NVMe disk",
            Self::SolidState => "solid-state disk",
            Self::Rotating => "rotating disk",
            Self::Stick => "USB stick",
            Self::UsbDisk => "USB disk",
            Self::Card => "SD card or eMMC",
            Self::Virtual => "virtual disk",
            Self::CloudVolume => "cloud volume",
            Self::Array => "disk array",
            Self::NetworkBlock => "network block device",
            Self::Memory => "memory",
            Self::Nfs => "NFS",
            Self::Smb => "SMB",
            Self::Fuse => "FUSE",
            Self::Btrfs => "btrfs",
            Self::Own => "file system",
            Self::Unknown => "device",
        }
    }

    /// Whether small reads cost it about as much as none: nothing turns and nothing is far away.
    fn is_solid(self) -> bool {
        matches!(self, Self::Nvme | Self::SolidState)
    }

    /// The size that suits it for this reading, before any limit. `rsize_bytes` is the largest
    /// request of a mount.
    #[must_use]
    pub fn suited(self, reading: Reading, rsize_bytes: Option<u64>) -> Suited {
        if let Some(left) = self.left_alone() {
            return left;
        }
        match reading {
            Reading::Random if self.is_solid() => Suited::new(
                8,
                "random, solid state",
                "small reads all over a disk without a head: what databases document for it \
                 (Cassandra 8 KiB, MongoDB 4 to 16 KiB)",
            ),
            Reading::Random => Suited::new(
                16,
                "random",
                "small reads all over: what databases document (MongoDB 4 to 16 KiB on any \
                 storage)",
            ),
            Reading::Mapped => Suited::new(
                128,
                "mapped files",
                "each fault in a mapping reads a whole window around it, and the rest is waste \
                 (Elasticsearch documents 128 KiB)",
            ),
            Reading::Sequential => self.sequential(rsize_bytes),
            Reading::Mixed => self.mixed(rsize_bytes),
        }
    }

    fn left_alone(self) -> Option<Suited> {
        let why = match self {
            Self::Memory => "reading ahead from memory saves no waiting",
            Self::Own => {
                "it reads ahead in its own way, with settings of its own, which this one would only \
                 disturb"
            }
            _ => return None,
        };
        Some(Suited {
            kib: None,
            brief: "left alone".to_owned(),
            why: why.to_owned(),
        })
    }

    fn sequential(self, rsize_bytes: Option<u64>) -> Suited {
        match self {
            Self::Stick | Self::Nfs | Self::Smb | Self::Fuse => self.mixed(rsize_bytes),
            Self::CloudVolume => Suited::new(
                1024,
                "streams, cloud volume",
                "AWS documents 1,024 KiB for large sequential reads of its HDD volumes; their \
                 requests are counted by the MiB",
            ),
            _ => Suited::new(
                STREAMING_KIB,
                "streams",
                "large files from start to end: what TuneD's throughput profiles set",
            ),
        }
    }

    fn mixed(self, rsize_bytes: Option<u64>) -> Suited {
        match self {
            Self::Rotating => Suited::new(
                1024,
                "rotating disk",
                "between two seeks of 8 ms a disk of 100 MB/s then transfers for 56 % of its time, \
                 with 128 KiB for 14 %; what AWS documents for HDD volumes",
            ),
            Self::Stick => Suited::new(
                128,
                "USB stick",
                "each of the three sticks that were measured has its plateau at 128 KiB or below; \
                 more would only read in vain",
            ),
            Self::Nvme | Self::SolidState => Suited::new(
                DEFAULT_KIB,
                self.name(),
                "with 512 KiB two measured disks gave 94 % and more of their best, and a read in \
                 vain stays short",
            ),
            Self::Array => Suited::new(
                DEFAULT_KIB,
                "disk array",
                "with 512 KiB in place of 128 two measured arrays gave 9 to 42 % more, with 1 to 16 \
                 readers",
            ),
            Self::Virtual => Suited::new(
                DEFAULT_KIB,
                "virtual disk",
                "what is behind a virtual disk can't be seen, and whether it says that it rotates \
                 means nothing",
            ),
            Self::NetworkBlock => Suited::new(
                DEFAULT_KIB,
                "network block device",
                "Ceph's own client reads at most 512 KiB ahead",
            ),
            Self::Nfs | Self::Smb => of_requests(self, rsize_bytes),
            Self::Btrfs => Suited::new(
                4096,
                "btrfs's own",
                "btrfs takes 4 MiB by itself: it checks and unpacks the parts of a window side by \
                 side",
            ),
            _ => Suited::new(
                DEFAULT_KIB,
                "default",
                "nothing more is known of it, and 512 KiB served every disk and array that was \
                 measured",
            ),
        }
    }
}

/// A window of as many requests as hide the way to the server.
fn of_requests(class: Class, rsize_bytes: Option<u64>) -> Suited {
    let (requests, by) = match class {
        Class::Nfs => (
            NFS_REQUESTS,
            "as the kernel had it until Linux 5.4, and as Amazon and Azure set it",
        ),
        _ => (2, "as the kernel sets it for SMB"),
    };
    let Some(rsize_kib) = rsize_bytes.map(|bytes| bytes / 1024).filter(|kib| *kib > 0) else {
        return Suited::new(
            DEFAULT_KIB,
            "default",
            "the mount doesn't say how large its requests are (rsize)",
        );
    };
    Suited {
        kib: Some(requests.saturating_mul(rsize_kib)),
        brief: format!("{requests} x rsize"),
        why: format!(
            "{requests} requests of {} KiB (rsize) under way hide the time to the server, {by}",
            grouped(rsize_kib)
        ),
    }
}

impl Suited {
    fn new(kib: u64, brief: &str, why: &str) -> Self {
        Self {
            kib: Some(kib),
            brief: brief.to_owned(),
            why: why.to_owned(),
        }
    }
}

/// Whether a model is that of a cloud volume.
fn is_volume(model: &str) -> bool {
    const VOLUMES: [&str; 5] = [
        "Amazon Elastic Block Store",
        "Google PersistentDisk",
        "nvme_card-pd",
        "MSFT NVMe Accelerator",
        "Msft Virtual Disk",
    ];
    VOLUMES.iter().any(|volume| model.contains(volume))
}

/// Whether a model is that of a virtual machine's disk.
fn is_virtual_model(model: &str) -> bool {
    const VIRTUAL: [&str; 6] = ["QEMU", "VMware", "VBOX", "Virtual", "Xen", "NUTANIX"];
    VIRTUAL.iter().any(|word| model.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(transport: Transport, rotational: bool, model: &str) -> Class {
        let block = Block {
            transport,
            rotational: Some(rotational),
            ..Block::default()
        };
        Class::of_block(&block, model)
    }

    #[test]
    fn rotation_is_believed_of_real_disks_only() {
        assert_eq!(class(Transport::Ata, true, "ST4000"), Class::Rotating);
        assert_eq!(class(Transport::Ata, false, "SSD 870"), Class::SolidState);
        assert!(Class::has_head(Transport::Ata, "ST4000", true));
        assert!(!Class::has_head(Transport::Ata, "ST4000", false));
        assert!(!Class::has_head(Transport::Virtio, "", true));
        assert!(!Class::has_head(Transport::Scsi, "QEMU HARDDISK", true));
        assert!(!Class::has_head(
            Transport::Scsi,
            "Google PersistentDisk",
            true
        ));
        assert_eq!(class(Transport::Virtio, true, ""), Class::Virtual);
        assert_eq!(class(Transport::Ata, true, "QEMU HARDDISK"), Class::Virtual);
        assert_eq!(class(Transport::Usb, true, "Flash"), Class::UsbDisk);
        let ebs = "Amazon Elastic Block Store";
        assert_eq!(class(Transport::Nvme, false, ebs), Class::CloudVolume);
        let local = "Amazon EC2 NVMe Instance Storage";
        assert_eq!(class(Transport::Nvme, false, local), Class::Nvme);
    }

    #[test]
    fn file_systems_that_read_ahead_themselves_are_left_alone() {
        let mount = |fs_type: &str| Mount {
            fs_type: fs_type.to_owned(),
            ..Mount::default()
        };
        for fs_type in ["ceph", "lustre", "fuse.gcsfuse"] {
            let class = Class::of_mount(&mount(fs_type));
            assert_eq!(class.suited(Reading::Mixed, None).kib, None, "{fs_type}");
        }
        assert_eq!(Class::of_mount(&mount("fuse.sshfs")), Class::Fuse);
    }

    #[test]
    fn nfs_has_fifteen_requests_under_way() {
        for (rsize_bytes, kib) in [(1 << 20, 15_360), (256 << 10, 3840), (64 << 10, 960)] {
            let suited = Class::Nfs.suited(Reading::Mixed, Some(rsize_bytes));
            assert_eq!(suited.kib, Some(kib));
        }
        assert_eq!(
            Class::Nfs.suited(Reading::Mixed, None).kib,
            Some(DEFAULT_KIB)
        );
        let most = Class::Nfs.suited(Reading::Mixed, Some(u64::MAX)).kib;
        assert!(most > Some(1 << 50));
    }
}
