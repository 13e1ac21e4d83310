// SPDX-License-Identifier: MIT OR Apache-2.0
//! A read plan: which files and which pages of them are to be in memory, and when.
//!
//! Profiles, traversals of directories and matched profiles are lowered to plans. Order, budget,
//! the layout of ext4 and the reads themselves work on plans. They do not know where a plan comes
//! from.
//!
//! A plan is a tree of paths. A file in it is known by its path, its inode and the inode's
//! generation. The executor looks up the device, since a path may have been mounted anew. Parents
//! come before their children.

use std::collections::HashMap;

use foreread_profile::limits::{
    NAMES_BYTES_MAX, NODES_MAX, PAGE_END_MAX, PATH_BYTES_MAX, RANGES_MAX,
};
use foreread_profile::{
    DevicePages, Identity, Node, NodeId, NodeKind, PageRange, PathTree, Profile, Uses,
};

/// See the [module](self). A node is a path with an action: find it, list it, or read pages of it.
/// A node with inode 0 is only a part of the path to others. Weights and mounts of a profile mean
/// nothing here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadPlan {
    nodes: Vec<Node>,
    names: Vec<u8>,
    ranges: Vec<PageRange>,
    devices: Vec<DevicePages>,
}

/// A directory that is only a part of the path to others.
const ON_THE_WAY: Node = Node {
    parent: None,
    name_start: 0,
    name_length: 0,
    kind: NodeKind::Directory,
    uses: Uses(0),
    weight: 0,
    mount: 0,
    identity: Identity {
        inode: 0,
        generation: 0,
        size_bytes: 0,
        mtime_ns: 0,
    },
    unit: 0,
    need_ns: u64::MAX,
    range_start: 0,
    range_count: 0,
};

/// All that a profile names. Numbers of nodes stay the same.
impl From<&Profile> for ReadPlan {
    fn from(profile: &Profile) -> Self {
        Self {
            nodes: profile.nodes.clone(),
            names: profile.names.clone(),
            ranges: profile.ranges.clone(),
            devices: profile.devices.clone(),
        }
    }
}

