// SPDX-License-Identifier: MIT OR Apache-2.0
//! One inode: its identity, and the root of its block map.

use std::ops::Range;

use super::bytes::Fields;
use super::node::{BlockMap, parse_extent_root, parse_indirect_root};
use super::{Ext4Error, Extent, Geometry, PhysicalRange, merge_extents, physical_ranges};

/// Length of `i_block`, which holds the root of the block map, or the data itself.
const I_BLOCK_BYTES: usize = 60;
const I_BLOCK_AT: usize = 0x28;
/// The part that every inode has; `i_extra_isize` counts from here.
const INODE_BASE_BYTES: usize = 128;
const MTIME_EXTRA_AT: usize = 0x88;
const NS_PER_S: i128 = 1_000_000_000;

/// The type of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileType {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A device, FIFO or socket, which has no blocks.
    Special,
}

/// `i_flags`, as a set of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct InodeFlags(pub u32);

impl InodeFlags {
    /// It can't be changed.
    pub const IMMUTABLE: Self = Self(0x10);
    /// It can only grow.
    pub const APPEND: Self = Self(0x20);
    /// Changes of its content go through the journal.
    pub const JOURNAL_DATA: Self = Self(0x4000);
    /// Its content is accessed without the page cache.
    pub const DAX: Self = Self(0x200_0000);
    /// Its content is encrypted.
    pub const ENCRYPT: Self = Self(0x800);
    /// A directory with a hash index.
    pub const INDEX: Self = Self(0x1000);
    /// Its content is checked against a hash tree, which lies behind the end of the file.
    pub const VERITY: Self = Self(0x10_0000);
    /// It is mapped by extents.
    pub const EXTENTS: Self = Self(0x8_0000);
    /// It holds the value of an extended attribute.
    pub const EA_INODE: Self = Self(0x20_0000);
    /// Its content lies in the inode.
    pub const INLINE_DATA: Self = Self(0x1000_0000);
    /// Names in it are compared without case.
    pub const CASEFOLD: Self = Self(0x4000_0000);

    /// Whether all of `other` is in this set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Where the content of an inode is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Nowhere: a device, FIFO or socket.
    None,
    /// In the inode, so there is nothing more to read.
    Inline,
    /// A symbolic link whose target is in the inode.
    FastSymlink,
    /// In blocks; complete when [`BlockMap::nodes`] is empty.
    Blocks(BlockMap),
}

/// One inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// The type of the file.
    pub file_type: FileType,
    /// `i_mode`: type and permissions.
    pub mode: u16,
    /// Size of the content.
    pub size_bytes: u64,
    /// Time of the last change of the content, nanoseconds since 1970; held at the ends of the
    /// range outside the years 1677 to 2262.
    pub mtime_ns: i64,
    /// Changes when the number is given to another file.
    pub generation: u32,
    /// `i_flags`.
    pub flags: InodeFlags,
    /// Number of names; 0 for a file that is deleted but still open.
    pub links: u16,
    /// The block with extended attributes outside the inode.
    pub xattr_block: Option<u64>,
    /// Where its content is.
    pub mapping: Mapping,
}

impl Inode {
    /// The extents known so far, in order of the file.
    #[must_use]
    pub fn extents(&self) -> &[super::FileExtent] {
        match &self.mapping {
            Mapping::Blocks(map) => &map.extents,
            Mapping::None | Mapping::Inline | Mapping::FastSymlink => &[],
        }
    }

    /// Location of the pages of the file (4 KiB each), in order of the file, without holes,
    /// unwritten extents and pages behind its end. See [`physical_ranges`].
    ///
    /// `pages` must be sorted and not overlap; [`super::WHOLE_FILE`] may stand
    /// alone.
    #[must_use]
    pub fn physical_ranges(&self, geometry: &Geometry, pages: &[Range<u64>]) -> Vec<PhysicalRange> {
        physical_ranges(
            self.extents(),
            geometry.block_bytes(),
            self.size_bytes,
            pages,
        )
    }

