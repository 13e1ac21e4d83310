// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds files of a mounted ext4 by their names, from its directories in the device's page cache.
//!
//! For profiles of other systems, which have no inode numbers. What is read here is what the kernel
//! reads for the same paths, and the kernel finds it in memory afterwards.

use std::io;

use foreread_core::Device;
use foreread_prefetch::ext4::{Answer, Extent, Geometry, Limits, Name, find_names};
use foreread_sys::block_device::{BlockDevice, has_head};

use super::fetcher::{ask_for, merged, read_first_page};

/// Looks for names on the file system of a block device. Answers are in the order of the names.
///
/// # Errors
/// The device can't be opened, or has no ext4 that is known here.
pub fn find_on_device(device: Device, names: &[Name<'_>]) -> io::Result<Vec<Answer>> {
    let (major, minor) = (device.major, device.minor);
    let has_head = has_head(major, minor);
    let device = BlockDevice::open(major, minor)?;
    device.read_exactly()?;
    let geometry = Geometry::read(&mut &device);
    let mut geometry = geometry.map_err(|error| io::Error::other(error.to_string()))?;
    let bring = |extents: &[Extent]| {
        let extents = merged(extents, has_head);
        if has_head {
            read_first_page(&device, &extents);
        }
        ask_for(&device, &extents).is_ok()
    };
    let limits = Limits::default();
    Ok(find_names(
        names,
        &mut geometry,
        &mut &device,
        limits,
        bring,
    ))
}
