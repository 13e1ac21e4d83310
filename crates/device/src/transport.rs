// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the kernel reaches a block device, from where it stands in the tree of `/sys/devices`.

/// How the kernel reaches a block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// NVMe on a PCI bus.
    Nvme,
    /// NVMe over a network.
    NvmeFabric,
    /// SATA or PATA.
    Ata,
    /// SAS.
    Sas,
    /// Fibre Channel.
    FibreChannel,
    /// iSCSI.
    Iscsi,
    /// SCSI of another kind, such as a RAID controller.
    Scsi,
    /// USB.
    Usb,
    /// SD card or eMMC.
    Mmc,
    /// A disk of a virtual machine: virtio.
    Virtio,
    /// A disk of a virtual machine: Xen.
    Xen,
    /// A disk of a virtual machine: Hyper-V, Azure.
    HyperV,
    /// A block device over the network: nbd, rbd, drbd.
    Network,
    /// A file as a device.
    Loop,
    /// Memory: RAM disk, zram, persistent memory.
    Memory,
    /// CD or DVD.
    Optical,
    /// Other block devices: dm, md, bcache.
    Stacked,
    /// None of these.
    #[default]
    Unknown,
}

impl Transport {
    /// The common name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nvme => "NVMe",
            Self::NvmeFabric => "NVMe over a network",
            Self::Ata => "SATA",
            Self::Sas => "SAS",
            Self::FibreChannel => "Fibre Channel",
            Self::Iscsi => "iSCSI",
            Self::Scsi => "SCSI",
            Self::Usb => "USB",
            Self::Mmc => "MMC",
            Self::Virtio => "virtio",
            Self::Xen => "Xen",
            Self::HyperV => "Hyper-V",
            Self::Network => "network",
            Self::Loop => "loop",
            Self::Memory => "memory",
            Self::Optical => "optical",
            Self::Stacked => "stacked",
            Self::Unknown => "unknown",
        }
    }

    /// By the kernel's name of the disk and its path in `/sys/devices`, such as
    /// `pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda`. What is nearest to the
    /// disk in the path counts: a USB disk's controller is on PCI, too.
    #[must_use]
    pub fn of_disk(name: &str, path: &str) -> Self {
        const BY_NAME: [(&str, Transport); 13] = [
            ("loop", Transport::Loop),
            ("zram", Transport::Memory),
            ("ram", Transport::Memory),
            ("pmem", Transport::Memory),
            ("dm-", Transport::Stacked),
            ("md", Transport::Stacked),
            ("bcache", Transport::Stacked),
            ("nbd", Transport::Network),
            ("rbd", Transport::Network),
            ("drbd", Transport::Network),
            ("sr", Transport::Optical),
            ("xvd", Transport::Xen),
            ("mmcblk", Transport::Mmc),
        ];
        let by_name = |(prefix, transport): &(&str, Self)| {
            let rest = name.strip_prefix(prefix)?;
            (rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
                .then_some(*transport)
        };
        if let Some(transport) = BY_NAME.iter().find_map(by_name) {
            return transport;
        }
        let parts = || path.split('/').rev();
        let numbered = |part: &str, prefix: &str| {
            part.strip_prefix(prefix)
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        let by_part = |part: &str| {
            let found = if numbered(part, "session") {
                Self::Iscsi
            } else if part.starts_with("rport-") {
                Self::FibreChannel
            } else if part.starts_with("end_device-") {
                Self::Sas
            } else if numbered(part, "ata") {
                Self::Ata
            } else if numbered(part, "usb") {
                Self::Usb
            } else if numbered(part, "virtio") {
                Self::Virtio
            } else if part.starts_with("vbd-") {
                Self::Xen
            } else if part.starts_with("VMBUS") {
                Self::HyperV
            } else if part == "mmc_host" {
                Self::Mmc
            } else if part == "nvme-fabrics" {
                Self::NvmeFabric
            } else {
                return None;
            };
            Some(found)
        };
        let is_nvme = numbered(name, "nvme");
        match parts().find_map(by_part) {
            Some(Self::NvmeFabric) => Self::NvmeFabric,
            _ if is_nvme => Self::Nvme,
            Some(transport) => transport,
            None if parts().any(|part| numbered(part, "host")) => Self::Scsi,
            None => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_tells_the_transport() {
        for (name, path, transport) in [
            (
                "sda",
                "pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda",
                Transport::Ata,
            ),
            (
                "sdb",
                "pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host6/target6:0:0/6:0:0:0/block/sdb",
                Transport::Usb,
            ),
            (
                "sdc",
                "pci0000:00/0000:01:00.0/host1/port-1:0/end_device-1:0/target1:0:0/1:0:0:0/block/sdc",
                Transport::Sas,
            ),
            (
                "sdd",
                "platform/host3/session1/target3:0:0/3:0:0:1/block/sdd",
                Transport::Iscsi,
            ),
            (
                "sde",
                "pci0000:80/0000:81:00.0/host2/rport-2:0-0/target2:0:0/2:0:0:0/block/sde",
                Transport::FibreChannel,
            ),
            (
                "sdf",
                "pci0000:00/0000:02:00.0/host4/target4:2:0/4:2:0:0/block/sdf",
                Transport::Scsi,
            ),
            (
                "sdg",
                "LNXSYSTM:00/LNXSYBUS:00/PNP0A03:00/device:07/VMBUS:01/f8b3/host0/x/block/sdg",
                Transport::HyperV,
            ),
            (
                "sdh",
                "pci0000:00/0000:00:05.0/virtio2/host2/target2:0:1/2:0:1:0/block/sdh",
                Transport::Virtio,
            ),
            (
                "nvme0n1",
                "pci0000:00/0000:00:1d.0/0000:03:00.0/nvme/nvme0/nvme0n1",
                Transport::Nvme,
            ),
            (
                "nvme1n1",
                "virtual/nvme-fabrics/ctl/nvme1/nvme1n1",
                Transport::NvmeFabric,
            ),
            (
                "vda",
                "pci0000:00/0000:00:03.0/virtio1/block/vda",
                Transport::Virtio,
            ),
            ("xvda", "vbd-51712/block/xvda", Transport::Xen),
            (
                "mmcblk0",
                "platform/soc/mmc_host/mmc0/mmc0:0001/block/mmcblk0",
                Transport::Mmc,
            ),
            ("dm-3", "virtual/block/dm-3", Transport::Stacked),
            ("md127", "virtual/block/md127", Transport::Stacked),
            ("md_d0", "virtual/block/md_d0", Transport::Stacked),
            ("zram0", "virtual/block/zram0", Transport::Memory),
            ("loop7", "virtual/block/loop7", Transport::Loop),
            ("srx", "", Transport::Optical),
            ("", "", Transport::Unknown),
            ("whatever", "virtual/block/whatever", Transport::Unknown),
        ] {
            assert_eq!(Transport::of_disk(name, path), transport, "{name} {path}");
        }
    }
}
