// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes a profile from the events of a recorder, in any order.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use thiserror::Error;

use crate::limits::{
    MOUNTS_MAX, NAME_BYTES_MAX, NAMES_BYTES_MAX, NODES_MAX, PAGE_END_MAX, PATH_BYTES_MAX,
    RANGES_MAX,
};
use crate::merge::drop_unused_mounts;
use crate::ranges::{earlier, flatten};
use crate::types::{
    Identity, Mount, Node, NodeId, NodeKind, PageRange, Phase, Profile, Program, Run, Source, Uses,
    WEIGHT_MAX,
};
use crate::units::{Units, drop_unused_units};

/// Why a path can't be in a profile.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PathError {
    /// It doesn't begin with `/`.
    #[error("the path {0:?} is not absolute; profiles hold absolute paths only")]
    NotAbsolute(String),
    /// A component is empty, `.` or `..`.
    #[error("the path component {0:?} is empty, '.' or '..'; resolve the path first")]
    NotResolved(String),
    /// A name holds `/` or NUL.
    #[error("the name {0:?} holds a '/' or a NUL, which no file name can")]
    BadByte(String),
    /// A name is longer than [`NAME_BYTES_MAX`] or a path longer than [`PATH_BYTES_MAX`].
    #[error("a path or name of {0} bytes is longer than the kernel's limit; it was left out")]
    TooLong(usize),
    /// The profile is full.
    #[error("the profile is full ({NODES_MAX} paths); further paths were left out")]
    Full,
    /// The parent is not a node of this builder.
    #[error("no node {0} in this profile")]
    NoSuchNode(u32),
}

/// Builds a [`Profile`] by path.
///
/// Ids are valid for this builder only: [`finish`](Self::finish) puts nodes in their canonical
/// order and so gives them others. Setters ignore ids that aren't from this builder.
#[derive(Debug)]
pub struct ProfileBuilder {
    program: Program,
    source: Source,
    mounts: Vec<Mount>,
    units: Units,
    phases: Vec<Phase>,
    runs: Vec<Run>,
    nodes: Vec<Draft>,
    names: Vec<u8>,
    index: HashMap<u64, u32>,
    hasher: RandomState,
    ranges: Vec<(NodeId, PageRange)>,
    compact_at: usize,
    ranges_dropped: u64,
    last_directory: (Vec<u8>, NodeId),
}

/// A node as it grows.
#[derive(Clone, Copy, Debug)]
struct Draft {
    parent: u32,
    name_start: u32,
    name_length: u8,
    path_length: u16,
    kind: NodeKind,
    uses: Uses,
    mount: u16,
    has_children: bool,
    identity: Identity,
    /// `u64::MAX` until known.
    need_ns: u64,
    unit: u16,
    /// The next draft with the same hash, or [`END`].
    next_same_hash: u32,
}

/// No further node in a chain.
const END: u32 = u32::MAX;
/// Ranges that are kept before they are compacted for the first time: 20 MiB of them.
const COMPACT_AT: usize = 1 << 19;

const ROOT: Draft = Draft {
    parent: 0,
    name_start: 0,
    name_length: 0,
    path_length: 0,
    kind: NodeKind::Directory,
    uses: Uses::LOOKED_UP,
    mount: 0,
    has_children: true,
    identity: Identity {
        inode: 0,
        generation: 0,
        size_bytes: 0,
        mtime_ns: 0,
    },
    need_ns: u64::MAX,
    unit: 0,
    next_same_hash: END,
};

impl Draft {
    fn needed(&mut self, need_ns: u64, unit: u16) {
        (self.need_ns, self.unit) = earlier((self.need_ns, self.unit), (need_ns, unit));
    }
}

impl ProfileBuilder {
    /// A profile with nothing but the root directory.
    #[must_use]
    pub fn new(program: Program, source: Source) -> Self {
        Self {
            program,
            source,
            mounts: vec![Mount::default()],
            units: Units::default(),
            phases: Vec::new(),
            runs: Vec::new(),
            nodes: vec![ROOT],
            names: Vec::new(),
            index: HashMap::new(),
            hasher: RandomState::new(),
            ranges: Vec::new(),
            compact_at: COMPACT_AT,
            ranges_dropped: 0,
            last_directory: (Vec::new(), Self::ROOT),
        }
    }

    /// The root directory, which every builder has.
    pub const ROOT: NodeId = NodeId(0);

    /// The program of the recording; may be changed until the end.
    pub fn program_mut(&mut self) -> &mut Program {
        &mut self.program
    }

    /// Adds the measurements of one run; the latest come last.
    pub fn run(&mut self, run: Run) {
        self.runs.push(run);
    }

