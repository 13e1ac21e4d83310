// SPDX-License-Identifier: MIT OR Apache-2.0
//! The superblock, the group descriptors, and with them the place of every inode.

use std::collections::HashMap;
use std::ops::Range;

use super::bytes::Fields;
use super::extent::merge_extents;
use super::{BlockSource, Ext4Error, Extent};

const SUPERBLOCK_OFFSET_BYTES: u64 = 1024;
const SUPERBLOCK_BYTES: usize = 1024;
const MAGIC: u16 = 0xef53;
/// `EXT4_ERROR_FS` in `s_state`.
const STATE_ERRORS: u16 = 0x2;
/// Blocks of 64 KiB, the largest that ext4 has.
const LOG_BLOCK_SIZE_MAX: u32 = 6;
const INODE_BYTES_MIN: u32 = 128;
const DESCRIPTOR_BYTES: u32 = 32;
const DESCRIPTOR_BYTES_64BIT: u32 = 64;

/// Feature flags of the superblock that change where things lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Features {
    /// `s_feature_compat`.
    pub compat: u32,
    /// `s_feature_incompat`.
    pub incompat: u32,
    /// `s_feature_ro_compat`.
    pub ro_compat: u32,
}

impl Features {
    const INCOMPAT_FILETYPE: u32 = 0x2;
    const INCOMPAT_RECOVER: u32 = 0x4;
    const INCOMPAT_META_BG: u32 = 0x10;
    const INCOMPAT_EXTENTS: u32 = 0x40;
    const INCOMPAT_64BIT: u32 = 0x80;
    const INCOMPAT_MMP: u32 = 0x100;
    const INCOMPAT_FLEX_BG: u32 = 0x200;
    const INCOMPAT_EA_INODE: u32 = 0x400;
    const INCOMPAT_CSUM_SEED: u32 = 0x2000;
    const INCOMPAT_LARGEDIR: u32 = 0x4000;
    const INCOMPAT_INLINE_DATA: u32 = 0x8000;
    const INCOMPAT_ENCRYPT: u32 = 0x1_0000;
    const INCOMPAT_CASEFOLD: u32 = 0x2_0000;
    /// RECOVER is set on every mounted file system with a journal, so it must be no obstacle.
    const INCOMPAT_KNOWN: u32 = Self::INCOMPAT_FILETYPE
        | Self::INCOMPAT_RECOVER
        | Self::INCOMPAT_META_BG
        | Self::INCOMPAT_EXTENTS
        | Self::INCOMPAT_64BIT
        | Self::INCOMPAT_MMP
        | Self::INCOMPAT_FLEX_BG
        | Self::INCOMPAT_EA_INODE
        | Self::INCOMPAT_CSUM_SEED
        | Self::INCOMPAT_LARGEDIR
        | Self::INCOMPAT_INLINE_DATA
        | Self::INCOMPAT_ENCRYPT
        | Self::INCOMPAT_CASEFOLD;

    const COMPAT_SPARSE_SUPER2: u32 = 0x200;
    const COMPAT_FAST_COMMIT: u32 = 0x400;
    const RO_COMPAT_SPARSE_SUPER: u32 = 0x1;
    const RO_COMPAT_BIGALLOC: u32 = 0x200;
    const RO_COMPAT_METADATA_CSUM: u32 = 0x400;

    /// Block numbers may have more than 32 bits, and descriptors 64 bytes.
    #[must_use]
    pub const fn is_64bit(self) -> bool {
        self.incompat & Self::INCOMPAT_64BIT != 0
    }

    /// Group descriptors are spread over the device.
    #[must_use]
    pub const fn has_meta_bg(self) -> bool {
        self.incompat & Self::INCOMPAT_META_BG != 0
    }

    /// Inode tables of several groups lie together.
    #[must_use]
    pub const fn has_flex_bg(self) -> bool {
        self.incompat & Self::INCOMPAT_FLEX_BG != 0
    }

    /// Files may be mapped by extents.
    #[must_use]
    pub const fn has_extents(self) -> bool {
        self.incompat & Self::INCOMPAT_EXTENTS != 0
    }

    /// Small files and directories may lie in their inode.
    #[must_use]
    pub const fn has_inline_data(self) -> bool {
        self.incompat & Self::INCOMPAT_INLINE_DATA != 0
    }

