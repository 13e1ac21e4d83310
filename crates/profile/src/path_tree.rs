// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tree of paths, as needed to open the files of a profile or a plan.

use crate::types::{NodeId, Profile};

/// Each node has a name in a directory; the root has none.
pub trait PathTree {
    /// The directory that a node is in; `None` for the root and for unknown nodes.
    fn parent(&self, id: NodeId) -> Option<NodeId>;

    /// The last component of its path; empty for the root and for unknown nodes.
    fn name(&self, id: NodeId) -> &[u8];

    /// Writes its absolute path to `path`, replacing the content; `/` for unknown nodes.
    fn path_into(&self, id: NodeId, path: &mut Vec<u8>) {
        path.clear();
        // From the end: the names of the parents are met in reverse.
        let mut at = id;
        while let Some(parent) = self.parent(at) {
            path.extend(self.name(at).iter().rev());
            path.push(b'/');
            at = parent;
        }
        if path.is_empty() {
            path.push(b'/');
        }
        path.reverse();
    }
}

impl PathTree for Profile {
    fn parent(&self, id: NodeId) -> Option<NodeId> {
        self.node(id)?.parent
    }

    fn name(&self, id: NodeId) -> &[u8] {
        Self::name(self, id)
    }
}
