// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a walk asks for, as profiles for the replay engine.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use foreread_profile::{Identity, NodeKind, Profile, ProfileBuilder, Program, Source, Uses};
use foreread_watch::paths::joined;
use foreread_watch::walk::FileToFetch;

use super::place::Place;
use crate::replay::{Neighbours, Options, Replay, Report};

/// What is fetched of a file: 256 KiB. The kernel's own readahead does well on the rest.
pub(super) const PAGES_PER_FILE: u64 = 64;
/// How often it is looked whether a fetch is done or is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The starts of these files, in this order of need; or only their inodes.
pub(super) fn of_files(place: &Place, files: &[FileToFetch], reads: bool) -> Profile {
    let mut builder = ProfileBuilder::new(Program::default(), Source::default());
    for (need, file) in files.iter().enumerate() {
        let path = joined(&place.path_of(&file.directory), &file.name);
        let Ok(id) = builder.node(&path) else {
            continue;
        };
        builder.set_kind(id, NodeKind::File);
        builder.set_identity(id, identity(file.inode));
        builder.used(id, Uses::LOOKED_UP, need as u64);
        if reads {
            builder.pages(id, 0, PAGES_PER_FILE, need as u64);
        }
    }
    builder.finish()
}

/// These directories, by their paths inside of the file system and their inode numbers.
pub(super) fn of_directories(place: &Place, directories: &[(Vec<u8>, u64)]) -> Profile {
    let mut builder = ProfileBuilder::new(Program::default(), Source::default());
    for (need, (directory, inode)) in directories.iter().enumerate() {
        let Ok(id) = builder.node(&place.path_of(directory)) else {
            continue;
        };
        builder.set_kind(id, NodeKind::Directory);
        builder.set_identity(id, identity(*inode));
        builder.used(id, Uses::LOOKED_UP.union(Uses::LISTED), need as u64);
    }
    builder.finish()
}

fn identity(inode: u64) -> Identity {
    Identity {
        inode,
        ..Identity::default()
    }
}

/// Brings a profile in, of directories also those beside them. Looks in between whether to stop,
/// by `goes_on`.
pub(super) fn fetch(
    profile: Profile,
    budget_bytes: u64,
    with_neighbours: Option<Neighbours>,
    mut goes_on: impl FnMut() -> bool,
) -> Report {
    let options = Options {
        budget_bytes: Some(budget_bytes),
        with_neighbours,
        ..Options::default()
    };
    let replay = Replay::start(Arc::new(profile), &options);
    while !replay.is_finished() {
        if !goes_on() {
            replay.stop();
            break;
        }
        thread::sleep(LOOK_EVERY);
    }
    replay.join().0
}
