// SPDX-License-Identifier: MIT OR Apache-2.0
//! A part of a read plan, for a helper process.

use foreread_core::Device;
use foreread_profile::limits::{NAME_BYTES_MAX, PATH_BYTES_MAX, TEXT_BYTES_MAX};
use foreread_profile::{Identity, Node, NodeId, NodeKind, PageRange, PathTree, Uses};

use super::Malformed;
use super::wire::{Putter, Taker, path};
use crate::plan::ReadPlan;

/// Files of one file system, and how to fetch them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchRequest {
    /// Type of the file system.
    pub fs_type: Vec<u8>,
    /// Its superblock.
    pub device: Device,
    /// Where it is mounted.
    pub mount_point: Vec<u8>,
    /// The files, with the directories on the way.
    pub plan: ReadPlan,
    /// Most bytes to fetch.
    pub budget_bytes: u64,
    /// Never parse the block device.
    pub no_raw: bool,
    /// Never use io_uring.
    pub no_ring: bool,
    /// Read no data before [`super::Request::Release`].
    pub hold_data: bool,
    /// End when a program has overtaken it.
    pub stops_when_overtaken: bool,
    /// Report which pages arrived.
    pub keeps_fetched: bool,
}

/// Bytes of a node without its name and its ranges.
const NODE_BYTES_MIN: usize = 4 + 4 + 1 + 1 + 8 + 4 + 8 + 8 + 8 + 4;
const RANGE_BYTES: usize = 24;
/// Stands for no parent.
const NO_PARENT: u32 = u32::MAX;

impl FetchRequest {
    pub(super) fn put(&self, to: &mut Putter) {
        to.bytes(&self.fs_type);
        to.u32(self.device.major);
        to.u32(self.device.minor);
        to.bytes(match self.mount_point.as_slice() {
            b"" => b"/",
            point => point,
        });
        to.u64(self.budget_bytes);
        for flag in [
            self.no_raw,
            self.no_ring,
            self.hold_data,
            self.stops_when_overtaken,
            self.keeps_fetched,
        ] {
            to.flag(flag);
        }
        to.length(self.plan.len());
        for (id, node) in self.plan.iter() {
            to.u32(node.parent.map_or(NO_PARENT, |parent| parent.0));
            to.bytes(self.plan.name(id));
            to.u8(node.kind as u8);
            to.u8(node.uses.0);
            to.u64(node.identity.inode);
            to.u32(node.identity.generation);
            to.u64(node.identity.size_bytes);
            to.i64(node.identity.mtime_ns);
            to.u64(node.need_ns);
            to.list(self.plan.ranges(id), |to, range| {
                to.u64(range.start_page);
                to.u64(range.pages);
                to.u64(range.need_ns);
            });
        }
    }

    pub(super) fn take(from: &mut Taker<'_>) -> Result<Self, Malformed> {
        let fs_type = from.bytes(TEXT_BYTES_MAX)?.to_vec();
        let device = Device {
            major: from.u32()?,
            minor: from.u32()?,
        };
        let mount_point = path(from)?;
        let budget_bytes = from.u64()?;
        let mut flags = [false; 5];
        for flag in &mut flags {
            *flag = from.flag()?;
        }
        let [
            no_raw,
            no_ring,
            hold_data,
            stops_when_overtaken,
            keeps_fetched,
        ] = flags;
        let mut plan = ReadPlan::default();
        from.list(NODE_BYTES_MIN, |from| take_node(from, &mut plan))?;
        Ok(Self {
            fs_type,
            device,
            mount_point: match mount_point.as_slice() {
                b"/" if plan.is_empty() => Vec::new(),
                _ => mount_point,
            },
            plan,
            budget_bytes,
            no_raw,
            no_ring,
            hold_data,
            stops_when_overtaken,
            keeps_fetched,
        })
    }
}

