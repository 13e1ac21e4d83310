// SPDX-License-Identifier: MIT OR Apache-2.0
//! File handles: an inode by its number and generation, without a path.
//!
//! A path can only be walked when its directories are in memory. By handle, inodes can be brought
//! in first, in the order in which they lie on the disk.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// The largest handle that a file system may make, `MAX_HANDLE_SZ`.
const HANDLE_BYTES_MAX: usize = 128;

/// `struct file_handle` with room.
#[repr(C)]
#[derive(Clone, Copy)]
struct Raw {
    bytes: u32,
    kind: i32,
    handle: [u8; HANDLE_BYTES_MAX],
}

/// Layouts of handles that are understood, of `<linux/exportfs.h>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// `FILEID_INO32_GEN`: ext4 and most others.
    Number32,
    /// XFS with 64-bit inode numbers.
    Number64,
    /// `FILEID_BTRFS_WITHOUT_PARENT`, with the subvolume's number.
    Btrfs {
        /// Number of the subvolume's root.
        subvolume: u64,
    },
}

const FILEID_INO32_GEN: i32 = 1;
const FILEID_XFS_INO64_GEN: i32 = 0x81;
const FILEID_BTRFS_WITHOUT_PARENT: i32 = 0x4d;

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

impl Raw {
    const EMPTY: Self = Self {
        bytes: HANDLE_BYTES_MAX as u32,
        kind: 0,
        handle: [0; HANDLE_BYTES_MAX],
    };

    fn of(directory: i32, path: &CStr, flags: i32) -> io::Result<Self> {
        let mut raw = Self::EMPTY;
        let mut mount = 0i32;
        // SAFETY: the struct has the room that it claims, the path ends with NUL, and all live
        // through the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_name_to_handle_at,
                directory,
                path.as_ptr(),
                &raw mut raw,
                &raw mut mount,
                flags,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(raw)
    }

    fn content(&self) -> &[u8] {
        &self.handle[..(self.bytes as usize).min(HANDLE_BYTES_MAX)]
    }

    fn layout(&self) -> Option<Layout> {
        match (self.kind, self.bytes) {
            (FILEID_INO32_GEN, 8) => Some(Layout::Number32),
            (FILEID_XFS_INO64_GEN, 12) => Some(Layout::Number64),
            (FILEID_BTRFS_WITHOUT_PARENT, 20) => Some(Layout::Btrfs {
                subvolume: u64_at(self.content(), 8)?,
            }),
            _ => None,
        }
    }

    fn generation(&self) -> Option<u32> {
        match self.layout()? {
            Layout::Number32 => u32_at(self.content(), 4),
            Layout::Number64 => u32_at(self.content(), 8),
            Layout::Btrfs { .. } => u32_at(self.content(), 16),
        }
    }
}

/// The generation of the inode that a path names (a symlink's own); `None` when its file system
/// doesn't say.
#[must_use]
pub fn generation(path: &[u8]) -> Option<u32> {
    let path = CString::new(path).ok()?;
    Raw::of(libc::AT_FDCWD, &path, 0).ok()?.generation()
}

/// Makes handles for one file system and opens them.
pub struct Handles {
    /// Anything on the file system.
    anchor: OwnedFd,
    layout: Layout,
}

impl Handles {
    /// Handles of the file system that an open file or directory is on.
    ///
    /// # Errors
    /// When it has no handles, or of a layout that isn't known here.
    pub fn of(anchor: OwnedFd) -> io::Result<Self> {
        let raw = Raw::of(anchor.as_raw_fd(), c"", libc::AT_EMPTY_PATH)?;
        let layout = raw.layout().ok_or(io::ErrorKind::Unsupported)?;
        Ok(Self { anchor, layout })
    }

    /// Opens an inode. Needs `CAP_DAC_READ_SEARCH`.
    ///
    /// # Errors
    /// `ESTALE` when there is no inode of this number and generation any more.
    pub fn open(&self, number: u64, generation: u32, flags: i32) -> io::Result<OwnedFd> {
        let mut raw = self.make(number, generation)?;
        let anchor = self.anchor.as_fd().as_raw_fd();
        // SAFETY: the struct is laid out as the kernel's and lives through the call; no other code
        // owns the new descriptor.
        unsafe {
            let fd = libc::syscall(
                libc::SYS_open_by_handle_at,
                anchor,
                &raw mut raw,
                flags | libc::O_CLOEXEC,
            );
            let fd = i32::try_from(fd).unwrap_or(-1);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(OwnedFd::from_raw_fd(fd))
        }
    }

    fn make(&self, number: u64, generation: u32) -> io::Result<Raw> {
        let generation = generation.to_ne_bytes();
        let mut raw = Raw::EMPTY;
        let content: Vec<u8> = match self.layout {
            Layout::Number32 => {
                let number = u32::try_from(number).map_err(|_| io::ErrorKind::InvalidInput)?;
                raw.kind = FILEID_INO32_GEN;
                [number.to_ne_bytes(), generation].concat()
            }
            Layout::Number64 => {
                raw.kind = FILEID_XFS_INO64_GEN;
                [&number.to_ne_bytes()[..], &generation].concat()
            }
            Layout::Btrfs { subvolume } => {
                raw.kind = FILEID_BTRFS_WITHOUT_PARENT;
                [
                    &number.to_ne_bytes()[..],
                    &subvolume.to_ne_bytes(),
                    &generation,
                ]
                .concat()
            }
        };
        raw.bytes = u32::try_from(content.len()).unwrap_or(0);
        raw.handle[..content.len()].copy_from_slice(&content);
        Ok(raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn an_inode_is_opened_by_number_and_generation() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("file");
        std::fs::write(&path, b"content")?;
        let Ok(handles) = Handles::of(File::open(directory.path())?.into()) else {
            println!(
                "skipped: the file system of {} has no handles",
                path.display()
            );
            return Ok(());
        };
        let Some(generation) = generation(path.as_os_str().as_encoded_bytes()) else {
            println!("skipped: no generation of {}", path.display());
            return Ok(());
        };
        let number = std::fs::metadata(&path)?.ino();
        match handles.open(number, generation, libc::O_RDONLY) {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                println!("skipped: opening by handle needs CAP_DAC_READ_SEARCH");
                return Ok(());
            }
            opened => assert_eq!(File::from(opened?).metadata()?.ino(), number),
        }
        let stale = handles.open(number, generation.wrapping_add(1), libc::O_RDONLY);
        assert_eq!(
            stale.err().and_then(|e| e.raw_os_error()),
            Some(libc::ESTALE)
        );
        Ok(())
    }
}
