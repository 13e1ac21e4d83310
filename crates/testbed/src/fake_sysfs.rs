// SPDX-License-Identifier: MIT OR Apache-2.0
//! A directory that looks like the root of a machine with whatever disks a test wants: `/sys`,
//! `/proc` and configuration, as plain files.
//!
//! ```
//! use foreread_testbed::fake_sysfs::{FakeDisk, Tree};
//!
//! # let directory = tempfile::tempdir()?;
//! let tree = Tree::new(directory.path())?;
//! tree.disk(&FakeDisk::sata("sda", "8:0", 4 << 40).rotating())?;
//! tree.partition("sda", 1, "8:1")?;
//! tree.mount("8:1", "/", "ext4", "/dev/sda1", "rw")?;
//! assert_eq!(tree.read_ahead_kib("sda")?, "128");
//! # Ok::<(), std::io::Error>(())
//! ```

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A disk, as sysfs would show it.
#[derive(Clone, Debug)]
pub struct FakeDisk {
    name: String,
    number: String,
    /// Below `/sys/devices`.
    path: String,
    /// Attributes by their path below the disk.
    attributes: Vec<(String, String)>,
    /// The devices that it is stacked on.
    slaves: Vec<String>,
}

impl FakeDisk {
    /// A disk `name` with the number `MAJOR:MINOR` at `path` below `/sys/devices`, of the kernel's
    /// default settings.
    #[must_use]
    pub fn new(name: &str, number: &str, path: &str, capacity_bytes: u64) -> Self {
        let disk = Self {
            name: name.to_owned(),
            number: number.to_owned(),
            path: path.to_owned(),
            attributes: Vec::new(),
            slaves: Vec::new(),
        };
        disk.with("dev", number)
            .with("size", &(capacity_bytes / 512).to_string())
            .with("removable", "0")
            .with("diskseq", "1")
            .with("queue/read_ahead_kb", "128")
            .with("queue/rotational", "0")
            .with("queue/zoned", "none")
            .with("queue/minimum_io_size", "512")
            .with("queue/optimal_io_size", "0")
            .with("queue/max_sectors_kb", "1280")
    }

    /// An NVMe disk, such as `nvme0n1`.
    #[must_use]
    pub fn nvme(name: &str, number: &str, capacity_bytes: u64) -> Self {
        let path = format!("pci0000:00/0000:00:1d.0/0000:03:00.0/nvme/nvme0/{name}");
        Self::new(name, number, &path, capacity_bytes)
            .with("device/model", "Fast Disk 970   ")
            .with("device/serial", &format!("S4-{name}"))
            .with("wwid", &format!("eui.0025{}", number.replace(':', "")))
    }

    /// A SATA disk, without a head until it is [`FakeDisk::rotating`].
    #[must_use]
    pub fn sata(name: &str, number: &str, capacity_bytes: u64) -> Self {
        let path = format!("pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/{name}");
        Self::new(name, number, &path, capacity_bytes)
            .with("device/vendor", "ATA     ")
            .with("device/model", "Plain Disk 42   ")
            .with(
                "device/wwid",
                &format!("naa.5000{}", number.replace(':', "")),
            )
    }

    /// A USB stick: removable, and it says that it rotates, as they do.
    #[must_use]
    pub fn usb(name: &str, number: &str, capacity_bytes: u64) -> Self {
        let path = format!(
            "pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host6/target6:0:0/6:0:0:0/block/{name}"
        );
        Self::new(name, number, &path, capacity_bytes)
            .with("device/vendor", "Generic ")
            .with("device/model", "Flash Disk      ")
            .with("removable", "1")
            .with("queue/rotational", "1")
            .with("queue/max_sectors_kb", "120")
    }

    /// An SD card, such as `mmcblk0`.
    #[must_use]
    pub fn sd_card(name: &str, number: &str, capacity_bytes: u64) -> Self {
        let path = format!("platform/soc/mmc_host/mmc0/mmc0:0001/block/{name}");
        Self::new(name, number, &path, capacity_bytes)
            .with("device/type", "SD")
            .with("device/name", "SC32G")
            .with("device/cid", "035344534333324785")
    }