    /// Directories may be larger than 2 GiB.
    #[must_use]
    pub const fn has_large_dir(self) -> bool {
        self.incompat & Self::INCOMPAT_LARGEDIR != 0
    }

    /// Space is allocated in clusters of several blocks. Block numbers stay those of blocks.
    #[must_use]
    pub const fn has_bigalloc(self) -> bool {
        self.ro_compat & Self::RO_COMPAT_BIGALLOC != 0
    }

    /// The journal may hold changes of single inodes in place of blocks.
    #[must_use]
    pub const fn has_fast_commit(self) -> bool {
        self.compat & Self::COMPAT_FAST_COMMIT != 0
    }

    /// Metadata carries checksums. They are not verified: other checks find the same errors, or the
    /// error only costs a useless read.
    #[must_use]
    pub const fn has_metadata_csum(self) -> bool {
        self.ro_compat & Self::RO_COMPAT_METADATA_CSUM != 0
    }

    const fn has_sparse_super(self) -> bool {
        self.ro_compat & Self::RO_COMPAT_SPARSE_SUPER != 0
    }

    const fn has_sparse_super2(self) -> bool {
        self.compat & Self::COMPAT_SPARSE_SUPER2 != 0
    }
}

/// Where one inode lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodeLocation {
    /// Offset from the start of the file system.
    pub offset_bytes: u64,
    /// The size of an inode; it never crosses a block.
    pub length_bytes: u32,
}

/// The inode table of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InodeTable {
    first_block: u64,
    /// Inodes at its end that were never used.
    unused_inodes: u32,
}

/// The shape of one file system, and the places of the inode tables loaded so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    features: Features,
    uuid: [u8; 16],
    has_errors: bool,
    block_bytes: u32,
    blocks: u64,
    first_data_block: u32,
    blocks_per_group: u32,
    groups: u32,
    inodes: u32,
    inodes_per_group: u32,
    inode_bytes: u32,
    descriptor_bytes: u32,
    first_meta_bg: u32,
    backup_groups: [u32; 2],
    /// Inode tables by group. Only of the groups asked for: a file system of 16 TB has 131,072.
    inode_tables: HashMap<u32, InodeTable>,
}

impl Geometry {
    /// Reads and checks the superblock.
    ///
    /// # Errors
    ///
    /// When it can't be read, is none, is damaged, or has incompatible features that are not known
    /// here.
    pub fn read<S: BlockSource>(source: &mut S) -> Result<Self, Ext4Error> {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        source.read_at(SUPERBLOCK_OFFSET_BYTES, &mut bytes)?;
        Self::parse(&bytes)
    }

    /// As [`Geometry::read`], from the 1024 bytes at byte 1024 of the device.
    ///
    /// # Errors
    ///
    /// As [`Geometry::read`].
    pub fn parse(superblock: &[u8]) -> Result<Self, Ext4Error> {
        let fields = Fields::new(superblock, "superblock");
        let magic = fields.u16(0x38)?;
        if magic != MAGIC {
            return Err(Ext4Error::NotExt4 { magic });
        }
        let features = Features {
            compat: fields.u32(0x5c)?,
            incompat: fields.u32(0x60)?,
            ro_compat: fields.u32(0x64)?,
        };
        let unknown = features.incompat & !Features::INCOMPAT_KNOWN;
        if unknown != 0 {
            return Err(Ext4Error::UnknownFeatures { bits: unknown });
        }
        let log_block_size = fields.u32(0x18)?;
        if log_block_size > LOG_BLOCK_SIZE_MAX {
            return bad("s_log_block_size", log_block_size);
        }
        let mut uuid = [0; 16];
        uuid.copy_from_slice(fields.slice(0x68, 16)?);
        let blocks_high = if features.is_64bit() {
            u64::from(fields.u32(0x150)?) << 32
        } else {
            0
        };
        let geometry = Self {
            features,
            uuid,
            has_errors: fields.u16(0x3a)? & STATE_ERRORS != 0 || fields.u32(0x194)? != 0,
            block_bytes: 1024 << log_block_size,
            blocks: u64::from(fields.u32(0x4)?) | blocks_high,
            first_data_block: fields.u32(0x14)?,
            blocks_per_group: fields.u32(0x20)?,
            groups: 0,
            inodes: fields.u32(0)?,
            inodes_per_group: fields.u32(0x28)?,
            // Revision 0 has no such field.
            inode_bytes: match fields.u32(0x4c)? {
                0 => INODE_BYTES_MIN,
                _ => u32::from(fields.u16(0x58)?),
            },
            descriptor_bytes: match features.is_64bit() {
                true => u32::from(fields.u16(0xfe)?),
                false => DESCRIPTOR_BYTES,
            },
            first_meta_bg: fields.u32(0x104)?,
            backup_groups: [fields.u32(0x24c)?, fields.u32(0x250)?],
            inode_tables: HashMap::new(),
        };
        geometry.checked()
    }

