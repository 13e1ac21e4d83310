// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the sysfs setting of the kernel's readahead for the device of a file.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, Dev, FileType, access, fstat, fstatfs, major, minor};

/// `f_type` of btrfs.
const BTRFS_MAGIC: u64 = 0x9123_683e;

/// The kind of device or mount that has the setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingOf {
    /// A disk's, which its partitions share.
    Disk,
    /// A btrfs', for all of its devices together.
    Btrfs,
    /// A mount's without a block device, such as NFS or FUSE.
    Mount,
}

/// A readahead setting and what else sysfs says of the device.
#[derive(Clone, Debug)]
pub struct ReadAheadSetting {
    /// The kind of its owner.
    pub of: SettingOf,
    /// The kernel's name of its owner: `sda`, a UUID on btrfs, `0:52` of a mount.
    pub name: String,
    /// The file with the number of KiB.
    path: PathBuf,
    /// The file with the largest request in KiB; none where requests are the file system's own.
    request_max: Option<PathBuf>,
    /// Files with the numbers of requests that are under way: read, and written.
    in_flight: Vec<PathBuf>,
}

impl ReadAheadSetting {
    /// The setting for an open file, directory or block device. `None` where the kernel doesn't
    /// read ahead, as in memory.
    ///
    /// # Errors
    /// When the kernel doesn't say what it lies on.
    pub fn of(file: &File) -> io::Result<Option<Self>> {
        let stat = fstat(file)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice {
            return Ok(Self::of_disk(stat.st_rdev));
        }
        if file_system_type(file)? == BTRFS_MAGIC {
            return Self::of_btrfs(file).map(Some);
        }
        Ok(Self::of_disk(stat.st_dev).or_else(|| Self::of_mount(stat.st_dev)))
    }

    fn of_disk(device: Dev) -> Option<Self> {
        let sysfs = Path::new("/sys/dev/block").join(number(device));
        // The settings of a partition are those of its disk.
        let queues = [sysfs.join("queue"), sysfs.join("../queue")];
        let queue = queues
            .into_iter()
            .find(|queue| queue.join("read_ahead_kb").exists())?;
        let disk = fs::canonicalize(queue).ok()?.parent()?.to_owned();
        Some(Self {
            of: SettingOf::Disk,
            name: disk.file_name()?.to_string_lossy().into_owned(),
            path: disk.join("queue/read_ahead_kb"),
            request_max: Some(disk.join("queue/max_sectors_kb")),
            in_flight: vec![sysfs.join("inflight")],
        })
    }

    fn of_btrfs(file: &File) -> io::Result<Self> {
        let uuid = btrfs_uuid(file)?;
        let sysfs = Path::new("/sys/fs/btrfs").join(&uuid);
        let devices = fs::read_dir(sysfs.join("devices"))?.flatten();
        Ok(Self {
            of: SettingOf::Btrfs,
            name: uuid,
            path: sysfs.join("bdi/read_ahead_kb"),
            request_max: None,
            in_flight: devices
                .map(|device| device.path().join("inflight"))
                .collect(),
        })
    }

    fn of_mount(device: Dev) -> Option<Self> {
        let name = number(device);
        let path = Path::new("/sys/class/bdi")
            .join(&name)
            .join("read_ahead_kb");
        path.exists().then_some(Self {
            of: SettingOf::Mount,
            name,
            path,
            request_max: None,
            in_flight: Vec::new(),
        })
    }

    /// The setting in a file of sysfs that [`ReadAheadSetting::path`] gave for this name. `None`
    /// when the file isn't one of sysfs, or is gone.
    #[must_use]
    pub fn at(path: &Path, name: &str) -> Option<Self> {
        let (sysfs, file) = (path.starts_with("/sys"), path.file_name()?);
        let climbs = path.components().any(|part| part.as_os_str() == "..");
        let known = sysfs && file == "read_ahead_kb" && path.exists();
        let of = if path.starts_with("/sys/fs/btrfs") {
            SettingOf::Btrfs
        } else if path.starts_with("/sys/class/bdi") {
            SettingOf::Mount
        } else {
            SettingOf::Disk
        };
        (known && !climbs).then(|| Self {
            of,
            name: name.to_owned(),
            path: path.to_owned(),
            request_max: None,
            in_flight: Vec::new(),
        })
    }

    /// Where the setting is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The maximum window, in KiB.
    ///
    /// # Errors
    /// It can't be read, or is no number.
    pub fn read_ahead_kib(&self) -> io::Result<u64> {
        number_in(&self.path)
    }

