// SPDX-License-Identifier: MIT OR Apache-2.0
//! From paths and pages to a [`Recording`] as the BPF recorder makes it, for the same resolver.
//!
//! That recorder gives inodes with their names up to the root of their file system. Here the path
//! is known and the place in the file system follows from mountinfo, so all of the resolver's
//! checks (mounts, inode numbers, layers of overlays) hold for the fallbacks as well.

use std::collections::{BTreeMap, HashMap};

use foreread_core::mounts::Mounts;
use foreread_profile::Uses;

use crate::counts::Counts;
use crate::file_tree::FileTree;
use crate::pages::Pages;
use crate::recording::{InodeEntry, NodeRecord, PathRecord, Recording};
use crate::seen::{Seen, place};

/// Type of a directory, in the mode of an inode.
const DIRECTORY_MODE: u16 = 0o040_000;

/// Makes a recording of all that was seen. `nameless` inodes were used but have no path.
#[must_use]
pub fn assemble(
    seen: Vec<Seen>,
    nameless: u64,
    counts: Counts,
    mounts: &Mounts,
    tree: &dyn FileTree,
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
    assembler.look_up(directories, tree);
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

    /// The number of a directory on the way to an inode.
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
            mode: DIRECTORY_MODE,
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

    fn look_up(&mut self, paths: BTreeMap<Vec<u8>, u64>, tree: &dyn FileTree) {
        let Some((device, inside)) = place(b"/", self.mounts) else {
            return;
        };
        let directory = self.node(device, &inside);
        if let Ok(status) = tree.status(b"/")
            && let Some(node) = self.recording.nodes.get_mut(&directory)
        {
            node.number = status.inode;
        }
        for (path, need_ns) in paths {
            self.recording.paths.push(PathRecord {
                directory,
                result: 0,
                uses: u32::from(Uses::LOOKED_UP.0),
                need_ns,
                path,
                no_follow: false,
                group: 0,
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
