// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tree of files as lookups need it. The machine is asked for it; tests make one up.

use foreread_profile::NodeKind;

const S_IFMT: u32 = 0o170_000;
const S_IFREG: u32 = 0o100_000;
const S_IFDIR: u32 = 0o040_000;
const S_IFLNK: u32 = 0o120_000;

/// Status of a file, as `stat` gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStatus {
    /// Inode number.
    pub inode: u64,
    /// Type and permissions.
    pub mode: u32,
    /// Size.
    pub size_bytes: u64,
    /// When its data changed, from 1970 on.
    pub mtime_ns: i64,
    /// When its inode changed, from 1970 on.
    pub ctime_s: i64,
    /// No name leads to it any more.
    pub is_deleted: bool,
}

impl FileStatus {
    /// Its kind in a profile. Devices, FIFOs and sockets have none: nothing of them can be read
    /// ahead.
    #[must_use]
    pub fn kind(&self) -> Option<NodeKind> {
        match self.mode & S_IFMT {
            S_IFREG => Some(NodeKind::File),
            S_IFDIR => Some(NodeKind::Directory),
            S_IFLNK => Some(NodeKind::Symlink),
            _ => None,
        }
    }

    /// Type and permissions as the kernel's inodes have them.
    #[must_use]
    pub const fn inode_mode(&self) -> u16 {
        (self.mode & 0xffff) as u16
    }
}

/// Why a path can't be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// Nothing has this name.
    #[error("nothing has this name")]
    Absent,
    /// Another error, such as that the path leads through a file.
    #[error("it can't be looked at")]
    Refused,
}

/// A tree of files, by absolute paths.
pub trait FileTree {
    /// Status of the file that a path names; a symlink is not followed.
    ///
    /// # Errors
    /// [`LookupError`] when there is nothing, or it can't be looked at.
    fn status(&self, path: &[u8]) -> Result<FileStatus, LookupError>;

    /// Target of a symlink; `None` when it can't be read.
    fn link_target(&self, path: &[u8]) -> Option<Vec<u8>>;

    /// Generation of the inode that a path names (a symlink's own); `None` when its file system
    /// doesn't say.
    fn generation(&self, path: &[u8]) -> Option<u32>;

    /// Absolute path of the dynamic linker that an executable names; `None` when it names none.
    fn interpreter(&self, path: &[u8]) -> Option<Vec<u8>>;

    /// Up to `max` entries of a directory: inode number and name. None where it can't be read.
    fn entries(&self, directory: &[u8], max: usize) -> Vec<(u64, Vec<u8>)>;

    /// The time, in seconds from 1970 on, by the clock that files are stamped with.
    fn now_s(&self) -> i64;
}