impl ReadPlan {
    /// A file or directory; `None` when there is no such one.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.0 as usize)
    }

    /// Number of files and directories, including the directories on the way to others.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether nothing is wanted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// All files and directories with their numbers, parents first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (NodeId, &Node)> {
        let number = |at: usize| NodeId(u32::try_from(at).unwrap_or(u32::MAX));
        let nodes = self.nodes.iter().enumerate();
        nodes.map(move |(at, file)| (number(at), file))
    }

    /// Files of which pages are wanted.
    pub fn files_with_pages(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        let is_read = |file: &Node| file.kind == NodeKind::File && file.range_count > 0;
        self.iter().filter(move |(_, file)| is_read(file))
    }

    /// The pages that are wanted of a file, as they were added.
    #[must_use]
    pub fn ranges(&self, id: NodeId) -> &[PageRange] {
        self.node(id).map_or(&[], |node| node.ranges(&self.ranges))
    }

    /// When something of a node is needed: each of its ranges, or itself where it has none.
    pub(crate) fn needs_ns(&self, id: NodeId) -> impl Iterator<Item = u64> + '_ {
        let node = self.node(id).into_iter();
        node.flat_map(move |node| node.needs_ns(self.ranges(id)))
    }

    /// Pages of the block device of the file system at `mount_point`, and of the disk that it is a
    /// partition of.
    pub fn devices(&self, mount_point: &[u8]) -> impl Iterator<Item = &DevicePages> {
        let is_there = move |device: &&DevicePages| device.mount_point == mount_point;
        self.devices.iter().filter(is_there)
    }

    /// Pages of all ranges together.
    #[must_use]
    pub fn total_pages(&self) -> u64 {
        let pages = self.ranges.iter().map(|range| range.pages);
        pages.fold(0, u64::saturating_add)
    }

    /// A plan of some of the files only, and the number in this plan of each of its nodes. The
    /// nodes must come parents first. Directories on the way to them are only that.
    #[must_use]
    pub fn part(&self, nodes: &[NodeId]) -> (Self, Vec<NodeId>) {
        let mut is_wanted = vec![false; self.nodes.len()];
        let mut is_on_the_way = is_wanted.clone();
        for id in nodes {
            is_wanted[id.0 as usize] = true;
            let mut above = Some(*id);
            while let Some(id) = above.filter(|id| !is_on_the_way[id.0 as usize]) {
                is_on_the_way[id.0 as usize] = true;
                above = self.parent(id);
            }
        }
        let mut part = Self {
            devices: self.devices.clone(),
            ..Self::default()
        };
        let mut of_whole = Vec::new();
        let mut number_in_part = vec![None; self.nodes.len()];
        for (id, node) in self.iter().filter(|(id, _)| is_on_the_way[id.0 as usize]) {
            let parent = node
                .parent
                .and_then(|parent| number_in_part[parent.0 as usize]);
            let (node, ranges) = match is_wanted[id.0 as usize] {
                true => (*node, self.ranges(id)),
                false => (ON_THE_WAY, &[][..]),
            };
            number_in_part[id.0 as usize] = part.push_checked(parent, self.name(id), node, ranges);
            if number_in_part[id.0 as usize].is_some() {
                of_whole.push(id);
            }
        }
        (part, of_whole)
    }

    /// Adds a node in a directory that is there already; the first is the root. `None` if it can't
    /// be one.
    pub(crate) fn push_checked(
        &mut self,
        parent: Option<NodeId>,
        name: &[u8],
        node: Node,
        ranges: &[PageRange],
    ) -> Option<NodeId> {
        let is_placed = match parent {
            None => self.nodes.is_empty() && name.is_empty(),
            Some(parent) => (parent.0 as usize) < self.nodes.len() && is_plain(name),
        };
        let is_bounded = |range: &PageRange| {
            let end = range.start_page.checked_add(range.pages);
            end.is_some_and(|end| end <= PAGE_END_MAX)
        };
        let fits = self.nodes.len() < NODES_MAX
            && self.ranges.len().checked_add(ranges.len())? <= RANGES_MAX
            && self.names.len() + name.len() <= NAMES_BYTES_MAX;
        if !is_placed || !fits || !ranges.iter().all(is_bounded) {
            return None;
        }
        let id = NodeId(u32::try_from(self.nodes.len()).ok()?);
        self.nodes.push(Node {
            parent,
            name_start: u32::try_from(self.names.len()).ok()?,
            name_length: u8::try_from(name.len()).ok()?,
            // As the builder has it, so that a plan comes back as it was.
            range_start: match ranges {
                [] => 0,
                _ => u32::try_from(self.ranges.len()).ok()?,
            },
            range_count: u32::try_from(ranges.len()).ok()?,
            ..node
        });
        self.names.extend_from_slice(name);
        self.ranges.extend_from_slice(ranges);
        Some(id)
    }

    /// Bytes of our own memory that it holds.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        let nodes = size_of::<Node>() * self.nodes.len();
        let ranges = size_of::<PageRange>() * self.ranges.len();
        (nodes + ranges + self.names.len()) as u64
    }

    /// The use that is made of a file or directory.
    #[must_use]
    pub fn uses(&self, id: NodeId) -> Uses {
        self.node(id).map(|node| node.uses).unwrap_or_default()
    }

    /// Number of files and directories that are wanted, and not only on the way to others.
    #[must_use]
    pub fn wanted(&self) -> usize {
        self.nodes.iter().filter(|node| is_wanted(node)).count()
    }

    /// Leaves a file or directory out: from now on it is only a part of the path to others. Returns
    /// whether it was wanted.
    pub fn leave_out(&mut self, id: NodeId) -> bool {
        let Some(node) = self.nodes.get_mut(id.0 as usize) else {
            return false;
        };
        let was_wanted = is_wanted(node);
        node.identity = Identity::default();
        node.range_count = 0;
        was_wanted
    }

    /// A plan of the metadata of some of its files and directories: they are found, but no names
    /// and no pages of them are read. Numbers of nodes stay the same.
    #[must_use]
    pub fn metadata_of(&self, wanted: &[NodeId]) -> Self {
        let on_the_way = |node: &Node| Node {
            identity: Identity::default(),
            range_count: 0,
            ..*node
        };
        let mut nodes: Vec<Node> = self.nodes.iter().map(on_the_way).collect();
        for id in wanted {
            let (of, node) = (self.node(*id), nodes.get_mut(id.0 as usize));
            if let (Some(of), Some(node)) = (of, node) {
                node.identity = of.identity;
                node.uses = Uses::LOOKED_UP;
            }
        }
        Self {
            nodes,
            names: self.names.clone(),
            ranges: Vec::new(),
            devices: Vec::new(),
        }
    }

    /// Finds absolute paths in the plan: their nodes and the index of the path. If a path is given
    /// twice, the later one is found.
    #[must_use]
    pub fn find_all<'p>(&self, paths: impl Iterator<Item = &'p [u8]>) -> Vec<(NodeId, usize)> {
        // Path remainders to look up below each directory that leads to one of the paths.
        let mut below: HashMap<NodeId, Vec<(usize, &[u8])>> = HashMap::new();
        let mut found = Vec::new();
        for (index, path) in paths.enumerate() {
            let root = NodeId(0);
            match path.strip_prefix(b"/") {
                Some(b"") if !self.is_empty() => found.push((root, index)),
                Some(rest) => below.entry(root).or_default().push((index, rest)),
                None => {}
            }
        }
        for (id, file) in self.iter() {
            let Some(wanted) = file.parent.and_then(|parent| below.get(&parent)) else {
                continue;
            };
            let name = self.name(id);
            let mut further = Vec::new();
            for &(index, rest) in wanted {
                let end = rest.iter().position(|byte| *byte == b'/');
                match end {
                    _ if &rest[..end.unwrap_or(rest.len())] != name => {}
                    Some(end) => further.push((index, &rest[end + 1..])),
                    None => found.push((id, index)),
                }
            }
            if !further.is_empty() {
                below.insert(id, further);
            }
        }
        found.sort_unstable_by_key(|(_, index)| *index);
        found
    }
}