    /// Refuses values that would make later arithmetic wrong, and counts the groups.
    fn checked(mut self) -> Result<Self, Ext4Error> {
        let block_bytes = self.block_bytes;
        if self.blocks.checked_mul(u64::from(block_bytes)).is_none() {
            return bad("s_blocks_count", self.blocks);
        }
        if u64::from(self.first_data_block) >= self.blocks {
            return bad("s_first_data_block", self.first_data_block);
        }
        if self.blocks_per_group == 0 {
            return bad("s_blocks_per_group", self.blocks_per_group);
        }
        if self.inodes_per_group == 0 || self.inodes_per_group > block_bytes * 8 {
            return bad("s_inodes_per_group", self.inodes_per_group);
        }
        let inode_bytes = self.inode_bytes;
        if !inode_bytes.is_power_of_two() || !(INODE_BYTES_MIN..=block_bytes).contains(&inode_bytes)
        {
            return bad("s_inode_size", inode_bytes);
        }
        let descriptor_bytes = self.descriptor_bytes;
        let descriptor_bytes_min = if self.features.is_64bit() {
            DESCRIPTOR_BYTES_64BIT
        } else {
            DESCRIPTOR_BYTES
        };
        if !descriptor_bytes.is_power_of_two()
            || !(descriptor_bytes_min..=1024).contains(&descriptor_bytes)
        {
            return bad("s_desc_size", descriptor_bytes);
        }
        let data_blocks = self.blocks - u64::from(self.first_data_block);
        let groups = data_blocks.div_ceil(u64::from(self.blocks_per_group));
        self.groups =
            u32::try_from(groups).or_else(|_| bad("s_blocks_per_group", self.blocks_per_group))?;
        if u64::from(self.inodes) > groups * u64::from(self.inodes_per_group) {
            return bad("s_inodes_count", self.inodes);
        }
        Ok(self)
    }

    /// Which features the file system has.
    #[must_use]
    pub const fn features(&self) -> Features {
        self.features
    }

    /// The file system's own name, by which a device is told from another.
    #[must_use]
    pub const fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Whether the kernel has found errors since e2fsck last ran.
    #[must_use]
    pub const fn has_errors(&self) -> bool {
        self.has_errors
    }

    /// Size of a block: a power of two from 1 KiB to 64 KiB.
    #[must_use]
    pub const fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// Number of blocks, at least 1.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Number of block groups, at least 1.
    #[must_use]
    pub const fn groups(&self) -> u32 {
        self.groups
    }

    /// The block group of a block.
    #[must_use]
    pub fn group_of_block(&self, block: u64) -> u64 {
        block.saturating_sub(self.first_data_block.into()) / u64::from(self.blocks_per_group)
    }

    /// The blocks of a group.
    #[must_use]
    pub fn blocks_of_group(&self, group: u64) -> Range<u64> {
        let length = u64::from(self.blocks_per_group);
        let start = group.saturating_mul(length);
        let start = start.saturating_add(self.first_data_block.into());
        start.min(self.blocks)..start.saturating_add(length).min(self.blocks)
    }

    /// The highest inode number; the lowest is 1.
    #[must_use]
    pub const fn inodes(&self) -> u32 {
        self.inodes
    }

    /// Size of an inode: a power of two from 128 to the block size.
    #[must_use]
    pub const fn inode_bytes(&self) -> u32 {
        self.inode_bytes
    }

