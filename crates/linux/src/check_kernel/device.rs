// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far the device of a file reads ahead, as sysfs tells it.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use rustix::fs::{fstat, fstatfs, major, minor};

use super::{CheckError, failed};

/// `f_type` of btrfs.
const BTRFS_MAGIC: u64 = 0x9123_683e;
/// Largest request of a file system with a setting of its own, in KiB: it never sets any, and
/// bdi_alloc() begins with VM_READAHEAD_PAGES.
const OWN_REQUEST_KIB: u64 = 128;
/// KiB of a page of the kernel.
const PAGE_KIB: u64 = 4;

/// The device, or devices, of a file.
pub(super) struct Device {
    /// How far it reads ahead, in KiB.
    read_ahead: PathBuf,
    /// The largest request, in KiB; `None` for a file system with a setting of its own.
    request_max: Option<PathBuf>,
    /// Numbers of requests that are under way: read, and written.
    in_flight: Vec<PathBuf>,
}

impl Device {
    /// Of an open file.
    pub fn of(file: &File) -> Result<Self, CheckError> {
        let kind =
            fstatfs(file).map_err(|error| failed("ask for the file system")(error.into()))?;
        // Signed on some architectures, of which btrfs' has all 32 bits.
        let kind = kind.f_type as u64 & u64::from(u32::MAX);
        if kind == BTRFS_MAGIC {
            return Self::of_btrfs(file).map_err(failed("ask btrfs for its number"));
        }
        let stat = fstat(file).map_err(|error| failed("ask for the device")(error.into()))?;
        let node = format!("{}:{}", major(stat.st_dev), minor(stat.st_dev));
        let sysfs = Path::new("/sys/dev/block").join(node);
        // The settings of a partition are those of its disk.
        let queues = [sysfs.join("queue"), sysfs.join("../queue")];
        let queue = queues
            .into_iter()
            .find(|queue| queue.join("read_ahead_kb").exists());
        let queue = queue.ok_or(CheckError::NoDevice(kind))?;
        Ok(Self {
            read_ahead: queue.join("read_ahead_kb"),
            request_max: Some(queue.join("max_sectors_kb")),
            in_flight: vec![sysfs.join("inflight")],
        })
    }

    /// btrfs sets readahead for all of its devices together.
    fn of_btrfs(file: &File) -> io::Result<Self> {
        let sysfs = Path::new("/sys/fs/btrfs").join(btrfs_uuid(file)?);
        let devices = fs::read_dir(sysfs.join("devices"))?.flatten();
        Ok(Self {
            read_ahead: sysfs.join("bdi/read_ahead_kb"),
            request_max: None,
            in_flight: devices
                .map(|device| device.path().join("inflight"))
                .collect(),
        })
    }

    /// Maximum window, in pages.
    pub fn ra_pages(&self) -> Result<u32, CheckError> {
        pages_of(number_in(&self.read_ahead)?)
    }

    /// Largest request, in pages.
    pub fn io_pages(&self) -> Result<u32, CheckError> {
        match &self.request_max {
            Some(path) => pages_of(number_in(path)?),
            None => pages_of(OWN_REQUEST_KIB),
        }
    }

    /// Whether requests are under way; "no" where sysfs does not say.
    pub fn is_busy(&self) -> bool {
        let texts = self
            .in_flight
            .iter()
            .filter_map(|path| fs::read_to_string(path).ok());
        texts.into_iter().any(|text| has_requests(&text))
    }
}

fn has_requests(in_flight: &str) -> bool {
    in_flight.split_whitespace().any(|requests| requests != "0")
}

fn pages_of(kib: u64) -> Result<u32, CheckError> {
    Ok(u32::try_from(kib / PAGE_KIB).unwrap_or(u32::MAX))
}

fn number_in(path: &Path) -> Result<u64, CheckError> {
    let text = fs::read_to_string(path).map_err(failed("read a setting of the device"))?;
    let number = text.trim().parse();
    number.map_err(|error| failed("read a setting of the device")(io::Error::other(error)))
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
    fn a_file_in_memory_has_no_device() {
        let Ok(file) = tempfile::tempfile_in("/dev/shm") else {
            println!("skipped: nothing can be written in /dev/shm");
            return;
        };
        let Err(error) = Device::of(&file) else {
            panic!("it has one");
        };
        assert!(
            matches!(error, CheckError::NoDevice(0x0102_1994)),
            "{error}"
        );
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