impl PathTree for ReadPlan {
    fn parent(&self, id: NodeId) -> Option<NodeId> {
        self.node(id)?.parent
    }

    fn name(&self, id: NodeId) -> &[u8] {
        self.node(id).map_or(&[], |node| node.name(&self.names))
    }
}

/// Puts a plan together, path by path.
#[derive(Debug, Default)]
pub struct PlanBuilder {
    plan: ReadPlan,
    directories: HashMap<Vec<u8>, NodeId>,
    last_directory: (Vec<u8>, Option<NodeId>),
}

impl PlanBuilder {
    /// Nothing is wanted yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file or directory to be found. `None` for a path that is not absolute, or too long.
    ///
    /// A directory that is named again, or was on the way to another path, keeps its number.
    pub fn add(
        &mut self,
        path: &[u8],
        kind: NodeKind,
        identity: Identity,
        uses: Uses,
        need_ns: u64,
    ) -> Option<NodeId> {
        if path.first() != Some(&b'/') || path.len() > PATH_BYTES_MAX {
            return None;
        }
        let wanted = Node {
            kind,
            uses,
            identity,
            need_ns,
            ..Node::default()
        };
        if kind == NodeKind::Directory {
            let id = self.directory(path)?;
            let file = self.plan.nodes.get_mut(id.0 as usize)?;
            if file.identity.inode == 0 {
                file.need_ns = need_ns;
            }
            file.identity = identity;
            file.uses = file.uses.union(uses);
            file.need_ns = file.need_ns.min(need_ns);
            return Some(id);
        }
        let (above, name) = split(path)?;
        let parent = self.directory_above(above)?;
        self.push(Some(parent), name, wanted)
    }

    /// Wants pages of the file that was added last.
    pub fn pages(&mut self, start_page: u64, pages: u64, need_ns: u64) {
        let range_start = self.plan.ranges.len();
        let Some(file) = self.plan.nodes.last_mut().filter(|_| pages > 0) else {
            return;
        };
        if file.range_count == 0 {
            file.range_start = u32::try_from(range_start).unwrap_or(u32::MAX);
        }
        file.range_count = file.range_count.saturating_add(1);
        self.plan.ranges.push(PageRange {
            start_page,
            pages,
            need_ns,
            weight: 0,
            unit: 0,
        });
    }

    /// The plan.
    #[must_use]
    pub fn finish(self) -> ReadPlan {
        self.plan
    }

    /// Neighbours in a list are mostly in one directory.
    fn directory_above(&mut self, path: &[u8]) -> Option<NodeId> {
        if let (known, Some(id)) = &self.last_directory
            && known == path
        {
            return Some(*id);
        }
        let id = self.directory(path)?;
        self.last_directory = (path.to_vec(), Some(id));
        Some(id)
    }

    fn directory(&mut self, path: &[u8]) -> Option<NodeId> {
        if let Some(id) = self.directories.get(path) {
            return Some(*id);
        }
        let id = match path {
            b"/" => self.push(None, b"", ON_THE_WAY)?,
            _ => {
                let (above, name) = split(path)?;
                let parent = self.directory(above)?;
                self.push(Some(parent), name, ON_THE_WAY)?
            }
        };
        self.directories.insert(path.to_vec(), id);
        Some(id)
    }

    fn push(&mut self, parent: Option<NodeId>, name: &[u8], file: Node) -> Option<NodeId> {
        let id = NodeId(u32::try_from(self.plan.nodes.len()).ok()?);
        let name_start = u32::try_from(self.plan.names.len()).ok()?;
        self.plan.names.extend_from_slice(name);
        self.plan.nodes.push(Node {
            parent,
            name_start,
            name_length: u8::try_from(name.len()).ok()?,
            ..file
        });
        Some(id)
    }
}

fn is_wanted(node: &Node) -> bool {
    node.identity.inode != 0
}

/// The directory of a path, and the name in it. `None` for the root, and for paths with an empty
/// name or one that leads elsewhere.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = path.iter().rposition(|byte| *byte == b'/')?;
    let name = &path[at + 1..];
    is_plain(name).then_some((if at == 0 { b"/" } else { &path[..at] }, name))
}

