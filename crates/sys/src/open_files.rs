// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds processes that have files of a device open. An open file keeps the readahead size that its
//! device had at the time (`file_ra_state_init`). So a changed size takes effect only when the file
//! is opened again.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use foreread_core::Device;
use rustix::fs::{major, minor};

/// One process, and how many files it has open of the devices that were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its number.
    pub pid: u32,
    /// Its name, at most 15 bytes of it.
    pub name: String,
    /// Descriptors of regular files and of the device itself.
    pub open: u64,
    /// Files that it maps: programs, libraries, data.
    pub mapped: u64,
}

/// The processes found, and the number of those that could not be looked into.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenFiles {
    /// Processes with files of these devices, in order of their numbers.
    pub holders: Vec<Holder>,
    /// Processes that could not be looked into: those of others need root.
    pub unseen: u64,
}

impl OpenFiles {
    /// Descriptors of all processes.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.holders.iter().map(|holder| holder.open).sum()
    }

    /// Mapped files of all processes; one that several map counts for each.
    #[must_use]
    pub fn mapped(&self) -> u64 {
        self.holders.iter().map(|holder| holder.mapped).sum()
    }
}

/// Looks through `/proc` for open files of the file systems on these devices and of the devices
/// themselves. A process that ends meanwhile is passed over.
///
/// # Errors
/// When `/proc` can't be read.
pub fn of_devices(numbers: &BTreeSet<Device>) -> io::Result<OpenFiles> {
    let mut found = OpenFiles::default();
    let mut pids: Vec<u32> = fs::read_dir("/proc")?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    for pid in pids {
        let process = Path::new("/proc").join(pid.to_string());
        match (open_of(&process, numbers), mapped_of(&process, numbers)) {
            (Ok(0), Ok(0)) => {}
            (Ok(open), Ok(mapped)) => found.holders.push(Holder {
                pid,
                name: name_of(&process),
                open,
                mapped,
            }),
            (Err(error), _) | (_, Err(error)) => {
                found.unseen += u64::from(error.kind() == io::ErrorKind::PermissionDenied);
            }
        }
    }
    Ok(found)
}

fn name_of(process: &Path) -> String {
    let name = fs::read(process.join("comm")).unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end().to_owned()
}

fn open_of(process: &Path, numbers: &BTreeSet<Device>) -> io::Result<u64> {
    let mut open = 0;
    for entry in fs::read_dir(process.join("fd"))?.flatten() {
        // Following the link asks for the open file itself, whatever its path leads to now.
        let Ok(file) = fs::metadata(entry.path()) else {
            continue;
        };
        let device = if file.is_file() {
            file.dev()
        } else if file.file_type().is_block_device() {
            file.rdev()
        } else {
            continue;
        };
        let number = Device {
            major: major(device),
            minor: minor(device),
        };
        open += u64::from(numbers.contains(&number));
    }
    Ok(open)
}

fn mapped_of(process: &Path, numbers: &BTreeSet<Device>) -> io::Result<u64> {
    let maps = fs::read(process.join("maps"))?;
    Ok(mapped_files(&maps, numbers))
}

/// Different files of the devices in a `/proc/PID/maps`, whose lines have a device's number in
/// hexadecimal digits, and an inode, after address, permissions and offset.
fn mapped_files(maps: &[u8], numbers: &BTreeSet<Device>) -> u64 {
    let mut files = BTreeSet::new();
    for line in maps.split(|&byte| byte == b'\n') {
        let mut words = line
            .split(|&byte| byte == b' ')
            .filter(|word| !word.is_empty())
            .skip(3)
            .map(|word| std::str::from_utf8(word).unwrap_or_default());
        let (Some(device), Some(inode)) = (words.next(), words.next()) else {
            continue;
        };
        let number = device.split_once(':').and_then(|(major, minor)| {
            Some(Device {
                major: u32::from_str_radix(major, 16).ok()?,
                minor: u32::from_str_radix(minor, 16).ok()?,
            })
        });
        if let Some(number) = number.filter(|number| numbers.contains(number)) {
            files.insert((number, inode));
        }
    }
    files.len() as u64
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const MAPS: &[u8] = b"\
00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/dbus-daemon\n\
00651000-00652000 r--p 00051000 08:02 173521      /usr/bin/dbus-daemon\n\
7f1-7f2 r--p 00000000 fe:100 7 /mnt/a file with spaces\n\
7f3-7f4 rw-p 00000000 00:00 0 \n\
7f5-7f6 r--p 00000000 08:02 9 /usr/lib/x (deleted)\n\
nonsense\n";

    fn number(major: u32, minor: u32) -> Device {
        Device { major, minor }
    }

    #[test]
    fn a_file_that_is_mapped_in_parts_counts_once() {
        let sda2 = BTreeSet::from([number(8, 2)]);
        assert_eq!(mapped_files(MAPS, &sda2), 2);
        let both = BTreeSet::from([number(8, 2), number(0xfe, 0x100)]);
        assert_eq!(mapped_files(MAPS, &both), 3);
        assert_eq!(mapped_files(MAPS, &BTreeSet::from([number(8, 1)])), 0);
    }

    #[test]
    fn this_process_is_found_with_its_open_file() -> io::Result<()> {
        let mut file = tempfile::tempfile()?;
        file.write_all(b"x")?;
        let device = file.metadata()?.dev();
        let numbers = BTreeSet::from([number(major(device), minor(device))]);
        let found = of_devices(&numbers)?;
        let own = std::process::id();
        let own = found.holders.iter().find(|holder| holder.pid == own);
        assert!(own.is_some_and(|own| own.open >= 1), "{found:?}");
        Ok(())
    }
}
