// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a replay wants of the inodes of a plan, and which pieces of data that comes to.

use foreread_profile::{DeviceRange, Identity, NodeId, NodeKind, PAGE_BYTES, Uses};

use super::{Extent, FileType, Geometry, Inode, WHOLE_FILE, Wanted};
use crate::order::Piece;
use crate::plan::ReadPlan;
use crate::stages::Stage;

/// A directory up to this size is read whole. Of a larger one that was only looked into, lookups
/// read single blocks, so they are left to the kernel.
pub const DIRECTORY_BYTES_MAX: u64 = 1 << 20;

/// The inode of a node, and which of its pages are read in this stage. A small directory is read as
/// a whole, also if only a name in it is looked up. `None` if the plan has no such node.
#[must_use]
pub fn wanted_of(plan: &ReadPlan, stage: &Stage, id: NodeId) -> Option<Wanted> {
    let node = plan.node(id)?;
    let pages = match node.kind {
        NodeKind::File => stage
            .ranges(plan, id)
            .map(|range| range.start_page..range.end_page())
            .collect(),
        NodeKind::Directory
            if node.uses.contains(Uses::LISTED)
                || node.identity.size_bytes <= DIRECTORY_BYTES_MAX =>
        {
            vec![WHOLE_FILE]
        }
        _ => Vec::new(),
    };
    Some(Wanted {
        inode: node.identity.inode,
        pages,
    })
}

/// Whether the inode is still the one that was recorded. Content may have changed in place.
#[must_use]
pub fn is_recorded(kind: NodeKind, identity: &Identity, inode: &Inode) -> bool {
    let kind_matches = matches!(
        (kind, inode.file_type),
        (NodeKind::File, FileType::Regular)
            | (NodeKind::Directory, FileType::Directory)
            | (NodeKind::Symlink, FileType::Symlink)
    );
    let generation_matches = identity.generation == 0 || identity.generation == inode.generation;
    kind_matches && generation_matches && inode.links > 0
}

/// The pieces of data that are read of a file in this stage, in the order of the plan.
#[must_use]
pub fn pieces_of(
    plan: &ReadPlan,
    stage: &Stage,
    id: NodeId,
    inode: &Inode,
    geometry: &Geometry,
) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for range in stage.ranges(plan, id) {
        let pages = std::slice::from_ref(&(range.start_page..range.end_page())).to_vec();
        for place in inode.physical_ranges(geometry, &pages) {
            pieces.push(Piece {
                node: id,
                start_page: place.file_page,
                pages: place.pages,
                need_ns: range.need_ns,
                place_bytes: place.offset_bytes,
            });
        }
    }
    pieces
}

/// What is read of the block device of the file system at `mount_point` in this stage, or of the
/// disk that it is a partition of, in the order of the plan.
#[must_use]
pub fn device_extents_of(
    plan: &ReadPlan,
    stage: &Stage,
    mount_point: &[u8],
    is_whole_disk: bool,
) -> Vec<Extent> {
    let ranges = plan
        .devices(mount_point)
        .filter(|device| device.is_whole_disk == is_whole_disk)
        .flat_map(|device| &device.ranges)
        .filter(|range| stage.needs_ns.contains(&range.need_ns));
    let extent = |range: &DeviceRange| Extent {
        offset_bytes: range.start_page.saturating_mul(PAGE_BYTES),
        length_bytes: range.pages.saturating_mul(PAGE_BYTES),
    };
    ranges.map(extent).collect()
}
