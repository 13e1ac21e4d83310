// SPDX-License-Identifier: MIT OR Apache-2.0
//! The structs of `bpf/record.h`, read field by field from the bytes that the kernel gives.

use std::ops::AddAssign;

/// Pages in a chunk: a bit each in a bitmap.
pub const CHUNK_PAGES: u64 = 64;

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes
        .get(at..at + 2)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..at + 8)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u64::from_ne_bytes)
}

/// `struct chunk_value`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// First access by the program, from its start; 0 never.
    pub need_ns: u64,
    /// A bit a page: accessed by the program.
    pub used: u64,
    /// A bit a page: brought in by the replay.
    pub fetched: u64,
}

impl Chunk {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Self {
            need_ns: u64_at(bytes, 0),
            used: u64_at(bytes, 8),
            fetched: u64_at(bytes, 16),
        }
    }
}

/// `struct inode_key`, without the pointer, and `struct inode_value`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InodeEntry {
    /// Inode number.
    pub number: u64,
    /// Inode generation.
    pub generation: u32,
    /// Superblock, as in the kernel: 12 bits major, 20 bits minor.
    pub device: u32,
    /// Its first 64 pages.
    pub first: Chunk,
    /// When it was first seen, from the start of the program.
    pub need_ns: u64,
    /// Its number in the recording.
    pub id: u32,
    /// Bits as in the profile's `Uses`.
    pub uses: u32,
    /// Size when it was first seen.
    pub size_bytes: u64,
    /// Type and permissions.
    pub mode: u16,
}

impl InodeEntry {
    pub(crate) fn from_bytes(key: &[u8], value: &[u8]) -> Self {
        Self {
            number: u64_at(key, 8),
            generation: u32_at(key, 16),
            device: u32_at(key, 20),
            first: Chunk::from_bytes(value),
            need_ns: u64_at(value, 24),
            id: u32_at(value, 32),
            uses: u32_at(value, 36),
            size_bytes: u64_at(value, 40),
            mode: u16_at(value, 48),
        }
    }
}

/// `struct chunk_key`: an inode's number in the recording, and which chunk.
pub(crate) fn chunk_key(bytes: &[u8]) -> (u32, u32) {
    (u32_at(bytes, 0), u32_at(bytes, 4))
}

/// `struct node_record`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRecord {
    /// Its number in the recording.
    pub id: u32,
    /// Number of the directory it is in; 0 at the root of its file system.
    pub parent: u32,
    /// Inode generation.
    pub generation: u32,
    /// Inode number.
    pub number: u64,
    /// Superblock, as in the kernel: 12 bits major, 20 bits minor.
    pub device: u32,
    /// Type and permissions.
    pub mode: u16,
    /// When it was first seen, from the start of the program.
    pub need_ns: u64,
    /// Name in its directory; empty at the root of its file system.
    pub name: Vec<u8>,
}

/// `struct path_record`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathRecord {
    /// Number of the node that the path starts from.
    pub directory: u32,
    /// What the call returned: a negative errno, or 0.
    pub result: i32,
    /// Bits as in the profile's `Uses`.
    pub uses: u32,
    /// When, from the start of the program.
    pub need_ns: u64,
    /// As the program gave it.
    pub path: Vec<u8>,
    /// The call didn't follow a symlink at the end of the path.
    pub no_follow: bool,
}

/// How a file was accessed: `enum access_kind`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessKind {
    /// Pages that a read asks for; more of the same read may follow.
    #[default]
    Read,
    /// A call that has returned: these bytes.
    ReadCall,
    /// A fault, before its wait.
    Fault,
    /// Pages mapped around a fault, from its page on where that is known.
    Mapped,
    /// No access: the thread ends.
    Exit,
    /// Pages of a block device are brought in, before their wait.
    Metadata,
    /// No access: a call that has waited for no data returns.
    Call,
    /// A file was opened.
    Open,
    /// Advice was given.
    Advice,
    /// A block of metadata that isn't read yet is asked for, in its page.
    Block,
}

impl AccessKind {
    /// Whether it is about a block device's own pages.
    #[must_use]
    pub const fn is_metadata(self) -> bool {
        matches!(self, Self::Metadata | Self::Block)
    }
}

/// What is known of the mapping that a fault is in: `MAPPING_` bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappingBits(pub u32);

