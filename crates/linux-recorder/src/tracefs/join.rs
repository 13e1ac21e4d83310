// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accesses by inode and names by path, brought together.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use foreread_profile::{PAGE_BYTES, Uses};
use foreread_sys::mounts::Mounts;

use crate::fanotify::Name;
use crate::fanotify::assemble::{Seen, device_of, in_layer, place};
use foreread_recorder::Pages;
use foreread_recorder::tracefs::{Accessed, InodeKey};

/// What was seen, with pages where they belong, and how many inodes have no name.
pub(super) struct Joined {
    pub(super) seen: Vec<Seen>,
    pub(super) nameless: u64,
}

pub(super) fn join(
    names: impl Iterator<Item = Name>,
    accessed: HashMap<InodeKey, Accessed>,
    start_ns: u64,
    mounts: &Mounts,
) -> Joined {
    let mut index = Index::default();
    for name in names {
        let need_ns = name.need_ns.saturating_sub(start_ns).max(1);
        index.add(Seen::of(name, need_ns), mounts);
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
            let Some(size_bytes) = size_of_path(&index.seen[at].path) else {
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
    // What was only inherited and then not used.
    let mut seen = index.seen;
    seen.retain(|one| one.uses != Uses(0));
    Joined { seen, nameless }
}

fn size_of_path(path: &[u8]) -> Option<u64> {
    let metadata = fs::symlink_metadata(Path::new(OsStr::from_bytes(path))).ok()?;
    Some(metadata.size())
}

#[derive(Default)]
struct Index {
    seen: Vec<Seen>,
    /// By superblock and number. On btrfs each subvolume counts inodes for itself, so there may be
    /// several.
    by_key: HashMap<InodeKey, Vec<usize>>,
    /// Names on an overlay whose layers no path leads to: by number alone.
    hidden: HashMap<u64, Vec<usize>>,
}

impl Index {
    fn add(&mut self, seen: Seen, mounts: &Mounts) {
        let overlay = mounts
            .mount_of(&seen.path)
            .is_some_and(|at| mounts.points()[at].fs_type == b"overlay");
        if overlay {
            match in_layer(&seen.path, mounts) {
                // Pages belong to the file in the layer, and so do events.
                Some(real) => self.insert(real, mounts),
                None => self
                    .hidden
                    .entry(seen.inode)
                    .or_default()
                    .push(self.seen.len()),
            }
            self.seen.push(seen);
        } else {
            self.insert(seen, mounts);
        }
    }

    fn insert(&mut self, seen: Seen, mounts: &Mounts) {
        let Some((device, _)) = place(&seen.path, mounts) else {
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
            size_of_path(&self.seen[**at].path).is_some_and(|size| size > first_page * PAGE_BYTES)
        };
        candidates.iter().filter(fits).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn name(path: &Path, uses: Uses) -> Name {
        let metadata = fs::metadata(path).expect("metadata");
        Name {
            path: path.as_os_str().as_bytes().to_vec(),
            inode: metadata.ino(),
            generation: 3,
            mode: (metadata.mode() & 0xffff) as u16,
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
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        fs::write(&path, [0; 9000]).expect("write");
        // As on btrfs: stat tells another device than mountinfo.
        let text = format!(
            "1 0 0:40 /@ {} rw - btrfs /dev/sdb rw\n",
            directory.path().display()
        );
        let mounts = Mounts::parse(text.as_bytes());
        let inode = fs::metadata(&path).expect("metadata").ino();
        let names = || [name(&path, Uses::OPENED)].into_iter();
        let here = HashMap::from([((40, inode), accessed(64))]);
        let joined = join(names(), here, 1_000, &mounts);
        assert_eq!(joined.nameless, 0);
        assert_eq!(joined.seen.len(), 1);
        assert_eq!(joined.seen[0].pages.count(), 3, "clipped to the file");
        assert_eq!(joined.seen[0].need_ns, 500);
        let elsewhere = HashMap::from([((41, inode), accessed(1))]);
        let joined = join(names(), elsewhere, 1_000, &mounts);
        assert_eq!(joined.nameless, 1);
        assert!(joined.seen[0].pages.is_empty());
        assert_eq!(joined.seen[0].need_ns, 4_000);
    }

    #[test]
    fn what_was_inherited_and_not_used_is_left_out() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mounts = Mounts::parse(b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n");
        let names = [name(file.path(), Uses(0))].into_iter();
        let joined = join(names, HashMap::new(), 0, &mounts);
        assert!(joined.seen.is_empty());
    }
}
