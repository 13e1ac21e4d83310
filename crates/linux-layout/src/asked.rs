// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of a file system that isn't parsed: each is opened for reading and asked for its blocks.

use std::os::fd::AsFd;

use foreread_layout::{FileOnDisk, Obstacle, Run};
use foreread_linux_prefetcher::targets::Target;
use foreread_prefetch::ext4::InodeFlags;
use foreread_prefetch::plan::ReadPlan;
use foreread_profile::{NodeId, NodeKind};
use foreread_sys::fiemap::runs;
use foreread_sys::file_flags::flags_of;
use foreread_sys::paths::Opener;
use rustix::fs::fstat;

use crate::raw::wanted_pages;
use crate::{BLOCK_BYTES, Found, obstacles};

/// Runs of a file that are kept: more is no file that a move could help.
const RUNS_MAX: usize = 1 << 16;

/// `None` where no file tells where its blocks are.
pub(crate) fn find(plan: &ReadPlan, target: &Target) -> Option<Found> {
    let mut opener = Opener::new(plan);
    let mut found = Found {
        block_bytes: BLOCK_BYTES,
        files: Vec::new(),
        gone_files: 0,
        metadata: None,
    };
    let has_extents = target.fs_type != b"ext4";
    for id in &target.nodes {
        let Some(node) = plan.node(*id) else {
            continue;
        };
        if node.kind != NodeKind::File || plan.ranges(*id).is_empty() {
            continue;
        }
        let file = opener.open(*id, false).ok();
        let ours = file.and_then(|file| {
            let stat = fstat(&file).ok()?;
            (stat.st_ino == node.identity.inode).then_some((file, stat))
        });
        let Some((file, stat)) = ours else {
            found.gone_files += 1;
            continue;
        };
        let size_bytes = u64::try_from(stat.st_size).unwrap_or(0);
        found.block_bytes = u64::try_from(stat.st_blksize)
            .ok()
            .filter(|bytes| bytes.is_power_of_two())
            .unwrap_or(BLOCK_BYTES);
        if let Some(file) = file_of(plan, *id, &file, size_bytes, has_extents) {
            found.files.push(file);
        }
    }
    (!found.files.is_empty()).then_some(found)
}

fn file_of(
    plan: &ReadPlan,
    node: NodeId,
    file: impl AsFd,
    size_bytes: u64,
    has_extents: bool,
) -> Option<FileOnDisk> {
    let found = runs(&file, 0, size_bytes, RUNS_MAX).ok()?;
    let is_shared = found.iter().any(|run| run.is_shared);
    let flags = flags_of(&file).unwrap_or(InodeFlags::EXTENTS);
    let shared = is_shared.then_some(Obstacle::Shared);
    Some(FileOnDisk {
        node,
        size_bytes,
        runs: found
            .into_iter()
            .map(|run| Run {
                offset_bytes: run.offset_bytes,
                place_bytes: run.place_bytes,
                length_bytes: run.length_bytes,
            })
            .collect(),
        wanted: wanted_pages(plan, node),
        obstacle: obstacles::of_flags(flags, has_extents).or(shared),
    })
}