    /// A virtio disk, which says that it rotates.
    #[must_use]
    pub fn virtio(name: &str, number: &str, capacity_bytes: u64) -> Self {
        let path = format!("pci0000:00/0000:00:03.0/virtio1/block/{name}");
        Self::new(name, number, &path, capacity_bytes)
            .with("device/vendor", "0x1af4")
            .with("queue/rotational", "1")
    }

    /// A mapping of the device mapper: `dm-N` with a name, a UUID such as `CRYPT-LUKS2-1` and the
    /// disks that it is made of.
    #[must_use]
    pub fn mapping(
        minor: u32,
        mapping: &str,
        uuid: &str,
        slaves: &[&str],
        capacity_bytes: u64,
    ) -> Self {
        let name = format!("dm-{minor}");
        let path = format!("virtual/block/{name}");
        let mut disk = Self::new(&name, &format!("253:{minor}"), &path, capacity_bytes)
            .with("dm/name", mapping)
            .with("dm/uuid", uuid);
        disk.slaves = slaves.iter().map(|&slave| slave.to_owned()).collect();
        disk
    }

    /// A software RAID `mdN` of a level such as `raid5`, with its chunk in bytes and its disks.
    #[must_use]
    pub fn raid(
        minor: u32,
        level: &str,
        chunk_bytes: u64,
        slaves: &[&str],
        capacity_bytes: u64,
    ) -> Self {
        let name = format!("md{minor}");
        let path = format!("virtual/block/{name}");
        let mut disk = Self::new(&name, &format!("9:{minor}"), &path, capacity_bytes)
            .with("md/level", level)
            .with("md/chunk_size", &chunk_bytes.to_string())
            .with("md/raid_disks", &slaves.len().to_string());
        disk.slaves = slaves.iter().map(|&slave| slave.to_owned()).collect();
        disk
    }

    /// A loop device `loopN`, with or without a file.
    #[must_use]
    pub fn loop_device(minor: u32, file: Option<&str>, capacity_bytes: u64) -> Self {
        let name = format!("loop{minor}");
        let path = format!("virtual/block/{name}");
        let disk = Self::new(&name, &format!("7:{minor}"), &path, capacity_bytes);
        match file {
            Some(file) => disk.with("loop/backing_file", file),
            None => disk,
        }
    }

    /// It says that it rotates.
    #[must_use]
    pub fn rotating(self) -> Self {
        self.with("queue/rotational", "1")
    }

    /// It has this setting, in KiB.
    #[must_use]
    pub fn read_ahead(self, kib: u64) -> Self {
        self.with("queue/read_ahead_kb", &kib.to_string())
    }

    /// Sets an attribute, by its path below the disk, in place of its old value.
    #[must_use]
    pub fn with(mut self, attribute: &str, text: &str) -> Self {
        self.attributes.retain(|(known, _)| known != attribute);
        self.attributes
            .push((attribute.to_owned(), format!("{text}\n")));
        self
    }

    /// Without this attribute.
    #[must_use]
    pub fn without(mut self, attribute: &str) -> Self {
        self.attributes.retain(|(known, _)| known != attribute);
        self
    }
}

/// A directory that looks like the root of a machine.
#[derive(Clone, Debug)]
pub struct Tree {
    top: PathBuf,
}

impl Tree {
    /// A machine with 16 GiB of memory and no disk, in an empty directory.
    ///
    /// # Errors
    /// When files can't be written there.
    pub fn new(top: &Path) -> io::Result<Self> {
        let tree = Self {
            top: top.to_owned(),
        };
        for directory in ["sys/block", "sys/class/bdi", "sys/dev/block"] {
            fs::create_dir_all(tree.path(directory))?;
        }
        tree.write("proc/self/mountinfo", "")?;
        tree.write("proc/sys/kernel/random/boot_id", "b007\n")?;
        tree.memory(16 << 30)?;
        Ok(tree)
    }

