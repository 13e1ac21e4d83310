// SPDX-License-Identifier: MIT OR Apache-2.0
//! Brings together accesses by inode and names by path.

use std::collections::{HashMap, HashSet};

use foreread_core::mounts::Mounts;
use foreread_profile::{PAGE_BYTES, Uses};

use super::accesses::{Accessed, InodeKey};
use crate::file_tree::FileTree;
use crate::names::Name;
use crate::pages::Pages;
use crate::seen::{Seen, device_of, in_layer, place};

/// All inodes that were used.
#[derive(Debug)]
pub struct Joined {
    /// Those with a name, and the pages that belong to it.
    pub seen: Vec<Seen>,
    /// How many have no name.
    pub nameless: u64,
}

/// Gives the pages of each inode to the names that lead to it.
pub fn join(
    names: impl Iterator<Item = Name>,
    accessed: HashMap<InodeKey, Accessed>,
    start_ns: u64,
    mounts: &Mounts,
    tree: &dyn FileTree,
) -> Joined {
    let mut index = Index {
        seen: Vec::new(),
        by_key: HashMap::new(),
        hidden: HashMap::new(),
        mounts,
        tree,
    };
    for name in names {
        let need_ns = name.need_ns.saturating_sub(start_ns).max(1);
        index.add(Seen::of(name, need_ns));
    }
    let virtual_devices: HashSet<u32> = mounts
        .points()
        .iter()
        .filter(|point| point.is_virtual())
        .map(device_of)
        .collect();
    let mut nameless = 0;
    for (key, accessed) in accessed {
        let found = index.of(key, &accessed.pages);
        if found.is_empty() && !virtual_devices.contains(&key.0) {
            nameless += 1;
        }
        let need_ns = accessed.need_ns.saturating_sub(start_ns).max(1);
        let pages = accessed.pages.since(start_ns);
        for at in found {
            let Some(size_bytes) = index.size_bytes(at) else {
                continue;
            };
            let seen = &mut index.seen[at];
            seen.uses = seen.uses.union(accessed.uses);
            // The event of an access has a time of its own, unlike that of an open.
            seen.need_ns = need_ns;
            seen.pages
                .join(&pages.clone().clipped(size_bytes.div_ceil(PAGE_BYTES)));
        }
    }
    // Names that were only inherited and then not used.
    let mut seen = index.seen;
    seen.retain(|one| one.uses != Uses(0));
    Joined { seen, nameless }
}

struct Index<'a> {
    mounts: &'a Mounts,
    tree: &'a dyn FileTree,
    seen: Vec<Seen>,
    /// By superblock and number. On btrfs each subvolume counts inodes for itself, so there may be
    /// several.
    by_key: HashMap<InodeKey, Vec<usize>>,
    /// Names on an overlay whose layers no path leads to: by number alone.
    hidden: HashMap<u64, Vec<usize>>,
}

