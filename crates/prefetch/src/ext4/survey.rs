// SPDX-License-Identifier: MIT OR Apache-2.0
//! The layout of many inodes at once, stage by stage.

use std::ops::Range;

use foreread_profile::types::PAGE_BYTES;

use super::node::{BlockMap, NodeRef};
use super::{
    BlockSource, Ext4Error, Extent, FileType, Geometry, Inode, Mapping, WHOLE_FILE, merge_extents,
    parse_inode, parse_node,
};

/// Maximum number of bytes that are read from the source at once. Large enough that calls cost
/// little against parsing, and small enough to stay in the processor's cache.
const CHUNK_BYTES_MAX: u64 = 256 * 1024;

/// One inode, and which of its pages matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its number.
    pub inode: u64,
    /// Pages of 4 KiB, in any order. Only the part of the block map that covers them is read. Empty
    /// for an inode that is only looked at; [`WHOLE_FILE`] for everything. A symbolic link is
    /// always mapped whole, for following it reads all of it.
    pub pages: Vec<Range<u64>>,
}

/// Bounds on memory and work, against hostile or very fragmented file systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nodes of block maps read in one survey, one block each.
    pub nodes_max: usize,
    /// Extents kept in one survey, 24 bytes each.
    pub extents_max: usize,
}

impl Default for Limits {
    /// 65,536 nodes and 1,048,576 extents (24 MiB).
    fn default() -> Self {
        Self {
            nodes_max: 1 << 16,
            extents_max: 1 << 20,
        }
    }
}

/// The result of the survey for one inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surveyed {
    /// Its number.
    pub number: u64,
    /// The inode, with the extents that cover the wanted pages; or why there is none.
    pub inode: Result<Inode, Ext4Error>,
}

/// Finds the layout of many inodes with few, large, ordered reads.
///
/// ```text
/// let mut survey = Survey::new(&geometry, wanted, Limits::default());
/// while !survey.is_finished() {
///     // bring survey.next_extents() into memory, then:
///     survey.step(&mut source);
/// }
/// ```
///
/// The first step reads inodes, every further one a level of the block maps; most files need none.
/// An error concerns the inode at which it was met, and no other.
#[derive(Debug)]
pub struct Survey<'g> {
    geometry: &'g Geometry,
    limits: Limits,
    files: Vec<File>,
    stage: Stage,
    nodes_taken: usize,
    extents_kept: usize,
}

#[derive(Debug)]
struct File {
    /// Blocks wanted, sorted and merged.
    blocks: Vec<Range<u64>>,
    found: Surveyed,
}

#[derive(Debug)]
enum Stage {
    /// Places of inodes, in order of the device, each with the index of its file.
    Inodes(Vec<(u64, usize)>),
    /// Nodes, in order of the device, each with the index of its file.
    Nodes(Vec<(NodeRef, usize)>),
}

impl<'g> Survey<'g> {
    /// Begins a survey. The groups of the inodes must have been loaded by
    /// [`Geometry::load_groups`]; others end with an error of their own.
    #[must_use]
    pub fn new(
        geometry: &'g Geometry,
        wanted: impl IntoIterator<Item = Wanted>,
        limits: Limits,
    ) -> Self {
        let mut files = Vec::new();
        let mut places = Vec::new();
        for (index, wanted) in wanted.into_iter().enumerate() {
            let location = geometry.inode_location(wanted.inode);
            if let Ok(location) = &location {
                places.push((location.offset_bytes, index));
            }
            // Replaced by the inode once it is read; an error stays.
            let inode = Err(location.err().unwrap_or(Ext4Error::FreeInode));
            files.push(File {
                blocks: wanted_blocks(&wanted.pages, geometry.block_bytes()),
                found: Surveyed {
                    number: wanted.inode,
                    inode,
                },
            });
        }
        places.sort_unstable();
        let stage = Stage::Inodes(places);
        Self {
            geometry,
            limits,
            files,
            stage,
            nodes_taken: 0,
            extents_kept: 0,
        }
    }

