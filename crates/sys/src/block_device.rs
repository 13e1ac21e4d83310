// SPDX-License-Identifier: MIT OR Apache-2.0
//! Block devices under mounted file systems, opened for reading through their page cache.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use foreread_core::Device;
use foreread_core::mounts::MountPoint;
use foreread_device::{Class, Transport};
use foreread_prefetch::ext4::{BlockReadError, BlockSource};
use rustix::fs::{Advice, OFlags, fadvise};

use crate::paths::may_wait;

/// Largest request of a device that doesn't tell: what any takes.
const REQUEST_BYTES_MAX_UNKNOWN: u64 = 128 << 10;

/// An open block device.
pub struct BlockDevice {
    file: File,
    /// Largest request that the device takes, in bytes.
    pub request_bytes_max: u64,
}

impl BlockDevice {
    /// Opens the device with this number.
    ///
    /// # Errors
    /// When it has no node in `/dev`, isn't a block device with that number, or may not be opened.
    pub fn open(major: u32, minor: u32) -> io::Result<Self> {
        let sys = sys(major, minor);
        let name = name(&sys)?;
        // Should its node be something else by now, opening it won't block.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK)
            .open(format!("/dev/{name}"))?;
        may_wait(&file, OFlags::RDONLY)?;
        let metadata = file.metadata()?;
        let number = rustix::fs::makedev(major, minor);
        if !metadata.file_type().is_block_device() || metadata.rdev() != number {
            return Err(io::Error::other(format!(
                "/dev/{name} is not device {major}:{minor}"
            )));
        }
        Ok(Self {
            file,
            request_bytes_max: Disk::of(&sys)
                .and_then(|disk| disk.request_bytes_max(DEPTH_MAX))
                .unwrap_or(REQUEST_BYTES_MAX_UNKNOWN),
        })
    }

    /// Its size in bytes.
    ///
    /// # Errors
    /// The kernel's.
    pub fn bytes(&self) -> io::Result<u64> {
        (&self.file).seek(io::SeekFrom::End(0))
    }

    /// From now on exactly what is asked for is read, and nothing around it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn read_exactly(&self) -> io::Result<()> {
        Ok(fadvise(&self.file, 0, None, Advice::Random)?)
    }

    /// The same device, opened once more: for reads of what is on it, and not in the page cache.
    ///
    /// # Errors
    /// As at opening.
    pub fn past_the_cache(&self) -> io::Result<File> {
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_CLOEXEC | libc::O_DIRECT)
            .open(path)
    }

    /// The open device.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }
}

/// The path of the device that the user names. A path stays as it is. Otherwise the text may be a
/// name in `/dev` or `/dev/mapper` (`vda`, `home`) or a number (`8:0`). A name of no device is
/// returned unchanged; opening it gives the error.
#[must_use]
pub fn node(what: &Path) -> PathBuf {
    let is_device = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
    };
    let named = what
        .to_str()
        .filter(|_| fs::symlink_metadata(what).is_err());
    let numbered = named
        .and_then(|text| text.parse::<Device>().ok())
        .and_then(|number| fs::canonicalize(format!("/sys/dev/block/{number}")).ok())
        .and_then(|sys| Some(Path::new("/dev").join(sys.file_name()?)));
    let candidates = named.into_iter().flat_map(|name| {
        [
            Path::new("/dev").join(name),
            Path::new("/dev/mapper").join(name),
        ]
    });
    let found = candidates.chain(numbered).find(is_device);
    found.unwrap_or_else(|| what.to_owned())
}

/// The block device below a mounted file system: that of its superblock. A btrfs has a number that
/// is no block device's; there it is the device that was mounted, which is one of all that it has.
#[must_use]
pub fn device_below(point: &MountPoint) -> Device {
    // Whoever mounts another file system without a block device can name its source as he likes.
    if point.fs_type != b"btrfs" {
        return point.device();
    }
    number_at(Path::new(OsStr::from_bytes(&point.source))).unwrap_or(point.device())
}