impl Index<'_> {
    /// Size of one of the files now; `None` when its path leads nowhere.
    fn size_bytes(&self, at: usize) -> Option<u64> {
        let status = self.tree.status(&self.seen[at].path).ok()?;
        Some(status.size_bytes)
    }

    fn add(&mut self, seen: Seen) {
        let index = self.mounts.mount_of(&seen.path);
        let overlay = index.is_some_and(|at| self.mounts.points()[at].fs_type == b"overlay");
        if overlay {
            match in_layer(&seen.path, self.mounts, self.tree) {
                // Pages belong to the file in the layer, and so do events.
                Some(real) => self.insert(real),
                None => self
                    .hidden
                    .entry(seen.inode)
                    .or_default()
                    .push(self.seen.len()),
            }
            self.seen.push(seen);
        } else {
            self.insert(seen);
        }
    }

    fn insert(&mut self, seen: Seen) {
        let Some((device, _)) = place(&seen.path, self.mounts) else {
            return;
        };
        let key = (device, seen.inode);
        self.by_key.entry(key).or_default().push(self.seen.len());
        self.seen.push(seen);
    }

    /// Where the pages of an inode belong. Of several names that might be meant, those are left out
    /// whose file is too short; when more than one remains, the trace can't tell, and all get them.
    fn of(&self, key: InodeKey, pages: &Pages) -> Vec<usize> {
        let candidates = self
            .by_key
            .get(&key)
            .or_else(|| self.hidden.get(&key.1))
            .map_or(&[][..], Vec::as_slice);
        if candidates.len() < 2 {
            return candidates.to_vec();
        }
        let first_page = pages.last_chunk_start();
        let fits = |at: &&usize| {
            let size_bytes = self.size_bytes(**at);
            size_bytes.is_some_and(|size_bytes| size_bytes > first_page * PAGE_BYTES)
        };
        candidates.iter().filter(fits).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_tree::{FileStatus, LookupError};

    /// Files of 9,000 bytes at any path.
    struct Files;

    impl FileTree for Files {
        fn status(&self, _: &[u8]) -> Result<FileStatus, LookupError> {
            Ok(FileStatus {
                mode: 0o100_644,
                size_bytes: 9000,
                ..FileStatus::default()
            })
        }

        fn link_target(&self, _: &[u8]) -> Option<Vec<u8>> {
            None
        }

        fn generation(&self, _: &[u8]) -> Option<u32> {
            None
        }

        fn entries(&self, _: &[u8], _: usize) -> Vec<(u64, Vec<u8>)> {
            Vec::new()
        }

        fn interpreter(&self, _: &[u8]) -> Option<Vec<u8>> {
            None
        }

        fn now_s(&self) -> i64 {
            0
        }
    }

    const INODE: u64 = 77;

    fn name(path: &[u8], uses: Uses) -> Name {
        Name {
            path: path.to_vec(),
            inode: INODE,
            generation: 3,
            mode: 0o100_644,
            mtime_ns: 0,
            uses,
            need_ns: 5_000,
        }
    }

    fn accessed(pages: u64) -> Accessed {
        let mut set = Pages::default();
        set.set(0, pages, 1_500);
        Accessed::new(Uses::READ, 1_500, set)
    }

    #[test]
    fn pages_go_to_the_inode_of_the_right_file_system_only() {
        // As on btrfs: stat tells another device than mountinfo.
        let mounts = Mounts::parse(b"1 0 0:40 /@ /dir rw - btrfs /dev/sdb rw\n");
        let names = || [name(b"/dir/file", Uses::OPENED)].into_iter();
        let here = HashMap::from([((40, INODE), accessed(64))]);
        let joined = join(names(), here, 1_000, &mounts, &Files);
        assert_eq!(joined.nameless, 0);
        assert_eq!(joined.seen.len(), 1);
        assert_eq!(joined.seen[0].pages.count(), 3, "clipped to the file");
        assert_eq!(joined.seen[0].need_ns, 500);
        let elsewhere = HashMap::from([((41, INODE), accessed(1))]);
        let joined = join(names(), elsewhere, 1_000, &mounts, &Files);
        assert_eq!(joined.nameless, 1);
        assert!(joined.seen[0].pages.is_empty());
        assert_eq!(joined.seen[0].need_ns, 4_000);
    }

    #[test]
    fn pages_of_an_overlay_go_to_the_file_in_its_layer() {
        let mounts = Mounts::parse(
            b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
              2 1 0:50 / /over rw - overlay overlay rw,lowerdir=/low,upperdir=/up,workdir=/w\n",
        );
        let names = [name(b"/over/file", Uses::OPENED)].into_iter();
        // Its number in the layer.
        let accessed = HashMap::from([((8 << 20 | 1, 0), accessed(2))]);
        let joined = join(names, accessed, 1_000, &mounts, &Files);
        let seen = joined.seen.iter();
        let seen: Vec<_> = seen
            .map(|one| (one.path.as_slice(), one.pages.count()))
            .collect();
        assert_eq!(seen, [(&b"/up/file"[..], 2), (b"/over/file", 0)]);
    }

    #[test]
    fn names_that_were_inherited_and_not_used_are_left_out() {
        let mounts = Mounts::parse(b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n");
        let names = [name(b"/file", Uses(0))].into_iter();
        let joined = join(names, HashMap::new(), 0, &mounts, &Files);
        assert!(joined.seen.is_empty());
    }
}
