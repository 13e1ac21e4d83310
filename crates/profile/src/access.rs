// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading a profile: paths, names, ranges, children; and keeping it within its limits.

use std::ops::Range;

use crate::limits::{ARGUMENTS_BYTES_MAX, ARGUMENTS_MAX, SCRIPTS_MAX, TEXT_BYTES_MAX};
use crate::path_tree::PathTree;
use crate::types::{
    Mount, Node, NodeId, NodeKind, PageRange, PhaseKind, Profile, Program, RUNS_MAX, Run, Source,
    Uses,
};

impl Profile {
    /// The node, or `None` when there's no such one.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.0 as usize)
    }

    /// The last component of its path; empty for the root and for unknown nodes.
    #[must_use]
    pub fn name(&self, id: NodeId) -> &[u8] {
        self.node(id).map_or(&[], |node| node.name(&self.names))
    }

    /// Its absolute path; empty for unknown nodes.
    #[must_use]
    pub fn path(&self, id: NodeId) -> Vec<u8> {
        let mut path = Vec::new();
        self.path_into(id, &mut path);
        path
    }

    /// Writes its absolute path to `path`, replacing the content; for loops that want no allocation
    /// per node.
    pub fn path_into(&self, id: NodeId, path: &mut Vec<u8>) {
        match self.node(id) {
            Some(_) => PathTree::path_into(self, id, path),
            None => path.clear(),
        }
    }

    /// Its page ranges, sorted by page; empty for anything but a file.
    #[must_use]
    pub fn ranges(&self, id: NodeId) -> &[PageRange] {
        self.node(id).map_or(&[], |node| node.ranges(&self.ranges))
    }

    /// When something of an entry is needed: each of its ranges, or itself where it has none.
    pub fn needs_ns(&self, id: NodeId) -> impl Iterator<Item = u64> + '_ {
        let node = self.node(id).into_iter();
        node.flat_map(move |node| node.needs_ns(self.ranges(id)))
    }

    /// Pages of all ranges together.
    #[must_use]
    pub fn total_pages(&self) -> u64 {
        self.ranges
            .iter()
            .fold(0u64, |sum, range| sum.saturating_add(range.pages))
    }

    /// All nodes with their ids, parents first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (NodeId, &Node)> {
        self.nodes
            .iter()
            .enumerate()
            .map(|(at, node)| (id_of(at), node))
    }

    /// All nodes of one kind with their ids, parents first.
    pub fn of_kind(&self, kind: NodeKind) -> impl Iterator<Item = (NodeId, &Node)> {
        self.iter().filter(move |(_, node)| node.kind == kind)
    }

    /// All regular files with their ids.
    pub fn files(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.of_kind(NodeKind::File)
    }

    /// All directories with their ids, parents first.
    pub fn directories(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.of_kind(NodeKind::Directory)
    }

    /// The indices in [`Profile::nodes`] of the entries of a directory, sorted by name.
    ///
    /// They are contiguous because nodes stand breadth first; a binary search finds them.
    #[must_use]
    pub fn children(&self, id: NodeId) -> Range<usize> {
        // The root has no parent, and `None` sorts before every parent.
        let from = self.nodes.partition_point(|node| node.parent < Some(id));
        let to = from + self.nodes[from..].partition_point(|node| node.parent == Some(id));
        from..to
    }

    /// The node of a name in a directory.
    #[must_use]
    pub fn child(&self, id: NodeId, name: &[u8]) -> Option<NodeId> {
        let children = self.children(id);
        let start = children.start;
        self.nodes[children]
            .binary_search_by(|node| node.name(&self.names).cmp(name))
            .ok()
            .map(|at| id_of(start + at))
    }

    /// The node of an absolute path.
    #[must_use]
    pub fn find(&self, path: &[u8]) -> Option<NodeId> {
        let relative = path.strip_prefix(b"/")?;
        let root = (!self.nodes.is_empty()).then_some(NodeId(0))?;
        if relative.is_empty() {
            return Some(root);
        }
        relative
            .split(|byte| *byte == b'/')
            .try_fold(root, |id, name| self.child(id, name))
    }

    /// The control group of a [`Node::unit`] or [`PageRange::unit`]; empty for 0, which is an
    /// unknown one.
    #[must_use]
    pub fn unit(&self, unit: u16) -> &[u8] {
        let at = usize::from(unit).checked_sub(1);
        at.and_then(|at| self.units.get(at))
            .map_or(&[], Vec::as_slice)
    }

    /// The part of the boot in which something was needed; `None` for what isn't a boot.
    #[must_use]
    pub fn phase_at(&self, need_ns: u64) -> Option<PhaseKind> {
        let begun = self
            .phases
            .iter()
            .take_while(|phase| phase.start_ns <= need_ns);
        begun.last().or(self.phases.first()).map(|phase| phase.kind)
    }

    /// Adds the measurements of a run; the oldest are removed when there are more than
    /// [`RUNS_MAX`].
    pub fn push_run(&mut self, run: Run) {
        self.runs.push(run);
        let excess = self.runs.len().saturating_sub(RUNS_MAX);
        self.runs.drain(..excess);
    }

    /// Appends a node with its name and ranges; all but the places of these must be set in `node`.
    /// The caller keeps the canonical order.
    pub(crate) fn push_node(
        &mut self,
        mut node: Node,
        name: &[u8],
        ranges: impl IntoIterator<Item = PageRange>,
    ) {
        node.name_start = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        node.name_length = u8::try_from(name.len()).unwrap_or(u8::MAX);
        self.names.extend_from_slice(name);
        let start = self.ranges.len();
        self.ranges.extend(ranges);
        node.range_start = u32::try_from(start).unwrap_or(u32::MAX);
        node.range_count = u32::try_from(self.ranges.len() - start).unwrap_or(u32::MAX);
        self.nodes.push(node);
    }
}

