// SPDX-License-Identifier: MIT OR Apache-2.0
//! The structs of `bpf/record.h`, read field by field from the bytes that the kernel gives.

use std::mem::offset_of;
use std::ops::AddAssign;

use foreread_bpf::field;
use foreread_bpf::skeletons::record::types::{
    access_record, chunk_key, chunk_value, counts, inode_key, inode_value, node_record, path_record,
};

/// Pages in a chunk: a bit each in a bitmap.
pub const CHUNK_PAGES: u64 = 64;

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
            need_ns: field!(bytes, chunk_value, need_ns).unwrap_or(0),
            used: field!(bytes, chunk_value, used).unwrap_or(0),
            fetched: field!(bytes, chunk_value, fetched).unwrap_or(0),
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
            number: field!(key, inode_key, number).unwrap_or(0),
            generation: field!(key, inode_key, generation).unwrap_or(0),
            device: field!(key, inode_key, device).unwrap_or(0),
            first: Chunk::from_bytes(value.get(offset_of!(inode_value, first)..).unwrap_or(&[])),
            need_ns: field!(value, inode_value, need_ns).unwrap_or(0),
            id: field!(value, inode_value, id).unwrap_or(0),
            uses: field!(value, inode_value, uses).unwrap_or(0),
            size_bytes: field!(value, inode_value, size_bytes).unwrap_or(0),
            mode: field!(value, inode_value, mode).unwrap_or(0),
        }
    }
}

/// `struct chunk_key`: an inode's number in the recording, and which chunk.
pub(crate) fn chunk_of(key: &[u8]) -> (u32, u32) {
    let id = field!(key, chunk_key, id).unwrap_or(0);
    (id, field!(key, chunk_key, chunk).unwrap_or(0))
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

fn access(bytes: &[u8]) -> Option<AccessRecord> {
    let bytes = bytes.get(..size_of::<access_record>())?;
    let name = field!(bytes, access_record, name)?;
    let map_start_bytes = field!(bytes, access_record, map_start_bytes)?;
    let map_end_bytes = field!(bytes, access_record, map_end_bytes)?;
    Some(AccessRecord {
        kind: match field!(bytes, access_record, kind)? {
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
        id: field!(bytes, access_record, id)?,
        pid: field!(bytes, access_record, pid)?,
        tid: field!(bytes, access_record, tid)?,
        parent_tid: field!(bytes, access_record, parent_tid)?,
        time_ns: field!(bytes, access_record, time_ns)?,
        start_bytes: field!(bytes, access_record, start_bytes)?,
        length_bytes: field!(bytes, access_record, length_bytes)?,
        file: field!(bytes, access_record, file)?,
        size_bytes: field!(bytes, access_record, size_bytes)?,
        waited_ns: field!(bytes, access_record, waited_ns)?,
        first_waited_ns: field!(bytes, access_record, first_waited_ns)?,
        name: name.split(|byte| *byte == 0).next()?.to_vec(),
        asked_bytes: field!(bytes, access_record, asked_bytes)?,
        map_bytes: (map_start_bytes, map_end_bytes),
        mapping: MappingBits(field!(bytes, access_record, mapping)?),
        advice: field!(bytes, access_record, advice)?,
        device: field!(bytes, access_record, device)?,
    })
}

fn node(bytes: &[u8]) -> Option<NodeRecord> {
    let name = bytes.get(offset_of!(node_record, name)..)?;
    let length = usize::from(field!(bytes, node_record, name_length)?);
    Some(NodeRecord {
        id: field!(bytes, node_record, id)?,
        parent: field!(bytes, node_record, parent)?,
        generation: field!(bytes, node_record, generation)?,
        number: field!(bytes, node_record, number)?,
        device: field!(bytes, node_record, device)?,
        mode: field!(bytes, node_record, mode)?,
        need_ns: field!(bytes, node_record, need_ns)?,
        name: name.get(..length)?.to_vec(),
    })
}

fn path(bytes: &[u8]) -> Option<PathRecord> {
    let path = bytes.get(offset_of!(path_record, path)..)?;
    let length = field!(bytes, path_record, path_length)? as usize;
    Some(PathRecord {
        directory: field!(bytes, path_record, directory)?,
        result: field!(bytes, path_record, result)?,
        uses: field!(bytes, path_record, uses)?,
        need_ns: field!(bytes, path_record, need_ns)?,
        path: path.get(..length)?.to_vec(),
        no_follow: field!(bytes, path_record, flags)? & 1 != 0,
    })
}

pub(crate) fn record(bytes: &[u8]) -> Option<Record> {
    // The type comes first in each of them.
    match field!(bytes, node_record, r#type)? {
        1 => node(bytes).map(Record::Node),
        2 => path(bytes).map(Record::Path),
        3 => access(bytes).map(Record::Access),
        _ => None,
    }
}

const _: () = assert!(
    offset_of!(node_record, r#type) == offset_of!(path_record, r#type)
        && offset_of!(node_record, r#type) == offset_of!(access_record, r#type)
);

macro_rules! counts {
    (
        $($(#[$doc:meta])* $name:ident,)*
        ;
        $($(#[$doc_here:meta])* $name_here:ident,)*
    ) => {
        /// `struct counts`, summed over all CPUs.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
            $($(#[$doc_here])* pub $name_here: u64,)*
        }

        impl Counts {
            /// Of one CPU. What the kernel's side does not count is 0.
            pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
                Self {
                    $($name: field!(bytes, counts, $name).unwrap_or(0),)*
                    $($name_here: 0,)*
                }
            }
        }

        impl AddAssign for Counts {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
                $(self.$name_here += other.$name_here;)*
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
    ;
    /// Events of the whole machine at which the kernel has not run a program; at most so many were
    /// the program's own.
    missed_events,
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
            missed_events,
            ..
        } = self;
        let no_room = lost_records + lost_inodes + lost_chunks + lost_processes;
        no_room + lost_paths + lost_faults + missed_events
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