    /// The directory.
    #[must_use]
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// Something in it.
    #[must_use]
    pub fn path(&self, below: &str) -> PathBuf {
        self.top.join(below)
    }

    /// Writes a file, with the directories that it is in.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn write(&self, below: &str, text: &str) -> io::Result<()> {
        let path = self.path(below);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        fs::write(path, text)
    }

    /// Says how much memory the machine has.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn memory(&self, bytes: u64) -> io::Result<()> {
        self.write("proc/meminfo", &format!("MemTotal: {} kB\n", bytes / 1024))
    }

    /// Adds a disk.
    ///
    /// # Errors
    /// When it is there already, or can't be written.
    pub fn disk(&self, disk: &FakeDisk) -> io::Result<()> {
        let FakeDisk { name, number, .. } = disk;
        let own = self.path("sys/devices").join(&disk.path);
        for directory in ["queue", "slaves"] {
            fs::create_dir_all(own.join(directory))?;
        }
        for (attribute, text) in &disk.attributes {
            let path = own.join(attribute);
            if let Some(directory) = path.parent() {
                fs::create_dir_all(directory)?;
            }
            fs::write(path, text)?;
        }
        for slave in &disk.slaves {
            let target = Path::new("../../../../../block").join(slave);
            symlink(target, own.join("slaves").join(slave))?;
        }
        symlink(
            format!("../devices/{}", disk.path),
            self.path("sys/block").join(name),
        )?;
        symlink(
            format!("../../devices/{}", disk.path),
            self.path("sys/dev/block").join(number),
        )?;
        let setting = self.path("sys/class/bdi").join(number);
        fs::create_dir_all(&setting)?;
        symlink(
            format!("../../../block/{name}/queue/read_ahead_kb"),
            setting.join("read_ahead_kb"),
        )
    }

    /// Adds the partition `index` to a disk.
    ///
    /// # Errors
    /// When the disk isn't there.
    pub fn partition(&self, disk: &str, index: u32, number: &str) -> io::Result<()> {
        let between = if disk.ends_with(|c: char| c.is_ascii_digit()) {
            "p"
        } else {
            ""
        };
        let part = format!("sys/block/{disk}/{disk}{between}{index}");
        self.write(&format!("{part}/partition"), &format!("{index}\n"))?;
        self.write(&format!("{part}/dev"), &format!("{number}\n"))
    }

    /// Mounts a file system: the number of its superblock, the mount point, its type, its source,
    /// its options.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn mount(
        &self,
        number: &str,
        mount_point: &str,
        fs_type: &str,
        source: &str,
        options: &str,
    ) -> io::Result<()> {
        let mut file = OpenOptions::new()
            .append(true)
            .open(self.path("proc/self/mountinfo"))?;
        writeln!(
            file,
            "30 1 {number} / {mount_point} rw shared:1 - {fs_type} {source} {options}"
        )
    }

    /// A setting that belongs to no disk, such as that of an NFS mount, in KiB.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn setting(&self, bdi: &str, kib: u64) -> io::Result<()> {
        self.write(
            &format!("sys/class/bdi/{bdi}/read_ahead_kb"),
            &format!("{kib}\n"),
        )
    }

    /// Mounts an NFS export with 1 MiB a request, and its setting, in KiB.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn nfs(&self, number: &str, mount_point: &str, kib: u64) -> io::Result<()> {
        let options = "rw,vers=4.2,rsize=1048576,wsize=1048576,hard,proto=tcp";
        self.mount(number, mount_point, "nfs4", "server:/export", options)?;
        self.setting(number, kib)
    }

    /// The setting of a disk as it stands there, without the newline.
    ///
    /// # Errors
    /// When there is no such disk.
    pub fn read_ahead_kib(&self, disk: &str) -> io::Result<String> {
        let path = format!("sys/block/{disk}/queue/read_ahead_kb");
        Ok(fs::read_to_string(self.path(&path))?.trim().to_owned())
    }
}
