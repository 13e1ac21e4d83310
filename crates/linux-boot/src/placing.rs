// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles of other systems, and what of them is on this one.

use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

use foreread_boot::portable::{Fit, Found, placed};
use foreread_profile::{Identity, NodeKind, Profile, decode, merge_profiles};
use foreread_sys::read_whole::read_whole;

use crate::state::PROFILE_BYTES_MAX;

/// Where images and packages put profiles for the first boot.
pub const SHIPPED: &str = "usr/lib/foreread/boot.d";
/// Profiles in it that are read; the first by name.
const SHIPPED_MAX: usize = 64;
/// Paths are looked up at once: a queue for the device to sort, or to serve in parallel.
const THREADS: usize = 16;

/// The part of a profile that fits the system at `root`, and how much that is. Each path is looked
/// up there; symbolic links are not followed at its end.
#[must_use]
pub fn place(profile: &Profile, root: &Path) -> (Profile, Fit) {
    let paths: Vec<Vec<u8>> = profile.iter().map(|(id, _)| profile.path(id)).collect();
    let found = look_up(&paths, root);
    placed(profile, |path| found.get(path).copied())
}

fn look_up<'a>(paths: &'a [Vec<u8>], root: &Path) -> HashMap<&'a [u8], Found> {
    // Neighbours are in one directory: a thread takes several of them.
    let part = paths.len().div_ceil(THREADS).max(1);
    let look = |paths: &'a [Vec<u8>]| {
        let found = paths
            .iter()
            .filter_map(|path| Some((path.as_slice(), found(path, root)?)));
        found.collect::<Vec<_>>()
    };
    thread::scope(|scope| {
        let threads: Vec<_> = paths
            .chunks(part)
            .map(|paths| scope.spawn(move || look(paths)))
            .collect();
        // What a thread that panicked has found is missing.
        let found = threads.into_iter().filter_map(|thread| thread.join().ok());
        found.flatten().collect()
    })
}

fn found(path: &[u8], root: &Path) -> Option<Found> {
    let relative = path.strip_prefix(b"/").unwrap_or(path);
    let path = root.join(std::ffi::OsStr::from_bytes(relative));
    let metadata = fs::symlink_metadata(path).ok()?;
    let kind = match metadata.file_type() {
        kind if kind.is_file() => NodeKind::File,
        kind if kind.is_dir() => NodeKind::Directory,
        kind if kind.is_symlink() => NodeKind::Symlink,
        _ => return None,
    };
    let mtime_ns = metadata.mtime().saturating_mul(1_000_000_000);
    Some(Found {
        kind,
        identity: Identity {
            inode: metadata.ino(),
            generation: 0,
            size_bytes: metadata.size(),
            mtime_ns: mtime_ns.saturating_add(metadata.mtime_nsec()),
        },
    })
}

/// The profiles that came with the system at `root`, as one, before they are placed. `tell` is
/// called with a line for each that can't be read.
pub(crate) fn shipped(root: &Path, tell: &mut dyn FnMut(&str)) -> Option<Profile> {
    let entries = fs::read_dir(root.join(SHIPPED)).ok()?;
    let is_profile = |path: &PathBuf| path.extension().is_some_and(|end| end == "profile");
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(is_profile)
        .collect();
    paths.sort();
    paths.truncate(SHIPPED_MAX);
    let mut merged: Option<Profile> = None;
    for path in paths {
        let read = read_whole(&path, "profile", PROFILE_BYTES_MAX).map_err(|e| e.to_string());
        match read.and_then(|bytes| decode(&bytes).map_err(|e| e.to_string())) {
            Ok(profile) => {
                merged = Some(match merged {
                    Some(merged) => merge_profiles(&merged, &profile),
                    None => profile,
                });
            }
            Err(error) => tell(&format!("{}: {error}", path.display())),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_boot::portable::portable;
    use foreread_profile::{ProfileBuilder, Program, Source, Uses, encode};

    /// A profile of the files of a system, as they are there.
    fn profile_of(root: &Path, paths: &[&str]) -> Profile {
        let mut builder = ProfileBuilder::new(Program::default(), Source::default());
        for path in paths {
            let found = found(path.as_bytes(), root).unwrap();
            let id = builder.node(path.as_bytes()).unwrap();
            builder.set_kind(id, found.kind);
            builder.set_identity(id, found.identity);
            builder.used(id, Uses::LOOKED_UP, 1);
        }
        builder.finish()
    }

    #[test]
    fn shipped_profiles_are_placed_by_path_size_and_time() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        fs::create_dir_all(root.join("usr/bin")).unwrap();
        fs::write(root.join("usr/bin/a"), "aaaa").unwrap();
        fs::write(root.join("usr/bin/b"), "bbbb").unwrap();
        let mut told = Vec::new();
        assert_eq!(shipped(root, &mut |line| told.push(line.to_owned())), None);
        let profile = portable(&profile_of(root, &["/usr/bin/a", "/usr/bin/b"]));
        let folder = root.join(SHIPPED);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("10-base.profile"), encode(&profile)).unwrap();
        fs::write(folder.join("20-bad.profile"), "FRPROFIL").unwrap();
        fs::write(folder.join("README"), "no profile").unwrap();
        fs::write(root.join("usr/bin/b"), "another version").unwrap();

        let shipped = shipped(root, &mut |line| told.push(line.to_owned())).unwrap();
        assert!(
            told.len() == 1 && told[0].contains("20-bad.profile"),
            "{told:?}"
        );
        let (fitting, fit) = place(&shipped, root);
        // The root, two directories, and a file.
        assert_eq!((fit.same, fit.missing, fit.others), (4, 0, 1));
        let id = fitting.find(b"/usr/bin/a").unwrap();
        let inode = fs::metadata(root.join("usr/bin/a")).unwrap().ino();
        assert_eq!(fitting.node(id).unwrap().identity.inode, inode);
    }
}
