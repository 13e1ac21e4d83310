// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records as they come from the kernel's ring buffer, until they are taken.

use std::collections::HashMap;

use crate::accesses::AccessRecord;
use crate::counts::Counts;
use crate::recording::{
    Chunk, DeviceRecord, GroupRecord, InodeEntry, NodeRecord, PathRecord, Recording,
};

/// Records of pages of devices that are kept: more than a profile may have ranges.
const DEVICES_MAX: usize = 1 << 17;

/// One record of the ring buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// An inode that is seen for the first time.
    Node(NodeRecord),
    /// A path that was given to a system call.
    Path(PathRecord),
    /// An access; of a trace only.
    Access(AccessRecord),
    /// A control group that is seen for the first time; of a recording of the machine only.
    Group(GroupRecord),
    /// Pages of a block device; of a recording of the machine only.
    Device(DeviceRecord),
}

/// Records that have come.
#[derive(Debug, Default)]
pub struct Inbox {
    nodes: HashMap<u32, NodeRecord>,
    paths: HashMap<(u32, Vec<u8>), PathRecord>,
    accesses: Vec<AccessRecord>,
    groups: HashMap<u32, GroupRecord>,
    devices: Vec<DeviceRecord>,
}

impl Inbox {
    /// Takes in a record. A path that was given before adds its uses to those of the first time.
    pub fn take(&mut self, record: Record) {
        match record {
            Record::Node(node) => {
                self.nodes.insert(node.id, node);
            }
            Record::Path(path) => {
                let key = (path.directory, path.path.clone());
                self.paths
                    .entry(key)
                    .and_modify(|seen| {
                        seen.uses |= path.uses;
                        seen.no_follow &= path.no_follow;
                    })
                    .or_insert(path);
            }
            Record::Access(access) => self.accesses.push(access),
            Record::Group(group) => {
                self.groups.insert(group.number, group);
            }
            Record::Device(device) if self.devices.len() < DEVICES_MAX => {
                self.devices.push(device);
            }
            // A boot that reads so much of devices is no typical one.
            Record::Device(_) => {}
        }
    }

    /// Hands out the accesses since the last call, each with all inodes that are known by now.
    pub fn take_accesses(&mut self, mut take: impl FnMut(AccessRecord, &HashMap<u32, NodeRecord>)) {
        for access in std::mem::take(&mut self.accesses) {
            take(access, &self.nodes);
        }
    }

    /// Ends the recording with the tables of the kernel, in any order; a further chunk is told by
    /// the number of its inode and its own.
    #[must_use]
    pub fn finish(
        self,
        mut inodes: Vec<InodeEntry>,
        mut chunks: Vec<(u32, u32, Chunk)>,
        counts: Counts,
    ) -> Recording {
        let mut paths: Vec<PathRecord> = self.paths.into_values().collect();
        paths.sort_by(|a, b| (a.need_ns, &a.path).cmp(&(b.need_ns, &b.path)));
        inodes.sort_by_key(|inode| inode.id);
        chunks.sort_by_key(|(id, chunk, _)| (*id, *chunk));
        Recording {
            nodes: self.nodes,
            groups: self.groups,
            devices: self.devices,
            paths,
            inodes,
            chunks,
            counts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(need_ns: u64, path: &[u8], uses: u32, no_follow: bool) -> Record {
        Record::Path(PathRecord {
            directory: 1,
            uses,
            need_ns,
            path: path.to_vec(),
            no_follow,
            ..PathRecord::default()
        })
    }

    #[test]
    fn a_path_is_in_a_recording_once_with_all_its_uses() {
        let mut inbox = Inbox::default();
        inbox.take(path(20, b"b", 1, true));
        inbox.take(path(10, b"a", 1, true));
        inbox.take(path(30, b"b", 4, false));
        let chunk = |id, number| (id, number, Chunk::default());
        let inode = |id| InodeEntry {
            id,
            ..InodeEntry::default()
        };
        let recording = inbox.finish(
            vec![inode(2), inode(1)],
            vec![chunk(2, 1), chunk(1, 9), chunk(1, 3)],
            Counts::default(),
        );
        let paths = recording.paths.iter();
        let paths: Vec<_> = paths
            .map(|path| {
                (
                    path.path.as_slice(),
                    path.need_ns,
                    path.uses,
                    path.no_follow,
                )
            })
            .collect();
        assert_eq!(paths, [(&b"a"[..], 10, 1, true), (b"b", 20, 5, false)]);
        let ids: Vec<u32> = recording.inodes.iter().map(|inode| inode.id).collect();
        assert_eq!(ids, [1, 2]);
        let chunks = recording
            .chunks
            .iter()
            .map(|(id, number, _)| (*id, *number));
        assert_eq!(chunks.collect::<Vec<_>>(), [(1, 3), (1, 9), (2, 1)]);
    }
}