/// The id of an index; nodes are fewer than [`crate::limits::NODES_MAX`].
pub(crate) fn id_of(index: usize) -> NodeId {
    NodeId(u32::try_from(index).unwrap_or(u32::MAX))
}

impl Node {
    /// Its name, given [`Profile::names`]; empty when that is another profile's.
    #[must_use]
    pub fn name<'a>(&self, names: &'a [u8]) -> &'a [u8] {
        let start = self.name_start as usize;
        names
            .get(start..start + usize::from(self.name_length))
            .unwrap_or(&[])
    }

    /// Whether any program of the same interpreter comes to it: executables and what is mapped.
    #[must_use]
    pub const fn is_of_any_program(&self) -> bool {
        self.uses.contains(Uses::EXECUTED) || self.uses.contains(Uses::MAPPED)
    }

    /// Its ranges, given [`Profile::ranges`]; empty when that is another profile's.
    #[must_use]
    pub fn ranges<'a>(&self, ranges: &'a [PageRange]) -> &'a [PageRange] {
        let start = self.range_start as usize;
        ranges
            .get(start..start.saturating_add(self.range_count as usize))
            .unwrap_or(&[])
    }

    /// When something of it is needed, in nanoseconds since the start: each of `own`, its ranges,
    /// or itself where it has none.
    pub fn needs_ns<'a>(&self, own: &'a [PageRange]) -> impl Iterator<Item = u64> + use<'a> {
        let alone = own.is_empty().then_some(self.need_ns);
        alone
            .into_iter()
            .chain(own.iter().map(|range| range.need_ns))
    }
}

impl PageRange {
    /// The page after its last.
    #[must_use]
    pub const fn end_page(&self) -> u64 {
        self.start_page.saturating_add(self.pages)
    }
}

impl Program {
    /// The same within the limits of a profile: of a very long command line, the first arguments.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.executable.truncate(TEXT_BYTES_MAX);
        self.directory.truncate(TEXT_BYTES_MAX);
        self.key.truncate(TEXT_BYTES_MAX);
        let mut bytes = 0;
        let fitting = self
            .arguments
            .iter()
            .take(ARGUMENTS_MAX)
            .take_while(|argument| {
                bytes += argument.len();
                bytes <= ARGUMENTS_BYTES_MAX
            });
        let count = fitting.count();
        self.arguments.truncate(count);
        self.scripts.truncate(SCRIPTS_MAX);
        for script in &mut self.scripts {
            script.path.truncate(TEXT_BYTES_MAX);
        }
        self
    }
}

impl Source {
    /// The same within the limits of a profile.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.kernel.truncate(TEXT_BYTES_MAX);
        self
    }
}

impl Mount {
    /// The same within the limits of a profile.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.fs_type.truncate(TEXT_BYTES_MAX);
        self.mount_point.truncate(TEXT_BYTES_MAX);
        self
    }
}