/// The number of the block device with this path; `None` where there is none.
#[must_use]
pub fn number_at(path: &Path) -> Option<Device> {
    let metadata = fs::metadata(path).ok()?;
    let number = metadata.rdev();
    metadata.file_type().is_block_device().then(|| Device {
        major: rustix::fs::major(number),
        minor: rustix::fs::minor(number),
    })
}

/// Whether a device says that it has no head to move. Virtual disks often say that they have one,
/// and not every file system has a device, so only a "no" means something.
#[must_use]
pub fn says_it_has_no_head(major: u32, minor: u32) -> bool {
    let disk = Disk::of(&sys(major, minor));
    disk.is_some_and(|disk| disk.queue("rotational") == Some(0))
}

/// Whether a device is rotational, as far as its claim can be trusted. All virtual disks claim it,
/// and device mapper and md repeat the claim of the disks below them.
#[must_use]
pub fn has_head(major: u32, minor: u32) -> bool {
    Disk::of(&sys(major, minor)).is_some_and(|disk| disk.has_head(DEPTH_MAX))
}

/// The name of a device below `/dev`; `None` of what has no node there, such as NFS.
#[must_use]
pub fn node_name(device: Device) -> Option<String> {
    name(&sys(device.major, device.minor)).ok()
}

/// The disk that a device is a partition of; `None` of a whole disk.
#[must_use]
pub fn disk_of_partition(device: Device) -> Option<Device> {
    let directory = sys(device.major, device.minor).canonicalize().ok()?;
    if !directory.join("partition").exists() {
        return None;
    }
    let number = fs::read_to_string(directory.parent()?.join("dev")).ok()?;
    number.trim().parse().ok()
}

/// Size in bytes of a whole disk, or of the one that a device is a partition of; 0 where `/sys`
/// doesn't tell. It counts sectors of 512 bytes, whatever the disk's own are.
#[must_use]
pub fn disk_bytes(device: Device) -> u64 {
    let disk = Disk::of(&sys(device.major, device.minor));
    let size = disk.and_then(|disk| fs::read_to_string(disk.directory.join("size")).ok());
    let sectors: Option<u64> = size.and_then(|text| text.trim().parse().ok());
    sectors.unwrap_or(0).saturating_mul(512)
}

/// Whether a device, or one below it, takes space from a pool as it is written, or keeps the old
/// contents of what is written: thin volumes, snapshots and their origins, and VDO, all of device
/// mapper. LVM names the parts of such a volume by the end of their UUID.
#[must_use]
pub fn grows_when_written(device: Device) -> bool {
    Disk::of(&sys(device.major, device.minor)).is_some_and(|disk| disk.grows(DEPTH_MAX))
}

/// Each disk of the machine, with whether it has a head, see [`has_head`].
#[must_use]
pub fn heads() -> Vec<(Device, bool)> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let numbered = entries.filter_map(|entry| {
        let text = fs::read_to_string(entry.path().join("dev")).ok()?;
        let device = text.trim().parse().ok()?;
        let disk = Disk::of(&entry.path())?;
        Some((device, disk.has_head(DEPTH_MAX)))
    });
    numbered.collect()
}

/// Devices that lie on each other at most: a bound against loops, which the kernel never makes.
const DEPTH_MAX: u32 = 16;

/// A whole disk, as its directory below `/sys/devices`.
struct Disk {
    directory: PathBuf,
}

impl Disk {
    /// The disk of a device or partition.
    fn of(device: &Path) -> Option<Self> {
        let directory = device.canonicalize().ok()?;
        let directory = match directory.join("partition").exists() {
            true => directory.parent()?.to_owned(),
            false => directory,
        };
        Some(Self { directory })
    }

    /// The disks that it is made of: for device mapper, md and bcache.
    fn members(&self) -> impl Iterator<Item = Self> + use<> {
        let entries = fs::read_dir(self.directory.join("slaves"));
        let entries = entries.into_iter().flatten().flatten();
        entries.filter_map(|entry| Self::of(&entry.path()))
    }