impl MappingBits {
    /// All of the others, and the page is the one that faulted.
    pub const KNOWN: u32 = 1;
    /// It is to be executed.
    pub const EXEC: u32 = 1 << 1;
    /// It was advised to be sequential.
    pub const SEQUENTIAL: u32 = 1 << 2;
    /// It was advised to be random.
    pub const RANDOM: u32 = 1 << 3;

    /// Whether this bit is set.
    #[must_use]
    pub const fn has(self, bit: u32) -> bool {
        self.0 & bit != 0
    }
}

/// `struct access_record`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessRecord {
    /// How.
    pub kind: AccessKind,
    /// Number of the file's node; 0 of none.
    pub id: u32,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// The thread that started it.
    pub parent_tid: u32,
    /// When, from the start of the program.
    pub time_ns: u64,
    /// First byte.
    pub start_bytes: u64,
    /// How many bytes.
    pub length_bytes: u64,
    /// Tells open files apart; 0 when not known.
    pub file: u64,
    /// Size of the file.
    pub size_bytes: u64,
    /// How long the thread waited for reads since its record before.
    pub waited_ns: u64,
    /// The first of these waits.
    pub first_waited_ns: u64,
    /// Name of the thread.
    pub name: Vec<u8>,
    /// How many bytes a call asked for; 0 when not known.
    pub asked_bytes: u64,
    /// What of the file the mapping of a fault covers: first byte, and the one after the last.
    pub map_bytes: (u64, u64),
    /// What else is known of that mapping.
    pub mapping: MappingBits,
    /// As for `posix_fadvise`.
    pub advice: u32,
    /// Of metadata, the block device: 12 bits major, 20 bits minor.
    pub device: u32,
}

/// What the ring buffer carries.
pub(crate) enum Record {
    Node(NodeRecord),
    Path(PathRecord),
    Access(AccessRecord),
}

/// Size of `struct access_record`.
const ACCESS_BYTES: usize = 136;

fn access(bytes: &[u8]) -> Option<AccessRecord> {
    let bytes = bytes.get(..ACCESS_BYTES)?;
    let name = bytes.get(80..96)?;
    let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
    Some(AccessRecord {
        kind: match u32_at(bytes, 4) {
            0 => AccessKind::Read,
            1 => AccessKind::ReadCall,
            2 => AccessKind::Fault,
            3 => AccessKind::Mapped,
            4 => AccessKind::Exit,
            5 => AccessKind::Metadata,
            6 => AccessKind::Call,
            7 => AccessKind::Open,
            8 => AccessKind::Advice,
            9 => AccessKind::Block,
            _ => return None,
        },
        id: u32_at(bytes, 8),
        pid: u32_at(bytes, 12),
        tid: u32_at(bytes, 16),
        parent_tid: u32_at(bytes, 20),
        time_ns: u64_at(bytes, 24),
        start_bytes: u64_at(bytes, 32),
        length_bytes: u64_at(bytes, 40),
        file: u64_at(bytes, 48),
        size_bytes: u64_at(bytes, 56),
        waited_ns: u64_at(bytes, 64),
        first_waited_ns: u64_at(bytes, 72),
        name: name[..end].to_vec(),
        asked_bytes: u64_at(bytes, 96),
        map_bytes: (u64_at(bytes, 104), u64_at(bytes, 112)),
        mapping: MappingBits(u32_at(bytes, 120)),
        advice: u32_at(bytes, 124),
        device: u32_at(bytes, 128),
    })
}

const NODE_NAME_AT: usize = 40;
const PATH_AT: usize = 32;