    /// The blocks that the kernel reads through the block device's page cache when it reads the
    /// inode: the extended attributes, and the content of a directory or symbolic link. Sorted and
    /// merged. Nodes of the block map are not among them, since reading the map has fetched them.
    #[must_use]
    pub fn metadata_extents(&self, geometry: &Geometry) -> Vec<Extent> {
        let xattrs = self.xattr_block.map(|block| (block, 1));
        let content = match self.file_type {
            FileType::Directory | FileType::Symlink => self.extents(),
            FileType::Regular | FileType::Special => &[],
        };
        let written = content.iter().filter(|extent| !extent.unwritten);
        let blocks = written.map(|extent| (extent.physical_block, extent.length_blocks));
        let extents = xattrs.into_iter().chain(blocks);
        let extents = extents.filter_map(|(block, count)| geometry.block_extent(block, count).ok());
        merge_extents(extents.collect(), 0)
    }
}

/// Parses an inode from the bytes at its [`super::InodeLocation`].
///
/// # Errors
///
/// When the inode is free, cut off, or its block map contradicts itself.
pub fn parse_inode(bytes: &[u8], geometry: &Geometry) -> Result<Inode, Ext4Error> {
    let fields = Fields::new(bytes, "inode");
    let mode = fields.u16(0)?;
    let file_type = match mode >> 12 {
        0x8 => FileType::Regular,
        0x4 => FileType::Directory,
        0xa => FileType::Symlink,
        // The inodes of the journal and other private files that are in use have a type too.
        0 => return Err(Ext4Error::FreeInode),
        _ => FileType::Special,
    };
    let flags = InodeFlags(fields.u32(0x20)?);
    let size_bytes = size_bytes(&fields, file_type, geometry)?;
    let i_block = fields.slice(I_BLOCK_AT, I_BLOCK_BYTES)?;
    Ok(Inode {
        file_type,
        mode,
        size_bytes,
        mtime_ns: mtime_ns(&fields, geometry)?,
        generation: fields.u32(0x64)?,
        flags,
        links: fields.u16(0x1a)?,
        xattr_block: xattr_block(&fields, geometry)?,
        mapping: mapping(file_type, flags, size_bytes, i_block, geometry)?,
    })
}

/// The high half of the size counts for files, and for directories only where they may be large:
/// ext2 kept something else in its place.
fn size_bytes(
    fields: &Fields<'_>,
    file_type: FileType,
    geometry: &Geometry,
) -> Result<u64, Ext4Error> {
    let has_high = match file_type {
        FileType::Regular => true,
        _ => geometry.features().has_large_dir(),
    };
    if has_high {
        fields.u32_pair(0x4, 0x6c)
    } else {
        Ok(u64::from(fields.u32(0x4)?))
    }
}

fn mtime_ns(fields: &Fields<'_>, geometry: &Geometry) -> Result<i64, Ext4Error> {
    let mut seconds = i128::from(fields.u32(0x10)?.cast_signed());
    let mut nanoseconds = 0;
    let has_extra = geometry.inode_bytes() as usize > INODE_BASE_BYTES
        && INODE_BASE_BYTES + usize::from(fields.u16(0x80)?) >= MTIME_EXTRA_AT + 4;
    if has_extra {
        let extra = fields.u32(MTIME_EXTRA_AT)?;
        seconds += i128::from(extra & 3) << 32;
        nanoseconds = i128::from(extra >> 2);
    }
    let total = seconds * NS_PER_S + nanoseconds;
    Ok(i64::try_from(total).unwrap_or(if total < 0 { i64::MIN } else { i64::MAX }))
}

/// A bad block number only loses the attributes, not the file.
fn xattr_block(fields: &Fields<'_>, geometry: &Geometry) -> Result<Option<u64>, Ext4Error> {
    let block = fields.u48(0x68, 0x76)?;
    Ok((block != 0 && geometry.check_blocks(block, 1).is_ok()).then_some(block))
}

fn mapping(
    file_type: FileType,
    flags: InodeFlags,
    size_bytes: u64,
    i_block: &[u8],
    geometry: &Geometry,
) -> Result<Mapping, Ext4Error> {
    if file_type == FileType::Special {
        return Ok(Mapping::None);
    }
    if flags.contains(InodeFlags::INLINE_DATA) {
        return Ok(Mapping::Inline);
    }
    let in_extents = flags.contains(InodeFlags::EXTENTS);
    // The kernel clears the flag when it puts the target into the inode.
    if file_type == FileType::Symlink && !in_extents && size_bytes < I_BLOCK_BYTES as u64 {
        return Ok(Mapping::FastSymlink);
    }
    let map = match in_extents {
        true => parse_extent_root(i_block, geometry)?,
        false => parse_indirect_root(i_block, geometry)?,
    };
    Ok(Mapping::Blocks(map))
}
