// SPDX-License-Identifier: MIT OR Apache-2.0
//! Readahead settings in sysfs, opened, read and written.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use foreread_device::{Access, Device, DeviceNumber, Identity, Knob, KnobError, Knobs};

use crate::devices;

/// A setting is one number.
const SETTING_BYTES_MAX: usize = 64;

/// The settings of the machine whose root directory is given.
#[derive(Clone, Debug)]
pub struct SysfsKnobs {
    sysroot: PathBuf,
}

impl SysfsKnobs {
    /// Those below this directory: `/` of the running machine.
    #[must_use]
    pub fn below(sysroot: &Path) -> Self {
        Self {
            sysroot: sysroot.to_owned(),
        }
    }
}

/// An open setting.
#[derive(Debug)]
pub struct SysfsKnob {
    file: File,
    device: Device,
}

impl Knobs for SysfsKnobs {
    type Knob = SysfsKnob;

    fn open(
        &mut self,
        number: DeviceNumber,
        access: Access,
    ) -> Result<Option<SysfsKnob>, KnobError> {
        let Some(device) = devices::device(&self.sysroot, number) else {
            return Ok(None);
        };
        let path = devices::setting(&self.sysroot, &device);
        let opened = OpenOptions::new()
            .read(true)
            .write(access == Access::Change)
            .custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW)
            .open(&path);
        let file = match opened {
            Ok(file) => file,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(refused("open", &path, &device, &error)),
        };
        // The opened setting belongs to the device that existed before and exists after. The kernel
        // gives each device a new number in the sequence of disks.
        let after = devices::device(&self.sysroot, number);
        Ok(after
            .filter(|after| after.identity == device.identity)
            .map(|device| SysfsKnob { file, device }))
    }
}

impl Knob for SysfsKnob {
    fn identity(&self) -> &Identity {
        &self.device.identity
    }

    fn read_kib(&mut self) -> Result<u64, KnobError> {
        let mut bytes = [0; SETTING_BYTES_MAX];
        let length = self
            .file
            .read_at(&mut bytes, 0)
            .map_err(|error| self.refused("read", &error))?;
        let text = String::from_utf8_lossy(&bytes[..length]);
        let line = text.lines().next().unwrap_or_default().trim();
        line.parse().map_err(|_| {
            let name = &self.device.identity.name;
            KnobError(format!(
                "{name}: its readahead setting is `{line}`, which is no number"
            ))
        })
    }

    fn write_kib(&mut self, kib: u64) -> Result<(), KnobError> {
        let line = format!("{kib}\n");
        self.file
            .write_all_at(line.as_bytes(), 0)
            .map_err(|error| self.refused("set", &error))?;
        // The kernel has no length to cut; a tree of plain files, as in tests, has. What is left of
        // a longer number stands in another line until then.
        let _ = self.file.set_len(line.len() as u64);
        Ok(())
    }
}

impl SysfsKnob {
    fn refused(&self, act: &str, error: &io::Error) -> KnobError {
        refused(act, Path::new(""), &self.device, error)
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENODEV)
}

/// The error: what failed, why, and what to do.
fn refused(act: &str, path: &Path, device: &Device, error: &io::Error) -> KnobError {
    let name = &device.identity.name;
    let why = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            "it needs root, with CAP_SYS_ADMIN; run it by sudo".to_owned()
        }
        Some(libc::EROFS) => {
            "/sys is mounted read-only, as in most containers; run it on the host".to_owned()
        }
        Some(libc::ENODEV) => "the device has just gone".to_owned(),
        _ if path.as_os_str().is_empty() => error.to_string(),
        _ => format!("{}: {error}", path.display()),
    };
    KnobError(format!("cannot {act} the readahead of {name}: {why}"))
}
