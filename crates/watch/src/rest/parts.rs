// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of a profile that its program still needs, and read plans of them.

use std::collections::BTreeMap;

use foreread_core::Device;
use foreread_prefetch::plan::{PlanBuilder, ReadPlan};
use foreread_profile::{NodeId, NodeKind, Profile, Uses};

use crate::known::first_need_ns;

/// A file of a profile that has pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePart {
    /// The file system.
    pub device: Device,
    /// The inode number.
    pub inode: u64,
    /// Whether the program has not needed it before.
    pub is_ahead: bool,
    /// Whether its use will be seen.
    pub counts: bool,
}

/// A range of a file, or with 0 pages the metadata of a file or directory only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The index in [`Parts::pieces`].
    pub number: usize,
    /// File system and inode number of the file; `None` where only metadata is needed.
    pub file: Option<(Device, u64)>,
    /// The first page.
    pub start_page: u64,
    /// Number of pages; 0 for metadata only.
    pub pages: u64,
}

/// The parts that are still needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// All files of the profile that have pages, needed before or not.
    pub files: Vec<FilePart>,
    /// Ranges and metadata, in the order of need.
    pub pieces: Vec<Piece>,
}

/// The parts with their profile.
#[derive(Debug)]
pub struct Remaining<'a> {
    profile: &'a Profile,
    parts: Parts,
    /// The node of each piece and the time at which it is needed.
    nodes: Vec<(NodeId, u64)>,
}

impl<'a> Remaining<'a> {
    /// The part of a profile that is needed from `from_ns` on. `device` gives the file system of a
    /// path, or `None` if the path must not be fetched.
    #[must_use]
    pub fn of(
        profile: &'a Profile,
        from_ns: u64,
        mut device: impl FnMut(&[u8]) -> Option<Device>,
    ) -> Self {
        let (mut pieces, mut files, mut path) = (Vec::new(), Vec::new(), Vec::new());
        for (id, node) in profile.iter() {
            if node.identity.inode == 0 || node.kind == NodeKind::Absent {
                continue;
            }
            profile.path_into(id, &mut path);
            let Some(device) = device(&path) else {
                continue;
            };
            let piece = Piece {
                number: 0,
                file: None,
                start_page: 0,
                pages: 0,
            };
            match first_need_ns(profile, id) {
                Some(first_ns) => {
                    let later = profile.ranges(id).iter();
                    let later = later.filter(|range| range.need_ns >= from_ns);
                    pieces.extend(later.map(|range| {
                        let piece = Piece {
                            file: Some((device, node.identity.inode)),
                            start_page: range.start_page,
                            pages: range.pages,
                            ..piece
                        };
                        (range.need_ns, id, piece)
                    }));
                    let is_ahead = first_ns >= from_ns;
                    files.push(FilePart {
                        device,
                        inode: node.identity.inode,
                        is_ahead,
                        counts: is_ahead && is_seen(profile, id),
                    });
                }
                None if node.need_ns >= from_ns => pieces.push((node.need_ns, id, piece)),
                None => {}
            }
        }
        pieces.sort_by_key(|(need_ns, ..)| *need_ns);
        let numbered = pieces.iter().enumerate();
        let numbered = numbered.map(|(number, (.., piece))| Piece { number, ..*piece });
        Self {
            profile,
            parts: Parts {
                files,
                pieces: numbered.collect(),
            },
            nodes: pieces
                .iter()
                .map(|(need_ns, id, _)| (*id, *need_ns))
                .collect(),
        }
    }

    /// The parts.
    #[must_use]
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Some of the pieces as a plan, with all directories above them.
    #[must_use]
    pub fn plan(&self, pieces: &[Piece]) -> ReadPlan {
        let profile = self.profile;
        // Ids of directories are smaller than those of their entries.
        let mut wanted: BTreeMap<NodeId, Vec<(&Piece, u64)>> = BTreeMap::new();
        for piece in pieces {
            let Some((id, need_ns)) = self.nodes.get(piece.number).copied() else {
                continue;
            };
            let mut above = profile.node(id).and_then(|node| node.parent);
            while let Some(id) = above.filter(|id| !wanted.contains_key(id)) {
                wanted.insert(id, Vec::new());
                above = profile.node(id).and_then(|node| node.parent);
            }
            wanted.entry(id).or_default().push((piece, need_ns));
        }
        let mut builder = PlanBuilder::new();
        let mut path = Vec::new();
        for (id, mut pieces) in wanted {
            let Some(node) = profile.node(id) else {
                continue;
            };
            profile.path_into(id, &mut path);
            let added = builder.add(&path, node.kind, node.identity, node.uses, node.need_ns);
            if added.is_some() && node.kind == NodeKind::File {
                pieces.sort_unstable_by_key(|(piece, _)| piece.start_page);
                for (piece, need_ns) in pieces {
                    builder.pages(piece.start_page, piece.pages, need_ns);
                }
            }
        }
        builder.finish()
    }
}

/// Whether the use of a file will be seen: reads at its start are, faults aren't.
fn is_seen(profile: &Profile, id: NodeId) -> bool {
    let starts = profile
        .ranges(id)
        .first()
        .is_some_and(|range| range.start_page == 0);
    let uses = profile.node(id).map(|node| node.uses).unwrap_or_default();
    starts && (uses.contains(Uses::READ) || !uses.contains(Uses::MAPPED))
}
