// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lies beside the directories that are asked for: all that ext4 has put into their groups.
//!
//! Whoever goes through a tree level by level learns the inode numbers of one level from the blocks
//! of the one above. Each level is then two sweeps of the disk, one for inodes and one for blocks,
//! and each sweep waits for the program, which reads as well. But ext4 keeps a directory in the
//! group of the one above it, as long as there is room. So the table of a group has the directories
//! of all levels, and tells where their blocks are: two sweeps for the whole tree.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foreread_profile::{NodeId, NodeKind, PAGE_BYTES, Profile};
use foreread_replay::ext4::{
    Extent, FileType, Geometry, Limits, Survey, WHOLE_FILE, Wanted, merge_extents,
};

use super::raw::{DIRECTORY_BYTES_MAX, Fetcher};
use crate::block_device::BlockDevice;
use crate::cache::cached_pages;

/// Tables that are read at once, and blocks of directories: what a disk delivers in 130 ms, or in
/// the time of 25 seeks.
const TABLES_BYTES_MAX: u64 = 16 << 20;
const DIRECTORIES_BYTES_MAX: u64 = 16 << 20;

/// What is known of a disk from one replay to the next.
#[derive(Clone, Debug, Default)]
pub struct Neighbours {
    known: Arc<Mutex<Known>>,
    only_missing: bool,
}

#[derive(Debug, Default)]
struct Known {
    /// Groups whose directories have been brought in, each by its first inode.
    groups: HashSet<u64>,
    has_head: Option<bool>,
}

impl Neighbours {
    /// Of a disk of which nothing is known. With `only_missing`, groups are left alone of which all
    /// directories that are asked for have their inodes in memory: beside many threads that read
    /// from the disk, a long read is served last.
    #[must_use]
    pub fn new(only_missing: bool) -> Self {
        Self {
            only_missing,
            ..Self::default()
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a group is new. Then it is no longer.
    fn add(&self, first_inode: u64) -> bool {
        self.known().groups.insert(first_inode)
    }

    /// Whether the disk has a head to move, where that is known.
    pub(super) fn has_head(&self) -> Option<bool> {
        self.known().has_head
    }

    pub(super) fn set_has_head(&self, has_head: Option<bool>) {
        self.known().has_head = has_head;
    }
}

/// Reads the tables of new groups of which a directory is asked for, and the blocks of the
/// directories in them.
pub(super) fn fetch(
    profile: &Profile,
    nodes: &[NodeId],
    geometry: &Geometry,
    device: &BlockDevice,
    fetcher: &mut Fetcher<'_>,
    neighbours: &Neighbours,
) -> io::Result<()> {
    let mut wanted = Vec::new();
    let mut left_bytes = TABLES_BYTES_MAX;
    let device_if_missing = neighbours.only_missing.then_some(device);
    for inodes in groups(profile, nodes, geometry, device_if_missing) {
        let count = inodes.end.saturating_sub(inodes.start);
        let bytes = count * u64::from(geometry.inode_bytes());
        if let Some(left) = left_bytes.checked_sub(bytes)
            && neighbours.add(inodes.start)
        {
            left_bytes = left;
            wanted.extend(inodes.map(|inode| Wanted {
                inode,
                pages: vec![WHOLE_FILE],
            }));
        }
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let mut survey = Survey::new(geometry, wanted, Limits::default());
    fetcher.fetch(&survey.next_extents())?;
    // Maps of large files that this step asks for are nobody's business.
    survey.step(&mut &*device);
    let mut blocks: Vec<Extent> = Vec::new();
    let mut left_bytes = DIRECTORIES_BYTES_MAX;
    for inode in survey.finish().into_iter().filter_map(|one| one.inode.ok()) {
        let is_small = inode.size_bytes <= DIRECTORY_BYTES_MAX.min(left_bytes);
        if inode.file_type == FileType::Directory && inode.links > 0 && is_small {
            left_bytes -= inode.size_bytes;
            blocks.extend(inode.metadata_extents(geometry));
        }
    }
    fetcher.fetch(&merge_extents(blocks, 0))
}

/// The inodes of the groups of these directories; of those with most of them first. With a device,
/// only directories count whose inodes aren't in its cache.
fn groups(
    profile: &Profile,
    nodes: &[NodeId],
    geometry: &Geometry,
    missing_on: Option<&BlockDevice>,
) -> Vec<Range<u64>> {
    let mut groups: BTreeMap<u64, (u64, Range<u64>)> = BTreeMap::new();
    let nodes = nodes.iter().filter_map(|id| profile.node(*id));
    let directories = nodes.filter(|node| node.kind == NodeKind::Directory);
    for inode in directories.map(|node| node.identity.inode) {
        let is_cached = |device: &BlockDevice| {
            let page = geometry
                .inode_location(inode)
                .map(|at| at.offset_bytes / PAGE_BYTES);
            page.is_ok_and(|page| cached_pages(device.file(), page, 1).is_ok_and(|n| n == 1))
        };
        if !missing_on.is_some_and(is_cached)
            && let Ok(inodes) = geometry.used_inodes_beside(inode)
        {
            groups.entry(inodes.start).or_insert((0, inodes)).0 += 1;
        }
    }
    let mut groups: Vec<(u64, Range<u64>)> = groups.into_values().collect();
    groups.sort_by_key(|(directories, _)| Reverse(*directories));
    groups.into_iter().map(|(_, inodes)| inodes).collect()
}