    /// The bytes of `length_blocks` blocks from `block`.
    ///
    /// # Errors
    ///
    /// When they are not all on the file system.
    pub fn block_extent(&self, block: u64, length_blocks: u32) -> Result<Extent, Ext4Error> {
        self.check_blocks(block, length_blocks)?;
        let block_bytes = u64::from(self.block_bytes);
        Ok(Extent {
            offset_bytes: block * block_bytes,
            length_bytes: u64::from(length_blocks) * block_bytes,
        })
    }

    /// Whether these blocks can hold anything: inside the file system, and not before or on its
    /// first superblock, as the kernel checks it.
    pub(super) fn check_blocks(&self, block: u64, length_blocks: u32) -> Result<(), Ext4Error> {
        let end = block.checked_add(u64::from(length_blocks));
        let inside = end.is_some_and(|end| end <= self.blocks);
        if inside && length_blocks > 0 && block > u64::from(self.first_data_block) {
            Ok(())
        } else {
            Err(Ext4Error::BlockOutside {
                block,
                blocks: self.blocks,
            })
        }
    }

    fn group_of(&self, inode: u64) -> Result<(u32, u32), Ext4Error> {
        match u32::try_from(inode) {
            Ok(number) if (1..=self.inodes).contains(&number) => {
                let index = number - 1;
                Ok((index / self.inodes_per_group, index % self.inodes_per_group))
            }
            _ => Err(Ext4Error::NoSuchInode {
                inode,
                inodes: self.inodes,
            }),
        }
    }

    const fn descriptors_per_block(&self) -> u32 {
        self.block_bytes / self.descriptor_bytes
    }

    /// The block with number `index` of the group descriptors. The rules are the kernel's
    /// (`descriptor_loc`, `ext4_bg_has_super`).
    fn descriptor_block(&self, index: u32) -> u64 {
        // The superblock is at byte 1024: alone in block 1, or inside block 0.
        let superblock = u64::from(self.block_bytes == 1024);
        if !self.features.has_meta_bg() || index < self.first_meta_bg {
            return superblock + 1 + u64::from(index);
        }
        let group = u64::from(index) * u64::from(self.descriptors_per_block());
        let mut skipped = u64::from(self.has_superblock(group));
        // With clusters, blocks of 1 KiB count from 0, and the superblock is still in block 1.
        if self.block_bytes == 1024 && index == 0 && self.first_data_block == 0 {
            skipped += 1;
        }
        let first = group * u64::from(self.blocks_per_group) + u64::from(self.first_data_block);
        first + skipped
    }

    fn has_superblock(&self, group: u64) -> bool {
        if group == 0 {
            return true;
        }
        if self.features.has_sparse_super2() {
            return self
                .backup_groups
                .iter()
                .any(|&backup| u64::from(backup) == group);
        }
        if group == 1 || !self.features.has_sparse_super() {
            return true;
        }
        [3, 5, 7].iter().any(|&base| is_power_of(group, base))
    }

    /// Which descriptor blocks are needed for these inodes and not loaded, each once, in order of
    /// their index.
    fn descriptor_indexes(&self, inodes: impl Iterator<Item = u64>) -> Vec<u32> {
        let mut indexes = Vec::new();
        for inode in inodes {
            if let Ok((group, _)) = self.group_of(inode)
                && !self.inode_tables.contains_key(&group)
            {
                let index = group / self.descriptors_per_block();
                // Inodes come in runs of the same group; this keeps the list short before the sort.
                if indexes.last() != Some(&index) {
                    indexes.push(index);
                }
            }
        }
        indexes.sort_unstable();
        indexes.dedup();
        indexes
    }

    /// Extents that [`Geometry::load_groups`] will read for these inodes, sorted and merged. Inodes
    /// that don't exist are skipped.
    #[must_use]
    pub fn descriptor_extents(&self, inodes: impl Iterator<Item = u64>) -> Vec<Extent> {
        let blocks = self.descriptor_indexes(inodes).into_iter();
        let extents =
            blocks.filter_map(|index| self.block_extent(self.descriptor_block(index), 1).ok());
        merge_extents(extents.collect(), 0)
    }