    /// Whether nothing is left to read.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        match &self.stage {
            Stage::Inodes(places) => places.is_empty(),
            Stage::Nodes(nodes) => nodes.is_empty(),
        }
    }

    /// Extents that the next step will read, sorted and merged; empty when finished.
    #[must_use]
    pub fn next_extents(&self) -> Vec<Extent> {
        let length_bytes = u64::from(self.geometry.block_bytes());
        let block = |offset_bytes| Extent {
            offset_bytes,
            length_bytes,
        };
        let extents = match &self.stage {
            Stage::Inodes(places) => places
                .iter()
                .map(|(place, _)| block(place - place % length_bytes))
                .collect(),
            Stage::Nodes(nodes) => nodes
                .iter()
                .map(|(node, _)| block(node.block * length_bytes))
                .collect(),
        };
        merge_extents(extents, 0)
    }

    /// Reads and parses one stage.
    pub fn step<S: BlockSource>(&mut self, source: &mut S) {
        let extents = self.next_extents();
        match std::mem::replace(&mut self.stage, Stage::Nodes(Vec::new())) {
            Stage::Inodes(places) => self.read_inodes(source, &extents, &places),
            Stage::Nodes(nodes) => self.read_nodes(source, &extents, &nodes),
        }
        if let Stage::Nodes(nodes) = &mut self.stage {
            let files = &self.files;
            nodes.retain(|(_, file)| {
                files
                    .get(*file)
                    .is_some_and(|file| file.found.inode.is_ok())
            });
            nodes.sort_unstable_by_key(|(node, file)| (node.block, *file, node.logical_start));
        }
    }

    /// Runs all steps that are left, without a chance to prefetch between them.
    pub fn run<S: BlockSource>(&mut self, source: &mut S) {
        while !self.is_finished() {
            self.step(source);
        }
    }

    /// Results in the order of the inodes given. They are complete when [`Survey::is_finished`];
    /// otherwise inodes not read yet end with an error, and some block maps have nodes left.
    #[must_use]
    pub fn finish(self) -> Vec<Surveyed> {
        self.files.into_iter().map(|file| file.found).collect()
    }

    fn read_inodes<S: BlockSource>(
        &mut self,
        source: &mut S,
        extents: &[Extent],
        places: &[(u64, usize)],
    ) {
        let geometry = self.geometry;
        let length = geometry.inode_bytes() as usize;
        let mut places = places.iter().peekable();
        for_each_chunk(source, extents, |chunk, bytes| {
            while let Some(&(place, file)) = places.next_if(|(place, _)| *place < chunk.end_bytes())
            {
                let parsed = bytes
                    .as_ref()
                    .map_err(|error| (*error).clone())
                    .and_then(|bytes| parse_inode(part(bytes, chunk, place, length), geometry));
                self.take_inode(file, parsed);
            }
        });
    }

    fn read_nodes<S: BlockSource>(
        &mut self,
        source: &mut S,
        extents: &[Extent],
        nodes: &[(NodeRef, usize)],
    ) {
        let geometry = self.geometry;
        let length = geometry.block_bytes() as usize;
        let mut nodes = nodes.iter().peekable();
        for_each_chunk(source, extents, |chunk, bytes| {
            let place = |node: &NodeRef| node.block * length as u64;
            while let Some((node, file)) =
                nodes.next_if(|(node, _)| place(node) < chunk.end_bytes())
            {
                let parsed = bytes
                    .as_ref()
                    .map_err(|error| (*error).clone())
                    .and_then(|bytes| {
                        parse_node(part(bytes, chunk, place(node), length), node, geometry)
                    });
                self.take_node(*file, parsed);
            }
        });
        for file in &mut self.files {
            if let Ok(Inode {
                mapping: Mapping::Blocks(map),
                ..
            }) = &mut file.found.inode
                && !map.extents.is_sorted_by_key(|extent| extent.logical_block)
            {
                // Nodes are read in order of the device, not of the file.
                map.extents
                    .sort_unstable_by_key(|extent| extent.logical_block);
            }
        }
    }

    fn take_inode(&mut self, index: usize, parsed: Result<Inode, Ext4Error>) {
        let Some(file) = self.files.get_mut(index) else {
            return;
        };
        if let Ok(Inode {
            file_type: FileType::Symlink,
            ..
        }) = &parsed
        {
            file.blocks = vec![WHOLE_FILE];
        }
        file.found.inode = parsed;
        if let Ok(Inode {
            mapping: Mapping::Blocks(map),
            ..
        }) = &mut file.found.inode
        {
            let root = std::mem::take(map);
            self.take_map(index, root);
        }
    }

    fn take_node(&mut self, index: usize, parsed: Result<BlockMap, Ext4Error>) {
        match parsed {
            Ok(map) => self.take_map(index, map),
            Err(error) => self.fail(index, error),
        }
    }

    /// Keeps the extents that cover wanted blocks, and notes the nodes that must be read for the
    /// rest.
    fn take_map(&mut self, index: usize, map: BlockMap) {
        let Some(file) = self.files.get_mut(index) else {
            return;
        };
        let Ok(Inode {
            mapping: Mapping::Blocks(kept),
            ..
        }) = &mut file.found.inode
        else {
            // The inode failed at another node of this stage.
            return;
        };
        let wants = |start: u64, end: u64| overlaps(&file.blocks, start, end);
        let BlockMap {
            mut extents,
            mut nodes,
        } = map;
        extents.retain(|extent| wants(u64::from(extent.logical_block), extent.logical_end()));
        nodes.retain(|node| wants(node.logical_start, node.logical_end));
        let Limits {
            nodes_max,
            extents_max,
        } = self.limits;
        if self.nodes_taken + nodes.len() > nodes_max {
            return self.fail(index, Ext4Error::TooFragmented { limit: nodes_max });
        }
        if self.extents_kept + extents.len() > extents_max {
            return self.fail(index, Ext4Error::TooFragmented { limit: extents_max });
        }
        self.nodes_taken += nodes.len();
        self.extents_kept += extents.len();
        kept.extents.append(&mut extents);
        if let Stage::Nodes(next) = &mut self.stage {
            next.extend(nodes.into_iter().map(|node| (node, index)));
        }
    }

    /// Gives an inode up, with the extents that it took. Nodes of it that were noted already go at
    /// the end of the step.
    fn fail(&mut self, index: usize, error: Ext4Error) {
        if let Some(File {
            found: Surveyed { inode, .. },
            ..
        }) = self.files.get_mut(index)
            && let Ok(parsed) = inode
        {
            self.extents_kept -= parsed.extents().len();
            *inode = Err(error);
        }
    }
}