    /// The index of a mount, the same for equal mounts. Index 0 is the unknown mount, which is also
    /// given when there are more than [`MOUNTS_MAX`].
    pub fn mount(&mut self, mount: Mount) -> u16 {
        let mount = mount.bounded();
        let known = self.mounts.iter().position(|known| *known == mount);
        let index = known.unwrap_or_else(|| {
            if self.mounts.len() == MOUNTS_MAX {
                return 0;
            }
            self.mounts.push(mount);
            self.mounts.len() - 1
        });
        u16::try_from(index).unwrap_or(0)
    }

    /// The number of a control group, the same for equal paths: for [`used_by`](Self::used_by) and
    /// [`pages_by`](Self::pages_by). 0, the unknown one, for an empty path and when there are more
    /// than [`UNITS_MAX`](crate::limits::UNITS_MAX).
    pub fn unit(&mut self, path: &[u8]) -> u16 {
        self.units.number(path)
    }

    /// Says when a part of a boot began. Parts come in their order; others are ignored.
    pub fn phase(&mut self, phase: Phase) {
        let last = self.phases.last();
        if last.is_none_or(|last| last.kind < phase.kind && last.start_ns <= phase.start_ns) {
            self.phases.push(phase);
        }
    }

    /// The node of an absolute path, made when it's new: as a file with no use, its missing parents
    /// as directories that were looked up.
    ///
    /// # Errors
    /// [`PathError`] when the path isn't absolute and resolved, too long, or one too many. Parents
    /// may have been made before the error.
    pub fn node(&mut self, path: &[u8]) -> Result<NodeId, PathError> {
        let Some(relative) = path.strip_prefix(b"/") else {
            return Err(PathError::NotAbsolute(lossy(path)));
        };
        if path.len() > PATH_BYTES_MAX {
            return Err(PathError::TooLong(path.len()));
        }
        if relative.is_empty() {
            return Ok(Self::ROOT);
        }
        let (directory, name) = match relative.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&relative[..slash], &relative[slash + 1..]),
            None => (&relative[..0], relative),
        };
        let parent = self.directory(directory)?;
        self.child(parent, name)
    }

    /// The directory of a path without its leading `/`. Recorders report files of one directory
    /// together, so the last one is remembered.
    fn directory(&mut self, relative: &[u8]) -> Result<NodeId, PathError> {
        if relative == self.last_directory.0 {
            return Ok(self.last_directory.1);
        }
        let mut id = Self::ROOT;
        if !relative.is_empty() {
            for name in relative.split(|byte| *byte == b'/') {
                id = self.child(id, name)?;
            }
            // A name that something hangs below is a directory, whether or not it was set to be.
            self.nodes[id.0 as usize].has_children = true;
        }
        self.last_directory.0.clear();
        self.last_directory.0.extend_from_slice(relative);
        self.last_directory.1 = id;
        Ok(id)
    }

    /// The node of a name in a directory, made when it's new.
    ///
    /// # Errors
    /// As [`node`](Self::node), and [`PathError::NoSuchNode`] when `parent` isn't of this builder.
    pub fn child(&mut self, parent: NodeId, name: &[u8]) -> Result<NodeId, PathError> {
        let hash = self.hasher.hash_one((parent.0, name));
        let first = self.index.get(&hash).copied().unwrap_or(END);
        let mut at = first;
        while let Some(draft) = self.nodes.get(at as usize) {
            if draft.parent == parent.0 && self.name_of(draft) == name {
                return Ok(NodeId(at));
            }
            at = draft.next_same_hash;
        }
        let id = self.add(parent, name, first)?;
        self.index.insert(hash, id.0);
        Ok(id)
    }

    fn add(
        &mut self,
        parent: NodeId,
        name: &[u8],
        next_same_hash: u32,
    ) -> Result<NodeId, PathError> {
        check_name(name)?;
        let name_length = u8::try_from(name.len()).map_err(|_| PathError::TooLong(name.len()))?;
        if self.nodes.len() >= NODES_MAX || self.names.len() + name.len() > NAMES_BYTES_MAX {
            return Err(PathError::Full);
        }
        let (Ok(id), Ok(name_start)) = (
            u32::try_from(self.nodes.len()),
            u32::try_from(self.names.len()),
        ) else {
            return Err(PathError::Full);
        };
        let Some(directory) = self.nodes.get_mut(parent.0 as usize) else {
            return Err(PathError::NoSuchNode(parent.0));
        };
        let length = usize::from(directory.path_length) + 1 + name.len();
        if length > PATH_BYTES_MAX {
            return Err(PathError::TooLong(length));
        }
        directory.has_children = true;
        self.names.extend_from_slice(name);
        self.nodes.push(Draft {
            parent: parent.0,
            name_start,
            name_length,
            path_length: u16::try_from(length).unwrap_or(u16::MAX),
            kind: NodeKind::File,
            uses: Uses::LOOKED_UP,
            has_children: false,
            next_same_hash,
            ..ROOT
        });
        Ok(NodeId(id))
    }

    fn name_of(&self, draft: &Draft) -> &[u8] {
        let start = draft.name_start as usize;
        &self.names[start..start + usize::from(draft.name_length)]
    }

    fn draft(&mut self, id: NodeId) -> Option<&mut Draft> {
        self.nodes.get_mut(id.0 as usize)
    }

    /// Sets the kind of a node. The latest call counts, but a node with children stays a directory.
    pub fn set_kind(&mut self, id: NodeId, kind: NodeKind) {
        if let Some(draft) = self.draft(id) {
            draft.kind = kind;
        }
    }

    /// Sets the identity by which a node is recognised.
    pub fn set_identity(&mut self, id: NodeId, identity: Identity) {
        if let Some(draft) = self.draft(id) {
            draft.identity = identity;
        }
    }

    /// Sets the mount of a node, an index that [`mount`](Self::mount) gave. Others are ignored.
    pub fn set_mount(&mut self, id: NodeId, mount: u16) {
        if usize::from(mount) < self.mounts.len()
            && let Some(draft) = self.draft(id)
        {
            draft.mount = mount;
        }
    }

    /// Adds uses of a node at `need_ns` from the start of the program; the earliest need is kept.
    pub fn used(&mut self, id: NodeId, uses: Uses, need_ns: u64) {
        self.used_by(id, uses, need_ns, 0);
    }

    /// The same, by a control group that [`unit`](Self::unit) gave. That of the earliest need is
    /// kept.
    pub fn used_by(&mut self, id: NodeId, uses: Uses, need_ns: u64, unit: u16) {
        if let Some(draft) = self.draft(id) {
            draft.uses = draft.uses.union(uses);
            draft.needed(need_ns, unit);
        }
    }

    /// Adds pages of a file, needed at `need_ns`. Pages that come again keep their earliest need.
    /// [`used`](Self::used) notes how they were read. Pages beyond the largest possible file, and
    /// pages of a node that turns out not to be a regular file, are left out.
    pub fn pages(&mut self, id: NodeId, start_page: u64, pages: u64, need_ns: u64) {
        self.pages_by(id, start_page, pages, need_ns, 0);
    }

    /// The same, by a control group that [`unit`](Self::unit) gave. That of the earliest need is
    /// kept.
    pub fn pages_by(&mut self, id: NodeId, start_page: u64, pages: u64, need_ns: u64, unit: u16) {
        let end_page = start_page.saturating_add(pages).min(PAGE_END_MAX);
        let Some(draft) = self.draft(id) else { return };
        if start_page >= end_page {
            return;
        }
        draft.needed(need_ns, unit);
        let weight = WEIGHT_MAX;
        self.ranges.push((
            id,
            PageRange {
                start_page,
                pages: end_page - start_page,
                need_ns,
                weight,
                unit,
            },
        ));
        if self.ranges.len() >= self.compact_at {
            self.compact();
            // Twice the number of the remaining ranges, so that the cost per call stays constant.
            self.compact_at = COMPACT_AT.max(self.ranges.len() * 2);
        }
    }

    /// Nodes so far, with the root.
    #[must_use]
    pub fn nodes_len(&self) -> usize {
        self.nodes.len()
    }

    /// Sorts and joins the ranges, and keeps those needed first when there are too many.
    fn compact(&mut self) {
        let all = std::mem::take(&mut self.ranges);
        self.ranges = joined(all, |id| id);
        if self.ranges.len() > RANGES_MAX {
            self.ranges_dropped += (self.ranges.len() - RANGES_MAX) as u64;
            self.ranges
                .select_nth_unstable_by_key(RANGES_MAX, |(id, range)| (range.need_ns, *id));
            self.ranges.truncate(RANGES_MAX);
        }
    }

    /// The profile in its canonical form. Ranges that had to be dropped because there were more
    /// than [`RANGES_MAX`] are counted in [`Source::events_lost`].
    #[must_use]
    pub fn finish(mut self) -> Profile {
        self.settle_kinds_and_needs();
        let order = self.canonical_order();
        let mut place = vec![0u32; self.nodes.len()];
        for (new, old) in (0u32..).zip(&order) {
            place[*old as usize] = new;
        }
        if self.ranges.len() > RANGES_MAX {
            self.compact();
        }
        let nodes = &self.nodes;
        self.ranges
            .retain(|(id, _)| nodes[id.0 as usize].kind == NodeKind::File);
        let ranges = joined(std::mem::take(&mut self.ranges), |id| {
            NodeId(place[id.0 as usize])
        });
        self.source.events_lost = self.source.events_lost.saturating_add(self.ranges_dropped);
        let mut profile = Profile {
            program: self.program.clone().bounded(),
            source: self.source.clone().bounded(),
            mounts: std::mem::take(&mut self.mounts),
            units: std::mem::take(&mut self.units).into_paths(),
            phases: std::mem::take(&mut self.phases),
            devices: Vec::new(),
            nodes: Vec::with_capacity(order.len()),
            names: Vec::with_capacity(self.names.len()),
            ranges: Vec::with_capacity(ranges.len()),
            runs: Vec::new(),
            is_astray: false,
        };
        for run in self.runs.drain(..) {
            profile.push_run(run);
        }
        let mut rest = ranges.as_slice();
        for (new, old) in (0u32..).zip(&order) {
            let draft = &self.nodes[*old as usize];
            let count = rest.iter().take_while(|(id, _)| id.0 == new).count();
            let (own, after) = rest.split_at(count);
            rest = after;
            let node = Node {
                parent: (new > 0).then(|| NodeId(place[draft.parent as usize])),
                kind: draft.kind,
                uses: draft.uses,
                weight: WEIGHT_MAX,
                mount: draft.mount,
                identity: draft.identity,
                need_ns: draft.need_ns,
                unit: draft.unit,
                ..Node::default()
            };
            let own = own.iter().map(|(_, range)| *range);
            profile.push_node(node, self.name_of(draft), own);
        }
        drop_unused_mounts(&mut profile);
        drop_unused_units(&mut profile);
        profile
    }

    /// A node with children is a directory; a directory is needed no later than its entries.
    fn settle_kinds_and_needs(&mut self) {
        // Children come after their parents here too, so one pass from the end reaches the root.
        for at in (1..self.nodes.len()).rev() {
            let draft = self.nodes[at];
            let parent = &mut self.nodes[draft.parent as usize];
            parent.needed(draft.need_ns, draft.unit);
        }
        for draft in &mut self.nodes {
            if draft.has_children {
                draft.kind = NodeKind::Directory;
                draft.uses = draft.uses.union(Uses::LOOKED_UP);
            }
            if draft.need_ns == u64::MAX {
                draft.need_ns = 0;
            }
        }
    }

    /// Breadth first, the children of one directory together and by name.
    fn canonical_order(&self) -> Vec<u32> {
        let mut starts = vec![0u32; self.nodes.len() + 1];
        for draft in &self.nodes[1..] {
            starts[draft.parent as usize + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut filled = starts.clone();
        let mut children = vec![0u32; self.nodes.len() - 1];
        for (id, draft) in (0u32..).zip(&self.nodes).skip(1) {
            let at = &mut filled[draft.parent as usize];
            children[*at as usize] = id;
            *at += 1;
        }
        let mut order = Vec::with_capacity(self.nodes.len());
        order.push(0);
        let mut next = 0;
        while let Some(&parent) = order.get(next) {
            let (from, to) = (starts[parent as usize], starts[parent as usize + 1]);
            let own = &mut children[from as usize..to as usize];
            own.sort_unstable_by(|a, b| {
                let (a, b) = (&self.nodes[*a as usize], &self.nodes[*b as usize]);
                self.name_of(a).cmp(self.name_of(b))
            });
            order.extend_from_slice(own);
            next += 1;
        }
        order
    }
}

/// The ranges with their ids mapped, sorted by node and page, flattened and joined.
fn joined(
    mut ranges: Vec<(NodeId, PageRange)>,
    map: impl Fn(NodeId) -> NodeId,
) -> Vec<(NodeId, PageRange)> {
    for (id, _) in &mut ranges {
        *id = map(*id);
    }
    ranges.sort_unstable_by_key(|(id, range)| (*id, range.start_page));
    let mut out = Vec::new();
    let (mut own, mut flat) = (Vec::new(), Vec::new());
    for group in ranges.chunk_by(|a, b| a.0 == b.0) {
        own.clear();
        flat.clear();
        own.extend(group.iter().map(|(_, range)| *range));
        flatten(&own, &mut flat);
        out.extend(flat.iter().map(|range| (group[0].0, *range)));
    }
    out
}

/// Whether a name can stand in a profile.
pub(crate) fn check_name(name: &[u8]) -> Result<(), PathError> {
    if matches!(name, b"" | b"." | b"..") {
        return Err(PathError::NotResolved(lossy(name)));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(PathError::TooLong(name.len()));
    }
    if name.iter().any(|byte| matches!(byte, b'/' | 0)) {
        return Err(PathError::BadByte(lossy(name)));
    }
    Ok(())
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
