// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths of files whose names the kernel has dropped. In: their inode numbers, and directories.
//! Out: for each file one path whose inode has its number and generation.
//!
//! To remount a file system drops all names in it that nobody uses: `reconfigure_super()` calls
//! `shrink_dcache_sb()`. Each boot remounts its root file system, to write to it. Inodes and pages
//! stay.

use std::collections::HashMap;

use super::join;
use crate::file_tree::FileTree;
use crate::recording::{InodeEntry, NodeRecord, Recording};

/// Entries that are read at most. The 441 directories of a boot of 40 services have 6,500.
const ENTRIES_MAX: usize = 1 << 17;

/// A file system, as the kernel numbers it, and an inode.
pub(super) type FileNumber = (u32, u64);

/// Whether the kernel knew no name of a file.
pub(super) fn has_no_name(node: &NodeRecord) -> bool {
    node.parent == 0 && node.name.is_empty() && !node.is_directory()
}

/// Used inodes whose names were dropped.
pub(super) fn wanted(recording: &Recording) -> HashMap<FileNumber, &InodeEntry> {
    let is_wanted = |inode: &&InodeEntry| {
        let node = recording.nodes.get(&inode.id);
        inode.uses != 0 && node.is_some_and(has_no_name)
    };
    let inodes = recording.inodes.iter().filter(is_wanted);
    inodes
        .map(|inode| ((inode.device, inode.number), inode))
        .collect()
}

/// Finds them in directories, each with its file system. Of several names of a file the first
/// counts.
pub(super) fn find(
    mut wanted: HashMap<FileNumber, &InodeEntry>,
    mut directories: Vec<(u32, Vec<u8>)>,
    tree: &dyn FileTree,
) -> HashMap<FileNumber, Vec<u8>> {
    directories.sort();
    let mut found = HashMap::new();
    let mut left = ENTRIES_MAX;
    for (device, directory) in directories {
        if wanted.is_empty() || left == 0 {
            break;
        }
        let entries = tree.entries(&directory, left);
        left = left.saturating_sub(entries.len());
        for (number, name) in entries {
            let file = (device, number);
            let Some(inode) = wanted.get(&file) else {
                continue;
            };
            let path = join(&directory, &name);
            if is_inode(&path, inode, tree) {
                wanted.remove(&file);
                found.insert(file, path);
            }
        }
    }
    found
}

/// Numbers are given again, and two subvolumes have the same.
fn is_inode(path: &[u8], inode: &InodeEntry, tree: &dyn FileTree) -> bool {
    let status = tree.status(path);
    let generation = || tree.generation(path).unwrap_or(inode.generation);
    status.is_ok_and(|status| status.inode == inode.number) && generation() == inode.generation
}
