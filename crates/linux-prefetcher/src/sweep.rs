// SPDX-License-Identifier: MIT OR Apache-2.0
//! Brings inodes in by handle, in the order of the disk.
//!
//! A path is looked up directory by directory, each with a seek. By handle every inode can be read
//! by itself, so that one sweep in order of inode numbers reads all of them. Directories are left
//! out: for their handles the kernel walks up to the root, which this sweep avoids. Most of them
//! lie among the inodes of their files anyway.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use foreread_prefetch::plan::ReadPlan;
use foreread_profile::{NodeId, NodeKind};
use foreread_sys::handle::Handles;

use super::crew::Crew;
use super::targets::Target;
use super::under_way::Shared;

/// Inodes read at once: a queue for the device to sort, or to serve in parallel.
const THREADS: usize = 16;

/// Inodes read at once on btrfs, whose leaves lie in no order of inode numbers: the device's queue
/// must sort them. That of a SATA disk takes 64 requests, twice its own depth. From a modelled hard
/// disk a boot of 40 services took 19.7, 19.4 and 19.5 s with 16, 64 and 256.
const BTRFS_THREADS: usize = 64;

/// Inodes of one block or cluster have numbers that differ in their low bits only: XFS reads 32 at
/// once, and a btrfs leaf holds about 50. One thread takes all inodes of a block. Several threads
/// would wait for the same block, and a thread with two blocks would send the head back for the
/// second.
const TOGETHER_SHIFT: u32 = 5;

/// Sweeps over a target's nodes; does nothing where there are no handles or no right to them.
pub(super) fn sweep(
    plan: &ReadPlan,
    target: &Target,
    nodes: &[NodeId],
    shared: &Arc<Shared>,
    crew: &Crew,
) {
    let Ok(anchor) = File::open(&target.mount_point) else {
        return;
    };
    let Ok(handles) = Handles::of(anchor.into()) else {
        return;
    };
    let mut inodes: Vec<(u64, u32)> = nodes
        .iter()
        .filter_map(|id| plan.node(*id))
        .filter(|node| node.identity.generation != 0 && node.kind != NodeKind::Directory)
        .map(|node| (node.identity.inode, node.identity.generation))
        .collect();
    inodes.sort_unstable_by_key(|inode| inode.0);
    let allowed = handles.open(inodes.first().map_or(0, |i| i.0), 0, libc::O_PATH);
    if allowed.is_err_and(|error| error.raw_os_error() == Some(libc::EPERM)) {
        return;
    }
    // btrfs selects the copy of its metadata by the number of the thread. Threads of one parity use
    // one copy, so that the head doesn't move to and fro between the two.
    let one_parity = target.fs_type == b"btrfs";
    let groups: Vec<Vec<(u64, u32)>> = inodes
        .chunk_by(|a, b| a.0 >> TOGETHER_SHIFT == b.0 >> TOGETHER_SHIFT)
        .map(<[_]>::to_vec)
        .collect();
    let groups_next = AtomicUsize::new(0);
    // Parity of the first thread's number, and a bit that says it's known.
    let parity = AtomicU64::new(0);
    let shared = Arc::clone(shared);
    let threads = if one_parity {
        2 * BTRFS_THREADS
    } else {
        THREADS
    };
    let threads = threads.min(groups.len());
    let work = move || {
        let mine = 2 | thread_parity();
        let first = parity.compare_exchange(0, mine, Ordering::Relaxed, Ordering::Relaxed);
        if one_parity && first.is_err_and(|known| known != mine) {
            return false;
        }
        while let Some(group) = groups.get(groups_next.fetch_add(1, Ordering::Relaxed)) {
            if shared.stopped() {
                break;
            }
            let _under_way = shared.begin_look();
            for (number, generation) in group {
                // Stale inodes are met again, and counted, by path.
                let _ = handles.open(*number, *generation, libc::O_PATH);
                shared.step();
            }
        }
        true
    };
    crew.run(threads, Arc::new(work));
}

/// The lowest bit of the calling thread's number.
fn thread_parity() -> u64 {
    let number = rustix::thread::gettid().as_raw_nonzero().get();
    u64::from(number.unsigned_abs() & 1)
}
