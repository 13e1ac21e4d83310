// SPDX-License-Identifier: MIT OR Apache-2.0
//! Readahead settings of the device of a file, for the model.

use std::fs::File;
use std::io;

use foreread_sys::read_ahead::{ReadAheadSetting, SettingOf, file_system_type};

use super::{CheckError, failed};

/// Largest request of a file system with a setting of its own, in KiB: it never sets any, and
/// bdi_alloc() begins with VM_READAHEAD_PAGES.
const OWN_REQUEST_KIB: u64 = 128;
/// KiB of a page of the kernel.
const PAGE_KIB: u64 = 4;

/// The device, or devices, of a file.
pub(super) struct Device {
    setting: ReadAheadSetting,
}

impl Device {
    /// The device of an open file.
    pub fn of(file: &File) -> Result<Self, CheckError> {
        let setting = ReadAheadSetting::of(file).map_err(failed("ask for the device"))?;
        match setting {
            Some(setting) if setting.of != SettingOf::Mount => Ok(Self { setting }),
            _ => {
                let kind = file_system_type(file).map_err(failed("ask for the file system"))?;
                Err(CheckError::NoDevice(kind))
            }
        }
    }

    /// Maximum window, in pages.
    pub fn ra_pages(&self) -> Result<u32, CheckError> {
        pages_of(self.setting.read_ahead_kib())
    }

    /// Largest request, in pages.
    pub fn io_pages(&self) -> Result<u32, CheckError> {
        let kib = self.setting.request_max_kib();
        pages_of(kib.map(|kib| kib.unwrap_or(OWN_REQUEST_KIB)))
    }

    /// Whether requests are under way; "no" where sysfs does not say.
    pub fn is_busy(&self) -> bool {
        self.setting.is_busy()
    }
}

fn pages_of(kib: io::Result<u64>) -> Result<u32, CheckError> {
    let kib = kib.map_err(failed("read a setting of the device"))?;
    Ok(u32::try_from(kib / PAGE_KIB).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_memory_has_no_device() {
        let Ok(file) = tempfile::tempfile_in("/dev/shm") else {
            println!("skipped: nothing can be written in /dev/shm");
            return;
        };
        let Err(error) = Device::of(&file) else {
            panic!("it has one");
        };
        assert!(
            matches!(error, CheckError::NoDevice(0x0102_1994)),
            "{error}"
        );
    }
}
