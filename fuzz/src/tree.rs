// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tree of files that an input makes up: each path has a status that its name decides.

use foreread_core::mounts::Mounts;
use foreread_recorder::{FileStatus, FileTree, LookupError};

/// Device numbers of the two file systems in [`mounts`], as the kernel has them.
pub const DEVICES: [u32; 3] = [8 << 20 | 1, 30, 8 << 20 | 9];

/// A root file system, another one below it, and one without a disk.
pub fn mounts() -> Mounts {
    Mounts::parse(
        b"21 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
          22 21 0:30 / /lib rw - overlay overlay rw,lowerdir=/a:/b,upperdir=/u,workdir=/w\n\
          23 21 0:31 / /a/b rw - tmpfs tmpfs rw\n",
    )
}

/// Files by their paths.
pub struct Tree {
    /// Decides kinds, times and links.
    pub seed: u8,
}

impl Tree {
    fn kind(&self, path: &[u8]) -> u8 {
        path.iter()
            .fold(self.seed, |hash, byte| hash.wrapping_mul(31) ^ byte)
    }
}

impl FileTree for Tree {
    fn status(&self, path: &[u8]) -> Result<FileStatus, LookupError> {
        let kind = self.kind(path);
        let mode = match kind % 8 {
            0 => return Err(LookupError::Absent),
            1 => return Err(LookupError::Refused),
            2 => 0o010_644,
            3 => 0o120_777,
            4 | 5 => 0o040_755,
            _ => 0o100_644,
        };
        Ok(FileStatus {
            inode: u64::from(kind / 8),
            mode,
            size_bytes: u64::from(kind) << (kind % 56),
            mtime_ns: i64::from(kind) - 100,
            ctime_s: i64::from(kind),
            is_deleted: kind % 32 == 31,
        })
    }

    fn link_target(&self, path: &[u8]) -> Option<Vec<u8>> {
        let targets: [&[u8]; 5] = [b"/a", b"../b", b"lib/x.so", b"", b"."];
        targets
            .get(usize::from(self.kind(path) / 8 % 8))
            .map(|target| target.to_vec())
    }

    fn generation(&self, path: &[u8]) -> Option<u32> {
        (!path.len().is_multiple_of(3)).then_some(u32::from(self.kind(path) % 4))
    }

    fn entries(&self, directory: &[u8], max: usize) -> Vec<(u64, Vec<u8>)> {
        let names: [&[u8]; 6] = [b".", b"..", b"a", b"b", b"lib", b"x.so"];
        let base = directory.strip_suffix(b"/").unwrap_or(directory);
        let entry = |name: &[u8]| {
            let path = [base, b"/", name].concat();
            (u64::from(self.kind(&path) / 8), name.to_vec())
        };
        names.into_iter().map(entry).take(max).collect()
    }

    fn interpreter(&self, path: &[u8]) -> Option<Vec<u8>> {
        (self.kind(path) % 4 == 3).then(|| b"/lib/x.so".to_vec())
    }

    fn now_s(&self) -> i64 {
        100
    }
}