    /// Reads the group descriptors of these inodes, if they weren't yet. Inodes that don't exist
    /// are passed over.
    ///
    /// # Errors
    ///
    /// When a descriptor can't be read or lies outside the file system. What was loaded before
    /// stays.
    pub fn load_groups<S: BlockSource>(
        &mut self,
        source: &mut S,
        inodes: impl Iterator<Item = u64>,
    ) -> Result<(), Ext4Error> {
        let mut buffer = vec![0; self.block_bytes as usize];
        for index in self.descriptor_indexes(inodes) {
            let extent = self.block_extent(self.descriptor_block(index), 1)?;
            source.read_at(extent.offset_bytes, &mut buffer)?;
            self.parse_descriptors(index, &buffer)?;
        }
        Ok(())
    }

    /// Notes the inode tables that a block of descriptors tells of. A table outside the file system
    /// is left out, so that one bad descriptor doesn't spoil its neighbours.
    fn parse_descriptors(&mut self, index: u32, block: &[u8]) -> Result<(), Ext4Error> {
        let first_group = index * self.descriptors_per_block();
        let table_blocks = self
            .inodes_per_group
            .div_ceil(self.block_bytes / self.inode_bytes);
        let descriptors = block.chunks_exact(self.descriptor_bytes as usize);
        for (group, descriptor) in (first_group..self.groups).zip(descriptors) {
            let fields = Fields::new(descriptor, "group descriptor");
            let table = match self.descriptor_bytes >= DESCRIPTOR_BYTES_64BIT {
                true => fields.u32_pair(0x8, 0x28)?,
                false => u64::from(fields.u32(0x8)?),
            };
            if self.check_blocks(table, table_blocks).is_ok() {
                let table = InodeTable {
                    first_block: table,
                    unused_inodes: self.unused_inodes(&fields)?,
                };
                self.inode_tables.insert(group, table);
            }
        }
        Ok(())
    }

    /// Number of inodes at the end of a group that were never used, by its descriptor.
    fn unused_inodes(&self, fields: &Fields<'_>) -> Result<u32, Ext4Error> {
        const INODES_UNUSED: u16 = 1;
        // Without checksums the count isn't kept.
        if !self.features.has_metadata_csum() {
            return Ok(0);
        }
        if fields.u16(0x12)? & INODES_UNUSED != 0 {
            return Ok(self.inodes_per_group);
        }
        let high = match self.descriptor_bytes >= DESCRIPTOR_BYTES_64BIT {
            true => fields.u16(0x32)?,
            false => 0,
        };
        let unused = u32::from(high) << 16 | u32::from(fields.u16(0x1c)?);
        Ok(unused.min(self.inodes_per_group))
    }

    /// The numbers of all inodes of an inode's group that may be in use.
    ///
    /// # Errors
    ///
    /// As [`Geometry::inode_location`].
    pub fn used_inodes_beside(&self, inode: u64) -> Result<Range<u64>, Ext4Error> {
        let (group, _) = self.group_of(inode)?;
        let table = self
            .inode_tables
            .get(&group)
            .ok_or(Ext4Error::GroupNotLoaded { group })?;
        let first = u64::from(group) * u64::from(self.inodes_per_group) + 1;
        Ok(first..first + u64::from(self.inodes_per_group - table.unused_inodes))
    }

    /// Where an inode lies.
    ///
    /// # Errors
    ///
    /// When there is no such inode, or its group was not loaded by [`Geometry::load_groups`] (or
    /// was, and is damaged).
    pub fn inode_location(&self, inode: u64) -> Result<InodeLocation, Ext4Error> {
        let (group, index) = self.group_of(inode)?;
        let table = self
            .inode_tables
            .get(&group)
            .ok_or(Ext4Error::GroupNotLoaded { group })?;
        Ok(InodeLocation {
            offset_bytes: table.first_block * u64::from(self.block_bytes)
                + u64::from(index) * u64::from(self.inode_bytes),
            length_bytes: self.inode_bytes,
        })
    }

    /// The blocks that hold these inodes, sorted and merged. Inodes whose place isn't known are
    /// passed over.
    #[must_use]
    pub fn inode_table_extents(&self, inodes: impl Iterator<Item = u64>) -> Vec<Extent> {
        let block_bytes = u64::from(self.block_bytes);
        let mut extents: Vec<Extent> = Vec::new();
        for inode in inodes {
            let Ok(location) = self.inode_location(inode) else {
                continue;
            };
            let offset_bytes = location.offset_bytes - location.offset_bytes % block_bytes;
            let extent = Extent {
                offset_bytes,
                length_bytes: block_bytes,
            };
            if extents.last() != Some(&extent) {
                extents.push(extent);
            }
        }
        merge_extents(extents, 0)
    }
}

