// SPDX-License-Identifier: MIT OR Apache-2.0
//! The disks that can be watched.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use foreread_blocktrace::Device;
use foreread_sys::block_device::node;
use thiserror::Error;

/// Why a disk can't be watched.
#[derive(Debug, Error)]
pub enum DiskError {
    /// There is none.
    #[error("cannot look at {path}: {error}")]
    Gone {
        /// The requested path.
        path: String,
        /// The kernel's error.
        error: io::Error,
    },
    /// It is something else.
    #[error("{0} is not a block device; name a disk, such as /dev/sda")]
    NotBlock(String),
    /// It makes no requests of its own.
    #[error(
        "{name} passes its reads on to other devices and has no requests of its own: watch {below}"
    )]
    PassesOn {
        /// Its name.
        name: String,
        /// The devices below, or how to find them.
        below: String,
    },
}

/// A disk with a queue of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Its numbers.
    pub device: Device,
    /// Its name below `/dev`.
    pub name: String,
    /// Whether a partition was asked for, and this is the disk that it lies on.
    pub is_whole_of_partition: bool,
}

/// The disk with this path or name, or that of a partition.
///
/// # Errors
/// [`DiskError`] when there is none, or it has no requests.
pub fn find(path: &Path) -> Result<Disk, DiskError> {
    let path = &node(path);
    let shown = path.display().to_string();
    let gone = |error| DiskError::Gone {
        path: shown.clone(),
        error,
    };
    let metadata = fs::metadata(path).map_err(gone)?;
    if !metadata.file_type().is_block_device() {
        return Err(DiskError::NotBlock(shown));
    }
    let number = metadata.rdev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let mut sys = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).map_err(gone)?;
    let is_partition = sys.join("partition").exists();
    if is_partition {
        sys.pop();
    }
    let name = sys
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    let numbers = fs::read_to_string(sys.join("dev")).map_err(gone)?;
    let device = numbers.trim().parse();
    let device = device.map_err(|()| gone(io::Error::other("its numbers can't be read")))?;
    if !sys.join("mq").is_dir() {
        return Err(DiskError::PassesOn {
            below: below(&sys),
            name,
        });
    }
    Ok(Disk {
        device,
        name,
        is_whole_of_partition: is_partition,
    })
}

/// All disks of this machine that have requests and a size.
#[must_use]
pub fn disks() -> Vec<Disk> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let has_size = |name: &str| {
        let size = fs::read_to_string(format!("/sys/block/{name}/size"));
        size.is_ok_and(|size| size.trim() != "0")
    };
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| has_size(name)).collect();
    names.sort();
    let disks = names.iter().map(|name| find(Path::new(name)));
    disks.filter_map(Result::ok).collect()
}

fn below(sys: &Path) -> String {
    let entries = fs::read_dir(sys.join("slaves"))
        .into_iter()
        .flatten()
        .flatten();
    let names = entries.map(|entry| format!("/dev/{}", entry.file_name().to_string_lossy()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    match names.is_empty() {
        true => "the disk behind it".to_owned(),
        false => names.join(", "),
    }
}
