// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real files of this machine.

use std::fs;
use std::path::{Path, PathBuf};

use super::copy::copy_file;
use crate::error::TestbedError;

/// Where real files are looked for, in this order.
const SOURCES: [&str; 6] = [
    "/usr/include",
    "/usr/share",
    "/usr/lib",
    "/usr/local",
    "/usr/src",
    "/etc",
];
/// Larger files are left out: a few of them would outweigh all others.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Room for a byte cap that no ordinary tree of some thousand files reaches.
const TOTAL_BYTES_MAX: u64 = 512 << 20;

/// Result of [`real_tree`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RealTree {
    /// Files copied. Fewer than asked for where the machine has no more.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// Copies `files` real files of this machine into `directory`, which must not exist: regular files
/// of at most 1 MiB, 512 MiB together. What cannot be read is passed over.
///
/// # Errors
/// The copy cannot be written.
pub fn real_tree(directory: &Path, files: usize) -> Result<RealTree, TestbedError> {
    let mut tree = RealTree::default();
    make_directory(directory)?;
    for source in SOURCES {
        copy_below(Path::new(source), directory, files, &mut tree)?;
    }
    Ok(tree)
}

fn copy_below(
    source: &Path,
    directory: &Path,
    files: usize,
    tree: &mut RealTree,
) -> Result<(), TestbedError> {
    let mut left = vec![source.to_owned()];
    while let Some(next) = left.pop() {
        let mut paths: Vec<PathBuf> = match fs::read_dir(&next) {
            Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
            Err(_) => continue,
        };
        paths.sort();
        for path in paths {
            // Not following links: they lead out of the tree, or round in it.
            let Ok(metadata) = fs::symlink_metadata(&path) else {
                continue;
            };
            if metadata.is_dir() {
                left.push(path);
                continue;
            }
            let fits = metadata.len() <= FILE_BYTES_MAX
                && tree.bytes + metadata.len() <= TOTAL_BYTES_MAX
                && fs::File::open(&path).is_ok();
            if !metadata.is_file() || !fits {
                continue;
            }
            if tree.files == files {
                return Ok(());
            }
            let to = directory.join(path.strip_prefix("/").unwrap_or(&path));
            make_directory(to.parent().unwrap_or(directory))?;
            let what = format!("copy {} to {}", path.display(), to.display());
            tree.bytes += copy_file(&path, &to).map_err(TestbedError::system(what))?;
            tree.files += 1;
        }
    }
    Ok(())
}

fn make_directory(directory: &Path) -> Result<(), TestbedError> {
    fs::create_dir_all(directory).map_err(TestbedError::system(format!(
        "create {}",
        directory.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_asked_for_is_copied_unless_there_are_fewer() {
        let scratch = tempfile::tempdir().unwrap();
        let tree = real_tree(&scratch.path().join("tree"), 40).unwrap();
        let output = std::process::Command::new("find")
            .arg(scratch.path().join("tree"))
            .args(["-type", "f"])
            .output()
            .unwrap();
        let found = String::from_utf8(output.stdout).unwrap().lines().count();
        assert_eq!(found, tree.files);
        assert!((1..=40).contains(&tree.files), "{tree:?}");
    }

    #[test]
    fn links_and_large_files_stay_out() {
        let scratch = tempfile::tempdir().unwrap();
        let source = scratch.path().join("source");
        fs::create_dir(&source).unwrap();
        fs::write(source.join("file"), "text").unwrap();
        fs::File::create(source.join("large"))
            .unwrap()
            .set_len(FILE_BYTES_MAX + 1)
            .unwrap();
        std::os::unix::fs::symlink("file", source.join("link")).unwrap();
        std::os::unix::fs::symlink(".", source.join("loop")).unwrap();
        let mut tree = RealTree::default();
        copy_below(&source, &scratch.path().join("copy"), 100, &mut tree).unwrap();
        assert_eq!(tree, RealTree { files: 1, bytes: 4 });
    }
}
