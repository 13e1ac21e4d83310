// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recording in the kernel's terms: inodes, with their names up to the root of their file system,
//! and the pages that were used.

use std::collections::HashMap;

use crate::counts::Counts;

/// Pages in a chunk: a bit each in a bitmap.
pub const CHUNK_PAGES: u64 = 64;

/// Directories above a file; as many as a path of 4,096 bytes can name.
const DEPTH_MAX: usize = 2048;

/// Control groups above one; as many as the kernel's side looks at.
const GROUP_DEPTH_MAX: usize = 32;

/// Pages of one chunk: when the first was needed, and which were used or fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// First access by the program, from its start; 0 for never.
    pub need_ns: u64,
    /// A bit a page: accessed by the program.
    pub used: u64,
    /// A bit a page: brought in by the replay.
    pub fetched: u64,
    /// Control group of the first access; 0 for unknown.
    pub group: u32,
}

/// Runs of set bits of a chunk, as pages: first and number.
pub(crate) fn runs(chunk: u64, bits: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut bits = bits;
    std::iter::from_fn(move || {
        if bits == 0 {
            return None;
        }
        let from = u64::from(bits.trailing_zeros());
        let run = u64::from((bits >> from).trailing_ones());
        bits &= if from + run == CHUNK_PAGES {
            0
        } else {
            u64::MAX << (from + run)
        };
        Some((chunk * CHUNK_PAGES + from, run))
    })
}

/// An inode that was used, with its first chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InodeEntry {
    /// Inode number.
    pub number: u64,
    /// Inode generation.
    pub generation: u32,
    /// Superblock, as in the kernel: 12 bits major, 20 bits minor.
    pub device: u32,
    /// Its first 64 pages.
    pub first: Chunk,
    /// When it was first seen, from the start of the program.
    pub need_ns: u64,
    /// Its number in the recording.
    pub id: u32,
    /// Bits as in the profile's `Uses`.
    pub uses: u32,
    /// Size when it was first seen.
    pub size_bytes: u64,
    /// Type and permissions.
    pub mode: u16,
    /// Control group of whoever saw it first; 0 for unknown.
    pub group: u32,
}

/// A control group with its name in its parent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupRecord {
    /// Its number in the recording.
    pub number: u32,
    /// Number of its parent; 0 of the root of the hierarchy.
    pub parent: u32,
    /// Name in its parent; empty for the root.
    pub name: Vec<u8>,
}

/// An inode with its name in its directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRecord {
    /// Its number in the recording.
    pub id: u32,
    /// Number of the directory it is in; 0 at the root of its file system.
    pub parent: u32,
    /// Inode generation.
    pub generation: u32,
    /// Inode number.
    pub number: u64,
    /// Superblock, as in the kernel: 12 bits major, 20 bits minor.
    pub device: u32,
    /// Type and permissions.
    pub mode: u16,
    /// When it was first seen, from the start of the program.
    pub need_ns: u64,
    /// Name in its directory; empty at the root of its file system.
    pub name: Vec<u8>,
}

impl NodeRecord {
    /// Whether its mode is that of a directory.
    #[must_use]
    pub const fn is_directory(&self) -> bool {
        self.mode & 0o170_000 == 0o040_000
    }
}

/// A path that was given to a system call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathRecord {
    /// Number of the node that the path starts from.
    pub directory: u32,
    /// Result of the call: a negative errno, or 0.
    pub result: i32,
    /// Bits as in the profile's `Uses`.
    pub uses: u32,
    /// When, from the start of the program.
    pub need_ns: u64,
    /// As the program gave it.
    pub path: Vec<u8>,
    /// The call didn't follow a symlink at the end of the path.
    pub no_follow: bool,
    /// Control group of the process; 0 for unknown.
    pub group: u32,
}

/// Pages of a block device that were brought in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceRecord {
    /// The device, as in the kernel: 12 bits major, 20 bits minor.
    pub device: u32,
    /// First page.
    pub start_page: u64,
    /// Number of pages.
    pub pages: u64,
    /// When, from the start of the program.
    pub need_ns: u64,
}

/// All that a recording saw; `resolve` makes absolute paths of it.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Inodes with their names, by number in the recording.
    pub nodes: HashMap<u32, NodeRecord>,
    /// Control groups with their names, by number in the recording.
    pub groups: HashMap<u32, GroupRecord>,
    /// Names given to system calls: each pair of directory and name once, first need first.
    pub paths: Vec<PathRecord>,
    /// Inodes with their uses and first chunk.
    pub inodes: Vec<InodeEntry>,
    /// Pages of block devices; of a recording of the machine only.
    pub devices: Vec<DeviceRecord>,
    /// Further chunks: number of the inode, number of the chunk.
    pub chunks: Vec<(u32, u32, Chunk)>,
    /// Sums.
    pub counts: Counts,
}

/// Path of a control group from the root of the hierarchy, as in `/proc/PID/cgroup`; `None` when it
/// or one above it is unknown.
pub(crate) fn path_of_group(number: u32, groups: &HashMap<u32, GroupRecord>) -> Option<Vec<u8>> {
    let mut names = Vec::new();
    let mut at = groups.get(&number)?;
    while at.parent != 0 {
        names.push(at.name.as_slice());
        at = groups.get(&at.parent)?;
        if names.len() > GROUP_DEPTH_MAX {
            return None;
        }
    }
    let mut path = b"/".to_vec();
    names.reverse();
    path.extend(names.join(&b'/'));
    Some(path)
}

/// Path from the root of its file system to a node; `None` when a name is missing on the way.
pub(crate) fn path_in_file_system(
    node: &NodeRecord,
    nodes: &HashMap<u32, NodeRecord>,
) -> Option<Vec<u8>> {
    let mut names = Vec::new();
    let mut at = node;
    while at.parent != 0 {
        names.push(at.name.as_slice());
        at = nodes.get(&at.parent)?;
        if names.len() > DEPTH_MAX {
            return None;
        }
    }
    if !at.name.is_empty() || (names.is_empty() && !at.is_directory()) {
        return None;
    }
    let mut path = Vec::new();
    for name in names.iter().rev() {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    if path.is_empty() {
        path.push(b'/');
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_a_path_if_all_above_it_are_known() {
        let group = |number, parent, name: &[u8]| {
            let name = name.to_vec();
            (
                number,
                GroupRecord {
                    number,
                    parent,
                    name,
                },
            )
        };
        let groups = HashMap::from([
            group(1, 0, b""),
            group(2, 1, b"system.slice"),
            group(3, 2, b"ssh.service"),
            group(4, 9, b"lost"),
            group(5, 5, b"loop"),
        ]);
        let path = |number| path_of_group(number, &groups);
        assert_eq!(path(1).as_deref(), Some(&b"/"[..]));
        assert_eq!(path(3).as_deref(), Some(&b"/system.slice/ssh.service"[..]));
        assert_eq!([path(0), path(4), path(5)], [None, None, None]);
    }

    #[test]
    fn runs_of_bits_are_pages() {
        let found = |chunk, bits| runs(chunk, bits).collect::<Vec<_>>();
        assert_eq!(found(0, 0), []);
        assert_eq!(found(0, u64::MAX), [(0, 64)]);
        assert_eq!(found(2, 0b1011 | 1 << 63), [(128, 2), (131, 1), (191, 1)]);
    }
}
