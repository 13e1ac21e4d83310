// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metadata by looking: every inode once, in order of its number, by a bounded number of threads.
//!
//! Where the device can't be opened, or the file system isn't ext4, this brings in the same blocks
//! through the file system's own caches. Inode numbers follow the disk on all common file systems,
//! and several looks at once let the device's queue sort what remains.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use foreread_prefetch::order::{Piece, Service};
use foreread_prefetch::plan::ReadPlan;
use foreread_prefetch::stages::Stage;
use foreread_profile::{NodeId, NodeKind, PAGE_BYTES, PageRange, Uses};
use foreread_sys::block_device::says_it_has_no_head;
use foreread_sys::fiemap;
use foreread_sys::paths::Opener;
use rustix::fs::{FileType, Mode, OFlags, RawDir, fstat, openat};
use rustix::process::{Resource, getrlimit};

use super::crew::Crew;
use super::data;
use super::means::Means;
use super::sweep::sweep;
use super::targets::Target;
use super::under_way::Shared;

/// Maximum number of concurrent looks. Enough for the queue of any device to sort or to serve in
/// parallel, and few enough not to crowd out the program's own requests.
const THREADS: usize = 16;

/// Maximum number of concurrent looks at directories. Inode numbers of directories do not show
/// where their blocks lie, so the device's queue must sort the requests. With 16 at once, every
/// second request moved the head backward.
const DIRECTORY_THREADS: usize = 64;

/// Number of threads that look, and number of directories that each keeps open. Both fit into this
/// process's limit of descriptors: a look takes up to three.
fn pool_size(threads: usize) -> (usize, usize) {
    const KEPT_MAX: usize = 24;
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX);
    let threads = threads.min(descriptors / 8).max(1);
    (threads, (descriptors / (4 * threads)).clamp(1, KEPT_MAX))
}

/// Runs taken of one file; beyond that its order on the device doesn't matter any more.
const RUNS_MAX: usize = 4096;

/// Looks at the nodes of a stage, then reads the stage's data. Returns the bytes that this takes of
/// the budget. `service` is that of the slowest stage so far.
pub(super) fn replay(
    plan: &Arc<ReadPlan>,
    target: &Target,
    stage: &Stage,
    service: &mut Service,
    budget_bytes: u64,
    shared: &Arc<Shared>,
    means: &mut Means,
) -> u64 {
    let started = Instant::now();
    let nodes = &stage.nodes;
    sweep(plan, target, nodes, shared, &means.crew);
    let mut looked = 0;
    for level in levels(plan, nodes) {
        looked += level.len() as u64;
        let task = Task::new(plan, level, shared);
        task.run(&means.crew, DIRECTORY_THREADS, look_at_directory);
    }
    let mut others = nodes.clone();
    others.retain(|id| kind(plan, *id) != Some(NodeKind::Directory));
    others.sort_by_key(|id| inode(plan, *id));
    looked += others.len() as u64;
    let pieces = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&pieces);
    let stage = stage.clone();
    let task = Task::new(plan, others, shared);
    task.run(&means.crew, THREADS, move |plan, opener, id, shared| {
        let ranges: Vec<_> = stage.ranges(plan, id).collect();
        let found = look_at_file(plan, opener, id, &ranges, shared).unwrap_or_default();
        let pages = found.iter().map(|piece: &Piece| piece.pages).sum();
        let asked_pages: u64 = ranges.iter().map(|range| range.pages).sum();
        let skipped = asked_pages.saturating_sub(pages);
        shared.tally.add(|t| &t.skipped_pages, skipped);
        if let Ok(mut pieces) = all.lock() {
            pieces.extend(found);
        }
    });
    shared.tally.add(|t| &t.looked_at, looked);
    let pieces = pieces.lock().map(|mut all| std::mem::take(&mut *all));
    let pieces = pieces.unwrap_or_default();
    let of_stage = if says_it_has_no_head(target.below.major, target.below.minor) {
        let elapsed_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Service {
            piece_ns: elapsed_ns / looked.max(1),
        }
    } else {
        // Looks in good order are quick on any disk and tell nothing about its head. Taking a disk
        // for one with a head costs some order of need; the other error costs sweeps.
        Service::HEAD
    };
    *service = of_stage.max(*service);
    data::read(
        plan,
        target,
        pieces,
        *service,
        budget_bytes,
        shared,
        &mut means.data,
    )
}

fn kind(plan: &ReadPlan, id: NodeId) -> Option<NodeKind> {
    plan.node(id).map(|node| node.kind)
}

fn inode(plan: &ReadPlan, id: NodeId) -> u64 {
    plan.node(id).map_or(0, |node| node.identity.inode)
}

/// Directories by depth: a parent must be read before its children can be found.
fn levels(plan: &ReadPlan, nodes: &[NodeId]) -> Vec<Vec<NodeId>> {
    let mut depth_of = vec![0usize; plan.len()];
    for (id, node) in plan.iter() {
        depth_of[id.0 as usize] = node
            .parent
            .map_or(0, |parent| depth_of[parent.0 as usize] + 1);
    }
    let mut levels: Vec<Vec<NodeId>> = Vec::new();
    for id in nodes {
        if kind(plan, *id) == Some(NodeKind::Directory) {
            let depth = depth_of[id.0 as usize];
            if levels.len() <= depth {
                levels.resize_with(depth + 1, Vec::new);
            }
            levels[depth].push(*id);
        }
    }
    for level in &mut levels {
        level.sort_by_key(|id| inode(plan, *id));
    }
    levels
}