    fn has_head(&self, depth_max: u32) -> bool {
        let mut members = self.members().peekable();
        match members.peek() {
            Some(_) => depth_max > 0 && members.any(|member| member.has_head(depth_max - 1)),
            None => self.has_own_head(),
        }
    }

    fn has_own_head(&self) -> bool {
        let name = self.directory.file_name().unwrap_or_default();
        let transport =
            Transport::of_disk(&name.to_string_lossy(), &self.directory.to_string_lossy());
        let model = fs::read_to_string(self.directory.join("device/model")).unwrap_or_default();
        let says_so = self.queue("rotational").is_some_and(|flag| flag != 0);
        Class::has_head(transport, &model, says_so)
    }

    fn grows(&self, depth_max: u32) -> bool {
        let uuid = fs::read_to_string(self.directory.join("dm/uuid")).unwrap_or_default();
        let ends = ["-tpool", "-real", "-cow", "-vpool"];
        if ends.iter().any(|end| uuid.trim_end().ends_with(end)) {
            return true;
        }
        depth_max > 0 && self.members().any(|member| member.grows(depth_max - 1))
    }

    /// The largest request in bytes: its own, or that of the member with the smallest limit.
    /// Devices without requests of their own pass requests on.
    fn request_bytes_max(&self, depth_max: u32) -> Option<u64> {
        let own = self.queue("max_sectors_kb").filter(|kib| *kib > 0);
        let below = || {
            let members = self.members();
            let each = members.filter_map(|member| member.request_bytes_max(depth_max - 1));
            each.min()
        };
        match own {
            Some(kib) => Some(kib.saturating_mul(1024)),
            None if depth_max > 0 => below(),
            None => None,
        }
    }

    /// A number of its queue.
    fn queue(&self, name: &str) -> Option<u64> {
        let text = fs::read_to_string(self.directory.join("queue").join(name));
        text.ok()?.trim().parse().ok()
    }
}

fn sys(major: u32, minor: u32) -> PathBuf {
    format!("/sys/dev/block/{major}:{minor}").into()
}

/// Its node below `/dev`.
fn name(sys: &Path) -> io::Result<String> {
    let uevent = fs::read_to_string(sys.join("uevent"))?;
    let name = uevent
        .lines()
        .find_map(|line| line.strip_prefix("DEVNAME="));
    let name = name.ok_or_else(|| io::Error::other("the device has no name in /sys"))?;
    Ok(name.to_owned())
}

