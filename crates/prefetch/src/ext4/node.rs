// SPDX-License-Identifier: MIT OR Apache-2.0
//! The block map of an inode: extent trees, and the indirect blocks of ext2 and ext3.

use super::bytes::Fields;
use super::{Ext4Error, Geometry};

const EXTENT_MAGIC: u16 = 0xf30a;
/// Header, index entry and extent all have this size.
const ENTRY_BYTES: usize = 12;
/// The kernel's `EXT4_MAX_EXTENT_DEPTH`.
const DEPTH_MAX: u16 = 5;
/// Lengths above this mean an unwritten extent, shorter by this much.
const WRITTEN_BLOCKS_MAX: u16 = 32768;
/// A file has fewer blocks than this.
const FILE_BLOCKS_MAX: u64 = 1 << 32;
/// Pointers to data in an inode without extents; one single, one double and one triple indirect
/// follow.
const DIRECT_POINTERS: u32 = 12;

/// Blocks that are contiguous in the file and on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileExtent {
    /// First block in the file.
    pub logical_block: u32,
    /// Number of blocks, at least 1.
    pub length_blocks: u32,
    /// First block on the device.
    pub physical_block: u64,
    /// Allocated and never written: it reads as zeros, without the device.
    pub unwritten: bool,
}

impl FileExtent {
    /// The first block of the file after it, at most 2^32.
    #[must_use]
    pub const fn logical_end(&self) -> u64 {
        self.logical_block as u64 + self.length_blocks as u64
    }
}

/// The kind of a node of a block map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// A node of an extent tree.
    Extents {
        /// Levels below it: 0 is a leaf, at most 4.
        depth: u16,
    },
    /// An indirect block; 1 points to data, at most 3.
    Indirect {
        /// Levels below it, data included.
        level: u16,
    },
}

/// A node of a block map that has not been read yet: one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeRef {
    /// Where it lies on the device.
    pub block: u64,
    /// The kind that it must have.
    pub kind: NodeKind,
    /// The first block of the file that it can map.
    pub logical_start: u64,
    /// The first block of the file behind those that it can map, at most 2^32.
    pub logical_end: u64,
}

/// Content of a node of the map, or of its root in the inode.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct BlockMap {
    /// Extents, in order of the file; neither overlap.
    pub extents: Vec<FileExtent>,
    /// Nodes that say the rest, in order of the file.
    pub nodes: Vec<NodeRef>,
}

/// Parses the block of a node: `bytes` is that block, whole.
///
/// Depth falls from node to node, and the entries of a node must lie in the part of the file that
/// its parent gave it. So the traversal ends even when blocks point at each other.
///
/// # Errors
///
/// When the node is damaged, or does not match its parent's entry.
pub fn parse_node(
    bytes: &[u8],
    node: &NodeRef,
    geometry: &Geometry,
) -> Result<BlockMap, Ext4Error> {
    let bytes = bytes
        .get(..geometry.block_bytes() as usize)
        .ok_or(Ext4Error::Truncated {
            what: "node of the block map",
            length_bytes: bytes.len(),
        })?;
    let logical = (node.logical_start, node.logical_end);
    match node.kind {
        NodeKind::Extents { depth } => {
            let found = header_depth(bytes)?;
            if found != depth {
                return bad("the depth of a node", found);
            }
            parse_extent_node(bytes, depth, logical, geometry)
        }
        NodeKind::Indirect { level } => parse_indirect_node(bytes, level, node, geometry),
    }
}

/// Parses the root of an extent tree, in the 60 bytes of `i_block`.
pub(super) fn parse_extent_root(
    i_block: &[u8],
    geometry: &Geometry,
) -> Result<BlockMap, Ext4Error> {
    let depth = header_depth(i_block)?;
    parse_extent_node(i_block, depth, (0, FILE_BLOCKS_MAX), geometry)
}

fn header_depth(bytes: &[u8]) -> Result<u16, Ext4Error> {
    let fields = Fields::new(bytes, "extent header");
    let magic = fields.u16(0)?;
    if magic != EXTENT_MAGIC {
        return bad("the magic of an extent header", magic);
    }
    let depth = fields.u16(6)?;
    if depth > DEPTH_MAX {
        return bad("the depth of a node", depth);
    }
    Ok(depth)
}

/// The entries of a node, after the checks of its header.
fn entries(bytes: &[u8], depth: u16) -> Result<impl Iterator<Item = &[u8]>, Ext4Error> {
    let fields = Fields::new(bytes, "extent header");
    let (count, capacity) = (fields.u16(2)?, fields.u16(4)?);
    let space = (bytes.len() / ENTRY_BYTES).saturating_sub(1);
    if usize::from(capacity) > space {
        return bad("the capacity of a node", capacity);
    }
    // An index without entries would map nothing and still have to be read.
    if count > capacity || (count == 0 && depth > 0) {
        return bad("the number of entries in a node", count);
    }
    Ok(bytes
        .chunks_exact(ENTRY_BYTES)
        .skip(1)
        .take(usize::from(count)))
}

fn parse_extent_node(
    bytes: &[u8],
    depth: u16,
    logical: (u64, u64),
    geometry: &Geometry,
) -> Result<BlockMap, Ext4Error> {
    let entries = entries(bytes, depth)?;
    match depth.checked_sub(1) {
        None => parse_leaf(entries, logical, geometry),
        Some(depth_below) => parse_index(entries, depth_below, logical, geometry),
    }
}