fn bad<T>(field: &'static str, value: impl Into<u64>) -> Result<T, Ext4Error> {
    Err(Ext4Error::BadSuperblock {
        field,
        value: value.into(),
    })
}

fn is_power_of(mut number: u64, base: u64) -> bool {
    while number > 1 && number.is_multiple_of(base) {
        number /= base;
    }
    number == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 300 groups of 8,192 blocks of 1 KiB, 16 descriptors a block, all in meta groups.
    fn geometry(features: Features) -> Geometry {
        Geometry {
            features,
            uuid: [0; 16],
            has_errors: false,
            block_bytes: 1024,
            blocks: 300 * 8192 + 1,
            first_data_block: 1,
            blocks_per_group: 8192,
            groups: 300,
            inodes: 300 * 512,
            inodes_per_group: 512,
            inode_bytes: 256,
            descriptor_bytes: 64,
            first_meta_bg: 0,
            backup_groups: [16, 37],
            inode_tables: HashMap::new(),
        }
    }

    fn groups_with_superblock(features: Features) -> Vec<u64> {
        let geometry = geometry(features);
        (0..130)
            .filter(|&group| geometry.has_superblock(group))
            .collect()
    }

    #[test]
    fn superblocks_are_where_the_features_say() {
        let sparse = Features {
            ro_compat: Features::RO_COMPAT_SPARSE_SUPER,
            ..Features::default()
        };
        assert_eq!(
            groups_with_superblock(sparse),
            [0, 1, 3, 5, 7, 9, 25, 27, 49, 81, 125]
        );
        let sparse2 = Features {
            compat: Features::COMPAT_SPARSE_SUPER2,
            ..sparse
        };
        assert_eq!(groups_with_superblock(sparse2), [0, 16, 37]);
        assert_eq!(groups_with_superblock(Features::default()).len(), 130);
    }

    #[test]
    fn inodes_that_were_never_used_are_left_out() {
        let csum = Features {
            ro_compat: Features::RO_COMPAT_METADATA_CSUM,
            ..Features::default()
        };
        let used = |features: Features, flags: u16, unused: u16| {
            let mut geometry = geometry(features);
            let mut descriptor = vec![0; geometry.descriptor_bytes as usize];
            descriptor[0x8] = 9;
            descriptor[0x12..0x14].copy_from_slice(&flags.to_le_bytes());
            descriptor[0x1c..0x1e].copy_from_slice(&unused.to_le_bytes());
            let fields = Fields::new(&descriptor, "group descriptor");
            let table = InodeTable {
                first_block: 9,
                unused_inodes: geometry.unused_inodes(&fields).unwrap(),
            };
            geometry.inode_tables.insert(0, table);
            geometry.used_inodes_beside(2).unwrap()
        };
        let all = geometry(csum).inodes_per_group;
        assert_eq!(used(csum, 0, 5), 1..u64::from(all) + 1 - 5);
        assert_eq!(used(csum, 1, 5), 1..1);
        assert_eq!(used(csum, 0, u16::MAX), 1..1);
        // The number is unknown.
        assert_eq!(used(Features::default(), 1, 5), 1..u64::from(all) + 1);
        assert!(geometry(csum).used_inodes_beside(0).is_err());
    }

    #[test]
    fn descriptors_of_meta_groups_come_after_a_superblock_if_there_is_one() {
        let meta = Features {
            compat: Features::COMPAT_SPARSE_SUPER2,
            incompat: Features::INCOMPAT_META_BG | Features::INCOMPAT_64BIT,
            ro_compat: 0,
        };
        let mut geometry = geometry(meta);
        let blocks: Vec<_> = (0..3)
            .map(|index| geometry.descriptor_block(index))
            .collect();
        assert_eq!(blocks, [2, 16 * 8192 + 2, 32 * 8192 + 1]);
        // Groups before the first meta group have theirs together at the front.
        geometry.first_meta_bg = 2;
        let blocks: Vec<_> = (0..3)
            .map(|index| geometry.descriptor_block(index))
            .collect();
        assert_eq!(blocks, [2, 3, 32 * 8192 + 1]);
    }
}
