// SPDX-License-Identifier: MIT OR Apache-2.0
//! From paths and pages to a [`Recording`] as the BPF recorder makes it, for the same resolver.
//!
//! That recorder gives inodes with their names up to the root of their file system. Here the path
//! is known and the place in the file system follows from mountinfo, so all of the resolver's
//! checks (mounts, inode numbers, layers of overlays) hold for the fallbacks as well.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use foreread_profile::Uses;
use foreread_recorder::{Counts, InodeEntry, NodeRecord, Pages, PathRecord, Recording};
use foreread_sys::mounts::{MountPoint, Mounts};

use super::names::{Name, S_IFDIR};

/// An inode that the program used, with its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) path: Vec<u8>,
    pub(crate) inode: u64,
    pub(crate) generation: u32,
    pub(crate) mode: u16,
    pub(crate) uses: Uses,
    /// From the start of the program.
    pub(crate) need_ns: u64,
    pub(crate) pages: Pages,
}

impl Seen {
    pub(crate) fn of(name: Name, need_ns: u64) -> Self {
        Self {
            path: name.path,
            inode: name.inode,
            generation: name.generation,
            mode: name.mode,
            uses: name.uses,
            need_ns,
            pages: Pages::default(),
        }
    }
}

/// Where a path on an overlay really is: in its topmost layer that has it, when that can be
/// reached. `None` for directories, which are merged from all layers.
pub(crate) fn in_layer(path: &[u8], mounts: &Mounts) -> Option<Seen> {
    let point = &mounts.points()[mounts.mount_of(path)?];
    let rest = path.strip_prefix(point.mount_point.as_slice())?;
    for mut real in point.overlay_layers() {
        if point.mount_point == b"/" {
            real.push(b'/');
        }
        real.extend_from_slice(rest);
        let Ok(metadata) = fs::symlink_metadata(Path::new(OsStr::from_bytes(&real))) else {
            continue;
        };
        return metadata.is_file().then(|| Seen {
            path: real,
            inode: metadata.ino(),
            generation: 0,
            mode: (metadata.mode() & 0xffff) as u16,
            uses: Uses(0),
            need_ns: 0,
            pages: Pages::default(),
        });
    }
    None
}

/// The superblock's device of a path as the kernel's events tell it, and its place below the root
/// of the file system.
pub(crate) fn place(path: &[u8], mounts: &Mounts) -> Option<(u32, Vec<u8>)> {
    let point = &mounts.points()[mounts.mount_of(path)?];
    let top: &[u8] = if point.mount_point == b"/" {
        b""
    } else {
        &point.mount_point
    };
    let rest = path.strip_prefix(top)?;
    let mut inside = if point.root == b"/" {
        Vec::new()
    } else {
        point.root.clone()
    };
    if rest != b"/" {
        inside.extend_from_slice(rest);
    }
    Some((device_of(point), inside))
}

/// As in the kernel: 12 bits major, 20 bits minor.
pub(crate) fn device_of(point: &MountPoint) -> u32 {
    point.major << 20 | point.minor & 0xf_ffff
}

/// Makes a recording. `nameless` inodes were used but have no path.
pub(crate) fn recording(
    seen: Vec<Seen>,
    nameless: u64,
    counts: Counts,
    mounts: &Mounts,
) -> Recording {
    let mut assembler = Assembler {
        mounts,
        recording: Recording {
            counts,
            ..Recording::default()
        },
        ids: HashMap::new(),
        inodes: BTreeMap::new(),
    };
    let directories = directories(&seen, mounts);
    for one in seen {
        assembler.add(one);
    }
    assembler.look_up(directories);
    assembler.finish(nameless)
}

/// Names to look up, with the earliest need: the directory of each path; paths on overlays whole,
/// since their layers are looked at too.
fn directories(seen: &[Seen], mounts: &Mounts) -> BTreeMap<Vec<u8>, u64> {
    let mut found = BTreeMap::new();
    for one in seen {
        let on_overlay = mounts
            .mount_of(&one.path)
            .is_some_and(|index| mounts.points()[index].fs_type == b"overlay");
        let end = if on_overlay {
            one.path.len()
        } else {
            one.path
                .iter()
                .rposition(|&b| b == b'/')
                .map_or(0, |at| at + 1)
        };
        let need_ns = found.entry(one.path[..end].to_vec()).or_insert(u64::MAX);
        *need_ns = one.need_ns.min(*need_ns);
    }
    found
}

