// SPDX-License-Identifier: MIT OR Apache-2.0
//! Block devices under mounted file systems, opened for reading through their page cache.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use foreread_replay::ext4::{BlockReadError, BlockSource};

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
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK)
            .open(format!("/dev/{name}"))?;
        let metadata = file.metadata()?;
        let number = rustix::fs::makedev(major, minor);
        if !metadata.file_type().is_block_device() || metadata.rdev() != number {
            return Err(io::Error::other(format!(
                "/dev/{name} is not device {major}:{minor}"
            )));
        }
        Ok(Self {
            file,
            request_bytes_max: request_bytes_max(&sys),
        })
    }

    /// The open device.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }
}

/// The path of the device that a person names: a path as it is, and where there is none, a name in
/// `/dev` or `/dev/mapper` (`vda`, `home`) or a number (`8:0`). What names no device comes back as
/// it is, for whoever opens it to say so.
#[must_use]
pub fn node(what: &Path) -> PathBuf {
    let is_device = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
    };
    let named = what
        .to_str()
        .filter(|_| fs::symlink_metadata(what).is_err());
    let numbered = named
        .and_then(|text| text.split_once(':')?.1.parse::<u32>().ok().map(|_| text))
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

/// Whether a device says that it has no head to move. Virtual disks often say that they have one,
/// and not every file system has a device, so only a "no" means something.
#[must_use]
pub fn says_it_has_no_head(major: u32, minor: u32) -> bool {
    says_it_rotates(major, minor) == Some(false)
}

/// Whether a device has a head to move, as far as it can be believed: of virtual disks all say so.
#[must_use]
pub fn has_head(major: u32, minor: u32) -> bool {
    let disk = |name: &str| name.starts_with("vd") || name.starts_with("xvd");
    let is_virtual = name(&sys(major, minor)).is_ok_and(|name| disk(&name));
    !is_virtual && says_it_rotates(major, minor) == Some(true)
}

fn says_it_rotates(major: u32, minor: u32) -> Option<bool> {
    of_queue(&sys(major, minor), "rotational").map(|flag| flag != 0)
}

fn sys(major: u32, minor: u32) -> String {
    format!("/sys/dev/block/{major}:{minor}")
}

/// Its node below `/dev`.
fn name(sys: &str) -> io::Result<String> {
    let uevent = fs::read_to_string(format!("{sys}/uevent"))?;
    let name = uevent
        .lines()
        .find_map(|line| line.strip_prefix("DEVNAME="));
    let name = name.ok_or_else(|| io::Error::other("the device has no name in /sys"))?;
    Ok(name.to_owned())
}

fn request_bytes_max(sys: &str) -> u64 {
    of_queue(sys, "max_sectors_kb").unwrap_or(128) * 1024
}

/// A number of a device's queue. A partition's queue is its disk's.
fn of_queue(sys: &str, name: &str) -> Option<u64> {
    let read = |path: String| fs::read_to_string(path).ok()?.trim().parse().ok();
    read(format!("{sys}/queue/{name}")).or_else(|| read(format!("{sys}/../queue/{name}")))
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
    use super::*;

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
