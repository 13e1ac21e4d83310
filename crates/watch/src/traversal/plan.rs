// SPDX-License-Identifier: MIT OR Apache-2.0
//! Read plans of a traversal.

use foreread_prefetch::plan::{PlanBuilder, ReadPlan};
use foreread_profile::{Identity, NodeKind, Uses};

use crate::paths::joined;
use crate::place::Place;
use crate::walk::FileToFetch;

/// The part of a file that is fetched: its first 256 KiB. The kernel's own readahead does well on
/// the rest.
pub const PAGES_PER_FILE: u64 = 64;

/// The starts of these files, in this order of need; or only their inodes.
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

/// These directories, by their paths inside of the file system and their inode numbers.
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
