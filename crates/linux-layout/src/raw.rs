// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of an ext4 whose block device can be opened, from its metadata.
//!
//! The same code as in a replay finds inodes and block maps, so its steps are the steps of a
//! replay. A second survey finds the whole block maps, for moves.

use foreread_layout::{FileOnDisk, Run, WantedPages};
use foreread_linux_prefetcher::targets::Target;
use foreread_prefetch::ext4::{
    Ext4Error, Geometry, Inode, Limits, Survey, WHOLE_FILE, Wanted, device_extents_of, is_recorded,
    merge_extents, wanted_of,
};
use foreread_prefetch::plan::ReadPlan;
use foreread_prefetch::stages::Stage;
use foreread_profile::{NodeId, NodeKind};
use foreread_sys::block_device::BlockDevice;

use crate::{Found, obstacles};

pub(crate) fn find(
    plan: &ReadPlan,
    target: &Target,
    device: &BlockDevice,
) -> Result<Found, Ext4Error> {
    let stage = Stage::whole(&target.nodes);
    let mut geometry = Geometry::read(&mut &*device)?;
    let numbers = || {
        let nodes = stage.nodes.iter();
        nodes.filter_map(|id| Some(plan.node(*id)?.identity.inode))
    };
    let mount_point = target.mount_point.as_os_str().as_encoded_bytes();
    let mut first = geometry.descriptor_extents(numbers());
    first.extend(device_extents_of(plan, &stage, mount_point, false));
    let mut metadata = vec![merge_extents(first, 0)];
    geometry.load_groups(&mut &*device, numbers())?;
    let wanted = stage
        .nodes
        .iter()
        .filter_map(|id| wanted_of(plan, &stage, *id));
    let mut survey = Survey::new(&geometry, wanted, Limits::default());
    while !survey.is_finished() {
        metadata.push(survey.next_extents());
        survey.step(&mut &*device);
    }
    let mut blocks = Vec::new();
    let mut wanted_files = Vec::new();
    let mut gone_files = 0;
    for (id, surveyed) in stage.nodes.iter().zip(survey.finish()) {
        let Some(node) = plan.node(*id) else {
            continue;
        };
        let is_wanted = node.kind == NodeKind::File && !plan.ranges(*id).is_empty();
        let inode = surveyed.inode.ok();
        match inode.filter(|inode| is_recorded(node.kind, &node.identity, inode)) {
            Some(inode) => blocks.extend(inode.metadata_extents(&geometry)),
            None => {
                gone_files += u64::from(is_wanted);
                continue;
            }
        }
        if is_wanted {
            wanted_files.push((*id, node.identity.inode));
        }
    }
    metadata.push(merge_extents(blocks, 0));
    let whole = wanted_files.iter().map(|(_, inode)| Wanted {
        inode: *inode,
        pages: vec![WHOLE_FILE],
    });
    let mut survey = Survey::new(&geometry, whole, Limits::default());
    survey.run(&mut &*device);
    let surveyed = wanted_files.iter().zip(survey.finish());
    let files = surveyed.filter_map(|((id, _), surveyed)| {
        let inode = surveyed.inode.ok()?;
        Some(file_of(plan, *id, &inode, &geometry))
    });
    Ok(Found {
        block_bytes: geometry.block_bytes().into(),
        files: files.collect(),
        gone_files,
        metadata: Some(metadata),
    })
}

fn file_of(plan: &ReadPlan, node: NodeId, inode: &Inode, geometry: &Geometry) -> FileOnDisk {
    let block_bytes = u64::from(geometry.block_bytes());
    let written = inode.extents().iter().filter(|extent| !extent.unwritten);
    let runs = written.map(|extent| Run {
        offset_bytes: u64::from(extent.logical_block) * block_bytes,
        place_bytes: extent.physical_block * block_bytes,
        length_bytes: u64::from(extent.length_blocks) * block_bytes,
    });
    FileOnDisk {
        node,
        size_bytes: inode.size_bytes,
        runs: runs.collect(),
        wanted: wanted_pages(plan, node),
        obstacle: obstacles::of_flags(inode.flags, false),
    }
}

/// The pages that a plan wants of a file, in order of the file.
pub(crate) fn wanted_pages(plan: &ReadPlan, node: NodeId) -> Vec<WantedPages> {
    let ranges = plan.ranges(node).iter();
    let mut wanted: Vec<WantedPages> = ranges
        .map(|range| WantedPages {
            start_page: range.start_page,
            pages: range.pages,
            need_ns: range.need_ns,
        })
        .collect();
    wanted.sort_unstable();
    wanted
}
