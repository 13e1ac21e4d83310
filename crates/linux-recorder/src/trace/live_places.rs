// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where files and devices of this machine are, for a trace.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use foreread_core::Device;
use foreread_recorder::accesses::Places;
use foreread_sys::fiemap;
use foreread_trace::Extent;
use rustix::fs::{Mode, OFlags, fstat, open};

/// Extents that are kept of one file.
const EXTENTS_OF_FILE_MAX: usize = 4096;

/// Asks sysfs and FIEMAP.
pub(super) struct LivePlaces;

impl Places for LivePlaces {
    fn device_name(&self, device: Device) -> Option<String> {
        let uevent = fs::read_to_string(format!("/sys/dev/block/{device}/uevent")).ok()?;
        let mut lines = uevent.lines();
        let name = lines.find_map(|line| line.strip_prefix("DEVNAME="))?;
        Some(name.to_owned())
    }

    fn extents(&self, path: &[u8], inode: u64, size_bytes: u64) -> Vec<Extent> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let Ok(opened) = open(OsStr::from_bytes(path), flags, Mode::empty()) else {
            return Vec::new();
        };
        if !fstat(&opened).is_ok_and(|stat| stat.st_ino == inode) {
            return Vec::new();
        }
        let runs = fiemap::runs(&opened, 0, size_bytes, EXTENTS_OF_FILE_MAX);
        let extent = |run: fiemap::Run| Extent {
            logical_bytes: run.offset_bytes,
            physical_bytes: run.place_bytes,
            length_bytes: run.length_bytes,
        };
        runs.unwrap_or_default().into_iter().map(extent).collect()
    }
}
