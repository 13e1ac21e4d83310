// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the directories that a process has begun to list.
//!
//! A program that walks a tree keeps the directories open that it has not finished. So the topmost
//! of these shows at once how far up the walk began.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use foreread_core::mounts::Mounts;

/// Maximum number of descriptors that are checked.
const DESCRIPTORS_MAX: usize = 256;

/// The topmost directory that a process has begun to list: this one, or one of those up to `levels`
/// above it.
pub(super) fn topmost_listed(process: u32, directory: &Path, levels: usize) -> Option<PathBuf> {
    let listed = listed_by(process);
    let above = directory.ancestors().take(levels + 1);
    let listed = above.filter(|path| {
        let metadata = fs::symlink_metadata(path);
        metadata.is_ok_and(|of| of.is_dir() && listed.contains(&(of.dev(), of.ino())))
    });
    listed.last().map(Path::to_owned)
}

/// Device and inode numbers of the directories that a process has open and has read from.
fn listed_by(process: u32) -> HashSet<(u64, u64)> {
    let at = PathBuf::from(format!("/proc/{process}"));
    let mounts = fs::read(at.join("mountinfo")).unwrap_or_default();
    let mounts = Mounts::parse(&mounts);
    let near = mounts
        .points()
        .iter()
        .filter(|point| point.has_local_type());
    // It may have others open, on servers that don't answer.
    let near: HashSet<u32> = near.map(|point| point.id).collect();
    let descriptors = fs::read_dir(at.join("fd")).into_iter().flatten().flatten();
    let descriptors = descriptors.take(DESCRIPTORS_MAX).filter(|descriptor| {
        let info = fs::read_to_string(at.join("fdinfo").join(descriptor.file_name()));
        info.is_ok_and(|info| {
            is_read(&info) && mount_of(&info).is_some_and(|id| near.contains(&id))
        })
    });
    descriptors
        .filter_map(|descriptor| {
            let metadata = fs::metadata(descriptor.path()).ok()?;
            metadata.is_dir().then(|| (metadata.dev(), metadata.ino()))
        })
        .collect()
}

/// The number of the mount in `fdinfo`.
fn mount_of(info: &str) -> Option<u32> {
    let id = info.lines().find_map(|line| line.strip_prefix("mnt_id:"));
    id?.trim().parse().ok()
}

/// Whether the position in `fdinfo` shows that a directory was read.
fn is_read(info: &str) -> bool {
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim)
    };
    let position = field("pos:").and_then(|text| text.parse::<i64>().ok());
    let flags = field("flags:").and_then(|text| i32::from_str_radix(text, 8).ok());
    position.is_some_and(|position| position != 0)
        && flags.is_some_and(|flags| flags & libc::O_PATH == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_directory_counts_when_it_is_being_listed() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let below = top.join("a/b");
        fs::create_dir_all(&below).unwrap();
        fs::write(below.join("file"), "x").unwrap();
        let ours = std::process::id();
        let _only_open = File::open(&top).unwrap();
        assert_eq!(topmost_listed(ours, &below, 8), None);
        let mut listing = fs::read_dir(top.join("a")).unwrap();
        listing.next().unwrap().unwrap();
        assert_eq!(topmost_listed(ours, &below, 8), Some(top.join("a")));
        assert_eq!(topmost_listed(ours, &below, 0), None);
        assert_eq!(topmost_listed(u32::MAX, &below, 8), None);
    }

    #[test]
    fn marks_of_places_do_not_count() {
        let of = |position, flags| format!("pos:\t{position}\nflags:\t{flags}\nmnt_id:\t29\n");
        assert!(is_read(&of(5, "02200000")));
        assert!(!is_read(&of(0, "02200000")));
        assert!(is_read(&of(5, "0100000")));
        assert!(!is_read(&of(5, "012200000")));
        assert!(!is_read("pos: many"));
    }
}
