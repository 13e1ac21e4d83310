// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the structs of `bpf/record.h`, field by field, from the bytes that the kernel gives.

use std::mem::offset_of;
use std::ops::Range;

use foreread_bpf::field;
use foreread_bpf::skeletons::record::types::{
    access_record, chunk_key, chunk_value, counts, device_record, group_record, inode_key,
    inode_value, node_record, path_record,
};
use foreread_recorder::accesses::{AccessKind, AccessRecord, MappingBits};
use foreread_recorder::{
    Chunk, Counts, DeviceRecord, GroupRecord, InodeEntry, NodeRecord, PathRecord, Record,
};

/// Reads `struct chunk_value`.
pub(crate) fn chunk(bytes: &[u8]) -> Chunk {
    Chunk {
        need_ns: field!(bytes, chunk_value, need_ns).unwrap_or(0),
        used: field!(bytes, chunk_value, used).unwrap_or(0),
        fetched: field!(bytes, chunk_value, fetched).unwrap_or(0),
        group: field!(bytes, chunk_value, group).unwrap_or(0),
    }
}

/// Reads `struct inode_key`, without the pointer, and `struct inode_value`.
pub(crate) fn inode(key: &[u8], value: &[u8]) -> InodeEntry {
    InodeEntry {
        number: field!(key, inode_key, number).unwrap_or(0),
        generation: field!(key, inode_key, generation).unwrap_or(0),
        device: field!(key, inode_key, device).unwrap_or(0),
        first: chunk(value.get(offset_of!(inode_value, first)..).unwrap_or(&[])),
        need_ns: field!(value, inode_value, need_ns).unwrap_or(0),
        id: field!(value, inode_value, id).unwrap_or(0),
        uses: field!(value, inode_value, uses).unwrap_or(0),
        size_bytes: field!(value, inode_value, size_bytes).unwrap_or(0),
        mode: field!(value, inode_value, mode).unwrap_or(0),
        group: field!(value, inode_value, group).unwrap_or(0),
    }
}

/// Reads `struct chunk_key`: an inode's number in the recording, and the number of the chunk.
pub(crate) fn chunk_of(key: &[u8]) -> (u32, u32) {
    let id = field!(key, chunk_key, id).unwrap_or(0);
    (id, field!(key, chunk_key, chunk).unwrap_or(0))
}

/// Reads `struct access_record`; the kinds are those of `enum access_kind`.
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
        group: field!(bytes, path_record, group)?,
    })
}

fn group(bytes: &[u8]) -> Option<GroupRecord> {
    let name = bytes.get(offset_of!(group_record, name)..)?;
    let length = field!(bytes, group_record, name_length)? as usize;
    Some(GroupRecord {
        number: field!(bytes, group_record, number)?,
        parent: field!(bytes, group_record, parent)?,
        name: name.get(..length)?.to_vec(),
    })
}

fn device(bytes: &[u8]) -> Option<DeviceRecord> {
    Some(DeviceRecord {
        device: field!(bytes, device_record, device)?,
        start_page: field!(bytes, device_record, start_page)?,
        pages: field!(bytes, device_record, pages)?,
        need_ns: field!(bytes, device_record, need_ns)?,
    })
}

/// Reads a record of the ring buffer.
pub(crate) fn record(bytes: &[u8]) -> Option<Record> {
    // The type comes first in each of them.
    match field!(bytes, node_record, r#type)? {
        1 => node(bytes).map(Record::Node),
        2 => path(bytes).map(Record::Path),
        3 => access(bytes).map(Record::Access),
        4 => group(bytes).map(Record::Group),
        5 => device(bytes).map(Record::Device),
        _ => None,
    }
}

/// Tells path records that say what the one before said, but for the time. A program that looks at
/// the same name in a loop sends 800,000 of them a second. To read and merge each would take longer
/// than to send it, so that the ring buffer overflows.
#[derive(Default)]
pub(crate) struct Repeats {
    last: Vec<u8>,
}

