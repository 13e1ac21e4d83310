// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices as people name them: a number, a name, a path, or what is mounted.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use anyhow::{Context, Result, bail};
use foreread_core::Device;
use foreread_core::mounts::MountPoint;
use foreread_sys::block_device;
use foreread_sys::mounts::mounts_of_self;

use crate::text;

/// A device by its number (`8:0`), its name (`sda`), its path, or a directory that is on it. A file
/// system without a block device, such as NFS, has a number, too.
pub fn device(name: &str) -> Result<Device> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let node = block_device::node(Path::new(name));
    let found = fs::metadata(&node).or_else(|_| fs::metadata(name));
    let metadata = found.with_context(|| format!("{} is no device here", text::printable(name)))?;
    let number = match metadata.file_type() {
        kind if kind.is_block_device() => metadata.rdev(),
        kind if kind.is_dir() => metadata.dev(),
        _ => bail!("{} is no device and no directory", text::printable(name)),
    };
    Ok(of(number))
}

/// The same device with its partitions, and with the file systems on them that have numbers of
/// their own, as those of btrfs do.
pub fn with_parts(name: &str) -> Result<Vec<Device>> {
    let device = device(name)?;
    let mut devices = vec![device];
    // Each partition is a directory of its disk.
    let parts = fs::read_dir(format!("/sys/dev/block/{device}"));
    for part in parts.into_iter().flatten().flatten() {
        let number = fs::read_to_string(part.path().join("dev")).unwrap_or_default();
        devices.extend(number.trim().parse::<Device>());
    }
    let mounts = mounts_of_self().ok();
    let points = mounts.iter().flat_map(|mounts| mounts.points());
    let on_it = points.filter(|point| {
        let source = std::str::from_utf8(&point.source).unwrap_or_default();
        // Other sources are no paths, such as `tmpfs`.
        let source = Some(source).filter(|source| source.starts_with('/'));
        point.major == 0
            && source
                .and_then(block_device)
                .is_some_and(|source| devices.contains(&source))
    });
    let numbers: Vec<Device> = on_it.map(MountPoint::device).collect();
    devices.extend(numbers);
    Ok(devices)
}

/// A block device by its number, its name or its path; `None` if there is none.
pub fn block_device(name: &str) -> Option<Device> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    block_device::number_at(&block_device::node(Path::new(name)))
}

fn of(number: u64) -> Device {
    Device {
        major: rustix::fs::major(number),
        minor: rustix::fs::minor(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_found_by_what_is_mounted_from_it() {
        assert_eq!(with_parts("8:16").unwrap()[0], "8:16".parse().unwrap());
        let root = with_parts("/").unwrap();
        assert_eq!(root, with_parts(&root[0].to_string()).unwrap());
        for wrong in ["no-such-device", "/dev/null", ""] {
            let error = format!("{:#}", with_parts(wrong).unwrap_err());
            assert!(error.contains("is no device"), "{wrong}: {error}");
        }
    }
}
