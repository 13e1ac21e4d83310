// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order of need for those who build images: files that are read first lie first.
//!
//! In: a profile, and the files of the tree that an image is made of. Out: a sort file for
//! `mksquashfs`, or a list for `tar`, whose order `mkfs.erofs` and newer `mke2fs -d` keep.

use std::collections::HashSet;

use foreread_profile::need::by_need;
use foreread_profile::{NodeId, Profile};

/// Files below a directory of which pages are read, as paths relative to it, in the order of need.
#[must_use]
pub fn files_by_need(profile: &Profile, top: &[u8]) -> Vec<Vec<u8>> {
    let top = match top {
        [above @ .., b'/'] => above,
        whole => whole,
    };
    let mut seen: HashSet<NodeId> = HashSet::new();
    let mut files = Vec::new();
    for needed in by_need(profile) {
        if !seen.insert(needed.node) {
            continue;
        }
        let path = profile.path(needed.node);
        let below = path
            .strip_prefix(top)
            .and_then(|rest| rest.strip_prefix(b"/"));
        if let Some(below) = below.filter(|below| !below.is_empty()) {
            files.push(below.to_vec());
        }
    }
    files
}

/// The highest priority that `mksquashfs` knows. Files that aren't named have 0.
const PRIORITY_MAX: usize = 32_767;

/// A sort file for `mksquashfs -sort`, and how many files it can't name: those with a line break in
/// their path. Of more than 32,767 files, neighbours share a priority.
#[must_use]
pub fn squashfs_sort_file(files: &[Vec<u8>]) -> (Vec<u8>, usize) {
    let named: Vec<&Vec<u8>> = files.iter().filter(|path| !path.contains(&b'\n')).collect();
    let in_each = named.len().div_ceil(PRIORITY_MAX).max(1);
    let mut text = Vec::new();
    for (at, path) in named.iter().enumerate() {
        for byte in *path {
            // It ends a path at a blank, and takes the byte after a backslash as it is.
            if byte.is_ascii_whitespace() || matches!(byte, b'\\' | b'#' | 0x0b) {
                text.push(b'\\');
            }
            text.push(*byte);
        }
        let priority = PRIORITY_MAX - at / in_each;
        text.extend_from_slice(format!(" {priority}\n").as_bytes());
    }
    (text, files.len() - named.len())
}

/// A list for `tar --null --no-recursion -T`: directories, then the files in the order of need,
/// then all others. Each path of the tree comes once; what the tree doesn't have is left out.
#[must_use]
pub fn tar_list(files: &[Vec<u8>], directories: &[Vec<u8>], others: &[Vec<u8>]) -> Vec<u8> {
    let there: HashSet<&[u8]> = others.iter().map(Vec::as_slice).collect();
    let first: Vec<&Vec<u8>> = files
        .iter()
        .filter(|path| there.contains(path.as_slice()))
        .collect();
    let named: HashSet<&[u8]> = first.iter().map(|path| path.as_slice()).collect();
    let rest = others
        .iter()
        .filter(|path| !named.contains(path.as_slice()));
    let mut list = Vec::new();
    for path in directories.iter().chain(first).chain(rest) {
        // No name is taken for an option.
        list.extend_from_slice(b"./");
        list.extend_from_slice(path);
        list.push(0);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_profile::{NodeKind, ProfileBuilder, Program, Source};

    fn profile(files: &[(&str, u64)]) -> Profile {
        let mut builder = ProfileBuilder::new(Program::default(), Source::default());
        for (path, need_ns) in files {
            let id = builder.node(path.as_bytes()).unwrap();
            builder.set_kind(id, NodeKind::File);
            // A second need of the same file doesn't matter.
            builder.pages(id, 0, 1, *need_ns);
            builder.pages(id, 9, 1, need_ns + 5_000_000_000);
        }
        builder.finish()
    }

    fn bytes(paths: &[&str]) -> Vec<Vec<u8>> {
        paths.iter().map(|path| path.as_bytes().to_vec()).collect()
    }

    #[test]
    fn files_come_in_the_order_of_need_below_the_top() {
        let second = 1_000_000_000;
        let profile = profile(&[
            ("/srv/image/z", second),
            ("/srv/image/a/b", 3 * second),
            ("/srv/imagefile", 0),
            ("/etc/passwd", 0),
            ("/srv/image/m", 2 * second),
        ]);
        for top in ["/srv/image", "/srv/image/"] {
            let files = files_by_need(&profile, top.as_bytes());
            assert_eq!(files, bytes(&["z", "m", "a/b"]));
        }
        let all = files_by_need(&profile, b"/");
        assert_eq!(all.len(), 5);
        assert!(all.iter().all(|path| path[0] != b'/'));
    }

    #[test]
    fn a_sort_file_escapes_what_would_end_a_path() {
        let (text, left_out) = squashfs_sort_file(&bytes(&["a b", "#c\\d", "e\nf", "g"]));
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text, "a\\ b 32767\n\\#c\\\\d 32766\ng 32765\n");
        assert_eq!(left_out, 1);
    }

    #[test]
    fn many_files_share_priorities_above_that_of_the_others() {
        let files: Vec<Vec<u8>> = (0..100_000).map(|n| n.to_string().into_bytes()).collect();
        let (text, _) = squashfs_sort_file(&files);
        let text = String::from_utf8(text).unwrap();
        let priorities: Vec<u32> = text
            .lines()
            .map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
            .collect();
        assert_eq!(priorities.len(), 100_000);
        assert!(priorities.is_sorted_by(|a, b| a >= b));
        assert!(priorities.iter().all(|priority| *priority > 0));
    }

    #[test]
    fn a_list_has_each_path_once() {
        let list = tar_list(
            &bytes(&["z", "gone", "d/m"]),
            &bytes(&["d"]),
            &bytes(&["a", "d/m", "z"]),
        );
        assert_eq!(list, b"./d\0./z\0./d/m\0./a\0");
    }
}
