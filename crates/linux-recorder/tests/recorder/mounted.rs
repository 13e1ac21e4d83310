// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mounts that a test adds, and loop devices with numbers of its choice; gone when dropped.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::setting::{Lack, Place};

/// A mount, by `mount` with these arguments and the mount point at last.
pub struct Mounted(pub PathBuf);

impl Mounted {
    pub fn new(arguments: &[&str], point: &Path) -> Result<Self, Lack> {
        fs::create_dir_all(point).unwrap();
        let output = Command::new("mount").args(arguments).arg(point).output();
        let output = output.map_err(|error| format!("no mount: {error}"))?;
        if output.status.success() {
            return Ok(Self(point.to_owned()));
        }
        let message = String::from_utf8_lossy(&output.stderr);
        Err(format!(
            "mount {arguments:?} is refused: {}",
            message.trim()
        ))
    }

    pub fn bind(from: &Path, to: &Path) -> Result<Self, Lack> {
        Self::new(&["--bind", from.to_str().unwrap()], to)
    }

    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }

    /// Takes it away while something is open there.
    pub fn detach(self) {
        let mut unmount = Command::new("umount");
        assert!(unmount.arg("-l").arg(&self.0).status().unwrap().success());
        std::mem::forget(self);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A program that has just ended may keep it busy for a moment.
        for _ in 0..100 {
            let mut unmount = Command::new("umount");
            let unmounted = unmount.arg(&self.0).stderr(Stdio::null()).status();
            if unmounted.is_ok_and(|status| status.success()) {
                return;
            }
            sleep(Duration::from_millis(20));
        }
        // A lazy unmount: a process that still holds a file of it must not keep it mounted.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A file with a file system in it, on a loop device.
pub struct Image {
    device: PathBuf,
    number: Option<u32>,
}

/// From `<linux/loop.h>`.
const LOOP_CTL_REMOVE: libc::c_ulong = 0x4c81;

impl Image {
    /// With ext4 in it; on `/dev/loopNUMBER`, or on any loop device that is free.
    pub fn new(place: &Place, name: &str, number: Option<u32>) -> Result<Self, Lack> {
        let path = place.join(name);
        File::create(&path).unwrap().set_len(64 << 20).unwrap();
        let mut mkfs = Command::new("/sbin/mkfs.ext4");
        // The same numbers of inodes and the same seed in each image.
        let mkfs = mkfs.args(["-q", "-F", "-b", "4096"]).arg(&path).output();
        let mkfs = mkfs.map_err(|error| format!("no mkfs.ext4: {error}"))?;
        assert!(
            mkfs.status.success(),
            "{}",
            String::from_utf8_lossy(&mkfs.stderr)
        );
        let mut losetup = Command::new("/sbin/losetup");
        match number {
            Some(number) => losetup.arg(format!("/dev/loop{number}")).arg(&path),
            None => losetup.args(["--find", "--show"]).arg(&path),
        };
        let output = losetup
            .output()
            .map_err(|error| format!("no losetup: {error}"))?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{losetup:?} is refused: {}", message.trim()));
        }
        let device = match number {
            Some(number) => PathBuf::from(format!("/dev/loop{number}")),
            None => PathBuf::from(String::from_utf8(output.stdout).unwrap().trim()),
        };
        Ok(Self { device, number })
    }

    pub fn mount(&self, point: &Path) -> Result<Mounted, Lack> {
        Mounted::new(&["-o", "noatime", self.device.to_str().unwrap()], point)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = Command::new("/sbin/losetup")
            .arg("-d")
            .arg(&self.device)
            .status();
        let Some(number) = self.number else { return };
        let Ok(control) = File::options()
            .read(true)
            .write(true)
            .open("/dev/loop-control")
        else {
            return;
        };
        for _ in 0..100 {
            // SAFETY: a plain ioctl with a number; it refuses while the device is in use.
            if unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_REMOVE as _, number) } >= 0 {
                return;
            }
            sleep(Duration::from_millis(20));
        }
    }
}