/// Whether it is a name in a directory that leads nowhere else.
fn is_plain(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..")
        && name.len() <= usize::from(u8::MAX)
        && !name.contains(&b'/')
        && !name.contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_profile::{ProfileBuilder, Program, Source};
    use proptest::prelude::*;

    fn inode(inode: u64) -> Identity {
        Identity {
            inode,
            ..Identity::default()
        }
    }

    fn path_of(plan: &ReadPlan, id: NodeId) -> String {
        let mut path = Vec::new();
        plan.path_into(id, &mut path);
        String::from_utf8(path).unwrap()
    }

    #[test]
    fn paths_share_their_directories() {
        let mut builder = PlanBuilder::new();
        let mut add = |path: &str, kind, number| {
            let uses = Uses::LOOKED_UP;
            builder.add(path.as_bytes(), kind, inode(number), uses, number)
        };
        let file = add("/a/b/c", NodeKind::File, 7).unwrap();
        let directory = add("/a/b", NodeKind::Directory, 5).unwrap();
        assert_eq!(add("/a/b", NodeKind::Directory, 5), Some(directory));
        for wrong in ["", "a", "/a//b", "/a/./b", "/a/../b", "/a/"] {
            assert_eq!(add(wrong, NodeKind::File, 9), None, "{wrong}");
        }
        assert_eq!(add(&"/x".repeat(4000), NodeKind::File, 9), None);
        builder.pages(3, 0, 1);
        let plan = builder.finish();
        assert_eq!(path_of(&plan, file), "/a/b/c");
        assert_eq!(path_of(&plan, NodeId(0)), "/");
        assert_eq!(plan.node(directory).unwrap().need_ns, 5);
        assert_eq!(plan.node(file).unwrap().parent, Some(directory));
        // The paths that are wrong have left nothing but a directory.
        assert_eq!((plan.len(), plan.total_pages()), (4, 0));
    }

    #[test]
    fn what_is_left_out_stays_a_part_of_paths() {
        let mut builder = PlanBuilder::new();
        let uses = Uses::LOOKED_UP.union(Uses::LISTED);
        builder.add(b"/a", NodeKind::Directory, inode(1), uses, 1);
        let file = builder
            .add(b"/a/b", NodeKind::File, inode(2), uses, 2)
            .unwrap();
        builder.pages(0, 4, 2);
        let mut plan = builder.finish();
        assert_eq!((plan.wanted(), plan.files_with_pages().count()), (2, 1));
        let metadata = plan.metadata_of(&[file]);
        assert_eq!((metadata.wanted(), metadata.total_pages()), (1, 0));
        assert_eq!(path_of(&metadata, file), "/a/b");
        assert_eq!(metadata.uses(file), Uses::LOOKED_UP);
        assert!(plan.held_bytes() > metadata.held_bytes());
        assert!(plan.leave_out(file) && !plan.leave_out(file));
        assert_eq!((plan.wanted(), plan.files_with_pages().count()), (1, 0));
        assert_eq!(path_of(&plan, file), "/a/b");
        assert!(!plan.leave_out(NodeId(99)));
    }

    #[test]
    fn a_profile_keeps_its_numbers() {
        let mut builder = ProfileBuilder::new(Program::default(), Source::default());
        for (number, path) in [(3u64, "/z"), (4, "/b/x"), (5, "/b/a")] {
            let id = builder.node(path.as_bytes()).unwrap();
            builder.set_identity(id, inode(number));
            builder.pages(id, number, 2, number);
        }
        let profile = builder.finish();
        let plan = ReadPlan::from(&profile);
        assert_eq!(plan.len(), profile.nodes.len());
        for (id, node) in profile.iter() {
            assert_eq!(path_of(&plan, id).into_bytes(), profile.path(id));
            assert_eq!(plan.ranges(id), profile.ranges(id));
            assert_eq!(plan.node(id).unwrap().identity, node.identity);
        }
        assert_eq!(plan.files_with_pages().count(), 3);
    }

    proptest! {
        #[test]
        fn paths_are_found(
            files in prop::collection::vec("(/[ab]{1,2}){1,4}", 1..40),
            wanted in prop::collection::vec("(/[ab]{0,2}){1,4}", 0..10),
        ) {
            let mut builder = PlanBuilder::new();
            for path in &files {
                builder.add(path.as_bytes(), NodeKind::Directory, inode(1), Uses::default(), 0);
            }
            let plan = builder.finish();
            let found = plan.find_all(wanted.iter().map(String::as_bytes));
            let expected = wanted.iter().enumerate().filter_map(|(index, path)| {
                let mut all = plan.iter().map(|(id, _)| id);
                all.find(|id| path_of(&plan, *id) == *path).map(|id| (id, index))
            });
            prop_assert_eq!(found, expected.collect::<Vec<_>>());
        }
    }
}
