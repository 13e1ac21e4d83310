// SPDX-License-Identifier: MIT OR Apache-2.0
//! From inodes and names as the kernel saw them to a profile of absolute paths.
//!
//! Each inode came with its name in its parent, up to the root of its file system, and mountinfo
//! says where that is mounted. Each path is then looked at once in the tree of files, which finds
//! everything cached since the program was just there. A directory is searched for an inode only if
//! the kernel had dropped the inode's name.

mod dropped;

use std::collections::HashMap;

use foreread_core::Device;
use foreread_core::mounts::Mounts;
use foreread_profile::{
    Identity, Mount, NodeId, NodeKind, PageRange, Profile, ProfileBuilder, Program, Source, Uses,
};

use self::dropped::{FileNumber, has_no_name};
use crate::file_tree::{FileStatus, FileTree, LookupError};
use crate::known::Known;
use crate::recording::{
    InodeEntry, NodeRecord, PathRecord, Recording, path_in_file_system, path_of_group, runs,
};

/// Numbers of inodes that couldn't be turned into paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unresolved {
    /// Inodes without a name, or on a file system that this process doesn't see.
    pub unreachable: u64,
    /// Inodes whose path names something else by now, or nothing.
    pub gone: u64,
}

/// Symlinks followed in one path; as many as the kernel follows.
const SYMLINKS_MAX: u32 = 40;

/// Makes a profile of a recording; with `known`, the profile that the program has already, of what
/// is new against it. Its files are recognised by inode, generation and names, without looking at
/// their paths again.
#[must_use]
pub fn resolve(
    recording: &Recording,
    mounts: &Mounts,
    program: Program,
    source: Source,
    known: Option<&Profile>,
    tree: &dyn FileTree,
) -> (Profile, Unresolved) {
    let mut resolver = Resolver {
        recording,
        mounts,
        tree,
        known: known.map(|known| Known::new(known, mounts)),
        builder: ProfileBuilder::new(program, source),
        paths: HashMap::new(),
        dropped: HashMap::new(),
        mount_ids: HashMap::new(),
        units: HashMap::new(),
        directories: HashMap::new(),
        symlink_depth: 0,
        unresolved: Unresolved::default(),
    };
    // Inodes last: they know their generation, names don't.
    for record in &recording.paths {
        resolver.name(record);
    }
    if known.is_none() {
        resolver.linkers();
    }
    resolver.find_dropped_names();
    resolver.inodes();
    (resolver.builder.finish(), resolver.unresolved)
}

struct Resolver<'a> {
    recording: &'a Recording,
    mounts: &'a Mounts,
    tree: &'a dyn FileTree,
    known: Option<Known<'a>>,
    builder: ProfileBuilder,
    /// Path of an inode of the recording, once found; `None` when it can't be.
    paths: HashMap<u32, Option<Vec<u8>>>,
    /// Paths of files whose names the kernel has dropped.
    dropped: HashMap<FileNumber, Vec<u8>>,
    /// From a line of mountinfo to the profile's mounts.
    mount_ids: HashMap<usize, u16>,
    /// From a control group of the recording to the profile's units.
    units: HashMap<u32, u16>,
    /// Directories by the path they were named with, symlinks resolved.
    directories: HashMap<Vec<u8>, Option<Vec<u8>>>,
    /// Symlinks being followed, one inside the other.
    symlink_depth: u32,
    unresolved: Unresolved,
}

/// When something was needed, and by which unit of the profile.
#[derive(Clone, Copy, Debug)]
struct Need {
    ns: u64,
    unit: u16,
}

fn identity_of(status: &FileStatus, generation: u32) -> Identity {
    Identity {
        inode: status.inode,
        generation,
        size_bytes: status.size_bytes,
        mtime_ns: status.mtime_ns,
    }
}

fn uses_of(bits: u32) -> Uses {
    Uses(u8::try_from(bits & 0xff).unwrap_or(0))
}