/// Nodes that are looked at by several threads, each node once.
struct Task {
    plan: Arc<ReadPlan>,
    nodes: Vec<NodeId>,
    next: AtomicUsize,
    shared: Arc<Shared>,
}

impl Task {
    fn new(plan: &Arc<ReadPlan>, nodes: Vec<NodeId>, shared: &Arc<Shared>) -> Self {
        Self {
            plan: Arc::clone(plan),
            nodes,
            next: AtomicUsize::new(0),
            shared: Arc::clone(shared),
        }
    }

    fn run(
        self,
        crew: &Crew,
        threads: usize,
        look: impl Fn(&ReadPlan, &mut Opener<'_>, NodeId, &Shared) + Send + Sync + 'static,
    ) {
        const ALONE_MAX: usize = 3;
        let (threads, directories_max) = pool_size(threads);
        let threads = threads.min(self.nodes.len());
        let is_alone = self.nodes.len() <= ALONE_MAX;
        let work = move || {
            let mut opener = Opener::new(&*self.plan).keeping(directories_max);
            while let Some(id) = self.nodes.get(self.next.fetch_add(1, Ordering::Relaxed)) {
                if self.shared.stopped() {
                    break;
                }
                let _under_way = self.shared.begin_look();
                look(&self.plan, &mut opener, *id, &self.shared);
                self.shared.step();
            }
            true
        };
        match is_alone {
            true => drop(work()),
            false => crew.run(threads, Arc::new(work)),
        }
    }
}

/// Opens what it is when it is still what was recorded; counts it otherwise.
fn look(
    plan: &ReadPlan,
    opener: &mut Opener<'_>,
    id: NodeId,
    shared: &Shared,
) -> Option<(OwnedFd, FileType)> {
    let node = plan.node(id)?;
    shared.note_looked_up(plan, id);
    let looked = opener.open(id, true).and_then(|fd| Ok((fstat(&fd)?, fd)));
    let (stat, fd) = match looked {
        Ok(looked) => looked,
        Err(error) => {
            shared.count_failure(&error, 1);
            return None;
        }
    };
    let file_type = FileType::from_raw_mode(stat.st_mode);
    let same_kind = matches!(
        (node.kind, file_type),
        (NodeKind::File, FileType::RegularFile)
            | (NodeKind::Directory, FileType::Directory)
            | (NodeKind::Symlink, FileType::Symlink)
    );
    // A directory is identified by its path: overlays and network file systems number directories
    // anew.
    let same = node.kind == NodeKind::Directory || stat.st_ino == node.identity.inode;
    if !same_kind || !same {
        shared.tally.add(|t| &t.replaced_files, 1);
        return None;
    }
    Some((fd, file_type))
}

fn look_at_directory(plan: &ReadPlan, opener: &mut Opener<'_>, id: NodeId, shared: &Shared) {
    let listed = plan
        .node(id)
        .is_some_and(|node| node.uses.contains(Uses::LISTED));
    let Some((fd, FileType::Directory)) = look(plan, opener, id, shared) else {
        return;
    };
    if !listed {
        return;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = |flags| openat(fd.as_fd(), ".", flags, Mode::empty());
    // Only the owner and root may leave the access time alone.
    let opened = open(flags | OFlags::NOATIME).or_else(|_| open(flags));
    let Ok(open) = opened else {
        return;
    };
    let mut buffer = Vec::with_capacity(32 * 1024);
    let mut entries = RawDir::new(open, buffer.spare_capacity_mut());
    while let Some(Ok(_)) = entries.next() {}
}

/// Looks at a file or symlink, and finds where these ranges lie.
fn look_at_file(
    plan: &ReadPlan,
    opener: &mut Opener<'_>,
    id: NodeId,
    ranges: &[&PageRange],
    shared: &Shared,
) -> Option<Vec<Piece>> {
    let (looked, file_type) = look(plan, opener, id, shared)?;
    if file_type != FileType::RegularFile || ranges.is_empty() {
        return None;
    }
    let fd = match opener.open(id, false) {
        Ok(fd) => fd,
        Err(error) => {
            shared.count_failure(&error, 1);
            return None;
        }
    };
    let mut pieces = Vec::with_capacity(ranges.len());
    for range in ranges {
        let (start, length) = (range.start_page * PAGE_BYTES, range.pages * PAGE_BYTES);
        let piece = |start_page, pages, place_bytes| Piece {
            node: id,
            start_page,
            pages,
            need_ns: range.need_ns,
            place_bytes,
        };
        match fiemap::runs(&fd, start, length, RUNS_MAX) {
            Ok(runs) if runs.len() < RUNS_MAX => {
                // Two runs may share a page, where blocks are smaller.
                let mut next_page = range.start_page;
                for run in runs {
                    let from = (run.offset_bytes / PAGE_BYTES).max(next_page);
                    let end = run.offset_bytes.saturating_add(run.length_bytes);
                    let to = end.div_ceil(PAGE_BYTES).min(range.end_page());
                    if from < to {
                        let skipped = (from * PAGE_BYTES).saturating_sub(run.offset_bytes);
                        pieces.push(piece(from, to - from, run.place_bytes + skipped));
                        next_page = to;
                    }
                }
            }
            // No map, or one too long: the inode number is the next best order.
            _ => pieces.push(piece(range.start_page, range.pages, inode(plan, id))),
        }
    }
    if pieces.is_empty()
        && let Ok(stat) = fstat(&looked)
    {
        let size_bytes = u64::try_from(stat.st_size).unwrap_or(0);
        shared.count_if_shrunk(plan, id, size_bytes);
    }
    Some(pieces)
}