fn parse_leaf<'a>(
    entries: impl Iterator<Item = &'a [u8]>,
    (mut logical_free, logical_end): (u64, u64),
    geometry: &Geometry,
) -> Result<BlockMap, Ext4Error> {
    let mut map = BlockMap {
        extents: Vec::with_capacity(entries.size_hint().0),
        nodes: vec![],
    };
    for entry in entries {
        let fields = Fields::new(entry, "extent");
        let coded_length = fields.u16(4)?;
        let unwritten = coded_length > WRITTEN_BLOCKS_MAX;
        let length = if unwritten {
            coded_length - WRITTEN_BLOCKS_MAX
        } else {
            coded_length
        };
        let extent = FileExtent {
            logical_block: fields.u32(0)?,
            length_blocks: u32::from(length),
            physical_block: fields.u48(8, 6)?,
            unwritten,
        };
        let logical_block = u64::from(extent.logical_block);
        if logical_block < logical_free || extent.logical_end() > logical_end {
            return bad("the first block of an extent", logical_block);
        }
        geometry.check_blocks(extent.physical_block, extent.length_blocks)?;
        logical_free = extent.logical_end();
        map.extents.push(extent);
    }
    Ok(map)
}

fn parse_index<'a>(
    entries: impl Iterator<Item = &'a [u8]>,
    depth_below: u16,
    (mut logical_free, logical_end): (u64, u64),
    geometry: &Geometry,
) -> Result<BlockMap, Ext4Error> {
    let mut nodes: Vec<NodeRef> = Vec::with_capacity(entries.size_hint().0);
    for entry in entries {
        let fields = Fields::new(entry, "extent index");
        let logical_start = u64::from(fields.u32(0)?);
        let block = fields.u48(4, 8)?;
        if logical_start < logical_free || logical_start >= logical_end {
            return bad("the first block of an index entry", logical_start);
        }
        geometry.check_blocks(block, 1)?;
        // An entry reaches as far as the start of the next.
        if let Some(last) = nodes.last_mut() {
            last.logical_end = logical_start;
        }
        logical_free = logical_start + 1;
        let kind = NodeKind::Extents { depth: depth_below };
        nodes.push(NodeRef {
            block,
            kind,
            logical_start,
            logical_end,
        });
    }
    Ok(BlockMap {
        extents: vec![],
        nodes,
    })
}

/// Parses the 15 pointers of an inode of ext2 or ext3.
pub(super) fn parse_indirect_root(
    i_block: &[u8],
    geometry: &Geometry,
) -> Result<BlockMap, Ext4Error> {
    let fields = Fields::new(i_block, "inode");
    let mut map = BlockMap::default();
    for pointer in 0..DIRECT_POINTERS {
        push_data(
            &mut map,
            u64::from(pointer),
            fields.u32(pointer as usize * 4)?,
            geometry,
        )?;
    }
    let mut logical_start = u64::from(DIRECT_POINTERS);
    let mut covered = 1;
    for level in 1..=3 {
        covered *= pointers_per_block(geometry);
        let logical_end = (logical_start + covered).min(FILE_BLOCKS_MAX);
        let block = fields.u32((DIRECT_POINTERS as usize + level as usize - 1) * 4)?;
        push_node(
            &mut map,
            block,
            level,
            (logical_start, logical_end),
            geometry,
        )?;
        logical_start = logical_end;
    }
    Ok(map)
}

fn pointers_per_block(geometry: &Geometry) -> u64 {
    u64::from(geometry.block_bytes() / 4)
}

fn parse_indirect_node(
    bytes: &[u8],
    level: u16,
    node: &NodeRef,
    geometry: &Geometry,
) -> Result<BlockMap, Ext4Error> {
    let level_below = match level {
        1..=3 => level - 1,
        _ => return bad("the level of an indirect block", level),
    };
    let covered = pointers_per_block(geometry).pow(u32::from(level_below));
    let mut map = BlockMap::default();
    let mut logical_start = node.logical_start;
    for pointer in bytes.chunks_exact(4) {
        if logical_start >= node.logical_end {
            break;
        }
        let block = Fields::new(pointer, "indirect block").u32(0)?;
        let logical_end = logical_start.saturating_add(covered).min(node.logical_end);
        match level_below {
            0 => push_data(&mut map, logical_start, block, geometry)?,
            _ => push_node(
                &mut map,
                block,
                level_below,
                (logical_start, logical_end),
                geometry,
            )?,
        }
        logical_start = logical_end;
    }
    Ok(map)
}

/// Adds one block of data; a pointer of 0 is a hole.
fn push_data(
    map: &mut BlockMap,
    logical_block: u64,
    block: u32,
    geometry: &Geometry,
) -> Result<(), Ext4Error> {
    if block == 0 {
        return Ok(());
    }
    let physical_block = u64::from(block);
    geometry.check_blocks(physical_block, 1)?;
    if let Some(last) = map.extents.last_mut()
        && last.logical_end() == logical_block
        && last.physical_block + u64::from(last.length_blocks) == physical_block
    {
        last.length_blocks += 1;
        return Ok(());
    }
    let Ok(logical_block) = u32::try_from(logical_block) else {
        return bad("the first block of an indirect block", logical_block);
    };
    map.extents.push(FileExtent {
        logical_block,
        length_blocks: 1,
        physical_block,
        unwritten: false,
    });
    Ok(())
}

fn push_node(
    map: &mut BlockMap,
    block: u32,
    level: u16,
    (logical_start, logical_end): (u64, u64),
    geometry: &Geometry,
) -> Result<(), Ext4Error> {
    if block != 0 && logical_start < logical_end {
        geometry.check_blocks(u64::from(block), 1)?;
        map.nodes.push(NodeRef {
            block: u64::from(block),
            kind: NodeKind::Indirect { level },
            logical_start,
            logical_end,
        });
    }
    Ok(())
}

fn bad<T>(what: &'static str, value: impl Into<u64>) -> Result<T, Ext4Error> {
    Err(Ext4Error::BadBlockMap {
        what,
        value: value.into(),
    })
}
