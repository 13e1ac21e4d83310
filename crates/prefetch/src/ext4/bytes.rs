// SPDX-License-Identifier: MIT OR Apache-2.0
//! Little-endian fields of an on-disk structure.

use super::Ext4Error;

/// The bytes of one structure. Reading past its end is an error that names the structure.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    what: &'static str,
}

impl<'a> Fields<'a> {
    /// `what` is used in the error: "inode", "superblock".
    pub(super) const fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { bytes, what }
    }

    fn array<const N: usize>(&self, at: usize) -> Result<[u8; N], Ext4Error> {
        let field = self
            .bytes
            .get(at..)
            .and_then(|rest| rest.first_chunk::<N>());
        field.copied().ok_or(Ext4Error::Truncated {
            what: self.what,
            length_bytes: self.bytes.len(),
        })
    }

    /// The `length` bytes at `at`.
    pub(super) fn slice(&self, at: usize, length: usize) -> Result<&'a [u8], Ext4Error> {
        let rest = self.bytes.get(at..).and_then(|rest| rest.get(..length));
        rest.ok_or(Ext4Error::Truncated {
            what: self.what,
            length_bytes: self.bytes.len(),
        })
    }

    pub(super) fn u16(&self, at: usize) -> Result<u16, Ext4Error> {
        self.array(at).map(u16::from_le_bytes)
    }

    pub(super) fn u32(&self, at: usize) -> Result<u32, Ext4Error> {
        self.array(at).map(u32::from_le_bytes)
    }

    /// A number kept as two halves in different places.
    pub(super) fn u32_pair(&self, low_at: usize, high_at: usize) -> Result<u64, Ext4Error> {
        Ok(u64::from(self.u32(low_at)?) | u64::from(self.u32(high_at)?) << 32)
    }

    /// A block number kept as 32 low and 16 high bits.
    pub(super) fn u48(&self, low_at: usize, high_at: usize) -> Result<u64, Ext4Error> {
        Ok(u64::from(self.u32(low_at)?) | u64::from(self.u16(high_at)?) << 32)
    }
}