/// Reads the extents in order, in pieces of at most [`CHUNK_BYTES_MAX`], and gives each with its
/// bytes or the error.
fn for_each_chunk<S: BlockSource>(
    source: &mut S,
    extents: &[Extent],
    mut each: impl FnMut(Extent, Result<&[u8], Ext4Error>),
) {
    let mut buffer = Vec::new();
    for extent in extents {
        let mut offset_bytes = extent.offset_bytes;
        while offset_bytes < extent.end_bytes() {
            let length_bytes = (extent.end_bytes() - offset_bytes).min(CHUNK_BYTES_MAX);
            let chunk = Extent {
                offset_bytes,
                length_bytes,
            };
            buffer.resize(length_bytes as usize, 0);
            match source.read_at(offset_bytes, &mut buffer) {
                Ok(()) => each(chunk, Ok(&buffer)),
                Err(error) => each(chunk, Err(error.into())),
            }
            offset_bytes = chunk.end_bytes();
        }
    }
}

/// The bytes at `place` on the device, out of those of a chunk. Empty if they aren't in the chunk;
/// the parsers take that as cut off.
fn part(bytes: &[u8], chunk: Extent, place: u64, length: usize) -> &[u8] {
    let start = place
        .checked_sub(chunk.offset_bytes)
        .and_then(|start| usize::try_from(start).ok());
    start
        .and_then(|start| bytes.get(start..)?.get(..length))
        .unwrap_or_default()
}

/// From pages in any order to blocks, sorted and merged.
fn wanted_blocks(pages: &[Range<u64>], block_bytes: u32) -> Vec<Range<u64>> {
    let block_bytes = u64::from(block_bytes);
    let blocks = pages.iter().filter(|pages| !pages.is_empty()).map(|pages| {
        let start = pages.start.saturating_mul(PAGE_BYTES) / block_bytes;
        start..pages.end.saturating_mul(PAGE_BYTES).div_ceil(block_bytes)
    });
    let mut blocks: Vec<_> = blocks.collect();
    blocks.sort_unstable_by_key(|range| (range.start, range.end));
    blocks.dedup_by(|next, last| {
        let joins = next.start <= last.end;
        if joins {
            last.end = last.end.max(next.end);
        }
        joins
    });
    blocks
}

/// Whether any of the sorted ranges has a block of `start..end`.
fn overlaps(ranges: &[Range<u64>], start: u64, end: u64) -> bool {
    let next = ranges.partition_point(|range| range.end <= start);
    ranges.get(next).is_some_and(|range| range.start < end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_become_the_blocks_that_they_touch() {
        let pages = [9..10, 0..2, 2..3, 5..5];
        assert_eq!(wanted_blocks(&pages, 1024), [0..12, 36..40]);
        assert_eq!(wanted_blocks(&pages, 4096), [0..3, 9..10]);
        assert_eq!(wanted_blocks(&pages, 16384), [0..1, 2..3]);
        assert_eq!(wanted_blocks(&[WHOLE_FILE], 1024).len(), 1);
    }

    #[test]
    fn overlap_is_half_open() {
        let ranges = [2..4, 8..10];
        let found: Vec<_> = (0..12)
            .filter(|&at| overlaps(&ranges, at, at + 1))
            .collect();
        assert_eq!(found, [2, 3, 8, 9]);
        assert!(!overlaps(&ranges, 4, 8));
        assert!(overlaps(&ranges, 3, 9));
    }
}
