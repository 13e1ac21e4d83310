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
use foreread_recorder::{
    CHUNK_PAGES, Chunk, Counts, InodeEntry, NodeRecord, PathRecord, Recording,
};
use foreread_sys::mounts::{MountPoint, Mounts};

use super::names::{Name, S_IFDIR};

/// Pages of one file, with a time of first need for each chunk of 64.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pages {
    /// Most files have no further chunk, and then nothing is allocated.
    first: Chunk,
    rest: BTreeMap<u64, Chunk>,
}

impl Pages {
    /// Notes pages needed at `time_ns`; returns how many chunks are new.
    pub(crate) fn set(&mut self, start: u64, end: u64, time_ns: u64) -> u64 {
        let mut fresh = 0;
        let mut at = start;
        while at < end {
            let (index, from) = (at / CHUNK_PAGES, at % CHUNK_PAGES);
            let to = (end - index * CHUNK_PAGES).min(CHUNK_PAGES);
            let bits = (u64::MAX >> (CHUNK_PAGES - (to - from))) << from;
            let chunk = if index == 0 {
                &mut self.first
            } else {
                self.rest.entry(index).or_insert_with(|| {
                    fresh += 1;
                    Chunk::default()
                })
            };
            chunk.need_ns = if chunk.used == 0 {
                time_ns
            } else {
                chunk.need_ns.min(time_ns)
            };
            chunk.used |= bits;
            at = (index + 1) * CHUNK_PAGES;
        }
        fresh
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.used == 0 && self.rest.is_empty()
    }

    /// How many.
    #[cfg(test)]
    pub(crate) fn count(&self) -> u64 {
        self.chunks()
            .map(|(_, chunk)| u64::from(chunk.used.count_ones()))
            .sum()
    }

    /// First page of the last chunk that has any.
    pub(crate) fn last_chunk_start(&self) -> u64 {
        self.rest
            .last_key_value()
            .map_or(0, |(index, _)| index * CHUNK_PAGES)
    }

    fn chunks(&self) -> impl Iterator<Item = (u64, &Chunk)> {
        let first = (self.first.used != 0).then_some((0, &self.first));
        first
            .into_iter()
            .chain(self.rest.iter().map(|(index, chunk)| (*index, chunk)))
    }

    fn chunks_mut(&mut self) -> impl Iterator<Item = &mut Chunk> {
        std::iter::once(&mut self.first).chain(self.rest.values_mut())
    }

    /// All of them needed at one time.
    pub(crate) fn at(mut self, need_ns: u64) -> Self {
        self.chunks_mut().for_each(|chunk| chunk.need_ns = need_ns);
        self
    }

    /// Times from `start_ns` on; 0 stands for never.
    pub(crate) fn since(mut self, start_ns: u64) -> Self {
        self.chunks_mut()
            .for_each(|chunk| chunk.need_ns = chunk.need_ns.saturating_sub(start_ns).max(1));
        self
    }

    /// Without what is beyond the end of the file: a read asks for more than there is.
    pub(crate) fn clipped(mut self, end: u64) -> Self {
        let last = end / CHUNK_PAGES;
        let mask = (1u64 << (end % CHUNK_PAGES)) - 1;
        self.rest.retain(|index, chunk| {
            if *index == last {
                chunk.used &= mask;
            }
            *index <= last && chunk.used != 0
        });
        if last == 0 {
            self.first.used &= mask;
        }
        self
    }

    /// Both together; the earlier need counts.
    pub(crate) fn join(&mut self, other: &Self) {
        for (index, chunk) in other.chunks() {
            let own = if index == 0 {
                &mut self.first
            } else {
                self.rest.entry(index).or_default()
            };
            own.need_ns = if own.used == 0 {
                chunk.need_ns
            } else {
                own.need_ns.min(chunk.need_ns)
            };
            own.used |= chunk.used;
        }
    }
}

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
    fn pages_are_set_across_chunks_and_cut_at_the_end() {
        let mut pages = Pages::default();
        assert_eq!(pages.set(60, 200, 9), 3);
        assert_eq!(pages.set(0, 1, 12), 0);
        assert_eq!(pages.set(130, 140, 5), 0);
        assert_eq!(pages.count(), 141);
        assert_eq!(pages.first.need_ns, 9);
        assert_eq!(pages.rest[&2].need_ns, 5);
        let mut cut = pages.clone().clipped(128);
        assert_eq!(cut.count(), 69);
        assert_eq!(pages.clone().clipped(62).count(), 3);
        assert_eq!(pages.clone().clipped(1000).count(), 141);
        cut.join(&pages);
        assert_eq!(cut.count(), 141);
        assert!(pages.clipped(0).is_empty());
    }

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