pub(crate) fn record(bytes: &[u8]) -> Option<Record> {
    match u32_at(bytes, 0) {
        1 => {
            let length = usize::from(u16_at(bytes, 30));
            Some(Record::Node(NodeRecord {
                id: u32_at(bytes, 4),
                parent: u32_at(bytes, 8),
                generation: u32_at(bytes, 12),
                number: u64_at(bytes, 16),
                device: u32_at(bytes, 24),
                mode: u16_at(bytes, 28),
                need_ns: u64_at(bytes, 32),
                name: bytes.get(NODE_NAME_AT..NODE_NAME_AT + length)?.to_vec(),
            }))
        }
        2 => {
            let length = u32_at(bytes, 24) as usize;
            Some(Record::Path(PathRecord {
                directory: u32_at(bytes, 4),
                result: u32_at(bytes, 8) as i32,
                uses: u32_at(bytes, 12),
                need_ns: u64_at(bytes, 16),
                path: bytes.get(PATH_AT..PATH_AT + length)?.to_vec(),
                no_follow: u32_at(bytes, 28) & 1 != 0,
            }))
        }
        3 => access(bytes).map(Record::Access),
        _ => None,
    }
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// `struct counts`, summed over all CPUs.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counts {
            pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
                let mut at = (0..).step_by(8);
                let mut next = || at.next().map_or(0, |at| u64_at(bytes, at));
                Self { $($name: next(),)* }
            }
        }

        impl AddAssign for Counts {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counts! {
    /// Page accesses seen, hits included.
    calls,
    /// Of these, with a page not accessed before.
    news,
    /// Time that threads of the program waited for reads.
    stall_ns,
    /// How often they did.
    stalls,
    /// Pages of file data that the program itself brought into the page cache.
    missed_pages,
    /// The same, of block devices.
    missed_metadata_pages,
    /// Pages of file data that the replay brought in.
    fetched_pages,
    /// The same, of block devices.
    fetched_metadata_pages,
    /// Pages fetched by the replay and then accessed.
    used_pages,
    /// Of these, waited for.
    late_pages,
    /// Distinct pages that the program accessed.
    accessed_pages,
    /// Ring buffer full.
    lost_records,
    /// Table of inodes full.
    lost_inodes,
    /// Table of chunks full.
    lost_chunks,
    /// Table of processes full.
    lost_processes,
    /// A path that couldn't be read from the program's memory.
    lost_paths,
    /// A page fault whose mapping couldn't be looked at.
    lost_faults,
}

impl Counts {
    /// Events that should have been noted and weren't.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let Self {
            lost_records,
            lost_inodes,
            lost_chunks,
            lost_processes,
            lost_paths,
            lost_faults,
            ..
        } = self;
        lost_records + lost_inodes + lost_chunks + lost_processes + lost_paths + lost_faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_record_is_read() {
        let mut bytes = Vec::new();
        for word in [1u32, 7, 3, 9] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(42u64.to_ne_bytes());
        bytes.extend(0x0fe0_0001u32.to_ne_bytes());
        bytes.extend(0o100_644u16.to_ne_bytes());
        bytes.extend(3u16.to_ne_bytes());
        bytes.extend(5u64.to_ne_bytes());
        bytes.extend(b"abcX");
        let Some(Record::Node(node)) = record(&bytes) else {
            panic!("not a node")
        };
        assert_eq!(
            (node.id, node.parent, node.number, node.need_ns),
            (7, 3, 42, 5)
        );
        assert_eq!(node.name, b"abc");
        assert!(record(&bytes[..41]).is_none());
    }

    #[test]
    fn an_access_record_is_read() {
        let mut bytes = Vec::new();
        for word in [3u32, 2, 7, 100, 101, 99] {
            bytes.extend(word.to_ne_bytes());
        }
        for word in 1..=7u64 {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(b"reader\0 of bytes");
        for word in 8..=10u64 {
            bytes.extend(word.to_ne_bytes());
        }
        assert!(record(&bytes).is_none(), "cut short");
        for word in [3u32, 2, 9, 0] {
            bytes.extend(word.to_ne_bytes());
        }
        let Some(Record::Access(access)) = record(&bytes) else {
            panic!("not an access")
        };
        assert_eq!((access.kind, access.id), (AccessKind::Fault, 7));
        assert_eq!((access.pid, access.tid, access.parent_tid), (100, 101, 99));
        assert_eq!((access.time_ns, access.first_waited_ns), (1, 7));
        assert_eq!(access.name, b"reader");
        assert_eq!((access.asked_bytes, access.map_bytes), (8, (9, 10)));
        assert!(access.mapping.has(MappingBits::KNOWN) && access.mapping.has(MappingBits::EXEC));
        assert!(!access.mapping.has(MappingBits::RANDOM));
        assert_eq!((access.advice, access.device), (2, 9));
        bytes[4] = 10;
        assert!(record(&bytes).is_none(), "a kind that is none");
    }

    #[test]
    fn counts_add_up() {
        let bytes: Vec<u8> = (1u64..=17).flat_map(u64::to_ne_bytes).collect();
        let mut sum = Counts::from_bytes(&bytes);
        sum += sum;
        assert_eq!((sum.calls, sum.lost_faults), (2, 34));
        assert_eq!(sum.lost(), 2 * (12 + 13 + 14 + 15 + 16 + 17));
    }
}
