// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the place of ext4 data and metadata that is about to be read.
//!
//! A program that starts cold waits first for inodes, extent nodes and directory blocks, one seek
//! after another: each is found only through the one before. This module finds the same blocks from
//! inode numbers alone, without opening a file. So all blocks of one kind can be fetched together
//! in disk order.
//!
//! It does no I/O. Bytes come from a [`BlockSource`]. All other work is staged: the caller fetches
//! the blocks of one stage, in large batches, before the next stage parses them:
//!
//! 1. [`Geometry::read`]: the superblock.
//! 2. [`Geometry::descriptor_extents`], then [`Geometry::load_groups`]: the group descriptors of
//!    the inodes asked for.
//! 3. [`Geometry::inode_table_extents`], then [`parse_inode`]: size, time, identity, and the root
//!    of the block map.
//! 4. [`parse_node`], level by level: the rest of the block map.
//!
//! [`Survey`] runs stages 2 to 4 for many inodes at once. The result says which pages of a file lie
//! where on the device ([`Inode::physical_ranges`]) and which further blocks of metadata belong to
//! it ([`Inode::metadata_extents`]).
//!
//! [`find_names`] finds the inode numbers of paths that are known by name only.
//!
//! # Reliability of the answers
//!
//! On a mounted file system, ext4 itself reads and changes its metadata in the block device's page
//! cache. So the metadata read there is current, but it is not locked. A file may be written, moved
//! or deleted meanwhile, and data that is not yet allocated has no place. Content of regular files
//! is never current there. Therefore the answers are good for ordering and prefetching, and for
//! nothing that must be right. Compare [`Inode::generation`], [`Inode::size_bytes`] and
//! [`Inode::mtime_ns`] with the expected values, and read data through the file.
//!
//! Every byte is taken for hostile. Wrong values give an [`Ext4Error`]; memory and work are bounded
//! by [`Limits`].

mod bytes;
mod directory;
mod error;
mod extent;
mod inode;
mod layout;
mod names;
mod node;
mod of_plan;
mod superblock;
mod survey;

pub use directory::{DirectoryEntry, directory_entries};
pub use error::{BlockReadError, Ext4Error};
pub use extent::{Extent, READ_THROUGH_BYTES_MAX, merge_extents};
pub use inode::{FileType, Inode, InodeFlags, Mapping, parse_inode};
pub use layout::{PhysicalRange, WHOLE_FILE, physical_ranges};
pub use names::{Answer, Name, find_names};
pub use node::{BlockMap, FileExtent, NodeKind, NodeRef, parse_node};
pub use of_plan::{DIRECTORY_BYTES_MAX, device_extents_of, is_recorded, pieces_of, wanted_of};
pub use superblock::{Features, Geometry, InodeLocation};
pub use survey::{Limits, Survey, Surveyed, Wanted};

/// Gives the bytes of the device that the file system is on.
///
/// The caller decides from where: `pread` on the block device of a mounted file system, or an image
/// in memory.
pub trait BlockSource {
    /// Fills `buffer` from `offset_bytes`, counted from the start of the file system.
    ///
    /// # Errors
    ///
    /// When not all of the buffer could be filled.
    fn read_at(&mut self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), BlockReadError>;
}

/// An image in memory.
impl BlockSource for &[u8] {
    fn read_at(&mut self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), BlockReadError> {
        let image: &[u8] = self;
        let bytes = usize::try_from(offset_bytes)
            .ok()
            .and_then(|start| image.get(start..)?.get(..buffer.len()))
            .ok_or_else(|| BlockReadError {
                offset_bytes,
                length_bytes: buffer.len() as u64,
                reason: format!("the image has only {} bytes", image.len()),
            })?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}
