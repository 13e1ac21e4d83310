// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loop device over the served file.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, makedev, mknodat};

use crate::error::TestbedError;
use crate::server::REQUEST_BYTES_MAX;
use crate::sys;

/// The major number of loop devices, fixed since Linux 1.
const LOOP_MAJOR: u32 = 7;
/// Others may take a device between its naming and its binding; they won't do so this many times in
/// a row.
const TRIES: u32 = 64;

/// A bound loop device. The kernel frees it when this and all other users are gone.
#[derive(Debug)]
pub(crate) struct LoopDevice {
    file: File,
    path: PathBuf,
    name: String,
}

impl LoopDevice {
    /// Binds a free loop device to `backing`. `node_directory` takes the device node where `/dev`
    /// is not the kernel's own, as in some containers.
    pub(crate) fn attach(backing: &Path, node_directory: &Path) -> Result<Self, TestbedError> {
        let control = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/loop-control")
            .map_err(TestbedError::system("open /dev/loop-control"))?;
        let backing_file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_DIRECT)
            .open(backing)
            .map_err(TestbedError::system(format!("open {}", backing.display())))?;
        let label = backing
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let mut last = io::Error::from_raw_os_error(libc::EBUSY);
        for _ in 0..TRIES {
            let number = sys::loop_get_free(&control)
                .map_err(TestbedError::system("find a free loop device"))?;
            let (path, file) = open_node(number, node_directory)?;
            match sys::loop_configure(&file, &backing_file, &label) {
                Ok(()) => return Self::bound(file, path, number),
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => last = error,
                Err(error) => {
                    let what = format!("bind {} with direct I/O", path.display());
                    return Err(TestbedError::system(what)(error));
                }
            }
        }
        Err(TestbedError::system(
            "bind a loop device: others take each first",
        )(last))
    }

    fn bound(file: File, path: PathBuf, number: u32) -> Result<Self, TestbedError> {
        let device = Self {
            file,
            path,
            name: format!("loop{number}"),
        };
        if device.read_attribute("loop/dio")? != "1" {
            return Err(TestbedError::NotDirect(device.path));
        }
        // One block request is then one request at the server, not one and a rest.
        device.set_queue("max_sectors_kb", &(REQUEST_BYTES_MAX >> 10).to_string())?;
        Ok(device)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// The directory of the device under `/sys/block`.
    pub(crate) fn sysfs(&self) -> PathBuf {
        Path::new("/sys/block").join(&self.name)
    }

    pub(crate) fn read_attribute(&self, attribute: &str) -> Result<String, TestbedError> {
        let path = self.sysfs().join(attribute);
        let text = fs::read_to_string(&path)
            .map_err(TestbedError::system(format!("read {}", path.display())))?;
        Ok(text.trim().to_owned())
    }

    /// Sets an attribute of the device's queue in sysfs.
    pub(crate) fn set_queue(&self, attribute: &str, value: &str) -> Result<(), TestbedError> {
        let path = self.sysfs().join("queue").join(attribute);
        fs::write(&path, value).map_err(TestbedError::system(format!(
            "write {value} to {}",
            path.display()
        )))
    }

    /// Unbinds it: at once when no other process uses it, else with its last user.
    pub(crate) fn detach(&self) -> io::Result<()> {
        sys::loop_clear(&self.file)
    }
}

fn open_node(number: u32, node_directory: &Path) -> Result<(PathBuf, File), TestbedError> {
    let mut path = PathBuf::from(format!("/dev/loop{number}"));
    if !path.exists() {
        path = node_directory.join(format!("loop{number}"));
        let mode = Mode::RUSR | Mode::WUSR;
        let device = makedev(LOOP_MAJOR, number);
        mknodat(rustix::fs::CWD, &path, FileType::BlockDevice, mode, device).map_err(
            TestbedError::system(format!("make the node {}", path.display())),
        )?;
    }
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .map_err(TestbedError::system(format!("open {}", path.display())))?;
    Ok((path, file))
}

/// The loop devices of this machine with the names of their backing files, paths left off.
pub(crate) fn bound_devices() -> Vec<(PathBuf, String)> {
    let Ok(entries) = fs::read_dir("/sys/block") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let backing = fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
            // A file that is gone has this added to its path.
            let backing = backing.trim_end().trim_end_matches(" (deleted)");
            let name = backing.rsplit('/').next()?.to_owned();
            Some((Path::new("/dev").join(entry.file_name()), name))
        })
        .collect()
}