impl Repeats {
    pub(crate) fn are_of(&mut self, bytes: &[u8]) -> bool {
        /// Where the time is, which differs.
        const TIME: Range<usize> =
            offset_of!(path_record, need_ns)..offset_of!(path_record, need_ns) + size_of::<u64>();
        let is_path = field!(bytes, path_record, r#type) == Some(2);
        if is_path
            && bytes.len() == self.last.len()
            && bytes.get(..TIME.start) == self.last.get(..TIME.start)
            && bytes.get(TIME.end..) == self.last.get(TIME.end..)
        {
            return true;
        }
        self.last.clear();
        if is_path {
            self.last.extend_from_slice(bytes);
        }
        false
    }
}

const _: () = assert!(
    offset_of!(node_record, r#type) == offset_of!(path_record, r#type)
        && offset_of!(node_record, r#type) == offset_of!(access_record, r#type)
        && offset_of!(node_record, r#type) == offset_of!(group_record, r#type)
);

/// Reads `struct counts` of one CPU. The kernel's side counts no missed events.
pub(crate) fn counts(bytes: &[u8]) -> Counts {
    macro_rules! count {
        ($name:ident) => {
            field!(bytes, counts, $name).unwrap_or(0)
        };
    }
    Counts {
        calls: count!(calls),
        news: count!(news),
        stall_ns: count!(stall_ns),
        stalls: count!(stalls),
        missed_pages: count!(missed_pages),
        missed_metadata_pages: count!(missed_metadata_pages),
        fetched_pages: count!(fetched_pages),
        fetched_metadata_pages: count!(fetched_metadata_pages),
        used_pages: count!(used_pages),
        late_pages: count!(late_pages),
        accessed_pages: count!(accessed_pages),
        lost_records: count!(lost_records),
        lost_inodes: count!(lost_inodes),
        lost_chunks: count!(lost_chunks),
        lost_processes: count!(lost_processes),
        lost_paths: count!(lost_paths),
        lost_faults: count!(lost_faults),
        missed_events: 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_record_or_none(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..400),
            kind in 0u32..7,
            access_kind in 0u32..12,
            path_length in 0u32..80,
        ) {
            foreread_bpf::put!(&mut bytes, node_record, r#type, kind);
            match kind {
                2 => foreread_bpf::put!(&mut bytes, path_record, path_length, path_length),
                3 => foreread_bpf::put!(&mut bytes, access_record, kind, access_kind),
                4 => foreread_bpf::put!(&mut bytes, group_record, name_length, path_length),
                _ => {}
            }
            match record(&bytes) {
                Some(Record::Node(node)) => prop_assert!(node.name.len() < bytes.len()),
                Some(Record::Path(path)) => prop_assert_eq!(path.path.len(), path_length as usize),
                Some(Record::Group(group)) => {
                    prop_assert_eq!(group.name.len(), path_length as usize)
                }
                Some(Record::Access(access)) => prop_assert!(!access.name.contains(&0)),
                Some(Record::Device(_)) => {
                    prop_assert!(bytes.len() >= size_of::<device_record>());
                }
                None => {}
            }
            let _ = (counts(&bytes), chunk_of(&bytes), inode(&bytes, &bytes));
        }
    }

    #[test]
    fn a_path_is_repeated_if_nothing_but_its_time_differs() {
        let path = |directory: u32, need_ns: u64, name: &[u8]| {
            let mut bytes = vec![0; offset_of!(path_record, path)];
            foreread_bpf::put!(&mut bytes, path_record, r#type, 2u32);
            foreread_bpf::put!(&mut bytes, path_record, directory, directory);
            foreread_bpf::put!(&mut bytes, path_record, need_ns, need_ns);
            bytes.extend(name);
            bytes
        };
        let node = vec![1, 0, 0, 0];
        let mut repeats = Repeats::default();
        let told = [
            path(1, 10, b"a"),
            path(1, 11, b"a"),
            path(1, 12, b"b"),
            path(1, 13, b"a"),
            path(2, 13, b"a"),
            path(2, 14, b"a\0"),
            node.clone(),
            node,
            path(2, 15, b"a\0"),
            path(2, 16, b"a\0"),
        ]
        .map(|bytes| repeats.are_of(&bytes));
        let only = [1, 9];
        assert_eq!(told, std::array::from_fn(|at| only.contains(&at)));
    }

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
    fn counts_are_read_in_their_order() {
        let bytes: Vec<u8> = (1u64..=17).flat_map(u64::to_ne_bytes).collect();
        let counts = counts(&bytes);
        assert_eq!((counts.calls, counts.lost_faults), (1, 17));
        assert_eq!(counts.missed_events, 0);
        assert_eq!(counts.lost(), 12 + 13 + 14 + 15 + 16 + 17);
    }
}
