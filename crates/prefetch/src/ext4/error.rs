// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of reading the layout.

use thiserror::Error;

/// A read of the device that failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("could not read {length_bytes} bytes at byte {offset_bytes} of the device: {reason}")]
pub struct BlockReadError {
    /// Where, from the start of the file system.
    pub offset_bytes: u64,
    /// Length of the read, in bytes.
    pub length_bytes: u64,
    /// The system's error message.
    pub reason: String,
}

/// Why a layout, or that of one inode, can't be told. The way on is always the same: read the files
/// without knowing where they lie.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Ext4Error {
    /// The device gave no bytes.
    #[error(transparent)]
    Read(#[from] BlockReadError),
    /// No ext2, ext3 or ext4.
    #[error(
        "no ext4 superblock (magic {magic:#06x} instead of 0xef53); \
         the layout of this file system can't be read"
    )]
    NotExt4 {
        /// The magic number found.
        magic: u16,
    },
    /// The superblock asks for more than is known here.
    #[error(
        "the ext4 file system uses incompatible features that are not known here \
         (bits {bits:#x}); its layout can't be read"
    )]
    UnknownFeatures {
        /// The bits of `s_feature_incompat` that are not known.
        bits: u32,
    },
    /// A value in the superblock or in a group descriptor that no file system has.
    #[error("the ext4 superblock is damaged: {field} is {value}")]
    BadSuperblock {
        /// Name as in the kernel's `struct ext4_super_block` or `ext4_group_desc`.
        field: &'static str,
        /// The value found.
        value: u64,
    },
    /// An inode number that this file system doesn't have.
    #[error("inode {inode} is not on this file system, which has {inodes} inodes")]
    NoSuchInode {
        /// The number asked for.
        inode: u64,
        /// The highest number there is.
        inodes: u32,
    },
    /// [`super::Geometry::load_groups`] wasn't called for this inode.
    #[error("the descriptor of group {group} was not loaded before it was needed")]
    GroupNotLoaded {
        /// The block group of the inode.
        group: u32,
    },
    /// The inode is not in use: the file is gone.
    #[error("the inode is free; its file was deleted")]
    FreeInode,
    /// Fewer bytes than the structure has.
    #[error("the {what} is cut off after {length_bytes} bytes")]
    Truncated {
        /// Which structure.
        what: &'static str,
        /// Number of bytes that were given.
        length_bytes: usize,
    },
    /// A block map that contradicts itself.
    #[error("the block map of the inode is damaged: {what} is {value}")]
    BadBlockMap {
        /// The field or rule that is violated.
        what: &'static str,
        /// The value found.
        value: u64,
    },
    /// A block of a directory that contradicts itself.
    #[error("the directory is damaged: {what} is {value}")]
    BadDirectory {
        /// The field that is violated.
        what: &'static str,
        /// The value found.
        value: u64,
    },
    /// A block number outside the file system.
    #[error("block {block} is outside the file system, which has {blocks} blocks")]
    BlockOutside {
        /// The block.
        block: u64,
        /// Blocks on the file system.
        blocks: u64,
    },
    /// More pieces than [`super::Limits`] allow.
    #[error("the file is in more pieces than may be looked up ({limit})")]
    TooFragmented {
        /// The limit that was reached.
        limit: usize,
    },
}
