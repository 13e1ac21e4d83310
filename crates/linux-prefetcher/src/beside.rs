// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fetches the neighbours of the requested directories: all directories that ext4 has put into
//! their groups.
//!
//! A program that goes through a tree level by level learns the inode numbers of one level from the
//! blocks of the one above. Each level then takes two sweeps of the disk, one for inodes and one
//! for blocks. Each sweep waits for the program, which reads as well. But ext4 keeps a directory in
//! the group of the one above it, as long as there is room. So the inode table of a group has the
//! directories of all levels, with the places of their blocks. That makes two sweeps for the whole
//! tree.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::time::Instant;

use foreread_prefetch::ext4::{
    DIRECTORY_BYTES_MAX, Extent, FileType, Geometry, Limits, Survey, WHOLE_FILE, Wanted,
    merge_extents,
};
use foreread_prefetch::plan::ReadPlan;
use foreread_profile::{NodeId, NodeKind};
use foreread_sys::block_device::BlockDevice;

use super::fetcher::{Fetcher, ask_for, moved_head};
use super::neighbours::Neighbours;

/// Tables that are read at once, and blocks of directories: what a disk delivers in 130 ms, or in
/// the time of 25 seeks.
const TABLES_BYTES_MAX: u64 = 16 << 20;
const DIRECTORIES_BYTES_MAX: u64 = 16 << 20;
/// Tables are searched in pieces of this size, as they arrive.
const TABLE_PIECE_BYTES: u32 = 128 << 10;

/// Reads the tables of new groups of which a directory is asked for, and the blocks of the
/// directories in them.
pub(super) fn fetch(
    plan: &ReadPlan,
    nodes: &[NodeId],
    geometry: &Geometry,
    device: &BlockDevice,
    fetcher: &mut Fetcher<'_>,
    neighbours: &Neighbours,
) -> io::Result<()> {
    let mut places: Vec<(u64, u64)> = Vec::new();
    let mut left_bytes = TABLES_BYTES_MAX;
    for inodes in groups(plan, nodes, geometry) {
        let count = inodes.end.saturating_sub(inodes.start);
        let bytes = count * u64::from(geometry.inode_bytes());
        if let Some(left) = left_bytes.checked_sub(bytes)
            && neighbours.add(inodes.start)
        {
            left_bytes = left;
            let place = |inode| Some((geometry.inode_location(inode).ok()?.offset_bytes, inode));
            places.extend(inodes.filter_map(place));
        }
    }
    if places.is_empty() {
        return Ok(());
    }
    places.sort_unstable();
    let length_bytes = u64::from(geometry.inode_bytes());
    let inode = |(offset_bytes, _): &(u64, u64)| Extent {
        offset_bytes: *offset_bytes,
        length_bytes,
    };
    let tables = merge_extents(places.iter().map(inode).collect(), 0);
    let mut left_bytes = DIRECTORIES_BYTES_MAX;
    let mut blocks: Vec<Extent> = Vec::new();
    let all_at_once = fetcher.reads_all_at_once();
    let mut asked = 0;
    let began = Instant::now();
    fetcher.fetch_pieces(&tables, TABLE_PIECE_BYTES, |piece| {
        let found = directories_in(piece, &places, geometry, device, &mut left_bytes);
        blocks.extend(found);
        // A piece that wasn't in memory has brought the head here. When the piece is done, the head
        // goes on to the nearest of the directories, and from that to the others.
        if all_at_once && moved_head(began) {
            let _ = ask_for(device, &merge_extents(blocks[asked..].to_vec(), 0));
            asked = blocks.len();
        }
    })?;
    fetcher.fetch(&merge_extents(blocks, 0))
}

/// The blocks of the directories whose inodes are in a piece of a table.
fn directories_in(
    piece: Extent,
    places: &[(u64, u64)],
    geometry: &Geometry,
    device: &BlockDevice,
    left_bytes: &mut u64,
) -> Vec<Extent> {
    let from = places.partition_point(|(place, _)| *place < piece.offset_bytes);
    let to = places.partition_point(|(place, _)| *place < piece.end_bytes());
    let wanted = places[from..to].iter().map(|(_, inode)| Wanted {
        inode: *inode,
        pages: vec![WHOLE_FILE],
    });
    let mut survey = Survey::new(geometry, wanted, Limits::default());
    // Maps of large files that this step asks for are not needed.
    survey.step(&mut &*device);
    let mut blocks = Vec::new();
    for inode in survey.finish().into_iter().filter_map(|one| one.inode.ok()) {
        let is_small = inode.size_bytes <= DIRECTORY_BYTES_MAX.min(*left_bytes);
        if inode.file_type == FileType::Directory && inode.links > 0 && is_small {
            *left_bytes -= inode.size_bytes;
            blocks.extend(inode.metadata_extents(geometry));
        }
    }
    merge_extents(blocks, 0)
}

/// The inodes of the groups of these directories; of those with most of them first.
fn groups(plan: &ReadPlan, nodes: &[NodeId], geometry: &Geometry) -> Vec<Range<u64>> {
    let mut groups: BTreeMap<u64, (u64, Range<u64>)> = BTreeMap::new();
    let nodes = nodes.iter().filter_map(|id| plan.node(*id));
    let directories = nodes.filter(|node| node.kind == NodeKind::Directory);
    for inode in directories.map(|node| node.identity.inode) {
        if let Ok(inodes) = geometry.used_inodes_beside(inode) {
            groups.entry(inodes.start).or_insert((0, inodes)).0 += 1;
        }
    }
    let mut groups: Vec<(u64, Range<u64>)> = groups.into_values().collect();
    groups.sort_by_key(|(directories, _)| Reverse(*directories));
    groups.into_iter().map(|(_, inodes)| inodes).collect()
}
