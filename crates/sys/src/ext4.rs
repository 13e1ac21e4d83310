// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel tells about a mounted ext4 in `/proc/fs/ext4`.

use std::fs;
use std::io;
use std::path::PathBuf;

use foreread_core::Device;

/// A mounted ext4.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountedExt4 {
    /// All options in force, one a line, such as `data=ordered`.
    options: String,
    /// Counts of fast commits, with the reasons for which changes are left out of one.
    fast_commits: String,
}

impl MountedExt4 {
    /// The file system on this device.
    ///
    /// # Errors
    /// When no ext4 is mounted from it, or `/proc` doesn't tell.
    pub fn on(device: Device) -> io::Result<Self> {
        let node = fs::canonicalize(format!("/sys/dev/block/{device}"))?;
        let name = node.file_name().unwrap_or_default();
        let directory = PathBuf::from("/proc/fs/ext4").join(name);
        Ok(Self {
            options: fs::read_to_string(directory.join("options"))?,
            // Missing before Linux 5.10, which has no fast commits.
            fast_commits: fs::read_to_string(directory.join("fc_info")).unwrap_or_default(),
        })
    }

    /// Whether it is mounted with this option, as `/proc/fs/ext4/DEVICE/options` spells it.
    #[must_use]
    pub fn has_option(&self, option: &str) -> bool {
        self.options.lines().any(|line| line == option)
    }

    /// Whether the kernel leaves an exchange of extents out of fast commits. Kernels that don't can
    /// lose the block map of a file at a power cut (mended by commit 690558921d9f in January 2026).
    #[must_use]
    pub fn commits_moves_in_full(&self) -> bool {
        self.fast_commits.contains("\"Move extents\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_whole_lines() {
        let mounted = MountedExt4 {
            options: "rw\ndata=ordered\nstripe=0\n".to_owned(),
            fast_commits: "Ineligible reasons:\n\"Falloc range op\":\t0\n".to_owned(),
        };
        assert!(mounted.has_option("rw") && mounted.has_option("data=ordered"));
        assert!(!mounted.has_option("data") && !mounted.has_option("ro"));
        assert!(!mounted.commits_moves_in_full());
        let mended = MountedExt4 {
            fast_commits: "\"Move extents\":\t3\n".to_owned(),
            ..mounted
        };
        assert!(mended.commits_moves_in_full());
    }
}
