// SPDX-License-Identifier: MIT OR Apache-2.0
//! The number by which a file system is known in every boot.

use std::path::Path;

use rustix::fs::{statfs, statvfs};

const EXT4: u64 = 0xef53;
const BTRFS: u64 = 0x9123_683e;

/// The number of the file system at `path`, made by the kernel from its UUID; on btrfs from that of
/// its subvolume, too. `None` if the kernel has none, or makes it from the number of the device,
/// which may be another one in the next boot.
#[must_use]
pub fn file_system_id(path: &Path) -> Option<u64> {
    let magic = statfs(path).ok()?.f_type as u64 & u64::from(u32::MAX);
    let has_uuid = [EXT4, BTRFS].contains(&magic);
    let number = has_uuid.then(|| statvfs(path)).and_then(Result::ok)?.f_fsid;
    (number != 0).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_without_uuid_has_no_number() {
        assert_eq!(file_system_id(Path::new("/proc")), None);
        assert_eq!(file_system_id(Path::new("/none")), None);
        // Whatever is below a temporary directory is the same twice.
        let directory = tempfile::tempdir().unwrap();
        let below = directory.path().join("below");
        std::fs::create_dir(&below).unwrap();
        assert_eq!(file_system_id(directory.path()), file_system_id(&below));
    }
}
