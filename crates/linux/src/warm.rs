// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much of what a profile names is cached, found without reading anything.

use foreread_profile::{Node, NodeId, NodeKind, PAGE_BYTES, Profile};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

use crate::cache::{cached_pages, is_cached};

/// Nodes looked at: spread over the profile, some microseconds each.
const SAMPLE: usize = 96;

/// Share of the profile that is cached, in thousandths, from a sample. A path that isn't in the
/// dentry cache counts as not cached, and so does everything before Linux 5.12 (no
/// `RESOLVE_CACHED`).
#[must_use]
pub fn cached_permille(profile: &Profile) -> u16 {
    let nodes: Vec<NodeId> = profile
        .iter()
        .filter(|(_, node)| node.kind != NodeKind::Absent && node.identity.inode != 0)
        .map(|(id, _)| id)
        .collect();
    let step = nodes.len().div_ceil(SAMPLE).max(1);
    let (mut cached, mut all) = (0u64, 0u64);
    let mut path = Vec::new();
    for id in nodes.iter().step_by(step) {
        let Some(node) = profile.node(*id) else {
            continue;
        };
        path.clear();
        profile.path_into(*id, &mut path);
        // The inode itself weighs as much as a page.
        let pages: u64 = profile.ranges(*id).iter().map(|range| range.pages).sum();
        all += 1 + pages;
        cached += cached_of(profile, *id, node, &path);
    }
    u16::try_from((cached * 1000).checked_div(all).unwrap_or(0)).unwrap_or(1000)
}

fn cached_of(profile: &Profile, id: NodeId, node: &Node, path: &[u8]) -> u64 {
    let file = node.kind == NodeKind::File && node.range_count > 0;
    let mode = if file {
        OFlags::RDONLY | OFlags::NONBLOCK
    } else {
        OFlags::PATH
    };
    let flags = mode | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NOCTTY;
    let resolve = ResolveFlags::CACHED | ResolveFlags::NO_SYMLINKS;
    let Ok(fd) = openat2(rustix::fs::CWD, path, flags, Mode::empty(), resolve) else {
        return 0;
    };
    let size_pages = rustix::fs::fstat(&fd).map_or(0, |stat| {
        u64::try_from(stat.st_size)
            .unwrap_or(0)
            .div_ceil(PAGE_BYTES)
    });
    let ranges = profile.ranges(id).iter().map(|range| {
        let gone = range.end_page().saturating_sub(size_pages).min(range.pages);
        let there = range.pages - gone;
        let cached = cached_pages(&fd, range.start_page, there)
            // Not ours to ask about: one page stands for the range.
            .unwrap_or_else(|_| {
                if is_cached(&fd, range.start_page) {
                    there
                } else {
                    0
                }
            });
        cached + gone
    });
    1 + ranges.sum::<u64>()
}