    /// Whether this process may change it.
    ///
    /// # Errors
    /// It has no right to, or sysfs is read-only.
    pub fn check_writable(&self) -> io::Result<()> {
        Ok(access(&self.path, Access::WRITE_OK)?)
    }

    /// Sets it, for files that are opened from now on.
    ///
    /// # Errors
    /// The kernel refuses, or sysfs is read-only.
    pub fn set_read_ahead_kib(&self, read_ahead_kib: u64) -> io::Result<()> {
        fs::write(&self.path, read_ahead_kib.to_string())
    }

    /// The largest request in KiB; `None` where requests are the file system's own.
    ///
    /// # Errors
    /// It can't be read, or is no number.
    pub fn request_max_kib(&self) -> io::Result<Option<u64>> {
        self.request_max.as_deref().map(number_in).transpose()
    }

    /// Whether requests are under way; "no" where sysfs does not say.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        let texts = self
            .in_flight
            .iter()
            .filter_map(|path| fs::read_to_string(path).ok());
        texts.into_iter().any(|text| has_requests(&text))
    }
}

/// `f_type` of an open file.
///
/// # Errors
/// The kernel doesn't say.
pub fn file_system_type(file: &File) -> io::Result<u64> {
    // Signed on some architectures, of which btrfs' has all 32 bits.
    Ok(fstatfs(file)?.f_type as u64 & u64::from(u32::MAX))
}

/// readahead(2): queues reads of what isn't cached, and returns before they are done. It stops
/// silently at the larger one of the device's largest request and maximum window.
///
/// # Errors
/// As the kernel says, of what can't be read ahead of.
pub fn readahead(file: impl AsFd, offset_bytes: u64, bytes: u64) -> io::Result<()> {
    let descriptor = file.as_fd().as_raw_fd();
    let offset = libc::off64_t::try_from(offset_bytes).unwrap_or(libc::off64_t::MAX);
    // SAFETY: a system call on an open descriptor that takes no memory.
    let done = unsafe { libc::readahead(descriptor, offset, bytes as usize) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn number(device: Dev) -> String {
    format!("{}:{}", major(device), minor(device))
}

fn has_requests(in_flight: &str) -> bool {
    in_flight.split_whitespace().any(|requests| requests != "0")
}

fn number_in(path: &Path) -> io::Result<u64> {
    let number = fs::read_to_string(path)?.trim().parse();
    number.map_err(io::Error::other)
}

/// As in the names of sysfs (BTRFS_IOC_FS_INFO).
fn btrfs_uuid(file: &File) -> io::Result<String> {
    /// `_IOR(0x94, 31, struct btrfs_ioctl_fs_info_args)`, on architectures with the common layout.
    const FS_INFO: u32 = 2 << 30 | (ANSWER_BYTES as u32) << 16 | 0x94 << 8 | 31;
    const ANSWER_BYTES: usize = 1024;
    /// Behind the largest number of a device, and how many there are.
    const UUID_AT: usize = 16;
    let mut answer = [0u64; ANSWER_BYTES / 8];
    let descriptor = file.as_fd().as_raw_fd();
    // SAFETY: the kernel writes as many bytes as the request's number says, and they are there.
    let done = unsafe { libc::ioctl(descriptor, FS_INFO as libc::Ioctl, answer.as_mut_ptr()) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    let bytes = answer[UUID_AT / 8..].iter().take(2);
    let hex: String = bytes
        .flat_map(|word| word.to_ne_bytes())
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32];
    Ok(parts.map(|part| hex[part].to_owned()).join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_with_requests_is_busy() {
        assert!(!has_requests("       0        0\n"));
        assert!(has_requests("       3        0\n"));
        assert!(has_requests("       0        1\n"));
        assert!(!has_requests(""));
    }

    #[test]
    fn a_file_in_memory_has_no_setting() {
        let Ok(file) = tempfile::tempfile_in("/dev/shm") else {
            println!("skipped: nothing can be written in /dev/shm");
            return;
        };
        assert!(ReadAheadSetting::of(&file).unwrap().is_none());
    }

    #[test]
    fn settings_that_are_no_numbers_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("read_ahead_kb");
        for wrong in ["", "many", "-1", "99999999999999999999"] {
            fs::write(&path, wrong).unwrap();
            assert!(number_in(&path).is_err(), "{wrong:?}");
        }
        fs::write(&path, "128\n").unwrap();
        assert_eq!(number_in(&path).unwrap(), 128);
        assert!(number_in(&directory.path().join("absent")).is_err());
    }
}
