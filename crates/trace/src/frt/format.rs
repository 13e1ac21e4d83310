// SPDX-License-Identifier: MIT OR Apache-2.0
//! Constants of the stored form, and the header of a block.

/// First bytes of every trace.
pub const MAGIC: [u8; 8] = *b"FRTRACE\n";

/// The version that this code writes, and the newest that it reads.
pub const VERSION: u16 = 2;

/// Length of the header of the file, without its texts, in every version.
pub(super) const HEADER_BYTES: usize = 40;
/// Longest texts of a header: a command line and a kernel release, with their lengths.
pub(super) const HEADER_TEXTS_BYTES_MAX: usize =
    crate::limits::ARGUMENTS_BYTES_MAX + 3 * crate::limits::ARGUMENTS_MAX + 8192;

/// Longest content of a block of definitions or accesses. A trace that was cut off loses at most
/// this, a seek reads at most this for nothing, and zstd gains little from more.
pub(super) const BLOCK_BYTES_MAX: usize = 1 << 16;
/// Longest record: a definition with the longest path, or this many bytes of extents.
pub(super) const RECORD_BYTES_MAX: usize = 8192;

/// Length of the header of a block.
pub(super) const BLOCK_HEADER_BYTES: usize = 40;
/// Length of the last bytes of a whole trace.
pub(super) const TRAILER_BYTES: usize = 24;
/// First bytes of the trailer.
pub(super) const TRAILER_MAGIC: [u8; 8] = *b"FRTRINDX";

/// Most spans in the index. When there are more, neighbours are joined.
pub(super) const SPANS_MAX: usize = 1 << 15;
/// Longest index: each of the seven numbers of a span at its longest.
pub(super) const INDEX_BYTES_MAX: usize = SPANS_MAX * 70 + 16;

/// The content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum BlockKind {
    Definitions = 1,
    Accesses = 2,
    Index = 3,
}

/// How its content is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Method {
    Plain = 0,
    Zstd = 1,
}

/// The header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHeader {
    pub kind: BlockKind,
    pub method: Method,
    /// Bytes that follow the header.
    pub stored_bytes: usize,
    /// The same after unpacking.
    pub plain_bytes: usize,
    pub records: u32,
    /// Earliest time of its accesses; of other blocks, 0.
    pub first_ns: u64,
    /// Latest time of its accesses; of other blocks, 0.
    pub last_ns: u64,
    /// CRC-32 of the stored bytes.
    pub stored_crc: u32,
}

impl BlockHeader {
    pub fn to_bytes(self) -> [u8; BLOCK_HEADER_BYTES] {
        let mut out = [0; BLOCK_HEADER_BYTES];
        out[0] = self.kind as u8;
        out[1] = self.method as u8;
        out[4..8].copy_from_slice(&(self.stored_bytes as u32).to_le_bytes());
        out[8..12].copy_from_slice(&(self.plain_bytes as u32).to_le_bytes());
        out[12..16].copy_from_slice(&self.records.to_le_bytes());
        out[16..24].copy_from_slice(&self.first_ns.to_le_bytes());
        out[24..32].copy_from_slice(&self.last_ns.to_le_bytes());
        out[32..36].copy_from_slice(&self.stored_crc.to_le_bytes());
        let crc = crc32fast::hash(&out[..36]);
        out[36..40].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// `None` when these bytes are no header of a block that this version can have written.
    pub fn from_bytes(bytes: &[u8; BLOCK_HEADER_BYTES]) -> Option<Self> {
        if crc32fast::hash(&bytes[..36]) != u32_at(bytes, 36) {
            return None;
        }
        let kind = match bytes[0] {
            1 => BlockKind::Definitions,
            2 => BlockKind::Accesses,
            3 => BlockKind::Index,
            _ => return None,
        };
        let method = match bytes[1] {
            0 => Method::Plain,
            1 => Method::Zstd,
            _ => return None,
        };
        let header = Self {
            kind,
            method,
            stored_bytes: u32_at(bytes, 4) as usize,
            plain_bytes: u32_at(bytes, 8) as usize,
            records: u32_at(bytes, 12),
            first_ns: u64_at(bytes, 16),
            last_ns: u64_at(bytes, 24),
            stored_crc: u32_at(bytes, 32),
        };
        let most = match kind {
            BlockKind::Index => INDEX_BYTES_MAX,
            BlockKind::Definitions | BlockKind::Accesses => BLOCK_BYTES_MAX,
        };
        // Content that doesn't become shorter is stored as it is, so this bounds both sizes.
        let fits = header.stored_bytes <= header.plain_bytes && header.plain_bytes <= most;
        let same = method == Method::Zstd || header.stored_bytes == header.plain_bytes;
        (fits && same && header.first_ns <= header.last_ns).then_some(header)
    }
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