impl BlockSource for &BlockDevice {
    fn read_at(&mut self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), BlockReadError> {
        self.file
            .read_exact_at(buffer, offset_bytes)
            .map_err(|error| BlockReadError {
                offset_bytes,
                length_bytes: buffer.len() as u64,
                reason: error.to_string(),
            })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Name, files of the queue, members.
    type FakeDisk<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [&'a str]);

    /// Disks below a directory, each with what its queue says and what it is made of.
    fn machine(disks: &[FakeDisk<'_>]) -> tempfile::TempDir {
        let top = tempfile::tempdir().expect("a directory");
        for (name, queue, members) in disks {
            let disk = top.path().join(name);
            fs::create_dir_all(disk.join("queue")).expect("a queue");
            fs::create_dir_all(disk.join("slaves")).expect("slaves");
            for (file, value) in *queue {
                fs::write(disk.join("queue").join(file), format!("{value}\n")).expect("a number");
            }
            for member in *members {
                let place = disk.join("slaves").join(member.replace('/', "-"));
                symlink(top.path().join(member), place).expect("a link");
            }
        }
        top
    }

    fn partition(top: &tempfile::TempDir, path: &str) {
        fs::create_dir_all(top.path().join(path)).expect("a partition");
        fs::write(top.path().join(path).join("partition"), "1\n").expect("its number");
    }

    #[test]
    fn a_mapping_has_a_head_when_a_disk_below_it_has_one() {
        const ROTATES: &[(&str, &str)] = &[("rotational", "1")];
        const STANDS: &[(&str, &str)] = &[("rotational", "0")];
        let top = machine(&[
            ("sda", ROTATES, &[]),
            ("virtio0/block/vda", ROTATES, &[]),
            ("nvme0n1", STANDS, &[]),
            ("dm-0", ROTATES, &["virtio0/block/vda/vda1"]),
            ("dm-1", ROTATES, &["sda"]),
            ("dm-2", ROTATES, &["dm-1"]),
            ("md0", STANDS, &["nvme0n1", "virtio0/block/vda"]),
            ("bcache0", ROTATES, &["sda", "nvme0n1"]),
            ("dm-3", ROTATES, &["dm-3"]),
        ]);
        partition(&top, "virtio0/block/vda/vda1");
        let has_head = |name: &str| Disk::of(&top.path().join(name)).map(|d| d.has_head(4));
        let with: Vec<_> = ["sda", "dm-1", "dm-2", "bcache0"].map(has_head).to_vec();
        assert_eq!(with, [Some(true); 4]);
        let without = [
            "virtio0/block/vda",
            "virtio0/block/vda/vda1",
            "nvme0n1",
            "dm-0",
            "md0",
            "dm-3",
        ]
        .map(has_head);
        assert_eq!(without, [Some(false); 6]);
        assert_eq!(has_head("gone"), None);
    }

    #[test]
    fn a_thin_volume_and_a_snapshot_grow() {
        let grows = |uuid_of_member: &str| {
            let top = machine(&[("dm-1", &[], &[]), ("dm-0", &[], &["dm-1"])]);
            let member = top.path().join("dm-1/dm");
            fs::create_dir_all(&member).expect("a directory");
            fs::write(member.join("uuid"), format!("{uuid_of_member}\n")).expect("a file");
            let disk = Disk::of(&top.path().join("dm-0")).expect("a disk");
            disk.grows(DEPTH_MAX)
        };
        assert!(grows("LVM-PqrXyz-tpool"));
        assert!(grows("LVM-PqrXyz-cow"));
        assert!(grows("LVM-PqrXyz-real"));
        assert!(!grows("LVM-PqrXyz"));
        assert!(!grows("CRYPT-LUKS2-realm"));
    }

    #[test]
    fn requests_are_those_of_the_members_where_a_device_tells_nothing() {
        let top = machine(&[
            ("sda", &[("max_sectors_kb", "1280")], &[]),
            ("sdb", &[("max_sectors_kb", "512")], &[]),
            ("dm-0", &[("max_sectors_kb", "64")], &["sda"]),
            ("md0", &[], &["sda", "sdb"]),
            ("md1", &[("max_sectors_kb", "0")], &["md0"]),
            ("pmem0", &[("max_sectors_kb", "18446744073709551615")], &[]),
            ("zram0", &[("max_sectors_kb", "none")], &[]),
        ]);
        let most = |name: &str| Disk::of(&top.path().join(name))?.request_bytes_max(4);
        assert_eq!(most("dm-0"), Some(64 << 10));
        assert_eq!(
            (most("md0"), most("md1")),
            (Some(512 << 10), Some(512 << 10))
        );
        assert_eq!((most("pmem0"), most("zram0")), (Some(u64::MAX), None));
    }

    #[test]
    fn a_name_is_a_path_in_dev() {
        let disks = fs::read_dir("/sys/block").into_iter().flatten().flatten();
        let disk = disks
            .map(|entry| entry.file_name())
            .find(|name| Path::new("/dev").join(name).exists());
        let Some(name) = disk else {
            println!("skipped: no block device has a node in /dev here");
            return;
        };
        let path = Path::new("/dev").join(&name);
        assert_eq!(node(Path::new(&name)), path);
        assert_eq!(node(&path), path);
        let number = fs::read_to_string(Path::new("/sys/block").join(&name).join("dev"));
        assert_eq!(node(Path::new(number.unwrap().trim())), path);
    }

    #[test]
    fn what_is_no_device_stays() {
        for what in ["/", "no-such-device", "999:999", "null", ""] {
            assert_eq!(node(Path::new(what)), Path::new(what));
        }
    }
}