fn take_node(from: &mut Taker<'_>, plan: &mut ReadPlan) -> Result<(), Malformed> {
    let parent = from.u32()?;
    let parent = (parent != NO_PARENT).then_some(NodeId(parent));
    let name = from.bytes(NAME_BYTES_MAX.min(PATH_BYTES_MAX))?;
    let kind = match from.u8()? {
        0 => NodeKind::File,
        1 => NodeKind::Directory,
        2 => NodeKind::Symlink,
        3 => NodeKind::Absent,
        _ => return Err(Malformed),
    };
    let node = Node {
        kind,
        uses: Uses(from.u8()?),
        identity: Identity {
            inode: from.u64()?,
            generation: from.u32()?,
            size_bytes: from.u64()?,
            mtime_ns: from.i64()?,
        },
        need_ns: from.u64()?,
        ..Node::default()
    };
    let ranges = from.list(RANGE_BYTES, |from| {
        Ok(PageRange {
            start_page: from.u64()?,
            pages: from.u64()?,
            need_ns: from.u64()?,
            weight: 0,
            unit: 0,
        })
    })?;
    plan.push_checked(parent, name, node, &ranges)
        .ok_or(Malformed)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Request;
    use super::*;
    use crate::plan::PlanBuilder;

    fn request() -> FetchRequest {
        let mut builder = PlanBuilder::new();
        let identity = |inode| Identity {
            inode,
            generation: 5,
            size_bytes: 100,
            mtime_ns: -1,
        };
        let uses = Uses::LISTED;
        builder.add(b"/a/b", NodeKind::Directory, identity(2), uses, 3);
        builder.add(b"/a/b/c", NodeKind::File, identity(3), uses, 4);
        builder.pages(7, 8, 9);
        builder.pages(70, 1, 10);
        builder.add(b"/z", NodeKind::Symlink, identity(4), uses, 5);
        FetchRequest {
            fs_type: b"nfs4".to_vec(),
            device: Device { major: 0, minor: 9 },
            mount_point: b"/a".to_vec(),
            plan: builder.finish(),
            budget_bytes: 1 << 40,
            hold_data: true,
            ..FetchRequest::default()
        }
    }

    fn is_borne(change: impl Fn(&mut Vec<u8>)) -> bool {
        let mut bytes = Request::Fetch(Box::new(request())).to_bytes();
        change(&mut bytes);
        Request::from_bytes(&bytes).is_ok()
    }

    #[test]
    fn a_plan_comes_as_it_was() {
        let bytes = Request::Fetch(Box::new(request())).to_bytes();
        let Ok(Request::Fetch(came)) = Request::from_bytes(&bytes) else {
            panic!("nothing came");
        };
        assert_eq!(*came, request());
    }

    #[test]
    fn any_damage_is_borne() {
        let length = Request::Fetch(Box::new(request())).to_bytes().len();
        assert!(is_borne(|_| ()));
        for at in 0..length {
            for wrong in [0, 1, 0x2f, 0x7f, 0xff] {
                // Either a plan, or an error; never a crash.
                is_borne(|bytes| bytes[at] = wrong);
            }
            assert!(!is_borne(|bytes| bytes.truncate(at)));
        }
    }

    #[test]
    fn a_part_has_its_nodes_and_those_above() {
        let whole = request().plan;
        let file = |plan: &ReadPlan, inode| {
            let mut all = plan.iter();
            all.find(|(_, node)| node.identity.inode == inode)
                .map(|(id, _)| id)
                .unwrap()
        };
        let (part, of_whole) = whole.part(&[file(&whole, 3)]);
        let at = file(&part, 3);
        let mut path = Vec::new();
        part.path_into(at, &mut path);
        assert_eq!(path, b"/a/b/c");
        assert_eq!(of_whole[at.0 as usize], file(&whole, 3));
        assert_eq!(part.ranges(at), whole.ranges(file(&whole, 3)));
        assert_eq!(part.len(), 4);
        // Directories on the way are only that.
        let wanted = part.iter().filter(|(_, node)| node.identity.inode != 0);
        assert_eq!(wanted.count(), 1);
    }
}
