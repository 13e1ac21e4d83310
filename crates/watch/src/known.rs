// SPDX-License-Identifier: MIT OR Apache-2.0
//! The profiles that there are, by the files that their programs need first.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use foreread_profile::{NodeId, NodeKind, Profile, Uses};

/// Files by which a profile is known.
const FIRST_FILES: usize = 128;
/// Smallest profile, in files: a smaller one has nothing left to fetch once it is matched.
pub(crate) const FILES_MIN: usize = 16;

/// A file by inode and name. Its file system is compared later, when a profile matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileKey {
    inode: u64,
    name: u64,
}

impl FileKey {
    pub(crate) fn new(inode: u64, name: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Self {
            inode,
            name: hasher.finish(),
        }
    }
}

/// The profiles that there are, by their first files.
#[derive(Debug, Default)]
pub struct Known {
    /// Number of files of each profile that were read and not mapped.
    files: Vec<u32>,
    /// The profiles of which a file is among the first, and its place there.
    firsts: HashMap<FileKey, Vec<(u32, u32)>>,
}

impl Known {
    /// Adds a profile. The first has the number 0, and so on.
    pub fn add(&mut self, profile: &Profile) {
        let files = telling_files(profile);
        let number = u32::try_from(self.files.len()).unwrap_or(u32::MAX);
        self.files
            .push(u32::try_from(files.len()).unwrap_or(u32::MAX));
        if files.len() < FILES_MIN {
            return;
        }
        for (place, id) in (0u32..).zip(files.into_iter().take(FIRST_FILES)) {
            let inode = profile.node(id).map_or(0, |node| node.identity.inode);
            let key = FileKey::new(inode, profile.name(id));
            self.firsts.entry(key).or_default().push((number, place));
        }
    }

    /// Whether there is no profile to match.
    pub(crate) fn is_empty(&self) -> bool {
        self.firsts.is_empty()
    }

    /// Number of files of each profile that were read and not mapped.
    pub(crate) fn files(&self) -> &[u32] {
        &self.files
    }

    /// The profiles of which a file is among the first, and its place there.
    pub(crate) fn among_the_first(&self, key: FileKey) -> &[(u32, u32)] {
        self.firsts.get(&key).map_or(&[], Vec::as_slice)
    }
}

/// The files that a program read and didn't map, in the order in which it first needed them.
fn telling_files(profile: &Profile) -> Vec<NodeId> {
    let tells = profile.files().filter(|(_, node)| {
        node.range_count > 0 && node.identity.inode != 0 && !node.uses.contains(Uses::MAPPED)
    });
    let mut files: Vec<(u64, NodeId)> = tells
        .filter_map(|(id, _)| Some((first_need_ns(profile, id)?, id)))
        .collect();
    files.sort_unstable();
    files.into_iter().map(|(_, id)| id).collect()
}

/// Time at which data of a file was first needed, in ns from the start of the program; `None` of a
/// node without data.
#[must_use]
pub fn first_need_ns(profile: &Profile, id: NodeId) -> Option<u64> {
    let is_file = profile.node(id).map(|node| node.kind) == Some(NodeKind::File);
    let needs = profile.ranges(id).iter().map(|range| range.need_ns);
    needs.min().filter(|_| is_file)
}
