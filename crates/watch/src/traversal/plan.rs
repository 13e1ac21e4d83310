// SPDX-License-Identifier: MIT OR Apache-2.0
//! Read plans of a traversal.

use foreread_prefetch::plan::{PlanBuilder, ReadPlan};
use foreread_profile::{Identity, NodeKind, Uses};

use crate::paths::joined;
use crate::place::Place;
use crate::walk::FileToFetch;

/// Pages that are fetched of a file: its first 256 KiB. For the rest, the kernel's own readahead
/// suffices.
pub const PAGES_PER_FILE: u64 = 64;

/// A plan of these files in order of need: their first pages if `reads`, otherwise only their
/// inodes.
pub(super) fn of_files(place: &Place, files: &[FileToFetch], reads: bool) -> ReadPlan {
    let mut builder = PlanBuilder::new();
    for (need, file) in files.iter().enumerate() {
        let path = joined(&place.path_of(&file.directory), &file.name);
        let (identity, need) = (identity(file.inode), need as u64);
        let added = builder.add(&path, NodeKind::File, identity, Uses::LOOKED_UP, need);
        if added.is_some() && reads {
            builder.pages(0, PAGES_PER_FILE, need);
        }
    }
    builder.finish()
}

/// A plan of directories, given by their paths in the file system and their inode numbers.
#[must_use]
pub fn of_directories(place: &Place, directories: &[(Vec<u8>, u64)]) -> ReadPlan {
    let mut builder = PlanBuilder::new();
    let uses = Uses::LOOKED_UP.union(Uses::LISTED);
    for (need, (directory, inode)) in directories.iter().enumerate() {
        let (path, identity) = (place.path_of(directory), identity(*inode));
        builder.add(&path, NodeKind::Directory, identity, uses, need as u64);
    }
    builder.finish()
}

fn identity(inode: u64) -> Identity {
    Identity {
        inode,
        ..Identity::default()
    }
}
