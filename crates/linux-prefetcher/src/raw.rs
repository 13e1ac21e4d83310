// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metadata of a mounted ext4 through its block device's page cache.
//!
//! ext4 keeps inode tables, directories and block maps in the page cache of its device. Foreread
//! reads these blocks in order of the device and in large batches. The kernel then finds them in
//! memory when the program walks a path. The same bytes show where the files' data lie, without
//! opening the files.

use std::io;

use foreread_prefetch::ext4::{
    Extent, Geometry, Limits, Survey, is_recorded, merge_extents, pieces_of, wanted_of,
};
use foreread_prefetch::order::{Piece, Service};
use foreread_prefetch::plan::ReadPlan;
use foreread_prefetch::stages::Stage;
use foreread_profile::{NodeId, NodeKind};
use foreread_sys::block_device::{BlockDevice, has_head};

use super::beside;
use super::device_pages::DeviceExtents;
use super::fetcher::Fetcher;
use super::pump;
use super::targets::Target;
use super::under_way::Shared;

/// The location of the data, from the layout.
pub(super) struct Found {
    pub pieces: Vec<Piece>,
    /// Nodes whose inode isn't the one recorded, makes no sense, or has none of the pages named: to
    /// be looked at by path.
    pub unplaced: Vec<NodeId>,
    pub service: Service,
}

/// Reads the metadata of a stage's nodes into memory and returns where the stage's data lie.
pub(super) fn metadata(
    plan: &ReadPlan,
    target: &Target,
    stage: &Stage,
    on_device: &DeviceExtents,
    shared: &Shared,
    kept: &mut Option<pump::Reader<Extent>>,
) -> io::Result<Found> {
    let device = BlockDevice::open(target.major, target.minor)?;
    let mut fetcher = Fetcher::new(&device, shared, kept)?;
    if let Some(neighbours) = &shared.with_neighbours
        && neighbours.is_among_many()
    {
        let has_head = has_head(target.major, target.minor);
        neighbours.set_has_head(Some(has_head));
        if has_head {
            fetcher.read_all_at_once();
        }
    }
    if shared.first_stage_items.is_some() && has_head(target.major, target.minor) {
        fetcher.always_place_head();
    }
    let failed = |error: foreread_prefetch::ext4::Ext4Error| io::Error::other(error.to_string());
    let mut geometry = Geometry::read(&mut &device).map_err(failed)?;
    let numbers = || {
        let nodes = stage.nodes.iter();
        nodes.filter_map(|id| Some(plan.node(*id)?.identity.inode))
    };
    on_device.ask_for_whole_disk(target);
    let mut first = geometry.descriptor_extents(numbers());
    first.extend_from_slice(&on_device.own);
    fetcher.fetch(&first)?;
    geometry
        .load_groups(&mut &device, numbers())
        .map_err(failed)?;
    if let Some(known) = &shared.with_neighbours {
        let nodes = &stage.nodes;
        beside::fetch(plan, nodes, &geometry, &device, &mut fetcher, known)?;
    }
    let wanted = stage
        .nodes
        .iter()
        .filter_map(|id| wanted_of(plan, stage, *id));
    let mut survey = Survey::new(&geometry, wanted, Limits::default());
    while !survey.is_finished() && !shared.stopped() {
        fetcher.fetch(&survey.next_extents())?;
        survey.step(&mut &device);
    }
    let mut found = Found {
        pieces: Vec::new(),
        unplaced: Vec::new(),
        service: fetcher.service(),
    };
    if shared.stopped() {
        // Nodes that weren't surveyed don't count as gone.
        return Ok(found);
    }
    let mut blocks = Vec::new();
    for (id, surveyed) in stage.nodes.iter().zip(survey.finish()) {
        let Some(node) = plan.node(*id) else {
            continue;
        };
        let Some(inode) =
            (surveyed.inode.ok()).filter(|i| is_recorded(node.kind, &node.identity, i))
        else {
            found.unplaced.push(*id);
            continue;
        };
        blocks.extend(inode.metadata_extents(&geometry));
        let stage_pages: u64 = stage.ranges(plan, *id).map(|range| range.pages).sum();
        if node.kind == NodeKind::File && stage_pages > 0 {
            let placed = pieces_of(plan, stage, *id, &inode, &geometry);
            if placed.is_empty() {
                // The file would not be opened, so it would not be checked whether it's still the
                // one that was recorded.
                found.unplaced.push(*id);
                continue;
            }
            let pages = placed.iter().map(|piece| piece.pages).sum();
            let skipped = stage_pages.saturating_sub(pages);
            shared.tally.add(|t| &t.skipped_pages, skipped);
            found.pieces.extend(placed);
        }
    }
    fetcher.fetch(&merge_extents(blocks, 0))?;
    found.service = fetcher.service();
    *kept = fetcher.into_reader();
    Ok(found)
}