/// Whether sorted ranges hold all of these pages.
fn holds(ranges: &[PageRange], start_page: u64, pages: u64) -> bool {
    let end = start_page + pages;
    let mut at = start_page;
    for range in &ranges[ranges.partition_point(|range| range.end_page() <= start_page)..] {
        if range.start_page > at || at >= end {
            break;
        }
        at = range.end_page();
    }
    at >= end
}

/// `base/name`, where `base` may be the root.
fn join(base: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(base.len() + 1 + name.len());
    path.extend_from_slice(if base == b"/" { b"" } else { base });
    path.push(b'/');
    path.extend_from_slice(name);
    path
}

fn parent(path: &[u8]) -> Vec<u8> {
    match path.iter().rposition(|&b| b == b'/') {
        None | Some(0) => b"/".to_vec(),
        Some(at) => path[..at].to_vec(),
    }
}

impl Resolver<'_> {
    fn status(&self, path: &[u8]) -> Option<FileStatus> {
        self.tree.status(path).ok()
    }

    /// Whether an inode was deleted since it was seen, and its number given to a new one. Asked
    /// only of files that were changed not long ago: it costs another call.
    fn is_reborn(&self, path: &[u8], status: &FileStatus, inode: &InodeEntry) -> bool {
        const LONG_S: i64 = 24 * 60 * 60;
        let generation = || self.tree.generation(path);
        status.ctime_s > self.tree.now_s() - LONG_S
            && inode.generation != 0
            && generation().is_some_and(|generation| generation != inode.generation)
    }

    fn need(&mut self, ns: u64, group: u32) -> Need {
        let Self {
            units,
            builder,
            recording,
            ..
        } = self;
        let unit = units.entry(group).or_insert_with(|| {
            let path = path_of_group(group, &recording.groups);
            path.map_or(0, |path| builder.unit(&path))
        });
        Need { ns, unit: *unit }
    }

    fn find_dropped_names(&mut self) {
        let recording = self.recording;
        let wanted = dropped::wanted(recording);
        if wanted.is_empty() {
            return;
        }
        // A directory elsewhere isn't looked at: its file system may not answer.
        let is_beside = |device: u32| wanted.keys().any(|(wanted, _)| *wanted == device);
        let nodes = recording.nodes.values();
        let directories = nodes
            .filter(|node| node.is_directory() && is_beside(node.device))
            .filter_map(|node| Some((node.device, self.path_of(node.id)?)))
            .collect();
        self.dropped = dropped::find(wanted, directories, self.tree);
    }

    fn inodes(&mut self) {
        let recording = self.recording;
        let mut chunk = 0;
        for inode in &recording.inodes {
            let from = chunk;
            while recording
                .chunks
                .get(chunk)
                .is_some_and(|(id, _, _)| *id == inode.id)
            {
                chunk += 1;
            }
            self.inode(inode, from..chunk);
        }
    }

    fn inode(&mut self, inode: &InodeEntry, chunks: std::ops::Range<usize>) {
        if inode.uses == 0 {
            // Only the replay touched it.
            return;
        }
        let recording = self.recording;
        let mut pages: Vec<(u64, u64, Need)> = Vec::new();
        let first = (0, inode.first);
        let rest = recording.chunks[chunks]
            .iter()
            .map(|(_, number, chunk)| (*number, *chunk));
        for (number, chunk) in std::iter::once(first).chain(rest) {
            let runs = runs(u64::from(number), chunk.used);
            let need = self.need(chunk.need_ns, chunk.group);
            pages.extend(runs.map(|(start, length)| (start, length, need)));
        }
        let known = self.known.as_ref();
        let known = known.and_then(|known| Some((known.profile, known.file(recording, inode)?)));
        let noted = match known {
            Some((profile, id)) => {
                pages.retain(|(start, length, _)| !holds(profile.ranges(id), *start, *length));
                if pages.is_empty() {
                    return;
                }
                self.note_known(profile, id, inode)
            }
            None => self.note_new(inode),
        };
        let Some((id, NodeKind::File)) = noted else {
            return;
        };
        for (start, length, Need { ns, unit }) in pages {
            self.builder.pages_by(id, start, length, ns, unit);
        }
    }

    fn note_known(
        &mut self,
        known: &Profile,
        old: NodeId,
        inode: &InodeEntry,
    ) -> Option<(NodeId, NodeKind)> {
        let node = known.node(old)?;
        let mount = known
            .mounts
            .get(usize::from(node.mount))
            .cloned()
            .unwrap_or_default();
        let id = self.builder.node(&known.path(old)).ok()?;
        self.builder.set_kind(id, node.kind);
        let mount = self.builder.mount(mount);
        self.builder.set_mount(id, mount);
        let size_bytes = inode.size_bytes;
        self.builder.set_identity(
            id,
            Identity {
                size_bytes,
                ..node.identity
            },
        );
        let Need { ns, unit } = self.need(inode.need_ns, inode.group);
        self.builder.used_by(id, uses_of(inode.uses), ns, unit);
        Some((id, node.kind))
    }

    fn note_new(&mut self, inode: &InodeEntry) -> Option<(NodeId, NodeKind)> {
        let path = self.path_of(inode.id)?;
        let is_same = |status: &FileStatus| {
            status.inode == inode.number && !self.is_reborn(&path, status, inode)
        };
        let Some(status) = self.status(&path).filter(is_same) else {
            self.unresolved.gone += 1;
            return None;
        };
        let kind = status.kind()?;
        let uses = uses_of(inode.uses);
        let need = self.need(inode.need_ns, inode.group);
        let id = self.note(&path, kind, &status, inode.generation, uses, need)?;
        Some((id, kind))
    }

    /// Adds what a path names; `None` when it is on a file system without a disk.
    fn note(
        &mut self,
        path: &[u8],
        kind: NodeKind,
        status: &FileStatus,
        generation: u32,
        uses: Uses,
        need: Need,
    ) -> Option<NodeId> {
        let mount = self.mount_id(path)?;
        let id = self.builder.node(path).ok()?;
        self.builder.set_kind(id, kind);
        if kind != NodeKind::Absent {
            // A name doesn't tell the generation; the inode's handle does.
            let generation = match generation {
                0 => self.tree.generation(path).unwrap_or(0),
                known => known,
            };
            self.builder
                .set_identity(id, identity_of(status, generation));
        }
        self.builder.set_mount(id, mount);
        let uses = uses.union(Uses::LOOKED_UP);
        self.builder.used_by(id, uses, need.ns, need.unit);
        Some(id)
    }

    fn mount_id(&mut self, path: &[u8]) -> Option<u16> {
        let index = self.mounts.mount_of(path)?;
        let point = &self.mounts.points()[index];
        if point.is_virtual() {
            return None;
        }
        Some(*self.mount_ids.entry(index).or_insert_with(|| {
            self.builder.mount(Mount {
                fs_type: point.fs_type.clone(),
                mount_point: point.mount_point.clone(),
                device_major: point.major,
                device_minor: point.minor,
            })
        }))
    }

    /// The absolute path of an inode of the recording.
    fn path_of(&mut self, id: u32) -> Option<Vec<u8>> {
        if let Some(known) = self.paths.get(&id) {
            return known.clone();
        }
        let found = self.find_path(id);
        // Directories above a bind mount can't be named and needn't.
        let node = self.recording.nodes.get(&id);
        let is_directory = node.is_some_and(NodeRecord::is_directory);
        if found.is_none() && !is_directory {
            let gone = node.is_some_and(|node| !self.places(node).is_empty());
            let count = if gone {
                &mut self.unresolved.gone
            } else {
                &mut self.unresolved.unreachable
            };
            *count += 1;
        }
        self.paths.insert(id, found.clone());
        found
    }

    fn find_path(&mut self, id: u32) -> Option<Vec<u8>> {
        let node = self.recording.nodes.get(&id)?;
        if has_no_name(node) {
            return self.dropped.get(&(node.device, node.number)).cloned();
        }
        let has_number = |path: &Vec<u8>| {
            let status = self.status(path);
            status.is_some_and(|status| status.inode == node.number)
        };
        // Below a directory that is known already: no mount needs to be searched, unless one
        // covers this name, which the inode number would tell.
        if node.parent != 0
            && !node.name.is_empty()
            && let Some(Some(directory)) = self.paths.get(&node.parent)
        {
            let path = join(directory, &node.name);
            if has_number(&path) {
                return Some(path);
            }
        }
        self.places(node)
            .into_iter()
            .find(has_number)
            .or_else(|| self.through_overlay(node, &self.inside(node)?))
    }

    /// Where mounts show the names of a node, the best first.
    fn places(&self, node: &NodeRecord) -> Vec<Vec<u8>> {
        let Some(inside) = self.inside(node) else {
            return Vec::new();
        };
        let device = Device::from_kernel(node.device);
        let reached = self.mounts.reach(device.major, device.minor, &inside);
        reached.into_iter().map(|(_, path)| path).collect()
    }

    /// A layer of an overlay that isn't visible by itself: by the name in the overlay. Which of the
    /// leading directories belong to the layer's place is found by trying; the inode number
    /// decides.
    fn through_overlay(&self, node: &NodeRecord, inside: &[u8]) -> Option<Vec<u8>> {
        for point in self
            .mounts
            .points()
            .iter()
            .rev()
            .filter(|p| p.fs_type == b"overlay")
        {
            let slashes = inside.iter().enumerate().filter(|(_, b)| **b == b'/');
            for (at, _) in slashes {
                let path = join(&point.mount_point, &inside[at + 1..]);
                let same = |status: FileStatus| {
                    status.inode == node.number && status.mode == u32::from(node.mode)
                };
                if self.status(&path).is_some_and(same) {
                    return Some(path);
                }
            }
        }
        None
    }

    fn inside(&self, node: &NodeRecord) -> Option<Vec<u8>> {
        path_in_file_system(node, &self.recording.nodes)
    }

    /// Notes everything that was looked up for a name given to a system call.
    fn name(&mut self, record: &PathRecord) {
        if let Some(base) = self.path_of(record.directory) {
            let uses = uses_of(record.uses);
            let need = self.need(record.need_ns, record.group);
            self.named(base, &record.path, uses, need, !record.no_follow);
        }
    }

    fn named(&mut self, base: Vec<u8>, path: &[u8], uses: Uses, need: Need, follow: bool) {
        let (directory, last) = match path.iter().rposition(|&b| b == b'/') {
            Some(at) => (&path[..=at], &path[at + 1..]),
            None => (&b""[..], path),
        };
        let full = if directory.is_empty() {
            base
        } else {
            join(&base, directory)
        };
        let Some(directory) = self.directory(&full, need) else {
            return;
        };
        if !matches!(last, b"" | b"." | b"..") {
            self.last(&directory, last, uses, need, follow);
        }
    }

    /// Notes the dynamic linkers of the programs that were run, by the names that these give.
    fn linkers(&mut self) {
        let recording = self.recording;
        let executed = |inode: &&InodeEntry| uses_of(inode.uses).contains(Uses::EXECUTED);
        for inode in recording.inodes.iter().filter(executed) {
            let Some(path) = self.path_of(inode.id) else {
                continue;
            };
            if let Some(linker) = self.tree.interpreter(&path) {
                let uses = Uses::LOOKED_UP.union(Uses::OPENED);
                let need = self.need(inode.need_ns, inode.group);
                self.named(b"/".to_vec(), &linker, uses, need, true);
            }
        }
    }

    /// The real path of a directory named by `path`; notes what was looked up on the way.
    fn directory(&mut self, path: &[u8], need: Need) -> Option<Vec<u8>> {
        if let Some(known) = self.directories.get(path) {
            return known.clone();
        }
        let mut at = b"/".to_vec();
        let mut found = Some(());
        for name in path
            .split(|&b| b == b'/')
            .filter(|n| !n.is_empty() && *n != b".")
        {
            if name == b".." {
                at = parent(&at);
                continue;
            }
            match self.last(&at, name, Uses::LOOKED_UP, need, true) {
                Some(next) => at = next,
                None => {
                    found = None;
                    break;
                }
            }
        }
        let result = found.map(|()| at);
        self.directories.insert(path.to_vec(), result.clone());
        result
    }

    /// Notes `name` in a real directory and, with `follow`, what it leads to; returns the real path
    /// of that.
    fn last(
        &mut self,
        directory: &[u8],
        name: &[u8],
        uses: Uses,
        need: Need,
        follow: bool,
    ) -> Option<Vec<u8>> {
        let path = join(directory, name);
        let status = match self.tree.status(&path) {
            Ok(status) => status,
            Err(LookupError::Absent) => {
                self.note_absent(&path, need);
                return None;
            }
            // It would be in a file, say: then nothing was looked for.
            Err(LookupError::Refused) => return None,
        };
        let kind = status.kind()?;
        self.note(&path, kind, &status, 0, uses, need);
        self.note_in_layers(&path, need);
        if kind != NodeKind::Symlink {
            return Some(path);
        }
        if !follow || self.symlink_depth >= SYMLINKS_MAX || self.is_of_proc(&path) {
            return None;
        }
        self.symlink_depth += 1;
        let end = self.follow(directory, &path, uses, need);
        self.symlink_depth -= 1;
        end
    }

    fn note_absent(&mut self, path: &[u8], need: Need) {
        if let Some(mount) = self.mount_id(path)
            && let Ok(id) = self.builder.node(path)
        {
            self.builder.set_kind(id, NodeKind::Absent);
            self.builder.set_mount(id, mount);
            self.builder
                .used_by(id, Uses::LOOKED_UP, need.ns, need.unit);
        }
    }

    /// A link there leads to what this process has open, not the program.
    fn is_of_proc(&self, path: &[u8]) -> bool {
        let index = self.mounts.mount_of(path);
        index.is_some_and(|index| self.mounts.points()[index].fs_type == b"proc")
    }

    /// Where the symlink `path` in `directory` leads.
    fn follow(&mut self, directory: &[u8], path: &[u8], uses: Uses, need: Need) -> Option<Vec<u8>> {
        let target = self.tree.link_target(path)?;
        let full = if target.starts_with(b"/") {
            target
        } else {
            join(directory, &target)
        };
        let place = self.directory(&parent(&full), need)?;
        let at = full.iter().rposition(|&b| b == b'/').map_or(0, |at| at + 1);
        match &full[at..] {
            b"" | b"." => Some(place),
            b".." => Some(parent(&place)),
            name => self.last(&place, name, uses, need, true),
        }
    }

    /// A name in an overlay is looked up in its layers, topmost first, until something that isn't a
    /// directory is found: that is where the disk is read.
    fn note_in_layers(&mut self, path: &[u8], need: Need) {
        let Some(index) = self.mounts.mount_of(path) else {
            return;
        };
        let point = &self.mounts.points()[index];
        let rest = path
            .strip_prefix(point.mount_point.as_slice())
            .unwrap_or_default();
        for layer in point.overlay_layers() {
            let mut real = layer;
            real.extend_from_slice(rest);
            let Some(status) = self.status(&real) else {
                continue;
            };
            let Some(kind) = status.kind() else {
                return;
            };
            self.note(&real, kind, &status, 0, Uses::STATTED, need);
            if kind != NodeKind::Directory {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