struct Assembler<'a> {
    mounts: &'a Mounts,
    recording: Recording,
    /// Numbers in the recording by device and place.
    ids: HashMap<(u32, Vec<u8>), u32>,
    inodes: BTreeMap<u32, (InodeEntry, Pages)>,
}

impl Assembler<'_> {
    fn next_id(&self) -> u32 {
        u32::try_from(self.recording.nodes.len())
            .unwrap_or(u32::MAX)
            .saturating_add(1)
    }

    /// The number of a directory on the way to what was seen.
    fn node(&mut self, device: u32, inside: &[u8]) -> u32 {
        if let Some(id) = self.ids.get(&(device, inside.to_vec())) {
            return *id;
        }
        let (parent, name) = match inside.iter().rposition(|&b| b == b'/') {
            Some(at) => (self.node(device, &inside[..at]), &inside[at + 1..]),
            None => (0, &b""[..]),
        };
        let id = self.next_id();
        self.ids.insert((device, inside.to_vec()), id);
        let node = NodeRecord {
            id,
            parent,
            device,
            mode: S_IFDIR as u16,
            name: name.to_vec(),
            ..NodeRecord::default()
        };
        self.recording.nodes.insert(id, node);
        id
    }

    fn add(&mut self, seen: Seen) {
        let Some((device, inside)) = place(&seen.path, self.mounts) else {
            return;
        };
        let id = self.node(device, &inside);
        if let Some(node) = self.recording.nodes.get_mut(&id) {
            node.number = seen.inode;
            node.generation = seen.generation;
            node.mode = seen.mode;
            node.need_ns = seen.need_ns;
        }
        // Two mounts may show one inode.
        let (entry, pages) = self.inodes.entry(id).or_insert_with(|| {
            let entry = InodeEntry {
                number: seen.inode,
                generation: seen.generation,
                device,
                need_ns: seen.need_ns,
                id,
                mode: seen.mode,
                ..InodeEntry::default()
            };
            (entry, Pages::default())
        });
        entry.uses |= u32::from(seen.uses.0);
        entry.need_ns = entry.need_ns.min(seen.need_ns);
        pages.join(&seen.pages);
    }

    fn look_up(&mut self, paths: BTreeMap<Vec<u8>, u64>) {
        let Some((device, inside)) = place(b"/", self.mounts) else {
            return;
        };
        let directory = self.node(device, &inside);
        if let Ok(metadata) = fs::symlink_metadata("/")
            && let Some(node) = self.recording.nodes.get_mut(&directory)
        {
            node.number = metadata.ino();
        }
        for (path, need_ns) in paths {
            self.recording.paths.push(PathRecord {
                directory,
                result: 0,
                uses: u32::from(Uses::LOOKED_UP.0),
                need_ns,
                path,
                no_follow: false,
            });
        }
    }

    fn finish(mut self, nameless: u64) -> Recording {
        for (id, (mut entry, pages)) in self.inodes {
            for (index, chunk) in pages.chunks() {
                match u32::try_from(index) {
                    Ok(0) => entry.first = *chunk,
                    Ok(index) => self.recording.chunks.push((id, index, *chunk)),
                    Err(_) => self.recording.counts.lost_chunks += 1,
                }
            }
            self.recording.inodes.push(entry);
        }
        // Used, but without a node: the resolver counts it as unreachable.
        for id in (0..u32::try_from(nameless).unwrap_or(u32::MAX)).map(|n| u32::MAX - n) {
            self.recording.inodes.push(InodeEntry {
                id,
                uses: u32::from(Uses::READ.0),
                ..InodeEntry::default()
            });
        }
        self.recording
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_below_the_root_of_its_file_system() {
        let mounts = Mounts::parse(
            b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
              2 1 0:40 /@home /home rw - btrfs /dev/sdb rw\n\
              3 1 8:300 / /big rw - xfs /dev/sdc rw\n",
        );
        assert_eq!(place(b"/", &mounts), Some((8 << 20 | 1, b"".to_vec())));
        assert_eq!(
            place(b"/etc/x", &mounts),
            Some((8 << 20 | 1, b"/etc/x".to_vec()))
        );
        assert_eq!(place(b"/home", &mounts), Some((40, b"/@home".to_vec())));
        assert_eq!(
            place(b"/big/x", &mounts),
            Some((8 << 20 | 300, b"/x".to_vec()))
        );
    }
}
