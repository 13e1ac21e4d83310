// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of devices, processes, files and cgroups.

use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use foreread_accounting::{FileOf, Process};
use foreread_core::Device;
use foreread_sys::mounts::{Mounts, mounts_of_self};

/// Names that were told, and those that can be asked for.
#[derive(Default)]
pub struct Names {
    processes: HashMap<Process, Vec<u8>>,
    files: HashMap<FileOf, Vec<u8>>,
    devices: HashMap<Device, Option<Vec<u8>>>,
    cgroups: HashMap<u64, Vec<u8>>,
    /// Where the cgroups are, and when it is known: once asked for.
    mounts: Option<Mounts>,
    unnamed: u64,
}

impl Names {
    pub(super) fn name_process(&mut self, process: Process, name: Vec<u8>) {
        self.processes.insert(process, name);
    }

    /// `path` is from the root of its file system.
    pub(super) fn name_file(&mut self, file: FileOf, path: Vec<u8>) {
        self.files.insert(file, path);
    }

    pub(super) fn note_unnamed(&mut self) {
        self.unnamed += 1;
    }

    pub(super) fn unnamed(&self) -> u64 {
        self.unnamed
    }

    /// The name that a process had when it was last heard of.
    #[must_use]
    pub fn process(&self, process: Process) -> Option<&[u8]> {
        self.processes.get(&process).map(Vec::as_slice)
    }

    /// Where a file can be reached, or, where no mount shows it, its path in its file system.
    pub fn file(&mut self, file: FileOf) -> Option<Vec<u8>> {
        let path = self.files.get(&file)?.clone();
        let (major, minor) = (file.device.major, file.device.minor);
        let reached = self.mounts().reach(major, minor, &path);
        Some(reached.into_iter().next().map_or(path, |(_, path)| path))
    }

    /// The name of a block device, such as `sda1`; of a file system without one, what is mounted.
    pub fn device(&mut self, device: Device) -> Option<Vec<u8>> {
        if let Some(name) = self.devices.get(&device) {
            return name.clone();
        }
        let link = fs::read_link(format!("/sys/dev/block/{device}")).ok();
        let of_link = |link: PathBuf| Some(link.file_name()?.as_bytes().to_vec());
        let name = link.and_then(of_link).or_else(|| {
            let mut points = self.mounts().points().iter();
            let point = points.find(|p| (p.major, p.minor) == (device.major, device.minor))?;
            Some(point.source.clone())
        });
        self.devices.insert(device, name.clone());
        name
    }

    /// The path of a cgroup below where cgroups are mounted. One that is gone keeps its name if it
    /// was asked for before.
    pub fn cgroup(&mut self, number: u64) -> Option<&[u8]> {
        if !self.cgroups.contains_key(&number) {
            let mut points = self.mounts().points().iter();
            let top = points
                .find(|p| p.fs_type == b"cgroup2")?
                .mount_point
                .clone();
            self.read_cgroups(Path::new(std::ffi::OsStr::from_bytes(&top)));
        }
        self.cgroups.get(&number).map(Vec::as_slice)
    }

    fn mounts(&mut self) -> &Mounts {
        self.mounts
            .get_or_insert_with(|| mounts_of_self().unwrap_or_default())
    }

    /// Mounts may have changed since; called before names are asked for.
    pub fn refresh(&mut self) {
        self.mounts = None;
    }

    /// The number of a cgroup is that of its directory.
    fn read_cgroups(&mut self, top: &Path) {
        let mut left = vec![top.to_owned()];
        while let Some(directory) = left.pop() {
            if let Ok(about) = fs::metadata(&directory) {
                let path = directory.strip_prefix(top).unwrap_or(&directory);
                let path = Path::new("/").join(path);
                self.cgroups
                    .insert(about.ino(), path.as_os_str().as_bytes().to_vec());
            }
            let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
            let below = entries.filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir()));
            left.extend(below.map(|entry| entry.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_the_name_that_was_told_last() {
        let mut names = Names::default();
        let process = Process {
            id: 1,
            started_ns: 2,
        };
        assert!(names.process(process).is_none());
        names.name_process(process, b"sh".to_vec());
        names.name_process(process, b"cat".to_vec());
        assert_eq!(names.process(process), Some(&b"cat"[..]));
    }

    #[test]
    fn a_file_that_no_mount_shows_has_its_own_path() {
        let mut names = Names {
            mounts: Some(Mounts::parse(b"1 0 8:1 / /disk rw - ext4 /dev/sda1 rw\n")),
            ..Names::default()
        };
        let file = |minor| FileOf {
            device: Device { major: 8, minor },
            ..FileOf::default()
        };
        names.name_file(file(1), b"/a/b".to_vec());
        names.name_file(file(2), b"/a/b".to_vec());
        assert_eq!(names.file(file(1)).unwrap(), b"/disk/a/b");
        assert_eq!(names.file(file(2)).unwrap(), b"/a/b");
        assert!(names.file(file(3)).is_none());
        assert_eq!(
            names.device(Device {
                major: 8,
                minor: 1 << 19
            }),
            None
        );
    }
}
